"""The decorator that makes a tool of a function, and the tools that it made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from . import _docs
from ._answers import Failed, answer
from ._context import Context
from ._forms import ArgumentError, Form, FormError, Forms, Reader, hints_of

__all__ = ["DeclarationError", "Handler", "Registry"]

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class DeclarationError(TypeError):
    """A tool that cannot be declared so. ``function`` and ``parameter`` say where in the source that is."""

    def __init__(self, why: str, *, function: Callable[..., Any] | None = None, parameter: str | None = None) -> None:
        super().__init__(why)
        self.function = function
        self.parameter = parameter


class Handler:
    """One tool: its declaration as the manifest has it, and how it is called."""

    __slots__ = ("_context", "_function", "_readers", "capabilities", "declaration")

    def __init__(
        self, function: Callable[..., Any], declaration: dict[str, Any], capabilities: tuple[str, ...]
    ) -> None:
        self._function = function
        self._context: str | None = None
        self._readers: list[tuple[str, Reader]] = []
        self.declaration = declaration
        self.capabilities = capabilities
        if "input_schema" not in declaration:
            declaration["input_schema"] = self._schema()

    @property
    def name(self) -> str:
        found: str = self.declaration["name"]
        return found

    def __call__(self, arguments: dict[str, Any], context: Mapping[str, Any]) -> Any:
        """What the function returns for ``arguments``, which fit the schema; an ``async def`` answers a coroutine."""
        for name, read in self._readers:
            if name in arguments:
                try:
                    arguments[name] = read(arguments[name])
                except ArgumentError as error:
                    return Failed(f"{name} {error}")
        if self._context is not None:
            arguments[self._context] = Context(context)
        return self._function(**arguments)

    def _schema(self) -> dict[str, Any]:
        function = self._function
        try:
            hints = hints_of(function)
        except FormError as error:
            raise DeclarationError(str(error), function=function) from None
        told = _docs.parameters(function.__doc__)
        forms = Forms()
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in inspect.signature(function).parameters.values():
            name = parameter.name
            if name in hints and hints[name] is Context:
                self._context = name
                continue
            form = self._form(parameter, hints, forms)
            properties[name] = schema = dict(form.schema)
            if name in told:
                schema.setdefault("description", told[name])
            if form.read is not None:
                self._readers.append((name, form.read))
            if parameter.default is parameter.empty:
                required.append(name)
            elif type(parameter.default) in (str, int, float, bool):
                schema["default"] = parameter.default
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            found["required"] = required
        if forms.definitions:
            found["$defs"] = forms.definitions
        return found

    def _form(self, parameter: inspect.Parameter, hints: Mapping[str, Any], forms: Forms) -> Form:
        def refused(why: str) -> DeclarationError:
            return DeclarationError(why, function=self._function, parameter=parameter.name)

        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise refused(f"a tool's arguments come by name, so {parameter.name!r} cannot be one of them")
        if parameter.name not in hints:
            raise refused(f"the parameter {parameter.name!r} needs an annotation: the schema is made from it")
        try:
            return forms.of(hints[parameter.name])
        except FormError as error:
            raise refused(f"the parameter {parameter.name!r}: {error}") from None


class Registry:
    """The tools of one source, in its order."""

    def __init__(self) -> None:
        self.tools: dict[str, Handler] = {}

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
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        examples: Iterable[Mapping[str, Any]] = (),
        capabilities: Iterable[str] = (),
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        timeout_ms: int | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Makes a tool of a function, which stays as it is and can be called as before.

        Name, description and schema are the function's name, the first paragraph of its docstring and its annotations,
        unless they are given. ``examples`` are maps with ``arguments`` and ``answer``, an answer map or one of the four
        answers; ``capabilities`` is what the function may ask of the host. Raises :class:`DeclarationError`.
        """

        def declare(function: Any) -> Any:
            if not callable(function):
                raise DeclarationError(f"a tool is made of a function, not of {type(function).__name__}")
            called = name if name is not None else getattr(function, "__name__", "")
            if not isinstance(called, str) or _NAME.fullmatch(called) is None or "__" in called:
                raise DeclarationError(f"{called!r:.80} is no name of a tool: 1 to 64 of A-Z a-z 0-9 _ -, without '__'")
            if called in self.tools:
                raise DeclarationError(f"two tools are named {called}", function=function)
            told = description if description is not None else _docs.description(function.__doc__)
            options: dict[str, Any] = {
                "input_schema": input_schema,
                "output_schema": output_schema,
                "timeout_ms": timeout_ms,
                "read_only": read_only,
                "destructive": destructive,
                "idempotent": idempotent,
                "metadata": metadata,
                "examples": [_example(example) for example in examples] or None,
            }
            declaration: dict[str, Any] = {"name": called, "description": told}
            declaration |= {option: value for option, value in options.items() if value is not None}
            self.tools[called] = Handler(function, declaration, tuple(capabilities))
            return function

        return declare if function is None else declare(function)


def _example(example: Any) -> dict[str, Any]:
    if not isinstance(example, Mapping) or not {"arguments", "answer"} <= example.keys():
        raise DeclarationError('an example is a map with "arguments" and "answer"')
    found = dict(example)
    if not isinstance(found["answer"], Mapping):
        found["answer"] = answer(found["answer"])
    return found
