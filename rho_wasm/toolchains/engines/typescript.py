"""TypeScript without its types: the stripper is OXC in WebAssembly, from a wheel, run in the sandbox like a guest.

Its parser knows all of TypeScript, and its printer moves lines; typescript_lines.py moves them back. The types are not
looked at: what a tool takes is said by JSDoc or ``tool({...})``, as in JavaScript.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic, ModuleRejected
from rho_wasm.sandbox.boot import BootInstance, BootLimits, boot
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.toolchains.engines.spec import PinnedFile
from rho_wasm.toolchains.engines.typescript_lines import in_place
from rho_wasm.untrusted import inert

__all__ = ["STRIPPER", "prepare"]

STRIPPER = PinnedFile(
    name="the type stripper",
    languages=("typescript",),
    extra="javascript",
    distribution="quickjs-rs",
    version="0.2.6",
    file="quickjs_rs/_transform.wasm",
    sha256="c4710d5258585122a70f0b3ee3bc19d085742e6f94f48aa0b8057630ebaca745",
    licence="MIT",
    upstream="quickjs-rs 0.2.6, its own build of OXC",
)

_OK, _UNCHANGED, _PARSE_ERROR = 0, 1, 3
_TYPESCRIPT = 1 << 0 | 1 << 8
"""The source is TypeScript; its types are stripped."""
_NAME = b"tool.ts"
_LIMITS = BootLimits(fuel=5_000_000_000, deadline_ms=5_000, memory_bytes=128 * 1024 * 1024)
_MESSAGE_CHARS = 500

Transform = Callable[[str], str]


class _Refused(Exception):
    """The stripper's own words, which quote the source."""


async def prepare(source: str, file: str, language: str) -> str:
    """``source`` without types, its statements on their own lines; JavaScript stays as it is.

    Raises :class:`BuildError`: ``missing_extra`` and what else :meth:`PinnedFile.read` raises, ``build_failed`` for
    what is no TypeScript (with the line), ``build_timeout`` and ``build_memory`` for what costs too much.
    """
    if language != "typescript":
        return source
    wasm = await anyio.to_thread.run_sync(STRIPPER.read)
    stripped: list[str] = []

    def drive(instance: BootInstance) -> None:
        def transform(text: str) -> str:
            return _transformed(instance, text)

        try:
            stripped.append(in_place(source, transform))
        except _Refused as refused:
            message = str(refused)
            raise _wrong(source, file, message, _line_of(source, message, transform)) from None

    try:
        await boot(wasm, drive=drive, limits=_LIMITS)
    except (CallFailed, ModuleRejected) as error:
        reason = {"out_of_fuel": "build_timeout", "deadline": "build_timeout", "out_of_memory": "build_memory"}
        why = f"stripping its types ended in {error.reason}: {inert(error.detail, limit=_MESSAGE_CHARS)}"
        raise BuildError(
            "typescript",
            [Diagnostic(why, file=inert(file, limit=128))],
            reason=reason.get(error.reason, "build_failed"),
        ) from error
    return stripped[0]


def _transformed(instance: BootInstance, text: str) -> str:
    name, source = _given(instance, _NAME), _given(instance, text.encode())
    status = instance.call("qjst_transform", *name, *source, _TYPESCRIPT)
    if status == _UNCHANGED:
        result = text
    elif status == _OK:
        result = _taken(instance, "result")
    else:
        message = _taken(instance, "error") if status == _PARSE_ERROR else f"the stripper answers {status}"
        raise _Refused(message.partition(f"in {_NAME.decode()}: ")[2] or message)
    instance.call("qjst_result_free")
    for pointer, length in (name, source):
        instance.call("qjst_free", pointer, length)
    return result


def _given(instance: BootInstance, data: bytes) -> tuple[int, int]:
    pointer = instance.call("qjst_alloc", len(data))
    instance.write(pointer, data)
    return pointer, len(data)


def _taken(instance: BootInstance, what: str) -> str:
    pointer, length = instance.call(f"qjst_{what}_ptr"), instance.call(f"qjst_{what}_len")
    return instance.read(pointer, length).decode("utf-8", "replace")


def _line_of(source: str, message: str, transform: Transform) -> int:
    """The line of what is wrong, which the stripper does not say: that of the shortest beginning with this fault."""
    lines = source.rstrip().split("\n")
    good, bad = 0, len(lines)
    if "EOF" in message:
        return bad
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            transform("\n".join(lines[:middle]))
            found = ""
        except _Refused as refused:
            found = str(refused)
        good, bad = (good, middle) if found == message else (middle, bad)
    return bad


def _wrong(source: str, file: str, message: str, line: int) -> BuildError:
    diagnostic = Diagnostic(
        f"SyntaxError: {inert(message, limit=_MESSAGE_CHARS)}",
        file=inert(file, limit=128),
        line=line,
        text=inert(source.split("\n")[line - 1].strip(), limit=300),
    )
    return BuildError("typescript", [diagnostic])
