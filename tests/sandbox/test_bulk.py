"""Large fills and copies go in steps, and come to the same."""

from __future__ import annotations

import random

import pytest
import wasmtime

from rho_wasm.limits import Limits
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.bulk import COPY_BODY, FILL_BODY, STEP_BYTES
from rho_wasm.sandbox.rewrite import rewritten
from rho_wasm.wasm import sections
from tests.sandbox.guests import ECHO, guest, run, wat

PAGES = 8
SIZE = PAGES * 65_536
INSIDE = """(i64.le_u
  (i64.add (i64.extend_i32_u {last}) (i64.extend_i32_u (local.get $n)))
  (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16)))"""
FILL = f"""(func (param $d i32) (param $v i32) (param $n i32)
  (if {INSIDE.format(last="(local.get $d)")} (then
    (loop $more (if (i32.gt_u (local.get $n) (i32.const {STEP_BYTES})) (then
      (memory.fill (local.get $d) (local.get $v) (i32.const {STEP_BYTES}))
      (local.set $d (i32.add (local.get $d) (i32.const {STEP_BYTES})))
      (local.set $n (i32.sub (local.get $n) (i32.const {STEP_BYTES})))
      (br $more))))))
  (memory.fill (local.get $d) (local.get $v) (local.get $n)))"""
COPY = f"""(func (param $d i32) (param $s i32) (param $n i32)
  (if {INSIDE.format(last="(select (local.get $d) (local.get $s) (i32.gt_u (local.get $d) (local.get $s)))")} (then
    (loop $more (if (i32.gt_u (local.get $n) (i32.const {STEP_BYTES})) (then
      (local.set $n (i32.sub (local.get $n) (i32.const {STEP_BYTES})))
      (if (i32.le_u (local.get $d) (local.get $s))
        (then
          (memory.copy (local.get $d) (local.get $s) (i32.const {STEP_BYTES}))
          (local.set $d (i32.add (local.get $d) (i32.const {STEP_BYTES})))
          (local.set $s (i32.add (local.get $s) (i32.const {STEP_BYTES}))))
        (else
          (memory.copy (i32.add (local.get $d) (local.get $n)) (i32.add (local.get $s) (local.get $n))
            (i32.const {STEP_BYTES}))))
      (br $more))))))
  (memory.copy (local.get $d) (local.get $s) (local.get $n)))"""


@pytest.mark.parametrize(("text", "body"), [(FILL, FILL_BODY), (COPY, COPY_BODY)], ids=["fill", "copy"])
def test_the_added_bodies_are_what_their_text_says(text: str, body: bytes) -> None:
    module = bytes(wasmtime.wat2wasm(f"(module (memory 1) {text})"))
    (code,) = [section for section in sections(module) if section.id == 10]
    reader = code.reader(module)
    assert reader.u32() == 1
    assert reader.take(reader.u32()) == body


class Machine:
    """A memory of a guest's, with ``fill`` and ``copy`` as the host compiles them."""

    def __init__(self) -> None:
        module = wat(
            ECHO,
            memory=str(PAGES),
            imports="",
            extra="""(func (export "fill") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
              (func (export "copy") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))""",
        )
        engine = wasmtime.Engine()
        self.store = wasmtime.Store(engine)
        changed = rewritten(module)
        assert changed is not module
        self.exports = wasmtime.Instance(self.store, wasmtime.Module(engine, changed), []).exports(self.store)
        memory = self.exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        self.memory = memory

    def run(self, name: str, *arguments: int) -> None:
        function = self.exports[name]
        assert isinstance(function, wasmtime.Func)
        function(self.store, *arguments)

    def content(self) -> bytearray:
        return self.memory.read(self.store, 0, SIZE)


def test_fills_and_copies_of_any_size_and_overlap_come_to_the_same() -> None:
    machine, chance = Machine(), random.Random(7)
    expected = bytearray(chance.randbytes(SIZE))
    machine.memory.write(machine.store, bytes(expected), 0)
    edges = [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 2 * STEP_BYTES, 3 * STEP_BYTES + 5, SIZE]
    for _ in range(60):
        size = chance.choice([*edges, chance.randrange(SIZE)])
        to, source = chance.randint(0, SIZE - size), chance.randint(0, SIZE - size)
        if chance.random() < 0.3:
            value = chance.randrange(256)
            machine.run("fill", to, value, size)
            expected[to : to + size] = bytes([value]) * size
        else:
            machine.run("copy", to, source, size)
            expected[to : to + size] = expected[source : source + size]
        assert machine.content() == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fill", (0, 1, SIZE + 1)),
        ("fill", (SIZE - 100_000, 1, 100_001)),
        ("fill", (-1, 1, 100_000)),
        ("fill", (0, 1, -1)),
        ("copy", (0, 1, SIZE)),
        ("copy", (1, 0, SIZE)),
        ("copy", (-1, 0, 70_000)),
        ("copy", (0, -70_000, 70_000)),
    ],
)
def test_what_leaves_the_memory_traps_before_a_byte_is_written(name: str, arguments: tuple[int, ...]) -> None:
    machine = Machine()
    machine.memory.write(machine.store, b"\x05" * SIZE, 0)
    with pytest.raises(wasmtime.Trap):
        machine.run(name, *arguments)
    assert machine.content() == b"\x05" * SIZE


async def test_a_fill_that_never_ends_meets_its_deadline(sandbox: Sandbox) -> None:
    body = "(loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 60000000)) (br $l)) unreachable"
    ended = await run(sandbox, body, memory="1000", limits=Limits(fuel=10**15, deadline_ms=50))
    assert ended.reason == "deadline"


def test_bytes_that_only_look_like_a_bulk_operation_stay() -> None:
    module = guest("(drop (i64.const 0x0bfc)) (drop (v128.const i64x2 0x0afc 0x0bfc)) (i64.const 0)")
    assert rewritten(module) is module
