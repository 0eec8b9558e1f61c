"""The vectors are what their script writes, and what the host itself sends and takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.envelope import BadAnswer, Raised, answer_of, parse_answer
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox.asking import Step
from rho_wasm.sandbox.imports import ask_host
from rho_wasm.sandbox.state import CallState
from tests.guest_sdk.vectors_files import FOLDER, Vector, equal, vectors
from tests.sandbox.guests import Granting

KINDS = ("requests", "answers", "host_requests", "host_replies", "manifests")


def test_the_committed_files_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", FOLDER / "generate.py", tmp_path], check=True)

    def files(folder: Path) -> dict[str, bytes]:
        names = [*folder.rglob("*.cbor"), folder / "index.json"]
        return {str(name.relative_to(folder)): name.read_bytes() for name in names}

    written, committed = files(tmp_path), files(FOLDER)
    assert written.keys() == committed.keys()
    assert [name for name, data in written.items() if data != committed[name]] == []


def test_every_kind_has_good_and_bad_ones() -> None:
    for kind in KINDS:
        assert list(vectors(kind, good=True))
        assert all(vector.why for vector in vectors(kind, good=False))


@pytest.mark.parametrize("kind", KINDS)
def test_good_messages_mean_what_the_index_says(kind: str) -> None:
    for vector in vectors(kind, good=True):
        assert equal(plain.decode(vector.data), vector.meaning), vector.name


@pytest.mark.parametrize("kind", ["requests", "host_requests", "host_replies", "manifests"])
def test_the_host_writes_the_very_bytes(kind: str) -> None:
    for vector in vectors(kind, good=True):
        assert plain.encode(vector.meaning) == vector.data, vector.name


def test_every_good_answer_becomes_its_result() -> None:
    for vector in vectors("answers", good=True):
        if "raised" in vector.meaning:
            with pytest.raises(Raised) as raised:
                parse_answer(vector.data, limits=Limits())
            told = vector.meaning["raised"]
            assert (raised.value.message, raised.value.type) == (told["message"], told.get("type") or None)
            assert list(raised.value.trace) == told.get("trace", [])
        else:
            assert equal(answer_of(parse_answer(vector.data, limits=Limits())), vector.meaning), vector.name


def test_no_bad_answer_becomes_a_result() -> None:
    for vector in vectors("answers", good=False):
        with pytest.raises(BadAnswer):
            _named(vector, lambda data: parse_answer(data, limits=Limits()))


def _asked(data: bytes, capabilities: Any) -> Any:
    state = CallState(limits=Limits(), declared=frozenset({"clock.now", "kv.get"}), capabilities=Granting(capabilities))
    state.answering = True
    ask_host(state, len(data), lambda: data)
    asking = state.asking
    assert asking is not None
    assert asking.go_on(remaining_ms=1_000.0, hurried=False) is Step.REPLIED
    return plain.decode(asking.reply)


def test_host_requests_reach_the_capability_as_they_mean() -> None:
    for vector in vectors("host_requests", good=True):
        heard: list[Any] = []
        assert _asked(vector.data, lambda *asked: heard.extend(asked)) == {"ok": None}  # noqa: B023
        assert equal(heard, [vector.meaning["capability"], vector.meaning["arguments"]]), vector.name


def test_bad_host_requests_reach_nobody() -> None:
    for vector in vectors("host_requests", good=False):
        reply = _asked(vector.data, lambda *asked: pytest.fail("a bad request was heard"))
        assert reply["error"]["kind"] == "invalid_arguments", vector.name


def test_good_manifests_are_read_and_written_as_they_are() -> None:
    for vector in vectors("manifests", good=True):
        read = Manifest.decode(vector.data)
        meant = {key: value for key, value in vector.meaning.items() if value != []}
        assert equal(read.as_plain(), meant), vector.name


def test_bad_manifests_are_refused() -> None:
    for vector in vectors("manifests", good=False):
        with pytest.raises(ModuleRejected):
            _named(vector, Manifest.decode)


def _named(vector: Vector, read: Any) -> None:
    """Fails with the vector's name where ``read`` takes it."""
    taken = read(vector.data)
    pytest.fail(f"{vector.name} was taken as {taken!r:.200}")
