"""guest_sdk/README.md names every SDK, its commands run, and its table of figures has every language."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rho_wasm.toolchains import languages
from tests.benchmarks.sdk_figures import BEGIN, COLUMNS, END, README, Row, into, main, table
from tests.guest_sdk.vectors_guests import GUESTS

_TEXT = README.read_text(encoding="utf-8")


def test_every_language_and_every_folder_is_in_the_index() -> None:
    for language, suffix in languages().items():
        assert f"`{suffix}`" in _TEXT, language
    folders = {path.parent.name for path in README.parent.glob("*/README.md")}
    linked = set(re.findall(r"\]\((\w+)/README\.md\)", _TEXT))
    assert linked == folders


def test_every_extra_that_it_names_is_one() -> None:
    project = (README.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    named = {extra for extras in re.findall(r"rho-wasm\[([\w,]+)\]", _TEXT) for extra in extras.split(",")}
    assert [extra for extra in named if f"\n{extra} = [" not in project] == []


def test_how_the_host_is_asked_is_told_in_the_words_of_each_sdk() -> None:
    """The vector guests use these words, and are built and called."""
    rows = re.findall(
        r"^\| ([\w+]+) \| `(.+?)`.* \| `(.+?)` \|$", _TEXT.partition("## Asking the host")[2], re.MULTILINE
    )
    sources = {guest.language: guest.source.read_text(encoding="utf-8") for guest in GUESTS}
    assert {language.lower().replace("+", "p") for language, _, _ in rows} == sources.keys()
    for language, declared, asked in rows:
        source = sources[language.lower().replace("+", "p")]
        for words in (declared, asked):
            [name] = re.findall(r"[\w.:]*(?:apabilit|APABILIT|[hH]ost_?[cC]all|host\b)[\w.]*", words)[:1]
            assert name in source, (language, name)


def test_every_link_leads_to_a_file() -> None:
    for page in (README, *README.parent.glob("*/README.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#\w+)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page, target)


def test_the_table_of_figures_has_every_sdk() -> None:
    _, _, rest = _TEXT.partition(BEGIN)
    lines = [line for line in rest.partition(END)[0].splitlines() if line.startswith("|")]
    assert lines[0] == f"| {' | '.join(COLUMNS)} |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [guest.language for guest in GUESTS]
    assert all(len(line.split("|")) == len(COLUMNS) + 2 for line in lines)
    assert all(" ms |" in line for line in lines[2:])


def test_a_language_that_is_missing_says_so_in_its_row() -> None:
    figures = table([Row(language="c", warm_s=0.5, module_bytes=1_500, calls=((0.0012, 5), (0.002, 6)))])
    assert "| c | not measured | 0.50 s | 1.5 KB | 1.20 ms | 5 | 2.00 ms | 6 |" in figures
    assert "| zig | no compiler |" in table([Row(language="zig", absent="no compiler")])


def test_figures_go_between_their_marks_and_nowhere_else() -> None:
    assert into(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="there is no"):
        into("no marks", "new")


@pytest.mark.slow
def test_the_commands_run_as_printed(tmp_path: Path) -> None:
    block = re.findall(r"^```sh\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)[0]
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "rho-wasm"
        ended = subprocess.run(
            [sys.executable, "-m", "rho_wasm.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_figures_are_measured_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "c"]) == 0
    assert re.search(r"^\| c \| not measured \| [\d.]+ s \| [\d.,]+ KB \| ", capsys.readouterr().out, re.MULTILINE)
