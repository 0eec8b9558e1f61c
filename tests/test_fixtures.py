"""The guests of ``fixtures/`` are what their sources say, and each is let in, or not, as the table says."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.envelope import answer_of
from rho_wasm.errors import ModuleRejected, ToolError
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest
from rho_wasm.results import HandlerResult, Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.admission import admit
from rho_wasm.toolchains import build
from tests.fixture_build import FIXTURES, built, names
from tests.fixture_table import ENDINGS, REFUSED, Ending

LIMITS = Limits(fuel=100_000_000)
"""The defaults, but less fuel: a loaded machine must not reach the deadline first."""
SHAPES = {"ok": "ok", "error": "error", "ask_user": "ask_user", "halt": "halt"}
"""The status of a result by the first key of its answer."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> NativeCache:
    folder = tmp_path_factory.mktemp("native")
    return NativeCache(folder / "cache", folder / "key")


@pytest.fixture
async def sandbox(cache: NativeCache, anyio_backend: str) -> AsyncIterator[Sandbox]:
    async with Sandbox(cache=cache) as opened:
        yield opened


async def call(sandbox: Sandbox, name: str, ending: Ending) -> tuple[HandlerResult | ToolError, CallMeter]:
    module = await sandbox.load(wasm(name))
    meter = CallMeter(CallClock(math.inf))
    try:
        result: HandlerResult | ToolError = await sandbox.call(
            module,
            tool=ending.tool or name,
            arguments=ending.arguments,
            context={"call_id": "1", "values": {"arguments": "a decoy", "n": [1, {"k": b"x" * 300}]}},
            limits=LIMITS,
            meter=meter,
        )
    except ToolError as error:
        result = error
    return result, meter


def wasm(name: str) -> bytes:
    return (FIXTURES / f"{name}.wasm").read_bytes()


def test_the_table_names_every_guest_in_webassembly_text() -> None:
    assert sorted([*ENDINGS, *REFUSED]) == names(".wat")


@pytest.mark.parametrize("name", names(".wat"))
def test_a_guest_in_webassembly_text_builds_to_the_committed_bytes(name: str) -> None:
    assert built(name) == wasm(name)


@pytest.mark.anyio
async def test_the_toolchain_of_the_package_builds_the_same_bytes() -> None:
    assert (await build(FIXTURES / "echo.wat")).wasm == wasm("echo")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", names(".c"))
def test_a_guest_in_c_builds_to_the_committed_bytes(name: str) -> None:
    pytest.importorskip("ziglang")
    assert built(name) == wasm(name)


@pytest.mark.parametrize("name", [*ENDINGS, *names(".c")])
def test_a_guest_that_may_run_is_admitted(name: str) -> None:
    admitted = admit(wasm(name))
    ending = ENDINGS.get(name)
    assert admitted.manifest.tool((ending and ending.tool) or admitted.manifest.tools[0].name)
    beside = FIXTURES / f"{name}.manifest.json"
    if beside.exists():  # else the module declares its tools itself
        assert admitted.manifest.tools == Manifest.from_json(beside.read_text(encoding="utf-8")).tools


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_guest_that_may_not_run_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ModuleRejected) as caught:
        admit(wasm(name))
    assert caught.value.reason == reason
    assert caught.value.name == "env.system"


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "ending"), ENDINGS.items())
async def test_a_guest_ends_as_the_table_says(sandbox: Sandbox, name: str, ending: Ending) -> None:
    result, _ = await call(sandbox, name, ending)
    if isinstance(result, ToolError):
        assert (ending.status, ending.reason) == ("error", result.reason), str(result)
        return
    answer = answer_of(result)
    status = SHAPES[next(iter(answer))]
    assert (status, "failed" if status == "error" else None) == (ending.status, ending.reason)
    if ending.value is not None:
        assert ending.value == answer.get("value", answer.get(status))


@pytest.mark.anyio
async def test_a_flooded_log_is_cut_and_what_is_missing_is_counted(sandbox: Sandbox) -> None:
    result, meter = await call(sandbox, "log_flood", ENDINGS["log_flood"])
    assert result == Ok(True)
    kept = sum(len(line.text) for line in meter.log)
    assert 0 < kept <= Limits().log_bytes
    assert kept + meter.log.dropped_bytes == 1_000 * 60_000


@pytest.mark.anyio
async def test_echo_answers_arguments_of_every_kind_and_size(sandbox: Sandbox) -> None:
    arguments = {
        "": None,
        "deep": [[[[{"a": [True, False]}]]]],
        "numbers": [0, 23, 24, 255, 256, 65_536, 2**32, 2**64 - 1, -1, -(2**64), 0.5, 1e300, 3.14],
        "text": "größer " * 10_000,
        "bytes": bytes(range(256)) * 1_000,
        "arguments": {"arguments": "arguments"},
        "many": list(range(1_000)),
    }
    result, _ = await call(sandbox, "echo", Ending(arguments=arguments))
    assert result == Ok(arguments)


def test_the_data_is_there() -> None:
    lines = (FIXTURES / "data" / "stations.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 61
    assert "Four score" in (FIXTURES / "data" / "gettysburg.txt").read_text(encoding="utf-8")
