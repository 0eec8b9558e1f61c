"""QuickJS by itself: a file is loaded and its tools are called in one fresh instance, straight through the ABI.

Compiled by wasmtime's baseline compiler, which takes a fraction of a second; sandbox, images and limits are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import wasmtime
from wasmtime import FuncType, ValType

from rho_wasm import plain
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.abi import RHO, WASI, WASI_IMPORTS
from rho_wasm.sandbox.capi import make_engine
from rho_wasm.sandbox.config import guest_config

__all__ = ["Bench", "Loaded"]

_ANSWER_BYTES = 1 << 26
_BASELINE = 2
_FUEL = 20_000_000_000
_CLOCK_NS = 1_700_000_000_000_000_000


@dataclass
class Loaded:
    """One instance that loaded one file."""

    bench: Bench
    store: wasmtime.Store
    exports: Any
    reply: Any = None
    log: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, way: str, message: bytes) -> Any:
        memory = self.exports["memory"]
        pointer = self.exports["rho_alloc"](self.store, len(message))
        memory.write(self.store, message, pointer)
        packed = self.exports[way](self.store, pointer, len(message)) & (1 << 64) - 1
        start, size = packed >> 32, packed & 0xFFFF_FFFF
        return plain.decode(bytes(memory.read(self.store, start, start + size)), max_bytes=_ANSWER_BYTES)

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **context: Any) -> Any:
        request = {"abi": 1, "tool": tool, "context": context, "arguments": dict(arguments or {})}
        return self.enter("rho_call", plain.encode(request, max_bytes=_ANSWER_BYTES))


class Bench:
    """The engine compiled, and what it imports."""

    def __init__(self, wasm: bytes) -> None:
        config = guest_config(stack_bytes=HostLimits().engine_stack_bytes, signals_based_traps=True)
        self.engine = make_engine(config.but(strategy=_BASELINE))
        self.module = wasmtime.Module(self.engine, wasm)
        self.capabilities: dict[str, Callable[[Any], Any]] = {}
        self._current: Loaded | None = None
        self._waiting = b""
        linker = wasmtime.Linker(self.engine)
        i32, i64 = ValType.i32(), ValType.i64()
        functions: list[tuple[str, str, list[ValType], list[ValType], Callable[..., Any]]] = [
            (RHO, "log", [i32] * 3, [], self._log),
            (RHO, "host_call", [i32] * 2, [i32], self._host_call),
            (RHO, "host_take", [i32] * 2, [i32], self._host_take),
            (WASI, "clock_time_get", [i32, i64, i32], [i32], self._clock),
            (WASI, "random_get", [i32, i32], [i32], self._random),
            (WASI, "fd_write", [i32] * 4, [i32], lambda *_: 0),
            (WASI, "proc_exit", [i32], [], lambda *_: None),
        ]
        assert {each[1] for each in functions if each[0] == WASI} <= WASI_IMPORTS.keys()
        for origin, name, params, results, body in functions:
            linker.define_func(origin, name, FuncType(params, results), body, access_caller=True)
        self._ready = linker.instantiate_pre(self.module)

    def fresh(self) -> Loaded:
        """An instance that loaded nothing yet."""
        store = wasmtime.Store(self.engine)
        store.set_fuel(_FUEL)
        store.set_epoch_deadline(1)
        self._current = Loaded(self, store, self._ready.instantiate(store).exports(store))
        return self._current

    def load(self, source: str, *, file: str = "tool.js") -> Loaded:
        """A fresh instance that loaded ``source``; what it said of it is ``reply``."""
        loaded = self.fresh()
        loaded.reply = loaded.enter("rho_load", plain.encode({"source": source, "file": file}, max_bytes=1 << 24))
        return loaded

    def answer(self, body: str, arguments: Mapping[str, Any] | None = None, **context: Any) -> Any:
        """What a tool ``t(args, ctx)`` with this body answers. ``await`` makes it an async one."""
        kind = "async function" if "await" in body else "function"
        names = "AskUser, Failed, Halt, HostError, Image, Ok, host, log, progress"
        loaded = self.load(
            f'import {{ {names} }} from "rho";\n/** Tries. @param {{any}} args */\n'
            f"export {kind} t(args, ctx) {{\n  {body}\n}}\n"
        )
        assert "ok" in loaded.reply, loaded.reply
        return loaded.call("t", arguments, **context)

    def globals(self, loaded: Loaded) -> dict[str, int]:
        """The mutable globals, by their exported names."""
        names = [each.name for each in self.module.exports if isinstance(each.type, wasmtime.GlobalType)]
        return {name: loaded.exports[name].value(loaded.store) for name in names}

    def memory(self, loaded: Loaded) -> bytes:
        memory = loaded.exports["memory"]
        return bytes(memory.read(loaded.store, 0, memory.data_len(loaded.store)))

    def _log(self, caller: wasmtime.Caller, level: int, pointer: int, length: int) -> None:
        assert self._current is not None
        self._current.log.append((level, _read(caller, pointer, length).decode()))

    def _host_call(self, caller: wasmtime.Caller, pointer: int, length: int) -> int:
        request = plain.decode(_read(caller, pointer, length), max_bytes=_ANSWER_BYTES)
        answer = self.capabilities.get(request["capability"])
        try:
            if answer is None:
                raise CapabilityError("denied", "nobody granted it")
            reply = {"ok": answer(request["arguments"])}
        except CapabilityError as refused:
            reply = {"error": {"kind": refused.kind, "message": refused.message}}
        self._waiting = plain.encode(reply, max_bytes=1 << 20)
        return len(self._waiting)

    def _host_take(self, caller: wasmtime.Caller, pointer: int, length: int) -> int:
        _write(caller, pointer, self._waiting[:length])
        return min(length, len(self._waiting))

    def _clock(self, caller: wasmtime.Caller, clock: int, precision: int, pointer: int) -> int:
        _write(caller, pointer, _CLOCK_NS.to_bytes(8, "little"))
        return 0

    def _random(self, caller: wasmtime.Caller, pointer: int, length: int) -> int:
        _write(caller, pointer, bytes(range(1, length + 1)))
        return 0


def _memory(caller: wasmtime.Caller) -> wasmtime.Memory:
    memory = caller["memory"]
    assert isinstance(memory, wasmtime.Memory)
    return memory


def _read(caller: wasmtime.Caller, pointer: int, length: int) -> bytes:
    return bytes(_memory(caller).read(caller, pointer, pointer + length))


def _write(caller: wasmtime.Caller, pointer: int, data: bytes) -> None:
    _memory(caller).write(caller, data, pointer)
