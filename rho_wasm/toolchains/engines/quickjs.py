"""The QuickJS engine: QuickJS-ng's own WASI reactor, with a glue of ours and the guest module ``rho`` booted into it.

The reactor is others' making, taken from a wheel and pinned by its hash. It exports QuickJS's C API, so the glue
(``javascript/*.wat``) needs no compiler: it is assembled, appended, and calls those exports. Module ``rho``
(``javascript/*.js``) is evaluated once, and the snapshot of that moment is the engine.
"""

from __future__ import annotations

from importlib import resources

import wasmtime

from rho_wasm.sandbox.abi import ALLOC, CALL, LOAD, MEMORY, PAGE_BYTES, RHO_IMPORTS, WASI
from rho_wasm.sandbox.boot import BootInstance
from rho_wasm.toolchains.binary import Global, Module, encode_s32
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.module_additions import add_imports, add_to_table
from rho_wasm.toolchains.module_edits import append_module, stub_imports
from rho_wasm.toolchains.snapshot import boot_module, snapshot

__all__ = ["build_engine"]

_GLUE = ("imports.wat", "decode.wat", "encode.wat", "natives.wat", "entries.wat")
_PRELUDE = (
    "native.js",
    "answers.js",
    "host.js",
    "errors.js",
    "types.js",
    "docs.js",
    "load.js",
    "tools.js",
)
_KEPT_IMPORTS = ("clock_time_get", "fd_write", "proc_exit")
"""What the reactor still asks of WASI without its ``std`` and ``os`` modules, which are never started."""
_STUBS = {
    # EBADF: there are no directories. Its start takes any other answer for a broken system.
    "fd_prestat_get": bytes.fromhex("00 41 08 0b"),
    # No variables: 0 to both pointers.
    "environ_sizes_get": bytes.fromhex("00 2000 4100 360200 2001 4100 360200 4100 0b"),
}
_NATIVE, _BOOT = "rho:native", "rho:boot"

_STACK_PAGES = 8
_STACK_SPARE_BYTES = 64 * 1024
"""Of the stack in memory that QuickJS does not count on: what a C function needs after the check of depth."""
_ROOM_BYTES = 512 * 1024
"""Free memory that the snapshot has, so that a short call never grows it."""


async def build_engine(wasm: bytes) -> bytes:
    """The engine of ``wasm``, which is the pinned reactor. The same bytes give the same bytes.

    Raises what ``boot`` and ``snapshot`` raise. It takes about a second.
    """
    module = read_module(wasm)
    module.names = None
    stub_imports(module, bodies=_STUBS, keep=lambda function, signature: function.name in _KEPT_IMPORTS)
    imports = add_imports(module, (*RHO_IMPORTS, "random_get"))
    append_module(module, read_module(wasmtime.wat2wasm(_text(_GLUE))), functions=imports)
    native = module.exported(_NATIVE, 0)
    assert native is not None, "the glue exports it"
    place = add_to_table(module, native)
    low, high = _move_stack(module)

    def drive(instance: BootInstance) -> None:
        instance.call("_initialize")
        prelude = _text(_PRELUDE).encode()
        texts = [_written(instance, text) for text in (prelude, b"rho", b"rho:native")]
        spare = _STACK_SPARE_BYTES
        instance.call(_BOOT, texts[0], len(prelude), texts[1], texts[2], place, high - low - spare, low, high)
        for text in (*texts, instance.call("malloc", _ROOM_BYTES)):
            instance.call("free", text)

    booted = await boot_module(module, drive=drive)
    return snapshot(
        module, booted, keep_exports=(MEMORY, ALLOC, LOAD, CALL), export_globals=True, zero=[(low, high)]
    )


def _text(names: tuple[str, ...]) -> str:
    folder = resources.files("rho_wasm.toolchains.engines") / "javascript"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _written(instance: BootInstance, text: bytes) -> int:
    pointer = instance.call("malloc", len(text) + 1)
    instance.write(pointer, text + b"\0")
    return pointer


def _move_stack(module: Module) -> tuple[int, int]:
    """Gives the C stack pages of its own behind the memory that the reactor starts with; answers where it is.

    As built it has 64 KiB, right above the constants. The allocator knows the memory's first size as a constant, and
    takes further memory from the system, so it never comes here.
    """
    assert module.memory is not None
    low = module.memory.minimum * PAGE_BYTES
    high = low + _STACK_PAGES * PAGE_BYTES
    module.memory = module.memory._replace(minimum=high // PAGE_BYTES)
    pointer = module.globals[0]
    module.globals[0] = Global(pointer.value_type, pointer.mutable, b"\x41" + encode_s32(high) + b"\x0b")
    return low, high
