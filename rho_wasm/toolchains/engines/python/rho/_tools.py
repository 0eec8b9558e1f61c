"""The decorator that makes a tool of a function, and the tools that it made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, TypeVar, overload

from . import _docs
from ._answers import Failed
from ._context import Context
from ._forms import ArgumentError, FormError, Forms, Reader, or_none
from ._options import DeclarationError, options

__all__ = ["Handler", "Registry"]

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_DEFAULT = inspect.Parameter.empty


class Handler:
    """How one tool, a ``function``, is called. ``capabilities`` are what it may ask of the host."""

    __slots__ = ("_context", "_readers", "capabilities", "function", "name")

    def __init__(self, function: Callable[..., Any], name: str, capabilities: tuple[str, ...]) -> None:
        self.name = name
        self.capabilities = capabilities
        self.function = function
        self._context: str | None = None
        self._readers: list[tuple[str, Reader]] = []

    def run(self, arguments: dict[str, Any], context: Mapping[str, Any]) -> Any:
        """What the function returns for ``arguments``, which fit the schema; an ``async def`` answers a coroutine."""
        for name, read in self._readers:
            if name in arguments:
                try:
                    arguments[name] = read(arguments[name])
                except ArgumentError as error:
                    return Failed(f"{name} {error}")
        if self._context is not None:
            arguments[self._context] = Context(context)
        return self.function(**arguments)

    def declaration(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The tool as the manifest has it. Raises :class:`DeclarationError`."""
        found = {"name": self.name, **options}
        if "description" not in found:
            found["description"] = _docs.description(self.function.__doc__)
        if "input_schema" not in found:
            found["input_schema"] = self._schema()
        return found

    def _schema(self) -> dict[str, Any]:
        function = self.function
        told = _docs.parameters(function.__doc__)
        forms = Forms(_namespace(function))
        properties: dict[str, Any] = {}
        required: list[str] = []
        for name, hint, default in _parameters(function):
            try:
                hint = forms.evaluated(hint)
                if hint is Context:
                    self._context = name
                    continue
                form = forms.of(hint)
            except FormError as error:
                why = f"the parameter {name!r}: {error}"
                raise DeclarationError(why, function=function, parameter=name) from None
            if default is None and not form.fits(None):
                form = or_none(form)  # ``b: int = None`` is how many write ``int | None``.
            properties[name] = schema = dict(form.schema)
            if name in told:
                schema.setdefault("description", told[name])
            if form.read is not None:
                self._readers.append((name, form.read))
            if default is _NO_DEFAULT:
                required.append(name)
            elif type(default) in (str, int, float, bool):
                schema["default"] = default
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            found["required"] = required
        if forms.definitions:
            found["$defs"] = forms.definitions
        return found


def _namespace(function: Any) -> dict[str, Any]:
    """What names in its annotations mean."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    found: dict[str, Any] = getattr(function, "__globals__", {})
    return found


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Name, annotation and default of each. Raises :class:`DeclarationError`."""
    if (simple := _simple_parameters(function)) is not None:
        return simple
    found = []
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            why = f"a tool's arguments come by name, so {name!r} cannot be one of them"
            raise DeclarationError(why, function=function, parameter=name)
        if parameter.annotation is parameter.empty:
            why = f"the parameter {name!r} needs an annotation: the schema is made from it"
            if name in ("self", "cls"):
                why = f"a tool is a function of the file and no method, so it has no {name!r}"
            raise DeclarationError(why, function=function, parameter=name)
        found.append((name, parameter.annotation, parameter.default))
    return found


def _simple_parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]] | None:
    """The same for a function as most are, read from its code; None for any other, and where something is wrong."""
    if type(function) is not FunctionType or function.__dict__:
        return None
    code, annotations = function.__code__, function.__annotations__
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames[: positional + keyword_only]
    odd = code.co_posonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if odd or not annotations.keys() >= set(names):
        return None
    defaults = dict(function.__kwdefaults__ or ())
    given = function.__defaults__ or ()
    for number, default in enumerate(given, positional - len(given)):
        defaults[names[number]] = default
    return [(name, annotations[name], defaults.get(name, _NO_DEFAULT)) for name in names]


class Registry:
    """The tools of one source, in its order."""

    def __init__(self) -> None:
        self.tools: dict[str, Handler] = {}
        self._options: list[tuple[Handler, dict[str, Any]]] = []

    def clear(self) -> None:
        """Forgets them all."""
        self.tools.clear()
        self._options.clear()

    def declarations(self) -> list[dict[str, Any]]:
        """All tools as the manifest has them. They are told once: what only they need goes. Raises
        :class:`DeclarationError`."""
        found = [handler.declaration(options) for handler, options in self._options]
        self._options.clear()
        return found

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        examples: Iterable[Mapping[str, Any]] = (),
        timeout_ms: int | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        capabilities: Iterable[str] = (),
    ) -> Callable[[Function], Function]: ...
    def tool(self, function: Any = None, /, *more: Any, **given: Any) -> Any:
        """Makes a tool of a function, which stays as it is and can be called as before.

        Name, description and schema are the function's name, the first paragraph of its docstring and its annotations,
        unless they are given. ``examples`` are maps with ``arguments`` and ``answer``, an answer map or one of the four
        answers; ``capabilities`` is what the function may ask of the host. Raises :class:`DeclarationError`.
        """
        said = options(given)
        capabilities = tuple(said.pop("capabilities", ()))
        name = said.pop("name", None)

        def declare(function: Any) -> Any:
            if more or not callable(function):
                what = "several things" if more else type(function).__name__
                named = 'what is said of it is named, like @tool(description="...")'
                raise DeclarationError(f"a tool is made of a function, not of {what}; {named}")
            called = name if name is not None else getattr(function, "__name__", "")
            if not isinstance(called, str) or _NAME.fullmatch(called) is None or "__" in called:
                why = f"{called!r:.80} is no name of a tool: 1 to 64 of A-Z a-z 0-9 _ -, without '__'"
                raise DeclarationError(why, option="name")
            if called in self.tools:
                raise DeclarationError(f"two tools are named {called}", function=function)
            self.tools[called] = handler = Handler(function, called, capabilities)
            self._options.append((handler, said))
            return function

        return declare if function is None and not more else declare(function)
