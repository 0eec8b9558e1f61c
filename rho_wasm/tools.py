"""A tool: what a model may call. Pure data plus an optional handler that is never serialised."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Self, TypeAlias, overload

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictStr,
    ValidationError,
    field_serializer,
)

from rho_wasm.calls import ToolContext
from rho_wasm.errors import ToolError
from rho_wasm.frozen import FrozenMap, frozen_map, thaw
from rho_wasm.results import AskUser, Failed, Halt, Ok
from rho_wasm.signatures import arguments_model, is_async

__all__ = ["TOOL_NAME", "ArgumentsRefused", "Handler", "Tool", "tool"]

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model API accepts as a name (match it whole)."""

Handler: TypeAlias = Callable[..., Any]
"""``(arguments)`` or ``(arguments, context)``, sync or async, answering Ok, Failed, AskUser or Halt."""


def _name(value: object) -> str:
    if type(value) is not str or TOOL_NAME.fullmatch(value) is None:
        raise ValueError("a tool's name is 1 to 64 of A-Z a-z 0-9 _ -")
    return value


def _handler(value: object) -> Handler | None:
    if value is None:
        return None
    if isinstance(value, str):
        raise TypeError("a tool's handler is a callable, never text: loading a tool imports no code")
    if not callable(value):
        raise TypeError(f"a tool's handler is a callable, not a {type(value).__name__}")
    positional_parameters(value)
    return value


def positional_parameters(handler: Handler) -> int:
    """How many arguments ``handler`` requires by position: 1 or 2. Raises TypeError for any other signature."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except ValueError:
        raise TypeError("a tool's handler must have a signature that can be read") from None
    required = 0
    for parameter in parameters:
        if parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise TypeError(f"a tool's handler is called by position, but {parameter.name!r} is keyword-only")
        required += 1
    if required not in (1, 2):
        raise TypeError(f"a tool's handler takes (arguments) or (arguments, context), this one requires {required}")
    return required


_PlainMap = Annotated[Mapping[str, Any], PlainValidator(frozen_map)]


class Tool(BaseModel):
    """What a model may call: name, description, JSON Schema of the arguments, and optionally a handler.

    Frozen; nested maps are copied and read-only. ``name``, ``description`` and ``input_schema`` are required.
    A tool without a handler is declared for the model but answers ``not_found`` when the runner runs it; a ``manual``
    tool is surfaced by the loop instead of run. ``timeout_ms`` bounds one call (None: the runner's default).
    ``read_only``, ``destructive`` and ``idempotent`` are hints, None where nothing was said. ``untrusted`` marks tools
    that an agent wrote: their values are made plain before anything else sees them.

    Raises pydantic's ``ValidationError`` (a ValueError) for bad fields, TypeError for a handler that is no callable or
    does not require one or two positional arguments.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)

    name: Annotated[str, BeforeValidator(_name)]
    description: StrictStr
    input_schema: _PlainMap
    output_schema: _PlainMap | None = None
    manual: StrictBool = False
    metadata: _PlainMap = Field(default_factory=FrozenMap)
    timeout_ms: Annotated[int, Field(strict=True, gt=0)] | None = None
    read_only: StrictBool | None = None
    destructive: StrictBool | None = None
    idempotent: StrictBool | None = None
    untrusted: StrictBool = False
    handler: Annotated[Any, BeforeValidator(_handler)] = Field(default=None, exclude=True, repr=False)

    @field_serializer("input_schema", "output_schema", "metadata")
    def _thawed(self, value: Mapping[str, Any] | None) -> Any:
        return thaw(value)

    def with_handler(self, handler: Handler) -> Self:
        """This tool with ``handler``, validated as in the constructor. How a loaded tool gets its handler back."""
        return self.replace(handler=handler)

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some fields changed; the handler stays unless it is named."""
        return type(self)(**({name: self.__dict__[name] for name in type(self).model_fields} | changes))

    def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Calls the handler with one or two arguments, as it takes them. An async handler answers an awaitable."""
        if self.takes_context:
            return self.handler(arguments, context)
        return self.handler(arguments)

    @functools.cached_property
    def takes_context(self) -> bool:
        """True if the handler takes the context beside the arguments."""
        return positional_parameters(self.handler) == 2

    @functools.cached_property
    def is_async(self) -> bool:
        """True if the handler is a coroutine function (or a callable object or partial of one)."""
        return is_async(self.handler)


class ArgumentsRefused(ToolError):
    """The arguments fit the schema but not the function of a ``@tool``, of which nothing ran."""

    def __init__(self, tool: str, detail: str) -> None:
        super().__init__("invalid_arguments", tool=tool, detail=detail)


class _FunctionHandler:
    """A handler made of a plain Python function: arguments by name, typed by pydantic, plain returns wrapped in Ok."""

    def __init__(self, function: Handler, model: type[BaseModel], context_name: str | None) -> None:
        self.function = function
        self._model = model
        self._context_name = context_name
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def _keywords(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        try:
            bound = self._model.model_validate(thaw(arguments))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "arguments"
            raise ArgumentsRefused(context.call.name, f"{where}: {first['msg']}") from None
        values: dict[str, Any] = {name: getattr(bound, name) for name in type(bound).model_fields}
        if self._context_name is not None:
            values[self._context_name] = context
        return values


class _SyncFunction(_FunctionHandler):
    def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return _wrapped(self.function(**self._keywords(arguments, context)))


class _AsyncFunction(_FunctionHandler):
    async def __call__(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        answer: Awaitable[Any] = self.function(**self._keywords(arguments, context))
        return _wrapped(await answer)


def _wrapped(answer: Any) -> Any:
    return answer if isinstance(answer, (Ok, Failed, AskUser, Halt)) else Ok(answer)


def _without_titles(schema: Any) -> Any:
    """Pydantic's generated titles repeat the names and cost a model tokens at every turn."""
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(sub) for name, sub in item.items()}
            if key in ("properties", "$defs") and isinstance(item, dict)
            else _without_titles(item)
            for key, item in schema.items()
            if not (key == "title" and isinstance(item, str))
        }
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema


@overload
def tool(function: Handler, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    output_schema: Mapping[str, Any] | None = None,
    manual: bool = False,
    metadata: Mapping[str, Any] | None = None,
    timeout_ms: int | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    untrusted: bool = False,
) -> Callable[[Handler], Tool]: ...
def tool(
    function: Handler | None = None, /, *, name: str | None = None, description: str | None = None, **options: Any
) -> Any:
    """Makes a :class:`Tool` of a Python function, sync or async.

    The schema comes from the annotations (pydantic), the description from the docstring. The function gets its
    arguments by name and, if a parameter is annotated :class:`ToolContext`, the context. It may return plain values,
    which are wrapped in ``Ok``. ``name`` and ``description`` override the function's own; the other options are the
    fields of :class:`Tool`.

    Raises TypeError for a parameter that is not annotated or cannot be passed by name, and ValueError
    (pydantic's ``ValidationError`` is one) for a name or a schema that a Tool cannot have.
    """
    if function is None:
        return functools.partial(tool, name=name, description=description, **options)
    model, context_name = arguments_model(function, context=ToolContext, what="a tool")
    schema = _without_titles(model.model_json_schema())
    schema.setdefault("properties", {})
    wrapper = _AsyncFunction if is_async(function) else _SyncFunction
    return Tool(
        name=name or getattr(function, "__name__", ""),
        description=description if description is not None else inspect.getdoc(function) or "",
        input_schema=schema,
        handler=wrapper(function, model, context_name),
        **{key: value for key, value in options.items() if value is not None},
    )
