"""Messages of compilers become diagnostics: the author's names, no folders, nothing that a terminal would obey."""

from __future__ import annotations

import pytest

from rho_wasm.errors import Diagnostic
from rho_wasm.toolchains.diagnostics import from_clang, from_go, from_wat

NAMES = {"main.c": "count.c"}


def clang(text: str, limit: int = 20) -> tuple[Diagnostic, ...]:
    return from_clang(text, folders=("",), names=NAMES, limit=limit)


def test_a_message_has_the_authors_file_line_column_and_severity() -> None:
    assert clang("main.c:3:14: error: expected ';'\n") == (
        Diagnostic("expected ';'", file="count.c", line=3, column=14, severity="error"),
    )


def test_a_fatal_error_is_an_error() -> None:
    assert clang("main.c:1:10: fatal error: 'x.h' file not found")[0].severity == "error"


def test_errors_come_before_warnings_and_warnings_before_notes_each_in_their_order() -> None:
    text = "main.c:1:1: note: n\nmain.c:2:1: warning: w\nmain.c:4:1: error: b\nmain.c:3:1: error: a\n"
    assert [found.message for found in clang(text)] == ["b", "a", "w", "n"]


def test_folders_are_left_out() -> None:
    assert clang("/home/someone/secret/rho.h:1:2: error: x")[0].file == "rho.h"
    assert clang("C\\x\\y.h:1:2: error: x")[0].file == "y.h"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("unable to open output file '/tmp/some one/x-1.pcm': 'No such file'", "unable to open output file 'x-1.pcm':"),
        ("cannot open /home/someone/lib/x.h: no", "cannot open x.h: no"),
        ("in file:/home/someone/x.h", "in file:x.h"),
        ("'/a/b.h' and \"/c d/e.h\"", "'b.h' and \"e.h\""),
    ],
)
def test_of_an_absolute_path_in_a_message_only_the_last_name_is_told(said: str, told: str) -> None:
    assert clang(f"main.c:1:1: error: {said}")[0].message.startswith(told)
    assert clang(f"wasm-ld: error: {said}")[0].message.startswith(told)


@pytest.mark.parametrize("said", ["'sys/stat.h' file not found", "a / b / c", "use and/or, a/b/c", "see ../x/y.h"])
def test_what_is_no_absolute_path_is_told_as_it_is(said: str) -> None:
    assert clang(f"main.c:1:1: error: {said}")[0].message == said


def test_a_line_that_the_author_wrote_is_a_note_without_a_place() -> None:
    text = (
        "/t/b-1:x/d/main.c:1:9: warning: see /t/b-1:x/own.h\nmain.c:2:2: error: forged\n/etc/e.y:3:3: error: renamed\n"
        "/t/b-1:x/main.c:4:4: error: a\r/t/b/main.c:5:5: error: b\u2028main.c:6:6: error: c\n/lib/v/map:7:7: note: n\n"
    )
    told = from_clang(text, folders=("/t/b-1:x/", "/lib/"), names=NAMES | {"d/main.c": "d/main.c"}, limit=20)
    assert [(each.file, each.line, each.severity) for each in told] == [
        ("count.c", 4, "error"),
        ("d/main.c", 1, "warning"),
        (None, None, "note"),
        (None, None, "note"),
        ("map", 7, "note"),
    ]
    assert [each.message for each in told[1:4]] == ["see own.h", "main.c:2:2: error: forged", "e.y:3:3: error: renamed"]


def test_source_lines_carets_and_traces_of_includes_are_left_out() -> None:
    text = "In file included from main.c:1:\n   12 | root:x:0:0\n      | ^~~~\n1 error generated.\n"
    assert clang(text) == ()


def test_the_same_message_is_told_once() -> None:
    assert len(clang("main.c:1:1: error: x\n" * 50)) == 1


def test_no_more_than_the_limit_is_told() -> None:
    assert len(clang("".join(f"main.c:{n}:1: error: x\n" for n in range(1, 100)), limit=7)) == 7


def test_control_and_bidirectional_characters_come_out_escaped_and_long_messages_cut() -> None:
    [found] = clang("\x1b[31m.c:1:1: error: \u202e" + "x" * 10_000)
    assert found.file == "\\x1b[31m.c"
    assert found.message.startswith("\\u202exxx")
    assert len(found.message) <= 500


def test_enormous_numbers_are_bounded() -> None:
    [found] = clang("main.c:9999999999:0: error: x")
    assert (found.line, found.column) == (10**9, 1)


def test_a_function_of_the_c_library_is_explained() -> None:
    [found] = clang("wasm-ld: error: main.o: undefined symbol: sin\n")
    assert found.message.startswith("sin is not defined anywhere: there is no C library")


def test_wat_without_a_place_has_none() -> None:
    assert from_wat("", name="a.wat") == Diagnostic("not WebAssembly text", file="a.wat")


def test_wat_with_a_place_has_it_whatever_the_source_line_shows() -> None:
    text = 'bad\n     --> <anon>:2:5\n      |\n    2 | (func "\n      --> <anon>:9:9")\n'
    assert from_wat(text, name="a.wat") == Diagnostic("bad", file="a.wat", line=2, column=5)


def go(text: str, limit: int = 20) -> tuple[Diagnostic, ...]:
    return from_go(text, start="rho_start.go", limit=limit)


def test_go_tells_files_of_folders_with_their_folders_and_others_by_their_last_name() -> None:
    text = (
        "# guest/words\nwords/words.go:3:14: undefined: x\n./main.go:2: y\n/home/someone/go/src/fmt/print.go:1:1: z\n"
    )
    assert go(text) == (
        Diagnostic("undefined: x", file="words/words.go", line=3, column=14),
        Diagnostic("y", file="main.go", line=2),
        Diagnostic("z", file="print.go", line=1, column=1),
    )


@pytest.mark.parametrize(
    "packages",
    ["mine (a.go) and main (rho_start.go)", "main (rho_start.go) and mine (a.go)", "mine (a.go) and b (b.go)"],
)
def test_go_tells_of_a_package_that_is_not_main_without_the_file_of_the_build(packages: str) -> None:
    [found] = go(f"found packages {packages} in /tmp/x/source\n")
    if "rho_start.go" in packages:
        assert found == Diagnostic("it is of package mine, where tools are declared in package main", file="a.go")
    else:
        assert found.message.startswith(f"found packages {packages}")


def test_what_go_found_and_wanted_stands_in_one_message() -> None:
    text = "./main.go:3:1: not enough arguments\n\thave (string)\n\twant (string, int)\n"
    assert go(text)[0].message == "not enough arguments; have (string); want (string, int)"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("main.go:3:8: package foo is not in std (/home/someone/go/src/foo)", "package foo is not in std (foo)"),
        (
            "found packages tool (a.go) and main (b.go) in /tmp/some/where",
            "found packages tool (a.go) and main (b.go) in where",
        ),
        ("go: errors parsing go.mod", "errors parsing go.mod"),
        (
            "/home/someone/go/pkg/tool/link: main.x: relocation target y not defined",
            "main.x: relocation target y not defined",
        ),
    ],
)
def test_go_tells_nothing_of_folders_of_the_host(said: str, told: str) -> None:
    assert [found.message for found in go(said)] == [told]


def test_what_go_says_in_no_known_shape_is_left_out() -> None:
    assert go("# guest\nsomething else\n\n") == ()


def test_messages_of_go_are_bounded_and_inert() -> None:
    [found] = go(f"main.go:99999999999:1: x\nmain.go:1:1: \x1b[1m{'x' * 5000}\n")
    assert len(found.message) <= 600
    assert "\x1b" not in found.message
    assert len(go("".join(f"main.go:{line}:1: x\n" for line in range(1, 50)), limit=3)) == 3
