"""The module ``rho`` of tools in Python. It is inside the sandbox; this file is for editors and type checkers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

_Function = TypeVar("_Function", bound=Callable[..., Any])

class Image:
    """A picture for the model: png, jpeg, webp or gif, which its first bytes and ``mime_type`` must agree on."""

    mime_type: str
    data: bytes
    def __init__(self, mime_type: str, data: bytes) -> None: ...

class Ok:
    """The answer. ``images`` go to the model beside the text, ``details`` to the host's screens only."""

    value: Any
    images: Sequence[Image]
    details: Any
    def __init__(self, value: Any = None, images: Sequence[Image] = (), details: Any = None) -> None: ...

class Failed(Exception):
    """Reports a failure, which the model reads as it is. It is no crash. ``raise Failed(...)`` equals returning it."""

    reason: Any
    details: Any
    def __init__(self, reason: Any, *, details: Any = None) -> None: ...

class AskUser:
    """Stops and asks a person; the answer becomes this call's result, the tool is not called again."""

    question: str
    options: Mapping[str, Any]
    def __init__(self, question: str, options: Mapping[str, Any] = ...) -> None: ...

class Halt:
    """Ends the model's loop, with ``reason`` for the caller and ``value`` as the outcome."""

    reason: str
    value: Any
    def __init__(self, reason: str, value: Any = None) -> None: ...

class Context:
    """Given to a parameter annotated ``Context``. What the host did not tell is None, and ``values`` is empty."""

    call_id: str | None
    session_id: str | None
    request_id: str | None
    values: dict[str, Any]

class HostError(Exception):
    """The host did not do what it was asked for. Its text is ``capability: kind: message``.

    ``kind`` is denied, undeclared, invalid_arguments, quota or unavailable.
    """

    kind: str
    message: str
    capability: str
    def __init__(self, kind: str, message: str, capability: str) -> None: ...

class DeclarationError(TypeError):
    """A tool that cannot be declared so."""

class _Host:
    def call(self, capability: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Asks for ``capability``; answers what the host answered. Raises :class:`HostError`."""

class _Log:
    def debug(self, message: object, *arguments: object) -> None: ...
    def info(self, message: object, *arguments: object) -> None: ...
    def warning(self, message: object, *arguments: object) -> None: ...
    def error(self, message: object, *arguments: object) -> None: ...

host: _Host
log: _Log

def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Says how far the call is: to who watches (``progress.report``, declared and granted), else in its log."""

@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
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
) -> Callable[[_Function], _Function]: ...
