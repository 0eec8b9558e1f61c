"""A capability: something outside the sandbox that a guest may ask for, and how a host makes one of a function."""

from __future__ import annotations

import types
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Never, NoReturn, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, PlainValidator, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.cancellation import let_through
from rho_wasm.capabilities.checking import ArgumentsCheck, problem_text
from rho_wasm.capabilities.in_thread import charged_in_thread
from rho_wasm.counting import ITEMS_AT_ONCE, items_of
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import BOUNDS, Bounds, NoBounds, capability_name, is_reserved
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.signatures import arguments_model, is_async
from rho_wasm.untrusted import inert, type_name

__all__ = ["Arguments", "Capability", "CapabilityContext", "capability"]

Now: TypeAlias = Callable[[Any, "CapabilityContext"], Any]
Later: TypeAlias = Callable[[Any, "CapabilityContext"], Awaitable[Any]]

_PLAIN: Final = (type(None), bool, int, float, str, bytes, Any)
_ANNOTATION_CHARS: Final = 200


class Arguments(BaseModel):
    """Base of the arguments of capabilities that ship: exact plain types, nothing unknown, and no error shows them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityContext:
    """One host call, as the capability is told of it. Nothing here was written by the guest but ``call.arguments``."""

    capability: str
    tool: str
    """The tool that asks."""
    artifact: str
    """SHA-256 of its artifact, in hex."""
    generation: int
    call: ToolCall
    """The call of the tool that asks."""
    session_id: str | None
    request_id: str | None
    bounds: Any
    """The capability's bounds that hold for this call: of its own model."""
    remaining_ms: float
    """What is left of the call's deadline (milliseconds)."""
    context: ToolContext
    """The context of the tool that asks; its ``context`` is the host's own value."""
    used: dict[str, int]
    """Counters of this call, shared by all its capabilities: what is counted stands under the capability's name."""
    log: Callable[[int, str], None]
    """``log(level, text)`` adds one line to the call's log, after the guest's own; within ``Limits.log_bytes``."""
    siblings: tuple[str, ...] = ()
    """All tools that the artifact declares: what is bounded for each tool, one module must not have for each name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Something outside the sandbox that guests may be granted.

    ``arguments`` is the model that a guest's arguments must fit, ``bounds`` the model of what a grant may narrow.
    Exactly one of ``now`` and ``later`` answers, from (the arguments, the context): ``now`` at once, on any thread,
    without waiting for anything; ``later`` on the event loop, in the task of the call. Both answer plain data (models,
    dataclasses, dates and the like are made plain, as of tools; what has nothing to read but a name is refused), and
    raise :class:`CapabilityError` to answer an error to the guest. Whatever else they raise or answer the guest is told
    as ``unavailable``, in words that say nothing of it, and the host as :class:`rho_wasm.CapabilityFailed`.
    ``read_only``: it changes nothing outside the call, whatever its bounds.

    Raises ValueError for a wrong name, TypeError for anything else that is wrong.
    """

    name: str
    arguments: type[BaseModel]
    bounds: type[Bounds] = NoBounds
    now: Now | None = None
    later: Later | None = None
    read_only: bool = False
    check: ArgumentsCheck = field(init=False, repr=False, compare=False)
    """Makes ``arguments`` of what a guest gave."""

    def __post_init__(self) -> None:
        capability_name(self.name)
        if not issubclass(self.bounds, Bounds):
            raise TypeError(f"{self.name}: the model of its bounds derives from rho_wasm.Bounds")
        if (self.now is None) == (self.later is None):
            raise TypeError(f"{self.name}: exactly one of now and later answers")
        object.__setattr__(self, "check", ArgumentsCheck(self.arguments))

    def only_reads(self, bounds: Bounds) -> bool:
        """Whether nothing outside the call is changed within ``bounds``."""
        return self.read_only or bounds.only_reads


def capability(
    name: str, /, *, bounds: type[Bounds] = NoBounds, read_only: bool = False, quick: bool = False
) -> Callable[[Callable[..., Any]], Capability]:
    """Makes a :class:`Capability` of a host's own function, as ``@tool`` makes a tool::

        @capability("invoice.lookup", read_only=True)
        async def lookup(number: str, context: CapabilityContext) -> dict[str, str]: ...

    The guest's arguments come by name, checked against the annotations (a text is no number); a parameter annotated
    :class:`CapabilityContext` gets that. So is its answer: one that the return annotation does not allow is a fault of
    the host's, as an exception is. An async function is awaited in the task of the call. A sync one runs in a
    daemon thread, at most 16 of which, 4 by one guest, may be left behind by calls that ended before it; ``quick`` says
    that it needs no thread of its own: then it is called wherever the guest runs, the event loop's thread too, and must
    be safe to call from several threads at once and wait for nothing. ``bounds`` is the model of what a policy may
    narrow (a subclass of :class:`Bounds`); the function finds it in ``context.bounds``.

    Raises ValueError for a name that is not two or more lower-case words joined by dots, or is one of the host's
    (``kv.``, ``http.`` and so on); TypeError for a function that :func:`rho_wasm.tool` would not take, for a return
    annotation that no answer can be checked against, and where there is no name.
    """
    if not isinstance(name, str):
        raise TypeError('a capability needs a name, two or more words: @capability("invoice.lookup")')
    if is_reserved(capability_name(name)):
        raise ValueError(f"{name}: names that begin as those of {', '.join(sorted(BOUNDS))} do are the host's own")

    def made(function: Callable[..., Any]) -> Capability:
        arguments, context_name = arguments_model(
            function, context=CapabilityContext, what="a capability", strict=True, field=_strictness
        )
        own = _Function(function, context_name, _answer_check(function, name))
        now, later = None, None
        if quick:
            if is_async(function):
                raise TypeError(f"{name}: an async function is awaited; quick is for sync ones")
            now = own.call
        else:
            later = own.wait_for if is_async(function) else _InThread(own).answer
        return Capability(name=name, arguments=arguments, bounds=bounds, now=now, later=later, read_only=read_only)

    return made


@dataclass(frozen=True, slots=True)
class _AnswerCheck:
    """Holds a function to its return annotation."""

    adapter: TypeAdapter[Any]
    annotation: str

    def held(self, answer: Any) -> Any:
        try:
            self.adapter.validate_python(answer, strict=True)
        except ValidationError as error:
            raise TypeError(
                f"the answer, a {type_name(answer)}, is not the {self.annotation} of its annotation: "
                f"{problem_text(error, whole='the answer')}"
            ) from None
        return answer


@dataclass(frozen=True, slots=True)
class _Function:
    """A host's function, which of its parameters takes the context, and what its answer is held to."""

    function: Callable[..., Any]
    context_name: str | None
    check: _AnswerCheck | None

    def call(self, arguments: BaseModel, context: CapabilityContext) -> Any:
        return self._held(self._begin(arguments, context))

    async def wait_for(self, arguments: BaseModel, context: CapabilityContext) -> Any:
        answer = await self._begin(arguments, context)
        if self.check is not None and items_of(answer, most=ITEMS_AT_ONCE) > ITEMS_AT_ONCE:
            return await charged_in_thread(context.context.meter, self._held, answer)
        return self._held(answer)

    def _begin(self, arguments: BaseModel, context: CapabilityContext) -> Any:
        values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        if self.context_name is not None:
            values[self.context_name] = context
        return self.function(**values)

    def _held(self, answer: Any) -> Any:
        return answer if self.check is None else self.check.held(answer)


class _InThread:
    """A sync function in threads of its own: one that hangs takes no threads from others."""

    def __init__(self, function: _Function) -> None:
        self._function = function
        self._threads = HostThreads()

    async def answer(self, arguments: BaseModel, context: CapabilityContext) -> Any:
        try:
            outcome = await self._threads.run(self._function.call, arguments, context)
        except NoThread as full:
            raise CapabilityError("unavailable", str(full), capability=context.capability, fault=True) from None
        raised = outcome.error
        if raised is None:
            return outcome.value
        let_through(raised, None)
        if isinstance(raised, Exception):
            raise raised
        # SystemExit and the like end what they are raised in: the thread's work here, not the task of the call.
        raise RuntimeError(f"the thread of {context.capability} was ended") from raised


def _answer_check(function: Callable[..., Any], name: str) -> _AnswerCheck | None:
    """None where every answer is allowed, or none."""
    annotation = typing.get_type_hints(function, include_extras=True).get("return", Any)
    if annotation in (Any, object, NoReturn, Never):
        return None
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    shown = inert(shown, limit=_ANNOTATION_CHARS)
    try:
        return _AnswerCheck(TypeAdapter(annotation), shown)
    except PydanticUserError as error:
        why = inert(str(error).partition("\n")[0], limit=300)
        raise TypeError(f"{name}: no answer can be checked against the return annotation {shown}: {why}") from None


def _strictness(annotation: Any) -> Any:
    """Plain types are taken as they are. What CBOR has no type for (a date, an enumeration) is made of what it has."""
    return (
        annotation
        if _is_plain(annotation)
        else Annotated[annotation, PlainValidator(TypeAdapter(annotation).validate_python)]
    )


def _is_plain(annotation: Any) -> bool:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return any(annotation is kind for kind in (*_PLAIN, list, dict)) or typing.is_typeddict(annotation)
    if origin is Literal:
        return all(type(value) in _PLAIN for value in inner)
    if origin is Annotated:
        return _is_plain(inner[0])
    return origin in (Union, types.UnionType, list, dict) and all(map(_is_plain, inner))
