"""A tool in C that fetches, counts and calls another tool within its grants, and whose next version replay rejects."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from rho_wasm import Artifact, GateRejected, Host, ToolCall, ToolResult, build, tool
from tests.weather_server import WeatherServer, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


LANGUAGES = {".c": "c", ".py": "python", ".js": "javascript"}


@tool(read_only=True)
async def local_time(city: str) -> str:
    """The time in a city."""
    return {"Oslo": "14:05", "Bergen": "14:06"}[city]


@pytest.fixture
def server() -> Iterator[WeatherServer]:
    with weather_server() as running:
        yield running


@pytest.fixture
async def host(server: WeatherServer, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Host]:
    policy = tmp_path / "policy.toml"
    policy.write_text(server.fixture("weather_policy.toml"), encoding="utf-8")
    async with Host.open(":memory:", core=[local_time], policy=policy) as opened:
        yield opened


async def version(server: WeatherServer, file: str) -> Artifact:
    """Built of a text, so that C is compiled in the sandbox too."""
    return await build(server.fixture(file), language=LANGUAGES[Path(file).suffix])


async def switch(host: Host, artifact: Artifact) -> None:
    await host.source.activate(await host.source.stage(add=[artifact], author="model"))


async def ask(host: Host, city: str) -> ToolResult:
    return await host.runner.run(ToolCall(id=f"call-{city}", name="weather", arguments={"city": city}))


async def test_a_version_that_traps_on_a_recorded_call_never_answers(host: Host, server: WeatherServer) -> None:
    await switch(host, await version(server, "weather.c"))
    told = [(await ask(host, city)).value for city in ("Oslo", "Atlantis", "Oslo", "Bergen")]
    assert told == [
        "Oslo: 7 degrees at 14:05 (times asked: 1)",
        "not measured today",
        "Oslo: 7 degrees at 14:05 (times asked: 2)",
        "Bergen: 9 degrees at 14:06 (times asked: 1)",
    ]
    asked = list(server.asked)
    assert asked == ["/Oslo.json", "/Atlantis.json", "/Oslo.json", "/Bergen.json"]

    with pytest.raises(GateRejected) as rejected:
        await switch(host, await version(server, "weather_v2.c"))
    assert rejected.value.gate == "replay"
    [problem] = rejected.value.problems
    named = re.match(r"weather: recording (\d+), which answered in generation 1, now crashes: trapped", problem)
    assert named is not None, problem
    recorded = host.store.recordings.get(int(named[1]))
    assert recorded is not None
    assert recorded.as_plain()["arguments"] == {"city": "Atlantis"}
    assert server.asked == asked

    still = await ask(host, "Oslo")
    assert (still.value, still.generation) == ("Oslo: 7 degrees at 14:05 (times asked: 3)", 1)
    assert host.source.strikes("weather") == ()


async def test_what_the_server_does_not_know_is_a_failure_that_the_model_reads(
    host: Host, server: WeatherServer
) -> None:
    await switch(host, await version(server, "weather.c"))
    result = await ask(host, "São Paulo?&#")
    assert (result.kind, result.value) == ("failed", "the server knows no such city")
    assert server.asked == ["/S%C3%A3o%20Paulo%3F%26%23.json"]


async def test_a_city_that_would_lead_out_of_the_granted_path_is_denied(host: Host, server: WeatherServer) -> None:
    await switch(host, await version(server, "weather.c"))
    result = await ask(host, "../secret")
    assert result.kind == "failed"
    assert str(result.value).startswith("http.fetch: denied: ")
    assert server.asked == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("twin", ["weather.py", "weather.js"])
async def test_its_twins_say_the_same(
    host: Host, server: WeatherServer, twin: str, made_engines: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in made_engines.items():
        monkeypatch.setenv(name, value)
    async with Host.open(":memory:", core=[local_time], policy=host.policy) as other:
        await switch(host, await version(server, "weather.c"))
        await switch(other, await version(server, twin))
        for city, kind in (("Oslo", "ok"), ("Oslo", "ok"), ("Atlantis", "ok"), ("São Paulo?&#", "failed")):
            one, two = await ask(host, city), await ask(other, city)
            assert (one.kind, one.value) == (two.kind, two.value) == (kind, one.value)


async def test_without_grants_the_same_tool_says_that_it_was_denied(server: WeatherServer) -> None:
    async with Host.open(":memory:", core=[local_time]) as host:
        await switch(host, await version(server, "weather.c"))
        result = await ask(host, "Oslo")
    assert result.kind == "failed"
    assert str(result.value).startswith("http.fetch: denied: ")
    assert server.asked == []
