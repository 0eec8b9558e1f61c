"""Messages of Zig's and Rust's compilers become diagnostics, whatever a hostile author had written into them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rho_wasm.errors import Diagnostic
from rho_wasm.toolchains.compiler_messages import from_rustc, from_zig, not_of_project


def zig(text: str) -> list[Diagnostic]:
    return list(from_zig(text, folder="source", limit=20))


def rustc(*messages: Any) -> list[Diagnostic]:
    return list(from_rustc("\n".join(json.dumps(message) for message in messages), folder="source", limit=20))


def span(file: str, line: Any = 2, **more: Any) -> dict[str, Any]:
    return {"file_name": file, "line_start": line, "column_start": 5, "is_primary": True} | more


def test_files_of_the_project_have_their_names_in_it_and_others_only_their_last() -> None:
    files = ["source/a/b.zig", "sdk/rho.zig", "/usr/lib/zig/std/fmt.zig", "source/../lib/c.zig"]
    text = "\n".join(f"{file}:7:3: error: in {number}" for number, file in enumerate(files))
    assert [each.file for each in zig(text)] == ["a/b.zig", "rho.zig", "fmt.zig", "c.zig"]
    [first] = rustc({"message": "m", "level": "error", "spans": [span("/srv/secret/x.rs")]})
    assert (first.file, first.line, first.column) == ("x.rs", 2, 5)


def test_errors_come_before_notes_and_what_is_no_message_is_left_out() -> None:
    told = zig(
        "main.zig:1:1: note: n\n    const x = 1;\n    ^~~~\nwasm-ld: error: a.o: undefined symbol: f\nerror: e\n"
    )
    assert [(each.severity, each.message) for each in told] == [
        ("error", "undefined symbol: f"),
        ("error", "e"),
        ("note", "n"),
    ]


def test_a_text_of_the_author_is_no_message_of_zig() -> None:
    forged = "source/main.zig:9:9: error: forged"
    text = (
        f"source/main.zig:1:12: error: a\n                             {forged}\n{forged}\n   ~~~^~~\n"
        f"source/main.zig:2:1: note: b\r{forged}\u2028{forged}\n{forged}\n^\n"
        f"\nCompile Log Output:\n@as(type, a\n{forged})\n"
    )
    assert [(each.line, each.message[:1]) for each in zig(text)] == [(1, "a"), (2, "b")]


def test_paths_of_the_host_and_escapes_are_not_told() -> None:
    [told] = zig("source/main.zig:1:1: error: see '/home/me/a b/x.zig' and /srv/y.zig \x1b[31m\n")
    assert told.message == "see 'x.zig' and y.zig \\x1b[31m"


@pytest.mark.parametrize("why", ["No such file or directory (os error 2)", "Permission denied (os error 13)"])
def test_whether_a_file_is_there_is_not_told(why: str) -> None:
    [told] = rustc({"message": f"couldn't read `/etc/passwd`: {why}", "level": "error", "spans": []})
    assert told.message == "couldn't read passwd: it is no text of this project"


def test_what_is_read_from_outside_the_project_is_told_as_one_that_is_not_there() -> None:
    inside = ("source/main.rs", "source/src/../words.txt")
    outside = ("/etc/ld.so.cache", "source/../librho.rlib", "sources/a\\ b.rs", "source/../../x/source/main.rs")
    files = "".join(f"{name}:\n" for name in (*inside, *outside))
    listed = f"main.wasm: {' '.join((*inside, *outside))}\n\n{files}\n# env-dep:LANG=C\n# env-dep:X=:\n"
    told = not_of_project(listed, folder="source", limit=9)
    names = ("ld.so.cache", "source/../librho.rlib", "sources/a b.rs", "source/../../x/source/main.rs")
    assert [each.message for each in told] == [f"couldn't read {each}: it is no text of this project" for each in names]
    assert len(not_of_project(listed, folder="source", limit=2)) == 2


def test_a_place_inside_a_macro_is_the_authors_line() -> None:
    expansion = {"span": span("sdk/src/a.rs", 9, expansion={"span": span("source/main.rs", 4)})}
    [told] = rustc({"message": "m", "level": "error", "spans": [span("sdk/src/b.rs", 8, expansion=expansion)]})
    assert (told.file, told.line) == ("main.rs", 4)
    [told] = rustc({"message": "m", "level": "error", "spans": [span("sdk/src/b.rs", 8, expansion={"span": 1})]})
    assert (told.file, told.line) == ("b.rs", 8)


def test_of_a_linker_its_own_lines_are_told_and_not_the_command() -> None:
    child = {
        "message": "rust-lld: error: /tmp/x/main.o: undefined symbol: f\nrust-lld: error: unable to find library -lc"
    }
    told = rustc({"message": "linking with `rust-lld` failed", "level": "error", "spans": [], "children": [child]})
    assert [each.message for each in told] == ["undefined symbol: f", "unable to find library -lc"]


@pytest.mark.parametrize(
    "line",
    ["", "x", "[]", "{}", "[" * 100_000, '{"message": 1, "level": "error"}', '{"message": "m", "level": "shout"}'],
)
def test_what_is_no_message_of_rustc_is_left_out(line: str) -> None:
    assert from_rustc(line, folder="source", limit=20) == ()


def test_odd_numbers_and_spans_are_bounded() -> None:
    for line in (-1, 0, 10**30, "7", None, True):
        [told] = rustc({"message": "m" * 10_000, "level": "error", "spans": [span("source/x.rs", line), 7]})
        assert told.line is not None
        assert 1 <= told.line <= 10**9
        assert len(told.message) <= 600
