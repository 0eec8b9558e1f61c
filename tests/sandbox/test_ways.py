"""Which way guest calls take, and what is in the way of the native one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from rho_wasm.limits import Limits
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox import ways as module
from rho_wasm.sandbox.capi import Trampolines
from rho_wasm.sandbox.ways import WAY_VARIABLE, choose_way, why_not_native

KNOWN = pytest.mark.skipif(why_not_native() is not None, reason=str(why_not_native()))


@pytest.fixture(autouse=True)
def nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WAY_VARIABLE, raising=False)


@KNOWN
def test_the_native_way_is_taken_where_it_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_way(None) == "native"
    monkeypatch.setenv(WAY_VARIABLE, "public")
    assert choose_way(None) == "public"
    assert choose_way("native") == "native"


def test_the_hosts_code_decides_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAY_VARIABLE, "public")
    assert choose_way(None) == "public"
    monkeypatch.setenv(WAY_VARIABLE, "nonsense")
    assert choose_way("public") == "public"
    monkeypatch.setenv(WAY_VARIABLE, "")
    assert choose_way("public") == "public"


@pytest.mark.parametrize("asked", ["nonsense", "NATIVE"])
def test_a_way_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    with pytest.raises(ValueError, match="native or public"):
        choose_way(asked)
    monkeypatch.setenv(WAY_VARIABLE, asked)
    with pytest.raises(ValueError, match="native or public"):
        Sandbox()


@pytest.mark.parametrize(
    ("wrong", "error", "wanted"),
    [
        ({"workers": -1}, ValueError, "workers is a whole number"),
        ({"workers": "2"}, TypeError, "workers is a whole number"),
        ({"ticker": "clock"}, ValueError, "'timer' or 'thread'"),
        ({"limits": Limits()}, TypeError, "HostLimits, not a Limits"),
        ({"cache": "/tmp"}, TypeError, "NativeCache, not a str"),
        ({"engines": "python"}, TypeError, "not a str"),
    ],
)
def test_an_option_that_is_not_what_it_may_be_makes_no_sandbox(
    wrong: dict[str, Any], error: type[Exception], wanted: str
) -> None:
    with pytest.raises(error, match=wanted):
        Sandbox(**wrong)


@KNOWN
@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("_KNOWN_WASMTIME", "49.", "wasmtime"),
        ("_NEEDED", ("wasmtime_no_such_function",), "lacks wasmtime_no_such_function"),
        ("_SIZES", {"wasmtime_func_t": 8}, "structures"),
    ],
)
def test_another_wasmtime_than_the_known_takes_the_public_way(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object, detail: str
) -> None:
    monkeypatch.setattr(module, name, value)
    assert choose_way(None) == "public"
    with pytest.raises(RuntimeError, match=detail):
        choose_way("native")


@pytest.mark.parametrize(("attribute", "value"), [("version_info", (3, 14, 0)), ("platform", "win32")])
def test_another_python_or_system_than_the_known_takes_the_public_way(
    monkeypatch: pytest.MonkeyPatch, attribute: str, value: object
) -> None:
    monkeypatch.setattr(sys, attribute, value)
    assert choose_way(None) == "public"
    with pytest.raises(RuntimeError):
        choose_way("native")


@KNOWN
def test_a_python_without_its_lock_or_with_other_functions_takes_the_public_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as altered:
        altered.setattr("sysconfig.get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
        assert choose_way(None) == "public"
        with pytest.raises(RuntimeError, match="lock"):
            choose_way("native")
    monkeypatch.setattr(Trampolines, "_host", lambda *given: None)
    assert choose_way(None) == "public"
    with pytest.raises(RuntimeError, match="enters functions"):
        choose_way("native")
