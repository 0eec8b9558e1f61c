"""What is told of an error is short, inert, and names the line with its text."""

from __future__ import annotations

from rho_wasm.errors import BuildError, Diagnostic, GateRejected, ModuleRejected, StoreError
from rho_wasm.workshop.telling import refusal, shown, told_build_error

SOURCE = "first\n  second \x1b[2J\u202e line\nthird"


def told(error: BuildError, language: str = "c") -> str:
    return str(told_build_error(error, source=SOURCE, language=language, name="tool").reason)


def test_the_line_of_the_source_stands_under_the_error_even_where_a_compiler_tells_only_its_number() -> None:
    text = told(BuildError("c", [Diagnostic("expected ';'", file="source.c", line=2, column=3)], hint="say it"))
    assert text.splitlines() == [
        "The c source of tool does not build (build_failed). Mend this and write it again:",
        "line 2, column 3: expected ';'",
        "    second \\x1b[2J\\u202e line",
        "Hint: say it",
    ]


def test_lines_are_counted_as_compilers_count_them() -> None:
    source = "one \f\v\u2028 one\r\n  two\nthree\n"
    fault = BuildError("c", [Diagnostic("no", line=2)])
    assert "    two\n" in f"{told_build_error(fault, source=source, language='c', name='tool').reason}\n"


def test_no_line_is_taken_from_the_source_for_a_message_about_another_file_or_beyond_its_end() -> None:
    text = told(BuildError("c", [Diagnostic("no", file="rho.h", line=2), Diagnostic("end", line=900)]))
    assert "second" not in text
    assert "rho.h, line 2: no" in text


def test_many_errors_are_cut_to_few_and_long_ones_to_short() -> None:
    faults = [Diagnostic("x" * 5_000 + str(n), line=1, text="y" * 5_000) for n in range(20)]
    notes = [Diagnostic(f"note {n}", severity="note") for n in range(20)]
    text = told(BuildError("python", [*faults, *notes]), "python")
    assert "15 more; mend these first" in text
    assert text.count("note ") == 6
    assert len(text) < 5_000


def test_a_source_without_a_tool_is_shown_one_by_its_name() -> None:
    text = told(BuildError("python", [Diagnostic("the source declares no tool")]), "python")
    assert "@tool" in text
    assert "def tool(" in text


def test_gates_say_what_to_mend_and_a_persons_no_is_not_asked_again() -> None:
    examples = refusal(GateRejected(3, "examples", ["tool: example 1: expected 2\x1b, got 3"]), "nothing was switched")
    assert "expected 2\\x1b, got 3" in examples.reason
    assert "write it again" in examples.reason
    assert examples.details == {"reason": "gate_rejected", "candidate": 3, "gate": "examples"}
    assert "Do not write the same again" in refusal(GateRejected(3, "approval", ["no"]), "nothing was switched").reason


def test_a_host_does_not_tell_where_it_keeps_things() -> None:
    text = refusal(StoreError("disk full at /home/me", path="/home/me/.rho", reason="disk_full"), "not written").reason
    assert "/home/me" not in text
    assert "disk_full" in text


def test_a_module_that_no_host_takes_says_its_limit_and_what_to_do() -> None:
    error = ModuleRejected("loops", "too many", limit=500, value=900, name="f", hint="split it")
    assert "(loops): too many (limit 500, found 900). Hint: split it" in refusal(error, "not written").reason


def test_values_of_guests_are_shown_inert_and_large_ones_by_their_beginning() -> None:
    assert shown({"a\x1b": ["\u202e", 1, b"\x00", float("nan")]}) == {"a\\x1b": ["\\u202e", 1, "AA", None]}
    # JSON escapes a line's end by itself: escaped twice, a model takes it for two characters that its tool answered.
    assert shown({"a\nb": "a\nb\r"}) == {"a\\nb": "a\nb\\r"}
    assert len(shown(["x"] * 5_000)) <= 2_000
    assert len(shown({"a": "x" * 1_000_000})["a"]) <= 2_000
