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
from rho_wasm.toolchains.engines.spec import PinnedFile, Prepared
from rho_wasm.toolchains.engines.typescript_lines import Placed, in_place
from rho_wasm.untrusted import inert

__all__ = ["STRIPPER", "NotTypeScript", "Stripper", "prepare"]

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
_JAVASCRIPT = 1 << 9
"""The source is JavaScript, parsed as that and printed. Its outermost ``const`` becomes ``var``."""
_NAMES = {_TYPESCRIPT: b"tool.ts", _JAVASCRIPT: b"tool.js"}
_WITHOUT_TYPES = "{} without types"
"""What a file is called in traces whose lines are not the source's."""
_STRIPPED_BYTES = 4 * 1024 * 1024
_LIMITS = BootLimits(fuel=5_000_000_000, deadline_ms=5_000, memory_bytes=128 * 1024 * 1024)
_MESSAGE_CHARS = 500


class NotTypeScript(Exception):
    """The stripper's own words, which quote the source."""


class _TooLarge(Exception):
    """What was printed is."""


async def prepare(source: str, file: str, language: str) -> Prepared:
    """``source`` without types, its statements on their own lines; JavaScript stays as it is.

    Where a line could not be kept, as in a source beyond 64 Ki characters or 5,000 lines, the name says that its lines
    are those of the text without types.

    Raises :class:`BuildError`: ``missing_extra`` and what else :meth:`PinnedFile.read` raises, ``build_failed`` for
    what is no TypeScript (with the line, if it is found in time), ``build_too_large`` for more than 4 MiB without
    types, ``build_timeout`` and ``build_memory`` for what costs too much.
    """
    if language != "typescript":
        return Prepared(source, file)
    wasm = await anyio.to_thread.run_sync(STRIPPER.read)
    stripped: list[Placed] = []

    def drive(instance: BootInstance) -> None:
        stripper = Stripper(instance)
        try:
            stripped.append(in_place(source, stripper.strip, stripper.reprint))
        except NotTypeScript as refused:
            message = str(refused)
            raise _wrong(source, file, message, _line_of(source, message, stripper.strip)) from None

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
    except _TooLarge:
        why = f"is longer than {_STRIPPED_BYTES} bytes without its types"
        raise BuildError(
            "typescript", [Diagnostic(why, file=inert(file, limit=128))], reason="build_too_large"
        ) from None
    return Prepared(stripped[0].text, file if stripped[0].exact else _WITHOUT_TYPES.format(file))


class Stripper:
    """An instance of the pinned file. Raises :class:`CallFailed` at the end of its budget, as any guest does."""

    def __init__(self, instance: BootInstance) -> None:
        self._instance = instance

    def strip(self, text: str) -> str:
        """TypeScript without its types. Raises :class:`NotTypeScript`."""
        return self._transformed(text, _TYPESCRIPT)

    def reprint(self, text: str) -> str:
        """JavaScript, printed anew. Raises :class:`NotTypeScript` for what is none."""
        return self._transformed(text, _JAVASCRIPT)

    def _transformed(self, text: str, kind: int) -> str:
        call = self._instance.call
        name, source = self._given(_NAMES[kind]), self._given(text.encode())
        status = call("qjst_transform", *name, *source, kind)
        if status == _UNCHANGED:
            result = text
        elif status == _OK:
            result = self._taken("result")
        else:
            message = self._taken("error") if status == _PARSE_ERROR else f"the stripper answers {status}"
            raise NotTypeScript(message.partition(f"in {_NAMES[kind].decode()}: ")[2] or message)
        call("qjst_result_free")
        for pointer, length in (name, source):
            call("qjst_free", pointer, length)
        return result

    def _given(self, data: bytes) -> tuple[int, int]:
        pointer = self._instance.call("qjst_alloc", len(data))
        self._instance.write(pointer, data)
        return pointer, len(data)

    def _taken(self, what: str) -> str:
        pointer, length = (self._instance.call(f"qjst_{what}_{part}") for part in ("ptr", "len"))
        if length > _STRIPPED_BYTES:
            raise _TooLarge
        return self._instance.read(pointer, length).decode("utf-8", "replace")


def _line_of(source: str, message: str, strip: Callable[[str], str]) -> int | None:
    """The line of what is wrong, which the stripper does not say: that of the shortest beginning with this fault.

    None where the budget ends before it is found.
    """
    lines = source.rstrip().split("\n")
    good, bad = 0, len(lines)
    if "EOF" in message:
        return bad
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            strip("\n".join(lines[:middle]))
            found = ""
        except NotTypeScript as refused:
            found = str(refused)
        except (CallFailed, _TooLarge):
            return None
        good, bad = (good, middle) if found == message else (middle, bad)
    return bad


def _wrong(source: str, file: str, message: str, line: int | None) -> BuildError:
    diagnostic = Diagnostic(
        f"SyntaxError: {inert(message, limit=_MESSAGE_CHARS)}",
        file=inert(file, limit=128),
        line=line,
        text=inert(source.split("\n")[line - 1].strip(), limit=300) if line is not None else None,
    )
    return BuildError("typescript", [diagnostic])
