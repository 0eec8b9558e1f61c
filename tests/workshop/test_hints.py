"""Faults that many models make are answered with what there is in place of what they wanted."""

from __future__ import annotations

import pytest

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.workshop.hints import call_hint, source_hint
from rho_wasm.workshop.telling import told_build_error


@pytest.mark.parametrize(
    ("language", "message", "said"),
    [
        ("python", "ModuleNotFoundError: No module named 'requests'", 'host.call("http.fetch"'),
        ("python", "ImportError: cannot import name 'urlopen' from module urllib", 'host.call("http.fetch"'),
        ("javascript", "ReferenceError: could not load module 'axios'", 'host("http.fetch"'),
        ("typescript", "could not load module 'node:https'", 'host("http.fetch"'),
        ("c", "include file 'stdio.h' not found", '#include "rho.h"'),
        ("c", "'curl/curl.h' file not found", '#include "rho.h"'),
        ("c", "rho_call is not defined anywhere", "RHO_GUEST"),
        ("c", "implicit declaration of function 'printf'", "only what rho.h has"),
    ],
)
def test_a_source_that_wants_what_is_not_there_is_told_what_is(language: str, message: str, said: str) -> None:
    hint = source_hint(message, language)
    assert hint is not None
    assert said in hint


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("python", "ModuleNotFoundError: No module named 'numpy'"),
        ("python", "SyntaxError: too many requests"),
        ("javascript", "TypeError: undefined is not a function"),
        ("c", "';' expected"),
        ("wat", "unknown operator"),
    ],
)
def test_nothing_is_said_of_what_nothing_is_known_of(language: str, message: str) -> None:
    assert source_hint(message, language) is None


def test_a_crash_is_told_what_it_usually_is() -> None:
    assert "a loop that does not end" in (call_hint("deadline", "its time was over", "python") or "")
    assert "a loop that does not end" in (call_hint("out_of_fuel", "", None) or "")
    assert "catch HostError" in (call_hint("handler_raised", "HostError: kv.get: denied: not granted", "python") or "")
    assert "http.fetch" in (call_hint("handler_raised", "URLError: <urlopen error>", "python") or "")
    assert "capability" in (call_hint("handler_raised", "URLError: <urlopen error>", None) or "")
    assert call_hint("handler_raised", "HostError: kv.get: denied: no (catch HostError, ...)", "python") is None
    assert call_hint("handler_raised", "ZeroDivisionError: division by zero", "python") is None


def test_text_of_webassembly_needs_both_and_c_is_shown_by_its_name() -> None:
    missing = BuildError("wat", [Diagnostic("the manifest is missing")], reason="manifest_missing")
    text = str(told_build_error(missing, source="(module)", language="wat", name="tool").reason)
    assert "and give write_tool its description and schema" in text
    header = BuildError("c", [Diagnostic("include file 'stdio.h' not found", line=1)])
    text = str(told_build_error(header, source="#include <stdio.h>", language="c", name="tool").reason)
    assert "static rho_answer tool(rho_value arguments)" in text
