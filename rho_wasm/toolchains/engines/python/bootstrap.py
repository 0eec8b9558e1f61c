"""What the interpreter runs when the engine is made, up to the moment that is frozen.

``boot`` is given the texts of the guest module. It ends in ``time.time()``, inside which the host stops the
interpreter; nothing after that ever runs. Before, it writes where the two functions are that the host calls from then
on, and where the bytearray is through which they get their bytes.
"""

from __future__ import annotations

import array
import builtins
import gc
import importlib
import importlib.abc
import importlib.util
import logging
import marshal
import os
import sys
import time
import types
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["GIVEN_BYTES", "MARK", "ROOM_BYTES", "STACK_BYTES", "boot"]

MARK = b"rho engine "
"""What stands before the addresses, on standard output."""
ROOM_BYTES = 65_536
"""How large a request may be that is given a place which the engine already has."""

GIVEN_BYTES = 64
"""Of the bytearray that each request is given in, before there is one."""
STACK_BYTES = 4 * 1024 * 1024
"""Of the stack that C functions have in memory. More than the machine's own stack can come to use: so recursion that
nothing else ends runs into the end of that one, which is a trap, and never into objects."""

_ROUNDS = 12
"""Bytecode adapts to what it works on while it runs for the first few times; each adaption would change a page."""
_BYTECODE = CodeType.__basicsize__
"""Where a code object's bytecode begins."""
_LASTING = frozenset(
    {
        *(bytes, str, int, float, tuple, dict, list, set, frozenset, CodeType, FunctionType, ModuleType),
        *(types.BuiltinFunctionType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
        *(types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
        *(types.MethodType, types.CellType, types.MappingProxyType, property, classmethod, staticmethod),
    }
)
"""Types of objects that may be immortal: nothing happens when they end but that their memory is given back."""
_LARGER_THAN_HOLES = 2 * 1024 * 1024
_HOLES = (*range(1024 * 1024, 32_768, -32_768), *range(32_768, 8_192, -256), *range(8_192, 1, -8))


class _Texts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the guest module from its texts. Its code has builtins of its own, out of reach of who patches them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._codes = {
            name: marshal.dumps(compile(text, f"<{name}>", "exec", dont_inherit=True)) for name, text in texts.items()
        }
        self._builtins: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname not in self._codes:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package="." not in fullname)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._builtins
        exec(marshal.loads(self._codes[module.__name__]), module.__dict__)  # noqa: S102, S302

    def import_all(self) -> None:
        """Imports all of it, anew."""
        self._builtins = dict(vars(builtins))
        for name in self._codes:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, self)
        try:
            for name in self._codes:
                importlib.import_module(name)
        finally:
            sys.meta_path.remove(self)


def boot(texts: Mapping[str, str], modules: Sequence[str], warm: str) -> None:
    """Prepares the interpreter and waits, in a host function that does not come back."""
    # What started the interpreter is nothing that a tool should find.
    os.environ.clear()
    sys.argv[:], sys.orig_argv[:] = [""], []
    for name in modules:
        importlib.import_module(name)
    guest = _Texts(texts)
    guest.import_all()
    # Once more, now that all it needs is there and no hole is left: what a call uses then stands side by side.
    stack = bytes(STACK_BYTES)
    kept = [_filled(stack)]
    guest.import_all()
    rho = sys.modules["rho"]
    asyncio = sys.modules["asyncio"]
    asyncio.set_event_loop_policy(sys.modules["rho._loop"].Policy())
    chance = sys.modules["rho._random"].install()
    sys.modules["rho._absent"].install()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(  # noqa: SIM115
            descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    logging.root.addHandler(sys.modules["rho._host"].LogHandler())
    logging.root.setLevel(logging.DEBUG)
    # When a record was made nobody is told; a look at the clock would be told in each call's log.
    setattr(logging, "time", types.SimpleNamespace(**vars(time) | {"time": lambda: 0.0}))  # noqa: B010
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    given = bytearray(GIVEN_BYTES)
    engine = sys.modules["rho._engine"].Engine(rho._registry, chance)

    def load() -> bytes:
        return bytes(engine.load(given))

    def call() -> bytes:
        return bytes(engine.call(given))

    def explain() -> bytes:
        return bytes(engine.explain())

    _warm_up(engine, given, load, call, explain, warm)
    # What is free in a half-used page makes the whole page differ once a tool is put there: so nothing is left free.
    room, unpacked = bytearray(ROOM_BYTES), bytearray(ROOM_BYTES)
    codes = _all_code()
    places = array.array("I", [part for code in codes for part in (id(code) + _BYTECODE, len(code.co_code))])
    originals = bytearray(sum(places[1::2]))
    kept.append(codes)
    kept.append(lasting := _lasting(codes))
    behind = bytes(_LARGER_THAN_HOLES)
    for _ in range(2):
        kept.append(_filled(behind))
    gc.collect()
    gc.freeze()
    sys.modules["rho._engine"].tidy()
    bytearray(2 * sys.modules["rho._engine"].SCRUBBED_BYTES)
    where = (load, call, explain, given, room, unpacked, originals, stack, lasting)
    os.write(1, MARK + b" ".join(b"%d" % number for number in (*map(id, where), *places.buffer_info())))
    # Called by C, so that CPython's way to call a function is among what the interpreter is in.
    list(map(_stop, (kept,)))
    raise AssertionError("the interpreter was not stopped")


def _all_code() -> list[CodeType]:
    """All code that there is. It stays, so that nothing else is ever where it is."""
    found: dict[int, CodeType] = {}
    wanted = [each.__code__ for each in gc.get_objects() if type(each) is FunctionType]
    while wanted:
        code = wanted.pop()
        if id(code) not in found:
            found[id(code)] = code
            wanted += [each for each in code.co_consts if type(each) is CodeType]
    return list(found.values())


def _lasting(codes: Sequence[CodeType]) -> list[Any]:
    """Objects that the engine never lets go of, so that nobody need count who refers to them. None is the first."""
    found: list[Any] = [None, *codes]
    found += [each for each in gc.get_objects() if type(each) in _LASTING or isinstance(each, type)]
    names: set[str] = set()
    for code in codes:
        names.update(code.co_names, code.co_varnames)
        if code.co_filename.startswith("<rho"):
            found += [each for each in code.co_consts if type(each) in _LASTING]
    return found + sorted(names)


def _stop(kept: object) -> None:
    time.time()


def _warm_up(engine: Any, given: bytearray, load: Any, call: Any, explain: Any, source: str) -> None:
    cbor = sys.modules["rho._cbor"]
    registry = sys.modules["rho"]._registry
    file = "warm.py"
    rows = [{"name": "a", "value": 1.5}, {"name": "b", "value": 2.0}]
    requests = [
        ("count", {"text": "a b a " * 20}),
        ("count", {"text": "", "least": 2}),
        ("rows", {"rows": rows, "mode": "a"}),
        ("rows", {"rows": rows, "mode": "b"}),
        ("rows", {"rows": rows, "kind": "long"}),
        ("rows", {"rows": rows, "window": {"start": 20}}),
        ("rows", {"rows": []}),
    ]
    for number in range(_ROUNDS):
        registry.clear()
        given[:] = cbor.encode({"source": source, "file": file})
        if b"error" in load()[:8]:
            raise AssertionError("the engine cannot load what it is warmed up with")
        for tool, arguments in requests:
            context = {"call_id": f"call_{number}", "session_id": "s", "values": {"n": number}}
            given[:] = marshal.dumps({"abi": 1, "tool": tool, "arguments": arguments, "context": context}, 2)
            call()
            explain()
    registry.clear()
    engine.forget()
    given[:] = bytes(GIVEN_BYTES)
    gc.unfreeze()


def _filled(behind: bytes) -> list[Any]:
    """Objects in every hole in front of ``behind``, so that new ones stand side by side.

    ``behind`` was too large for any hole when it was made, so it came to stand behind all objects.
    """
    gc.collect()
    kept: list[Any] = [behind]
    for size in _HOLES:
        while id(hole := bytes(size)) < id(behind):
            kept.append(hole)
    # No object is as small as the smallest hole, but what an array holds is.
    while (smallest := array.array("b", b"x")).buffer_info()[0] < id(behind):
        kept.append(smallest)
    return kept
