"""What one host call that does nothing costs: answered at once and awaited, on each way of calling guests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import wasmtime

from rho_wasm import Limits, Manifest, plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.manifest import embed
from rho_wasm.results import Ok
from rho_wasm.sandbox import LATER, Sandbox
from rho_wasm.sandbox.ways import why_not_native
from tests.benchmarks.measure import AsyncContender, Contender, Pace, SyncContender, alternate

__all__ = ["host_calls"]

_MANY = 100
"""Host calls of one call: what a call without any costs is taken off, and the rest shared out."""
_BLOCK_S = 0.1
_LIMITS = Limits(fuel=10**12, deadline_ms=60_000)
_NAME = "nothing"
_REQUEST = plain.encode({"capability": _NAME, "arguments": {}})
_ANSWER = plain.encode({"ok": 1})
_ASK = f"(drop (call $host_call (i32.const 0) (i32.const {len(_REQUEST)})))"
_LOOP = f"""(loop $l {{}}
  (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {_MANY}))))"""


class _Nothing:
    """The capability: it answers null, at once or when it is awaited."""

    clock_ns = None
    seed = None

    def __init__(self, *, later: bool) -> None:
        self._answer: Any = LATER if later else None

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return self._answer

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return None


async def host_calls(pace: Pace) -> dict[str, float]:
    """Microseconds of one, of the fastest calls. ``bare_us`` is a call inside the guest, ``wasmtime_py_us`` one of a
    host function that wasmtime's own Python API defines: it copies no request, and nobody charges or bounds it.
    """
    contenders: dict[str, Contender] = {}
    async with AsyncExitStack() as stack:
        ways: dict[str, dict[str, Any]] = {"public": {"way": "public"}, "process": {"workers": 1}}
        if why_not_native() is None:
            ways = {"native": {"way": "native"}} | ways
        for way, options in ways.items():
            sandbox = await stack.enter_async_context(Sandbox(**options))
            for many in (False, True):
                module = await sandbox.load(_guest(many=many))
                stack.callback(module.close)
                for later in (False, True):
                    name = f"{way}_{'later' if later else 'now'}"
                    contenders[f"{name} {many}"] = AsyncContender(_calls(sandbox, module, later=later), 1)
        for name, body in (("bare", "(call $nothing)"), ("wasmtime_py", "(drop (call $host))")):
            for many in (False, True):
                contenders[f"{name} {many}"] = SyncContender([_plain(body if many else "")])
        for contender in contenders.values():
            await contender.block(3)
        # A call with so many host calls is long: a block has to hold a few.
        figures = await alternate(contenders, replace(pace, block_s=max(pace.block_s, _BLOCK_S)))
    names = dict.fromkeys(name.partition(" ")[0] for name in contenders)
    return {
        f"{name}_us": round((figures[f"{name} True"].min_us - figures[f"{name} False"].min_us) / _MANY, 3)
        for name in names
    }


def _guest(*, many: bool) -> bytes:
    tool = {"name": _NAME, "description": "A benchmark.", "input_schema": {"type": "object"}}
    code = wasmtime.wat2wasm(
        f"""(module (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "{_escaped(_REQUEST)}") (data (i32.const 512) "{_escaped(_ANSWER)}")
          (func (export "rho_alloc") (param i32) (result i32) i32.const 1024)
          (func (export "rho_call") (param i32 i32) (result i64) (local $i i32)
            {_LOOP.format(_ASK) if many else ""} (i64.const {512 << 32 | len(_ANSWER)})))"""
    )
    return embed(bytes(code), Manifest.from_json({"tools": [tool], "capabilities": [_NAME]}))


def _escaped(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def _calls(sandbox: Sandbox, module: Any, *, later: bool) -> Callable[[], Any]:
    capabilities = _Nothing(later=later)

    async def once() -> object:
        result = await sandbox.call(
            module,
            tool=_NAME,
            arguments={},
            context={},
            limits=_LIMITS,
            meter=CallMeter(CallClock(_LIMITS.deadline_ms)),
            capabilities=capabilities,
        )
        assert result == Ok(1)
        return result

    return once


def _plain(body: str) -> Callable[[], object]:
    store = wasmtime.Store()
    code = wasmtime.Module(
        store.engine,
        f"""(module (import "m" "host" (func $host (result i32))) (table funcref (elem $nothing))
          (func $nothing) (func (export "run") (local $i i32) {_LOOP.format(body)}))""",
    )
    linker = wasmtime.Linker(store.engine)
    linker.define_func("m", "host", wasmtime.FuncType([], [wasmtime.ValType.i32()]), lambda: 1)
    run = linker.instantiate(store, code).exports(store)["run"]
    assert isinstance(run, wasmtime.Func)
    return lambda: run(store)
