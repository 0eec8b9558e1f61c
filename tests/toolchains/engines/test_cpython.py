"""The CPython engine is made of the pinned file alone, keeps the seams of engines, and loads files without a trace."""

from __future__ import annotations

import re

import anyio
import pytest
import wasmtime

from rho_wasm.errors import BuildError
from rho_wasm.limits import MIB, Limits
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.abi import ALLOWED_IMPORTS
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains import EngineShelf
from rho_wasm.toolchains.binary import FUNCTION
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.engines.cpython import SPEC, build_engine
from rho_wasm.toolchains.image import touched_pages
from tests.toolchains.engines.cpython_host import LIMITS, Python, opened, tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine(cpython_shelf: EngineShelf) -> EngineBinary:
    found = cpython_shelf.find_made(SPEC)
    assert found is not None
    return found


def test_another_file_is_refused_and_not_guessed_with() -> None:
    other = bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1) (func (export "_start")))'))
    with pytest.raises(BuildError, match="not as expected"):
        anyio.run(build_engine, other)


def test_only_the_seams_are_exported_and_only_the_guest_abi_imported(engine: EngineBinary) -> None:
    module = read_module(engine.wasm)
    assert sorted(each.name for each in module.exports) == [
        "memory", "rho:global:0", "rho_alloc", "rho_call", "rho_load"
    ]  # fmt: skip
    for each in module.imports:
        assert each.kind == FUNCTION
        assert ALLOWED_IMPORTS[each.module, each.name] == module.types[each.type_index]


def test_nothing_of_the_machine_that_made_it_is_in_it(engine: EngineBinary) -> None:
    for word in (b"rho_wasm/", b"rho_wasm.toolchains"):
        assert word not in engine.wasm


async def test_a_small_image_adds_a_small_tool(python: Python) -> None:
    artifact = await python.build(tool("return 1"))
    assert len(artifact.wasm) < 100_000


async def test_loading_the_same_source_leaves_the_same_image(python: Python) -> None:
    source = tool(
        "return WORDS", head="import random, time, uuid\nWORDS = [random.random(), time.time(), str(uuid.uuid4())]"
    )
    assert (await python.build(source)).wasm == (await python.build(source)).wasm


async def test_the_source_is_in_the_image_once(python: Python) -> None:
    artifact = await python.build(tool("return 1", head="# a sentence that stands nowhere else"))
    assert len(re.findall(b"a sentence that stands nowhere else", artifact.wasm)) == 1


async def test_images_never_see_each_other(python: Python) -> None:
    source = "import json\njson.secret = {!r}\nCALLS = []\n"
    one = await python.load(tool("CALLS.append(1)\nreturn [json.secret, len(CALLS)]", head=source.format("one")))
    two = await python.load(tool("CALLS.append(1)\nreturn [json.secret, len(CALLS)]", head=source.format("two")))
    none = await python.load(tool("import json\nreturn hasattr(json, 'secret')"))
    for _ in range(2):
        assert await python.call(one) == ["one", 1]
        assert await python.call(two) == ["two", 1]
        assert await python.call(none) is False


async def test_nobody_counts_who_refers_to_what_the_engine_keeps(python: Python) -> None:
    module = await python.load(
        tool(
            "kept = json.dumps, json.JSONEncoder, vars(json), 'kwargs', own\n"
            "return [sys.getrefcount(each) > 1_000_000 for each in kept]",
            head="import json, sys\ndef own(): pass",
        )
    )
    assert await python.call(module) == [True, True, True, True, False]


async def test_a_request_of_any_size_arrives(python: Python) -> None:
    module = await python.load(
        tool("return [len(text), text[-3:], sum(numbers)]", parameters="text: str, numbers: list[int]")
    )
    limits = LIMITS.model_copy(update={"request_bytes": 4 * MIB})
    for size in (0, 1, 12_000, 14_000, 65_000, 66_000, 500_000, 1_500_000):
        numbers = list(range(min(size, 50_000)))
        found = await python.call(module, "t", {"text": "é" * size, "numbers": numbers}, limits=limits)
        assert found == [size, "é" * min(size, 3), sum(numbers)]


async def test_answers_of_any_size_arrive(python: Python) -> None:
    module = await python.load(
        tool("return {'text': 'é' * n, 'map': {str(k): k for k in range(n // 10)}}", parameters="n: int")
    )
    for n in (0, 100, 2_600, 70_000):
        found = await python.call(module, "t", {"n": n})
        assert found == {"text": "é" * n, "map": {str(k): k for k in range(n // 10)}}


async def test_a_request_for_which_there_is_no_memory_ends_so(python: Python) -> None:
    module = await python.load(tool("return len(text)", parameters="text: str"))
    limits = Limits(memory_bytes=48 * MIB, request_bytes=8 * MIB, fuel=LIMITS.fuel, deadline_ms=60_000)
    error = await python.call(module, "t", {"text": "x" * (6 * MIB)}, limits=limits)
    assert error.reason in ("out_of_memory", "trapped")


async def test_every_way_and_backend_gives_the_same(cpython_shelf: EngineShelf) -> None:
    source = tool("return [text.upper(), n / 2]", parameters="text: str, n: int")
    async with opened(cpython_shelf) as python:
        wasm = (await python.build(source)).wasm
    for way in ("native", "public"):
        async with Sandbox(cache=cpython_shelf.cache, engines=cpython_shelf.find, way=way) as sandbox:
            caller = Python(None, sandbox)  # type: ignore[arg-type]
            module = await sandbox.load(wasm)
            assert await caller.call(module, "t", {"text": "ß", "n": 3}) == ["SS", 1.5]


def test_the_list_of_pages_that_calls_touch_is_of_this_very_engine(engine: EngineBinary) -> None:
    assert touched_pages(engine.wasm), "find them anew: python -m tests.benchmarks.touched python"
