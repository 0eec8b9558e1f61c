"""``new``: a folder with a small tool that works, arguments to call it with, and a test that runs it in a host."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from rho_wasm.builtin import builtin_tools
from rho_wasm.cli.extras import needed
from rho_wasm.cli.options import JsonOption
from rho_wasm.cli.output import Output, UsageProblem
from rho_wasm.resources import fixture
from rho_wasm.toolchains import languages

__all__ = ["add_to"]

_TEMPLATE = "text_figures"
"""What the tool of ``fixtures/new`` is called. It is a working one in every language."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_JAVASCRIPT_WORD = re.compile(
    "arguments|await|break|case|catch|class|const|continue|debugger|default|delete|do|else|enum|eval|export|extends|"
    "false|finally|for|function|if|implements|import|in|instanceof|interface|let|new|null|package|private|protected|"
    "public|return|static|super|switch|this|throw|tool|true|try|typeof|undefined|var|void|while|with|yield"
)
"""No constant of a module may be called so, or the template itself has one of that name."""


_RUST_WORD = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|do|dyn|else|enum|extern|false|final|fn|for|gen|if|"
    "impl|in|let|loop|macro|match|mod|move|mut|override|priv|pub|ref|return|rho|self|static|struct|super|trait|true|try|"
    "type|typeof|unsafe|unsized|use|virtual|where|while|yield"
)
_GO_MEANING = re.compile(
    ".*_(test|aix|android|darwin|dragonfly|freebsd|illumos|ios|js|linux|netbsd|openbsd|plan9|solaris|windows|"
    "386|amd64|arm|arm64|loong64|mips|mips64|mips64le|mipsle|ppc64|ppc64le|riscv64|s390x)"
)
"""How the names of files end that Go builds for some systems only, or for none."""
_SHORT: Mapping[str, str] = MappingProxyType({"c++": "cpp", "as": "assemblyscript", "golang": "go"})
"""What languages are called too, beside the endings of their files."""
_MANIFEST_BESIDE = ("wat",)
"""The languages whose template does not declare its tools itself."""


def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make. The tool is called as it is.")],
    language: Annotated[
        str, typer.Option("--language", "-l", metavar="L", help="What the tool is written in: rust, go, zig, ...")
    ] = "python",
    as_json: JsonOption = False,
) -> int:
    """Make a folder with a tool that works, arguments to call it with, and a test. Nothing is overwritten."""
    output = Output(as_json=as_json)
    language = _language(language)
    suffix = languages()[language]
    tool = _tool_name(name.name, language)
    files = _files(tool, language, suffix)
    try:
        name.mkdir(parents=True)
        for file, text in files.items():
            (name / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageProblem(f"{name}: is there already, and nothing is overwritten: take another name") from None
    except OSError as error:
        raise UsageProblem(f"{name}: cannot be made: {error.strerror or error}") from None
    arguments = f"@{name / 'arguments.json'}"
    source = str(name / f"{tool}{suffix}")
    program = _this_program()
    steps = {
        "test": [_program("python3", sys.executable), str(name / f"test_{tool}.py")],
        "call": [*program, "call", source, tool, "--arguments", arguments],
        "build": [*program, "build", source],
        "conform": [*program, "conform", str(name / f"{tool}.wasm")],
        "dev": [*program, "dev", source, "--call", tool, "--arguments", arguments],
    }
    commands = {step: shlex.join(words) for step, words in steps.items()}
    needs = needed(language).hint or None
    output.object(
        {
            "folder": str(name),
            "tool": tool,
            "language": language,
            "files": sorted(files),
            "next": [*commands.values()],
            "needs": needs,
        }
    )
    for file in sorted(files):
        output.say(str(name / file), style="green")
    if needs is not None:
        output.say(f"{'first:':<9}{needs}", style="yellow")
    for step, line in commands.items():
        output.say(f"{step + ':':<9}{line}")
    return 0


def _language(said: str) -> str:
    """The language that is called ``said``: by its name, by how its files end, or shortly. In any case.

    Raises :class:`UsageProblem` where there is no template in it.
    """
    known = languages()
    by_suffix = {suffix.removeprefix("."): name for name, suffix in known.items()}
    lowered = said.lower()
    name = by_suffix.get(lowered.removeprefix("."), _SHORT.get(lowered, lowered))
    if name not in known:
        raise UsageProblem(f"there is no template in {said!r}; there is one in {', '.join(sorted(known))}")
    return name


def _tool_name(folder: str, language: str) -> str:
    """What the tool is called, by its folder's name. Raises :class:`UsageProblem` where no tool can be called so."""
    name = folder.replace("-", "_")

    def refused(why: str) -> UsageProblem:
        return UsageProblem(f"{folder!r} {why}: take another name")

    if _NAME.fullmatch(name) is None or "__" in name:
        raise refused(
            "is no name for a tool: that is a letter a-z, then up to 63 of a-z, 0-9 and single _ ('-' becomes '_')"
        )
    if any(name == tool.name for tool in builtin_tools()):
        raise refused("is the name of a core tool, which no other may have")
    if language == "python":
        if keyword.iskeyword(name):
            raise refused("is a word of Python's")
        if importlib.util.find_spec(name) is not None:
            raise refused("is the name of a Python module, and its test would import the tool in that one's place")
    if language in ("javascript", "typescript") and _JAVASCRIPT_WORD.fullmatch(name) is not None:
        raise refused("is a word of JavaScript's")
    if language == "rust" and _RUST_WORD.fullmatch(name) is not None:
        raise refused("is a word of Rust's")
    if language == "go" and _GO_MEANING.fullmatch(name) is not None:
        raise refused("is the name of a file that Go would leave out")
    return name


def _files(tool: str, language: str, suffix: str) -> dict[str, str]:
    """The texts of the files, by their names."""
    names = [f"{_TEMPLATE}{suffix}", "arguments.json", f"test_{_TEMPLATE}.py"]
    if language in _MANIFEST_BESIDE:
        names.append(f"{_TEMPLATE}.manifest.json")
    title = "".join(part.capitalize() for part in tool.split("_"))
    found = {}
    for name in names:
        text = fixture(f"new/{name}").read_text(encoding="utf-8")
        text = text.replace(f"{_TEMPLATE}.py", f"{_TEMPLATE}{suffix}")
        found[name.replace(_TEMPLATE, tool)] = text.replace(_TEMPLATE, tool).replace("TextFigures", title)
    return found


def _this_program() -> list[str]:
    beside = Path(sys.executable).with_name("rho-wasm")
    return [_program(beside.name, str(beside))] if beside.exists() else [sys.executable, "-m", "rho_wasm.cli"]


def _program(name: str, path: str) -> str:
    """How ``path`` is called from here: by its name where the shell finds it so, else by where it is."""
    found = shutil.which(name)
    if found is not None and Path(found).absolute() == Path(path).absolute():
        return name
    here = Path.cwd()
    absolute = Path(path).absolute()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def add_to(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("new")(new)
