"""Calls a guest with a request of any bytes, which the sandbox never sends. No limit holds but memory's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wasmtime

from rho_wasm import plain

__all__ = ["RawGuest"]

_MEMORY_BYTES = 256 * 1024 * 1024
"""More than any test needs but those in which it runs out."""


class RawGuest:
    """A compiled guest of which every call gets a fresh instance. ``host_reply`` is the answer to its host calls."""

    def __init__(self, wasm: bytes) -> None:
        self._engine = wasmtime.Engine()
        self._module = wasmtime.Module(self._engine, wasm)
        self.imports = {(found.module, found.name) for found in self._module.imports}
        self.log: list[tuple[int, str]] = []
        self.host_requests: list[Any] = []
        self.host_reply: bytes = b""

    def call(self, tool: str, arguments: Mapping[str, Any], *, context: Mapping[str, Any] | None = None) -> Any:
        """The answer to a proper request."""
        request = {"abi": 1, "tool": tool, "arguments": dict(arguments), "context": dict(context or {})}
        return self.send(plain.encode(request))

    def send(self, request: bytes) -> Any:
        """The answer to these bytes. Raises ``wasmtime.Trap``."""
        store = wasmtime.Store(self._engine)
        store.set_limits(memory_size=_MEMORY_BYTES)
        memory: list[wasmtime.Memory] = []
        i32 = wasmtime.ValType.i32()

        def read(pointer: int, length: int) -> bytes:
            pointer, length = pointer & 0xFFFFFFFF, length & 0xFFFFFFFF
            assert pointer + length <= memory[0].data_len(store)
            return bytes(memory[0].read(store, pointer, pointer + length))

        def log(level: int, pointer: int, length: int) -> None:
            self.log.append((level, read(pointer, length).decode()))

        def host_call(pointer: int, length: int) -> int:
            self.host_requests.append(plain.decode(read(pointer, length)))
            return len(self.host_reply)

        def host_take(pointer: int, length: int) -> int:
            taken = self.host_reply[:length]
            memory[0].write(store, taken, pointer)
            return len(taken)

        linker = wasmtime.Linker(self._engine)
        linker.define_func("rho", "log", wasmtime.FuncType([i32, i32, i32], []), log)
        linker.define_func("rho", "host_call", wasmtime.FuncType([i32, i32], [i32]), host_call)
        linker.define_func("rho", "host_take", wasmtime.FuncType([i32, i32], [i32]), host_take)
        exports = linker.instantiate(store, self._module).exports(store)
        found, alloc, call = exports["memory"], exports["rho_alloc"], exports["rho_call"]
        assert isinstance(found, wasmtime.Memory)
        assert isinstance(alloc, wasmtime.Func)
        assert isinstance(call, wasmtime.Func)
        memory.append(found)
        place = alloc(store, len(request))
        found.write(store, request, place)
        answer = call(store, place, len(request)) & 0xFFFFFFFFFFFFFFFF
        return plain.decode(read(answer >> 32, answer & 0xFFFFFFFF), max_bytes=64 * 1024 * 1024, max_items=10**7)
