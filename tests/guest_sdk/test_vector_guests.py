"""Each SDK's vector guest in the sandbox reads and writes what the vectors say, and is never ok with bad ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from rho_wasm.conform import conform
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import BuildError
from rho_wasm.frozen import thaw
from rho_wasm.resources import fixture
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.toolchains import EngineShelf, build
from tests.guest_sdk.vectors_files import equal, vectors
from tests.guest_sdk.vectors_guests import ANSWERS, GUESTS, Calls, Refused, VectorGuest
from tests.sandbox.conftest import shared_cache

__all__ = ["shared_cache"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENGINES = ("python", "javascript")
"""Their tools run over an engine."""


@pytest.fixture(scope="module", params=GUESTS, ids=lambda guest: guest.language)
def guest(request: pytest.FixtureRequest) -> Iterator[VectorGuest]:
    chosen: VectorGuest = request.param
    with pytest.MonkeyPatch.context() as patch:
        if chosen.language in ENGINES:
            for name, value in request.getfixturevalue("made_engines").items():
                patch.setenv(name, value)
        yield chosen


@pytest.fixture(scope="module")
def artifact(guest: VectorGuest) -> Artifact:
    try:
        return anyio.run(lambda: build(guest.source, language=guest.language, trusted=True))
    except BuildError as error:
        if error.reason not in ("missing_extra", "missing_toolchain"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def calls(artifact: Artifact, shared_cache: NativeCache) -> Iterator[Calls]:
    with start_blocking_portal() as portal:
        sandbox = Sandbox(cache=shared_cache, way="public", engines=EngineShelf.default().find)
        with portal.wrap_async_context_manager(sandbox):
            yield Calls(portal.call(sandbox.load, artifact.wasm))


def test_good_requests_are_given_back(guest: VectorGuest, calls: Calls) -> None:
    for vector in vectors("requests", good=True):
        answer = calls.send(vector.data)
        assert answer.keys() == {"ok"}, (vector.name, answer)
        assert equal(answer["ok"], vector.meaning["arguments"]["value"], one_number=guest.one_number), vector.name


def test_bad_requests_are_never_answered(calls: Calls) -> None:
    for vector in vectors("requests", good=False):
        with pytest.raises(Refused):
            pytest.fail(f"{vector.name} ({vector.why}) was answered {calls.send(vector.data)!r:.200}")


def test_answers_of_every_shape_are_what_they_should_be(guest: VectorGuest, calls: Calls) -> None:
    for shape, answer in ANSWERS.items():
        assert equal(calls.call("answer", shape=shape), answer, one_number=guest.one_number), shape
    with pytest.raises(Refused, match=r"raised: .*[Bb]roken"):
        calls.call("answer", shape="raised")


def test_replies_of_the_host_reach_the_author(guest: VectorGuest, calls: Calls) -> None:
    for vector in vectors("host_replies", good=True):
        answer = calls.asked(vector.data)
        assert equal(answer, {"ok": vector.meaning}, one_number=guest.one_number), vector.name


def test_bad_replies_are_never_answered(calls: Calls) -> None:
    for vector in vectors("host_replies", good=False):
        with pytest.raises(Refused):
            pytest.fail(f"{vector.name} ({vector.why}) was answered {calls.asked(vector.data)!r:.200}")


def test_an_example_may_say_what_the_host_answers_it(guest: VectorGuest, artifact: Artifact) -> None:
    """That it is answered so is a clause, which conform looks at below."""
    if guest.language == "javascript":
        return  # Only what is declared without JSDoc has examples.
    declared = artifact.manifest.tool("ask_host")
    assert declared is not None
    asked = {"capability": "kv.get", "arguments": {"key": "a"}}
    assert thaw(declared.as_plain()["examples"]) == [
        {"arguments": asked, "answer": {"ok": {"ok": {"value": 1}}}, "host": [[asked, {"ok": {"value": 1}}]]}
    ]


def test_lines_of_the_log_have_their_levels(calls: Calls) -> None:
    for level in (10, 20, 30, 40):
        assert calls.call("log", level=level, text=f"zwei Wörter {level}") == {"ok": None}
        assert (level, f"zwei Wörter {level}") in calls.log


def test_the_tools_of_the_figures_answer_alike(guest: VectorGuest, calls: Calls) -> None:
    text = fixture("data/access.log").read_text(encoding="utf-8") + "The cat's hat.\nÜber den Café-Kater, den café\n"
    for part in ("", "a", text, text + "\n\nx"):
        assert calls.call("sha256", text=part) == {"ok": hashlib.sha256(part.encode()).hexdigest()}
        counted = calls.call("word_count", text=part, top=3)["ok"]
        assert equal(counted, _counted(part, top=3), one_number=guest.one_number)


def _counted(text: str, *, top: int) -> dict[str, object]:
    """As fixtures/word_count.c says, counted in another way."""
    lower = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    cleaned = "".join(c if (c.isascii() and c.isalnum()) or c > "\x7f" or c == "'" else " " for c in lower)
    words = [word for part in cleaned.split(" ") if (word := part.lstrip("'"))]
    counts = Counter(words)
    return {
        "words": len(words),
        "lines": text.count("\n") + (text != "" and not text.endswith("\n")),
        "characters": len(text),
        "distinct": len(counts),
        "top": [{"word": word, "count": count} for word, count in counts.most_common(top)],
    }


def test_the_guest_keeps_every_clause_of_the_abi(artifact: Artifact, shared_cache: NativeCache) -> None:
    report = anyio.run(lambda: conform(artifact.wasm, engines=EngineShelf.default().find, cache=shared_cache))
    assert report.called
    unkept = {clause.id: clause.reason for clause in (*report.of("fail"), *report.of("warning"))}
    unkept.pop("host_call.declared", None)  # ask_host asks for whatever it is told to.
    if unkept.get("calls.succeed", "").startswith("every call of answer "):
        del unkept["calls.succeed"]  # It raises for a shape that it does not know, and the schema takes any text.
    assert unkept == {}


def test_a_module_that_has_its_engine_in_it_keeps_the_abi_too(
    shared_cache: NativeCache, made_engines: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in made_engines.items():
        monkeypatch.setenv(name, value)
    [javascript] = [each for each in GUESTS if each.language == "javascript"]
    module = anyio.run(lambda: build(javascript.source, standalone=True)).wasm
    report = anyio.run(lambda: conform(module, engines=EngineShelf.default().find, cache=shared_cache))
    assert report.called
    assert {clause.id: clause.reason for clause in report.of("fail")} == {}
