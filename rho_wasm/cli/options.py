"""Options that several verbs share, and what they become."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import anyio
import typer

from rho_wasm.cli.output import UsageProblem
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import ModuleRejected
from rho_wasm.grants import Bounds, UncheckedBounds, capability_name, is_reserved
from rho_wasm.limits import MIB
from rho_wasm.policy import Policy
from rho_wasm.toolchains import Progress, build, languages
from rho_wasm.toolchains.files import TooLong, read_bounded

__all__ = [
    "CapabilityOption",
    "JsonOption",
    "PolicyOption",
    "StoreOption",
    "TrustedOption",
    "artifact_of",
    "call_arguments",
    "is_source",
    "own_capabilities",
    "parse_arguments",
    "policy_of",
    "read_bytes",
]

_CAPABILITIES: Final = "RHO_WASM_CAPABILITIES"
_MAX_ARGUMENTS = 16 * MIB

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object, and errors as JSON too.")]
StoreOption: TypeAlias = Annotated[
    Path,
    typer.Option("--store", metavar="STORE", envvar="RHO_WASM_STORE", help="The folder of the store."),
]
PolicyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="FILE", envvar="RHO_WASM_POLICY", help="A policy, TOML. Default: the built-in one."
    ),
]
CapabilityOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--capability",
        metavar="NAME",
        help="One that your own program has. May be repeated; RHO_WASM_CAPABILITIES names some for every verb.",
        show_default=False,
    ),
]
TrustedOption: TypeAlias = Annotated[
    bool,
    typer.Option("--trusted", help="Build even where the compiler cannot be confined. For your own sources."),
]


def call_arguments(arguments: str, texts: Iterable[str]) -> dict[str, Any]:
    """The arguments of a call: those of ``--arguments``, and one more for each ``--text``.

    Raises :class:`UsageProblem`, also where two of these name one argument or read standard input.
    """
    named = [_name_and_file(each) for each in texts]
    if [arguments, *(file for _, file in named)].count("-") > 1:
        raise UsageProblem("standard input is read once, and - is said twice")
    given = parse_arguments(arguments)
    for name, file in named:
        if name in given:
            raise UsageProblem(f"the argument {name!r} is given twice, by --text and before it: say it once")
        given[name] = _standard_input() if file == "-" else _text_of(Path(file))
    return given


def parse_arguments(given: str) -> dict[str, Any]:
    """The arguments of a call: JSON, ``@FILE`` or ``-`` for standard input. Raises :class:`UsageProblem`."""
    if given == "-":
        text = _standard_input()
    elif given.startswith("@"):
        text = _text_of(Path(given[1:]))
    else:
        text = given
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageProblem(f"--arguments is not JSON: {error}. Give JSON, @FILE, or - for standard input") from None
    except RecursionError:
        raise UsageProblem("--arguments is nested too deeply: 64 levels are allowed") from None
    if not isinstance(value, dict):
        raise UsageProblem('--arguments is one JSON object, like {"text": "a b"}')
    return value


def _name_and_file(given: str) -> tuple[str, str]:
    name, equals, file = given.partition("=")
    if not equals or not name or not file:
        raise UsageProblem(f"--text is NAME=FILE, not {given!r}")
    return name, file


def _standard_input() -> str:
    data = sys.stdin.buffer.read(_MAX_ARGUMENTS + 1)
    if len(data) > _MAX_ARGUMENTS:
        raise UsageProblem(f"standard input: is larger than {_MAX_ARGUMENTS} bytes")
    return _decoded(data, "standard input")


def _text_of(file: Path) -> str:
    return _decoded(read_bytes(file, limit=_MAX_ARGUMENTS), str(file))


def _decoded(data: bytes, whose: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{whose}: is not UTF-8 (byte {error.start + 1} is not): an argument is text") from None


def read_bytes(path: Path, *, limit: int) -> bytes:
    """At most ``limit`` bytes of a file, which may be a link: its user named it.

    Raises :class:`UsageProblem` where it cannot be read, is larger, or is a folder, a pipe or a device: for a pipe
    nobody may ever write to this would wait without end.
    """
    if path.exists() and not path.is_file():
        raise UsageProblem(f"{path}: is no regular file; write what a pipe or a device gives to a file first")
    try:
        return read_bounded(Path(os.path.realpath(path)), limit)
    except TooLong:
        raise UsageProblem(f"{path}: is larger than {limit} bytes") from None
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class _OwnCapability:
    """One that only the operator's program has."""

    name: str
    bounds: type[Bounds] = UncheckedBounds


def own_capabilities(named: Iterable[str] | None = None) -> frozenset[str]:
    """The names of what the operator's program has: those ``named``, and those of ``RHO_WASM_CAPABILITIES``.

    Raises :class:`UsageProblem` for a name that no program's own capability can have.
    """
    names = frozenset([*(named or ()), *os.environ.get(_CAPABILITIES, "").replace(",", " ").split()])
    for name in names:
        try:
            taken = is_reserved(capability_name(name))
        except ValueError as error:
            raise UsageProblem(str(error)) from None
        if taken:
            raise UsageProblem(f"{name}: names that begin so are those of capabilities that ship, never a program's")
    return names


def policy_of(path: Path | None, own: Iterable[str] | None = None) -> Policy:
    """The policy in ``path``, or the default one, for a program that may have capabilities of its ``own``.

    None of these is here, so none is granted here. Raises :class:`rho_wasm.errors.PolicyError`, and
    :class:`UsageProblem` as :func:`own_capabilities` does.
    """
    if path is None:
        return Policy()
    return Policy.load(path, capabilities=map(_OwnCapability, own_capabilities(own)), elsewhere=True)


def is_source(path: Path) -> bool:
    """Whether ``path`` is a file that ends as a source of some language does, or a folder."""
    return path.is_dir() or (path.name.endswith(tuple(languages().values())) and path.is_file())


async def artifact_of(
    path: Path,
    *,
    language: str | None = None,
    manifest: Path | None = None,
    trusted: bool = False,
    compiler: str | None = None,
    snapshot: bool | None = None,
    standalone: bool = False,
    progress: Progress | None = None,
) -> Artifact:
    """What ``path`` is: a built module is taken as it is, a source or a folder of sources is built.

    ``progress`` hears of the build.
    """
    if language is None and path.suffix == ".wasm":
        try:
            return Artifact.from_wasm(read_bytes(path, limit=64 * MIB))
        except ModuleRejected as error:
            raise InFile(path, error) from None
    is_folder = await anyio.Path(path).is_dir()
    if language is None and not is_folder and not path.name.endswith(tuple(languages().values())):
        known = ", ".join(sorted(languages().values()))
        raise UsageProblem(f"{path}: a module ends in .wasm, a source in one of {known}; or say --language")
    if not is_folder and not await anyio.Path(path).is_file():
        raise UsageProblem(f"{path}: no such file")
    declared = None
    if manifest is not None:
        try:
            declared = json.loads(read_bytes(manifest, limit=MIB))
        except ValueError as error:
            raise UsageProblem(f"{manifest}: is not JSON: {error}") from None
        if not isinstance(declared, dict):
            raise UsageProblem(f"{manifest}: a manifest is one JSON object")
    try:
        return await build(
            path,
            language=language,
            manifest=declared,
            trusted=trusted,
            compiler=compiler,
            snapshot=snapshot,
            standalone=standalone,
            progress=progress,
        )
    except ModuleRejected as error:
        raise InFile(path, error) from None


class InFile(ModuleRejected):
    """A refusal that names the file: several may stand on one command line."""

    def __init__(self, path: Path, error: ModuleRejected) -> None:
        super().__init__(
            error.reason,
            f"{path}: {error.detail}",
            limit=error.limit,
            value=error.value,
            name=error.name,
            hint=error.hint,
        )

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"type": ModuleRejected.__name__}
