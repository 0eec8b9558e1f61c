"""A guest that calls any one WASI function with any arguments over any memory, and answers what that left behind."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import wasmtime

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.results import CallLog, Ok
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.sandbox.abi import WASI, WASI_IMPORTS

__all__ = ["WINDOW", "Probe", "Probed", "probe_wasm"]

WINDOW = 1024
"""Where the memory that a test may fill begins; the guest answers what is there afterwards."""
_WINDOW_BYTES = 2048
_MAGIC = b"PROBE\0\0\0"
_NAMES = list(WASI_IMPORTS)
_HEAD = b"\0\xa1\x62ok\x59" + (_WINDOW_BYTES + 4).to_bytes(2, "big")
"""Eight bytes, of which the first is not of the answer: {"ok": bytes of a two-byte length."""


def _call(index: int, name: str) -> str:
    arguments = []
    for position, kind in enumerate(WASI_IMPORTS[name].params):
        value = f"(i64.load (i32.add (local.get $p) (i32.const {12 + 8 * position})))"
        arguments.append(value if kind == "i64" else f"(i32.wrap_i64 {value})")
    called = f"(call ${name} {' '.join(arguments)})"
    if WASI_IMPORTS[name].results:
        called = f"(local.set $errno {called})"
    return f"""
      (if (i32.eq (i32.load (i32.add (local.get $p) (i32.const 8))) (i32.const {index}))
        (then {called}))"""


def probe_wasm() -> bytes:
    imports = "".join(
        f'(import "{WASI}" "{name}" (func ${name}'
        f" (param {' '.join(signature.params)}) (result {' '.join(signature.results)})))\n  "
        for name, signature in WASI_IMPORTS.items()
    )
    # The request has, somewhere, eight bytes of magic, the function (i32), four arguments (i64), 512 bytes of memory.
    # The answer is {"ok": bytes}: the error number, and the window as the function left it.
    text = f"""(module
  {imports}
  (memory (export "memory") 1)
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 8192))
  (func (export "rho_call") (param $p i32) (param $size i32) (result i64)
    (local $errno i32)
    (block $found
      (loop $search
        (br_if $found (i64.eq (i64.load (local.get $p)) (i64.const {int.from_bytes(_MAGIC, "little")})))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (br $search)))
    (memory.copy (i32.const {WINDOW}) (i32.add (local.get $p) (i32.const 44)) (i32.const 512))
    {"".join(_call(index, name) for index, name in enumerate(_NAMES))}
    (i64.store (i32.const {WINDOW - 12}) (i64.const {int.from_bytes(_HEAD, "little")}))
    (i32.store (i32.const {WINDOW - 4}) (local.get $errno))
    (i64.or (i64.shl (i64.const {WINDOW - 11}) (i64.const 32)) (i64.const {_WINDOW_BYTES + 11}))))"""
    tool = {"name": "probe", "description": "Calls one function.", "input_schema": {"type": "object"}}
    return embed(bytes(wasmtime.wat2wasm(text)), Manifest.from_json({"tools": [tool]}))


@dataclass(frozen=True, slots=True)
class Probed:
    """What one call left: the error number, the window of memory, the log."""

    errno: int
    window: bytes
    log: CallLog

    def u32(self, address: int) -> int:
        return int(struct.unpack_from("<I", self.window, address - WINDOW)[0])

    def u64(self, address: int) -> int:
        return int(struct.unpack_from("<Q", self.window, address - WINDOW)[0])

    def at(self, address: int, size: int) -> bytes:
        return self.window[address - WINDOW : address - WINDOW + size]


class Probe:
    """Calls WASI functions through the probe guest, each in an instance of its own."""

    def __init__(self, sandbox: Sandbox, module: GuestModule) -> None:
        self._sandbox = sandbox
        self._module = module

    async def __call__(
        self,
        name: str,
        *arguments: int,
        memory: bytes = b"",
        log_bytes: int = 65_536,
        meter: Callable[[CallMeter], None] = lambda meter: None,
    ) -> Probed:
        """``memory`` stands at WINDOW, at most 512 bytes. Raises ToolError where the call ends the guest."""
        packed = [argument & 0xFFFF_FFFF_FFFF_FFFF for argument in (*arguments, 0, 0, 0, 0)[:4]]
        payload = _MAGIC + struct.pack("<I4Q", _NAMES.index(name), *packed) + memory.ljust(512, b"\0")
        measured = CallMeter(CallClock(math.inf))
        try:
            result = await self._sandbox.call(
                self._module,
                tool="probe",
                arguments={"payload": payload},
                context={},
                limits=Limits(log_bytes=log_bytes),
                meter=measured,
            )
        finally:
            meter(measured)
        assert isinstance(result, Ok)
        return Probed(int.from_bytes(result.value[:4], "little"), result.value[4:], measured.log)
