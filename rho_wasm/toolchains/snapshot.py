"""Writes down what a started module is, as a module that is so from the beginning.

A snapshot has the same code, and the memory and the mutable globals of a moment in place of its own. What cannot be
written down is refused and not guessed: tables that code can change, passive segments that code uses (the code would
find them as they were at first), globals that hold references, and memories, tables or globals from outside.
The same module and the same :class:`Booted` give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import GLOBAL_PREFIX, INITIALIZE, MEMORY, PAGE_BYTES
from rho_wasm.sandbox.boot import START, Booted, BootInstance, BootLimits, Drive, HostCall, boot, start
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.toolchains import binary
from rho_wasm.toolchains.binary import Global, Memory, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.instructions import changes_tables_or_segments
from rho_wasm.toolchains.module_edits import only_functions, stub_imports

__all__ = ["MAX_SEGMENTS", "boot_module", "check_can_be_written", "initialised", "snapshot"]

MAX_SEGMENTS = 1_000
"""Data segments of a snapshot; a guest may have twice as many."""

_GAP_BYTES = 16
"""Zeros that are written rather than gone round: a segment of its own costs ten bytes."""
_RUN = re.compile(rb"[^\0]+(?:\0{1,%d}[^\0]+)*" % _GAP_BYTES, re.DOTALL)
_SCANNED = PAGE_BYTES
_START = "rho:start"
"""Under this name a start function is called while it is booted: in an instance that is whole, unlike by itself."""
_CONSTANTS: dict[str, Callable[[int], bytes]] = {
    "i32": lambda bits: b"\x41" + binary.encode_s32(bits),
    "i64": lambda bits: b"\x42" + binary.encode_signed(bits - (1 << 64) if bits >> 63 else bits),
    "f32": lambda bits: b"\x43" + bits.to_bytes(4, "little"),
    "f64": lambda bits: b"\x44" + bits.to_bytes(8, "little"),
    "v128": lambda bits: b"\xfd\x0c" + bits.to_bytes(16, "little"),
}


def check_can_be_written(module: Module) -> None:
    """Raises :class:`ModuleRejected` for what a snapshot cannot hold: ``import_kind``, ``memories`` where there is
    none, ``global_type``, ``table_changed``, ``segment_used``."""
    only_functions(module)
    if module.memory is None:
        raise ModuleRejected("memories", "the module has no memory", limit=1, value=0)
    for place, each in enumerate(module.globals):
        if each.mutable and each.value_type not in _CONSTANTS:
            raise ModuleRejected("global_type", f"the mutable global {place} is a {each.value_type}", value=place)
    first = module.imported(binary.FUNCTION)
    for place, body in enumerate(module.bodies, start=first):
        if (found := changes_tables_or_segments(body)) is not None:
            reason = "table_changed" if found.startswith("table") else "segment_used"
            raise ModuleRejected(reason, f"function {place} has {found}, which a snapshot would undo", name=found)


async def boot_module(
    module: Module,
    *,
    drive: Drive = start,
    on_host_call: Callable[[HostCall], bool] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    functions: Sequence[HostFunction] = (),
    limits: BootLimits | None = None,
    baseline: bool = True,
    parallel: bool = False,
) -> Booted:
    """Starts ``module`` as :func:`rho_wasm.sandbox.boot.boot` does, with what that needs exported.

    ``module`` stays as it is. Indices of functions (of frames, of :class:`Stopped`) are its own. Every mutable global
    of it is in the answer. Raises as ``boot`` does, and :class:`ModuleRejected` for what a snapshot cannot hold.
    """
    check_can_be_written(module)
    opened = replace(module, start=None, exports=[each for each in module.exports if each.name not in (MEMORY, _START)])
    opened.add_export(MEMORY, binary.MEMORY, 0)
    _export_globals(opened)
    if module.start is not None:
        opened.add_export(_START, binary.FUNCTION, module.start)

    def driven(instance: BootInstance) -> None:
        if module.start is not None:
            instance.call(_START)
        drive(instance)

    return await boot(
        opened.encode(),
        drive=driven,
        on_host_call=on_host_call,
        arguments=arguments,
        environment=environment,
        functions=functions,
        limits=limits,
        baseline=baseline,
        parallel=parallel,
    )


def snapshot(
    module: Module,
    booted: Booted,
    *,
    keep_exports: Collection[str] | None = None,
    drop: Collection[str] = (START, INITIALIZE),
    zero: Iterable[tuple[int, int]] = (),
    export_globals: bool = False,
    max_segments: int = MAX_SEGMENTS,
) -> bytes:
    """``module`` as it was when ``booted`` was taken. ``module`` stays as it is.

    ``module`` may have got functions, globals and exports since (they keep their own initial values), as long as no
    index changed. ``keep_exports`` names the exports that are kept; None keeps all but those in ``drop``. The start
    function goes. ``zero`` are ranges of memory, ``(from, to)``, that hold nothing any more: a dead stack.
    ``export_globals`` exports each mutable global as ``rho:global:N``, as engines do and guests may not.

    Raises :class:`ModuleRejected` as :func:`check_can_be_written` does, and ValueError for a range outside memory.
    """
    check_can_be_written(module)
    memory = bytearray(booted.memory)
    for begin, end in zero:
        if not 0 <= begin <= end <= len(memory):
            raise ValueError(f"the range {begin} to {end} is not inside a memory of {len(memory)} bytes")
        memory[begin:end] = bytes(end - begin)
    made = replace(
        module,
        start=None,
        counts_data=False,
        memory=_at_least(module.memory, len(memory) // PAGE_BYTES),
        globals=[_as_booted(each, booted.globals.get(place)) for place, each in enumerate(module.globals)],
        exports=[
            each
            for each in module.exports
            if (each.name in keep_exports if keep_exports is not None else each.name not in drop)
        ],
    )
    if export_globals:
        _export_globals(made)
    made.replace_data(_segments(bytes(memory), max_segments))
    return made.encode()


async def initialised(wasm: bytes, *, limits: BootLimits | None = None) -> bytes:
    """``wasm``, a guest without its manifest, as it is after ``_initialize``. Imports that no host knows become stubs.

    Raises as :func:`boot_module` and :func:`snapshot` do.
    """
    module = read_module(wasm)
    stub_imports(module)
    booted = await boot_module(module, limits=limits)
    return snapshot(module, booted)


def _export_globals(module: Module) -> None:
    module.exports = [each for each in module.exports if not each.name.startswith(GLOBAL_PREFIX)]
    for place, each in enumerate(module.globals):
        if each.mutable:
            module.add_export(f"{GLOBAL_PREFIX}{place}", binary.GLOBAL, place)


def _as_booted(given: Global, bits: int | None) -> Global:
    if not given.mutable or bits is None:
        return given
    return given._replace(initial=_CONSTANTS[given.value_type](bits) + b"\x0b")


def _at_least(memory: Memory | None, pages: int) -> Memory:
    assert memory is not None, "what can be written has a memory"
    return memory._replace(minimum=pages)


def _segments(memory: bytes, most: int) -> list[tuple[int, bytes]]:
    """What is not zero in ``memory``: runs with short gaps in them, and the smallest further ones closed if there are
    more than ``most``."""
    spans = _spans(memory)
    if len(spans) > most:
        gaps = sorted((after[0] - before[1], place) for place, (before, after) in enumerate(pairwise(spans), start=1))
        closed = {place for _, place in gaps[: len(spans) - most]}
        merged: list[tuple[int, int]] = []
        for place, (begin, end) in enumerate(spans):
            merged[-1:] = [(merged[-1][0], end)] if place in closed else [*merged[-1:], (begin, end)]
        spans = merged
    return [(begin, memory[begin:end]) for begin, end in spans]


def _spans(memory: bytes) -> list[tuple[int, int]]:
    """Where runs begin and end. Page by page, so that a zero page costs a comparison."""
    spans: list[tuple[int, int]] = []
    zero = bytes(_SCANNED)
    for page in range(0, len(memory), _SCANNED):
        if memory[page : page + _SCANNED] == zero:
            continue
        for match in _RUN.finditer(memory, page, page + _SCANNED):
            if spans and match.start() - spans[-1][1] <= _GAP_BYTES:
                spans[-1] = (spans[-1][0], match.end())
            else:
                spans.append(match.span())
    return spans
