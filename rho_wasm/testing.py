"""Helpers for tests of code that uses rho_wasm, and for our own: a guest in a line, a source, a still clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import wasmtime

from rho_wasm import plain
from rho_wasm.calls import RunningCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.manifest import Manifest, embed
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert

__all__ = ["FakeSource", "FixedClock", "asking_guest", "guest"]

_ANSWER_AT = 16
_SHAPES = frozenset({"ok", "error", "raised", "ask_user", "halt"})
_REPLY_AT = 20 * 65_536
_ARGUMENTS_KEY = int.from_bytes(b"argument", "little")


def guest(
    *tools: str | Mapping[str, Any], answer: Any = "done", body: str = "", imports: str = "", salt: int = 0
) -> Artifact:
    """A guest in a line, for tests: ``guest("add")`` answers ``"done"``, ``guest("add", body="unreachable")`` traps.

    ``tools`` are names, or declarations as in a manifest. ``body`` is WebAssembly text that ``rho_call`` runs before it
    answers; ``$ptr`` and ``$len`` are where the request lies. ``answer`` is what ``{"ok": ...}`` holds, or a whole
    answer map (``{"error": "no"}``). ``imports`` are import fields, ``salt`` makes other bytes, so another version.

    The text is assembled in this process: it is yours, never an agent's (for that there is
    :func:`rho_wasm.build`). Raises :class:`BuildError` for text that is wrong, and what a manifest raises.
    """
    whole = answer if isinstance(answer, dict) and answer.keys() & _SHAPES else {"ok": answer}
    data = plain.encode(whole)
    text = "".join(f"\\{byte:02x}" for byte in data)
    return _assembled(
        f"""
        (module
          {imports}
          (memory (export "memory") 2)
          (data (i32.const {_ANSWER_AT}) "{text}")
          (global i32 (i32.const {salt}))
          (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
          (func (export "rho_call") (param $ptr i32) (param $len i32) (result i64)
            {body}
            (i64.const {_ANSWER_AT << 32 | len(data)})))
        """,
        {"tools": [_declaration(tool) for tool in tools]},
    )


def asking_guest(
    tool: str | Mapping[str, Any],
    capability: str,
    *,
    declared: Sequence[str] | None = None,
    times: int = 1,
    then: str = "",
    salt: int = 0,
) -> Artifact:
    """A guest that asks the host for ``capability`` with the arguments of its own call, and answers the host's reply.

    So the result of a call is ``{"ok": ...}`` or ``{"error": {"kind": ..., "message": ...}}``. ``declared`` are the
    capabilities of its manifest (default: that one), ``times`` is how often it asks before it answers the last reply,
    ``then`` is WebAssembly text that runs after that (``"unreachable"`` traps). No tool of it is named ``arguments``.
    """
    # Keys of a request come in the order of their encodings, so its end is the key "arguments" and what it holds.
    head = b"\xa2" + plain.encode("capability") + plain.encode(capability)
    text = "".join(f"\\{byte:02x}" for byte in head)
    return _assembled(
        f"""
        (module
          (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
          (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))
          (memory (export "memory") 40)
          (data (i32.const {_ANSWER_AT}) "{text}")
          (data (i32.const {_REPLY_AT}) "\\a1\\62ok")
          (global i32 (i32.const {salt}))
          (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
          (func (export "rho_call") (param $ptr i32) (param $len i32) (result i64)
            (local $at i32) (local $end i32) (local $size i32) (local $left i32)
            (local.set $at (local.get $ptr))
            (local.set $end (i32.add (local.get $ptr) (local.get $len)))
            (loop $seek
              (if (i32.or (i32.ne (i32.load8_u (local.get $at)) (i32.const 0x69))
                          (i64.ne (i64.load offset=1 (local.get $at)) (i64.const {_ARGUMENTS_KEY})))
                (then (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $seek))))
            (local.set $at (i32.sub (local.get $at) (i32.const {len(head)})))
            (memory.copy (local.get $at) (i32.const {_ANSWER_AT}) (i32.const {len(head)}))
            (local.set $left (i32.const {times}))
            (loop $again
              (local.set $size
                (call $host_call (local.get $at) (i32.sub (local.get $end) (local.get $at))))
              (drop (call $host_take (i32.const {_REPLY_AT + 4}) (local.get $size)))
              (local.tee $left (i32.sub (local.get $left) (i32.const 1)))
              (br_if $again))
            {then}
            (i64.or (i64.const {_REPLY_AT << 32}) (i64.extend_i32_u (i32.add (local.get $size) (i32.const 4))))))
        """,
        {"tools": [_declaration(tool)], "capabilities": [capability] if declared is None else list(declared)},
    )


def _declaration(tool: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(tool, str):
        return {"name": tool, "description": f"The tool {tool}.", "input_schema": {"type": "object"}}
    return tool


def _assembled(text: str, manifest: Mapping[str, Any]) -> Artifact:
    try:
        wasm = wasmtime.wat2wasm(text)
    except wasmtime.WasmtimeError as error:
        raise BuildError("wat", [Diagnostic(inert(str(error), newlines=True))]) from None
    return Artifact.from_wasm(embed(bytes(wasm), Manifest.from_json(manifest)))


class FakeSource:
    """A source whose tools are what you set, that fails when told to, and that counts what it was asked.

    ``failing`` holds the operations (``list``, ``lookup``, ``watch``, ``version``) that raise ``error``. ``watched``
    are the calls that it was told of. ``versioned`` gives it a ``version`` that moves with every change of ``tools``.
    """

    def __init__(self, *tools: Tool, name: str = "fake", versioned: bool = False) -> None:
        self.name = name
        self.error: Exception = RuntimeError("told to fail")
        self.failing: set[str] = set()
        self.asked: dict[str, int] = {"list": 0, "lookup": 0, "watch": 0}
        self.watched: list[RunningCall] = []
        self._version = 1 if versioned else None
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    @property
    def version(self) -> int | None:
        if "version" in self.failing:
            raise self.error
        return self._version

    def set(self, *tools: Tool) -> None:
        """Its tools from now on."""
        self._tools = {tool.name: tool for tool in tools}
        if self._version is not None:
            self._version += 1

    def list(self) -> Sequence[Tool]:
        self._ask("list")
        return tuple(self._tools.values())

    def lookup(self, name: str) -> Tool | None:
        self._ask("lookup")
        return self._tools.get(name)

    def watch(self, call: RunningCall) -> None:
        self._ask("watch")
        self.watched.append(call)

    def _ask(self, operation: str) -> None:
        self.asked[operation] += 1
        if operation in self.failing:
            raise self.error


class FixedClock:
    """A clock for whatever takes ``now: () -> seconds``: it stands still until it is told to move."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves on by ``seconds``, which is not negative: clocks of hosts do not run backwards."""
        if seconds < 0:
            raise ValueError("a clock does not run backwards")
        self.now += seconds
