"""Guests from a few lines of WAT, and one call of them: what most tests of the sandbox need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import wasmtime

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import ToolError
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox import LATER, Capabilities, Sandbox

__all__ = [
    "ECHO",
    "MEBIBYTE",
    "Ended",
    "Granting",
    "Waiting",
    "answer",
    "answering",
    "asking",
    "called",
    "data",
    "guest",
    "over_wasi",
    "run",
    "wat",
]

MEBIBYTE = 1024 * 1024
ECHO = "(i64.or (i64.shl (i64.extend_i32_u (local.get $p)) (i64.const 32)) (i64.extend_i32_u (local.get $n)))"
"""A body of rho_call that answers the request's own bytes (which is no answer of the ABI)."""
_ANSWER_AT = 32_768


class Granting:
    """Capabilities that are answered at once, by ``function(capability, arguments)``."""

    def __init__(
        self, function: Callable[[str, dict[str, Any]], Any], *, clock_ns: int | None = None, seed: bytes | None = None
    ) -> None:
        self._function = function
        self.clock_ns = clock_ns
        self.seed = seed

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return self._function(capability, arguments)

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        raise AssertionError("it was answered")


class Waiting:
    """Capabilities that are all awaited, from ``function(capability, arguments)``."""

    clock_ns = None
    seed = None

    def __init__(self, function: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        self._function = function

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return LATER

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return await self._function(capability, arguments)


_IMPORTS = """
  (import "rho" "log" (func $log (param i32 i32 i32)))
  (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
  (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
"""

_WASI = """
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
"""


def wat(
    body: str, *, extra: str = "", memory: str = "1", alloc: str = "i32.const 1024", imports: str = _IMPORTS
) -> bytes:
    """A module without a manifest. In ``body``, that of rho_call, ``$p`` and ``$n`` are the request."""
    return bytes(
        wasmtime.wat2wasm(
            f"""(module {imports}
              (memory (export "memory") {memory}) {extra}
              (func $alloc (export "rho_alloc") (param $size i32) (result i32) {alloc})
              (func $call (export "rho_call") (param $p i32) (param $n i32) (result i64) (local $i i32) {body}))"""
        )
    )


def guest(
    body: str,
    *,
    extra: str = "",
    memory: str = "1",
    alloc: str = "i32.const 1024",
    capabilities: tuple[str, ...] = (),
) -> bytes:
    """A guest with the one tool ``t``."""
    manifest = Manifest.from_json(
        {
            "abi": 1,
            "tools": [{"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}],
            "capabilities": list(capabilities),
        }
    )
    return embed(wat(body, extra=extra, memory=memory, alloc=alloc), manifest)


def over_wasi(body: str, *segments: str) -> bytes:
    """A guest that imports nothing but WASI, and declares the capability ``clock``."""
    tool = {"name": "t", "description": "A tool.", "input_schema": {"type": "object"}}
    manifest = Manifest.from_json({"abi": 1, "tools": [tool], "capabilities": ["clock"]})
    return embed(wat(body, imports=_WASI, extra=" ".join(segments)), manifest)


def data(at: int, content: bytes) -> str:
    """A data segment."""
    escaped = "".join(f"\\{byte:02x}" for byte in content)
    return f'(data (i32.const {at}) "{escaped}")'


def answer(value: Any) -> tuple[str, str]:
    """The body of rho_call and the data segment of a guest that answers ``value``, whatever it is asked."""
    encoded = plain.encode(value)
    return f"(i64.const {_ANSWER_AT << 32 | len(encoded)})", data(_ANSWER_AT, encoded)


def answering(value: Any, *, before: str = "", extra: str = "", **options: Any) -> bytes:
    """A guest that runs ``before`` and then answers ``value``."""
    body, segment = answer(value)
    return guest(f"{before} {body}", extra=f"{segment} {extra}", **options)


@dataclass(frozen=True)
class Ended:
    """How one call ended: its result, or the error, and what the meter says."""

    result: HandlerResult | None
    error: ToolError | None
    meter: CallMeter

    @property
    def reason(self) -> str | None:
        return self.error.reason if self.error is not None else None


async def called(
    sandbox: Sandbox,
    wasm: bytes,
    *,
    limits: Limits | None = None,
    arguments: Mapping[str, Any] | None = None,
    capabilities: Capabilities | None = None,
    timeout_ms: float = 60_000,
) -> Ended:
    """Loads ``wasm`` and calls its tool ``t`` once."""
    meter = CallMeter(CallClock(timeout_ms))
    with await sandbox.load(wasm) as module:
        try:
            result = await sandbox.call(
                module,
                tool="t",
                arguments=arguments or {},
                context={},
                limits=limits or Limits(),
                meter=meter,
                capabilities=capabilities,
            )
        except ToolError as error:
            return Ended(None, error, meter)
    return Ended(result, None, meter)


async def run(sandbox: Sandbox, body: str, *, limits: Limits | None = None, **options: Any) -> Ended:
    """The same for a guest made of ``body``."""
    return await called(sandbox, guest(body, **options), limits=limits)


def asking(capability: str, *, memory: str = "1") -> bytes:
    """A guest that answers what a capability answered it."""
    request = b"\xa2\x69arguments\xa0\x6acapability" + bytes([0x60 + len(capability)]) + capability.encode()
    segment = data(0, request)
    body = f"""(local.set $n (call $host_call (i32.const 0) (i32.const {len(request)})))
        (drop (call $host_take (i32.const 2048) (local.get $n)))
        (i64.or (i64.const {2048 << 32}) (i64.extend_i32_u (local.get $n)))"""
    return guest(body, extra=segment, memory=memory, capabilities=(capability,))
