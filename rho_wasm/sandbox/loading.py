"""Loads the source of a tool into a fresh instance of an engine, and says what that changed in its memory."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rho_wasm.errors import BuildError, Diagnostic, ToolError
from rho_wasm.limits import Limits
from rho_wasm.sandbox.abi import GLOBAL_PREFIX, LOAD, PAGE_BYTES
from rho_wasm.sandbox.crossing import as_tool_error
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.images import LoadedSource
from rho_wasm.sandbox.instance import GuestInstance, OwnStackInstance
from rho_wasm.sandbox.module import Linked
from rho_wasm.sandbox.state import CallState

__all__ = ["LoadCall", "LoadedEngine", "SourceLoad", "changes", "too_large"]

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_LIBRARY: Any = ctypes.CDLL(None)
_compare: Any = ctypes.PYFUNCTYPE(ctypes.c_int, _SIZE, _SIZE, _SIZE)(("memcmp", _LIBRARY))
_compare_long: Any = ctypes.CFUNCTYPE(ctypes.c_int, _SIZE, _SIZE, _SIZE)(("memcmp", _LIBRARY))

_PIECE: Final = 1024 * 1024
_PAGE: Final = 4_096
_RUN = re.compile(rb"[^\0]+(?:\0{1,64}[^\0]+)*", re.DOTALL)
"""Bytes that differ. Those that stand closer together than it pays to go round are one run."""
_MAX_RUNS: Final = 65_536
"""Beyond so many a whole page that differs is one run."""


class LoadedEngine:
    """An engine whose native code is in memory. ``linked`` is that, ``name`` what messages call it: one inert line."""

    def __init__(self, sha256: bytes, name: str, linked: Linked) -> None:
        self.sha256 = sha256
        self.name = name
        self.linked = linked
        self.globals = tuple(export for export in linked.exports if export.startswith(GLOBAL_PREFIX))
        """The exports that are its mutable globals."""
        self.memory: bytearray | None = None
        """What its memory holds before anything of it runs. Seen when the first source is loaded into it."""


class SourceLoad:
    """One load in this process: :meth:`in_thread` once; :meth:`cancel` comes from any thread."""

    def __init__(self, engine: LoadedEngine, request: bytes, *, limits: Limits, image_bytes: int) -> None:
        """``image_bytes``: so much may change, else no image can be made of it."""
        self._engine = engine
        self._request = request
        self._image_bytes = image_bytes
        self._call = LoadCall(engine, limits=limits, image_bytes=image_bytes)

    def cancel(self) -> None:
        """Stops the engine within a moment."""
        self._call.cancel()

    def close(self) -> None:
        """Nothing of it is left behind where no thread could be had."""

    def in_thread(self) -> LoadedSource | ToolError | BuildError:
        """Answers an error rather than raise it: the traceback of what was raised holds all of the call."""
        call = self._call
        try:
            reply = call.run(self._request)
        except Exception as error:
            return as_tool_error(error, tool=self._engine.name, memory_refused=call.memory_refused)
        if call.changes is None:
            return too_large(self._engine.name, self._image_bytes)
        return LoadedSource(reply, call.pages, call.changes)


def too_large(engine: str, image_bytes: int) -> BuildError:
    """More changed than an image may hold."""
    why = f"loading the source changes more memory than an image may hold ({image_bytes:,} bytes)"
    hint = "let the file make less when it is loaded: large data can be made inside the tool's function"
    return BuildError(engine, [Diagnostic(why)], reason="image_too_large", hint=hint)


class LoadCall(GuestCall):
    """A call of ``rho_load`` instead of ``rho_call``. Before the instance is gone, its memory is compared."""

    pages = 0
    changes: tuple[tuple[int, bytes], ...] | None = None
    """What changed; None for more than ``image_bytes``."""

    def __init__(self, engine: LoadedEngine, *, limits: Limits, image_bytes: int) -> None:
        self._before = _Before(engine)
        self._engine = engine
        self._image_bytes = image_bytes
        linked = engine.linked.over(self._before, entry=LOAD)
        super().__init__(linked.owner, linked, CallState(limits=limits), deadline_ms=limits.deadline_ms)

    def _read(self, instance: GuestInstance, packed: int) -> bytes:
        reply = super()._read(instance, packed)
        if (changed := self._before.changed(instance)) is not None:
            raise CallFailed("bad_answer", f"loading the source changed {changed}, which no image can hold")
        base, size = instance.span()
        self.pages = size // PAGE_BYTES
        self.changes = self._bounded(changes(base, size, self._engine.memory or bytearray()))
        return reply

    def _bounded(self, found: Iterable[tuple[int, bytes]]) -> tuple[tuple[int, bytes], ...] | None:
        kept, size = [], 0
        for run in found:
            size += len(run[1])
            if size > self._image_bytes:
                return None
            kept.append(run)
        return tuple(kept)


class _Before:
    """The memory and the mutable globals of an engine, as they were before its source was loaded."""

    def __init__(self, engine: LoadedEngine) -> None:
        self._engine = engine
        self._globals: dict[str, bytes] = {}

    def prepare(self, instance: GuestInstance, limits: Limits) -> None:
        """Nothing is done with the instance: it is looked at."""
        self._globals = self._now(instance)
        if self._engine.memory is None:
            self._engine.memory = _copied(*instance.span())

    def changed(self, instance: GuestInstance) -> str | None:
        """The name of the first global that is not as it was."""
        now = self._now(instance)
        return next((name for name in now if now[name] != self._globals[name]), None)

    def _now(self, instance: GuestInstance) -> dict[str, bytes]:
        assert isinstance(instance, OwnStackInstance), "sources are loaded on a thread's own stack"
        return {name: instance.number(name) for name in self._engine.globals}


def _copied(base: int, size: int) -> bytearray:
    """A copy of memory. What is all zeros in it takes no memory here."""
    copy = bytearray(size)
    zeros = bytes(PAGE_BYTES)
    for start in range(0, size, PAGE_BYTES):
        page = ctypes.string_at(base + start, PAGE_BYTES)
        if page != zeros:
            copy[start : start + PAGE_BYTES] = page
    return copy


def changes(base: int, size: int, initial: bytearray) -> Iterator[tuple[int, bytes]]:
    """Where the ``size`` bytes at ``base`` differ from ``initial``, which goes on with zeros: offset and content.

    Runs ascend and do not overlap. Memory that is the same costs little more than to be read.
    """
    runs = 0
    # A buffer cannot be resized while its address is in use.
    with memoryview(initial) as view:
        before = ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view)) if view else 0
        for offset in _differing(base, size, before, len(view)):
            now = ctypes.string_at(base + offset, _PAGE)
            if runs > _MAX_RUNS:
                yield offset, now
                continue
            known = bytes(view[offset : offset + _PAGE]).ljust(_PAGE, b"\0")
            both = int.from_bytes(now, "little") ^ int.from_bytes(known, "little")
            for match in _RUN.finditer(both.to_bytes(_PAGE, "little")):
                runs += 1
                yield offset + match.start(), now[match.start() : match.end()]


def _differing(base: int, size: int, before: int, known: int) -> Iterator[int]:
    """The offsets of the pages of 4 KiB that differ. ``known`` bytes of the first memory are there, then zeros."""
    zeros = ctypes.create_string_buffer(_PIECE)
    for piece in range(0, size, _PIECE):
        end = min(piece + _PIECE, size)
        # WebAssembly's pages are of 64 KiB, so what is known ends where a page does.
        for start, stop in ((piece, min(end, known)), (max(piece, known), end)):
            if start >= stop:
                continue
            other = before + start if start < known else ctypes.addressof(zeros)
            if _compare_long(base + start, other, stop - start):
                for page in range(start, stop, _PAGE):
                    if _compare(base + page, other + page - start, _PAGE):
                        yield page
