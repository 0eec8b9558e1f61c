"""What is built: a file, or a folder of them, read whole and bounded before any toolchain sees it.

A toolchain is given texts and their names, never a folder of the host: what is not in the :class:`Project` it cannot
reach. So links are refused, not followed, whenever they are made, a name has no way out of the folder that the texts
are written to, and none can be taken for an option or a response file by a compiler that is given it.

Passed over, wherever they lie, are what tools make (folders called ``target``, ``node_modules``, ``zig-cache``,
``zig-out`` or ``__pycache__``), tests (``test_...`` and ``..._test``, but for the main file of a folder that is called
so) and all that is hidden (whose name begins with a dot): what lies there is not built.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.toolchains.files import FOLDER, TooLong, read_bounded, read_inside
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.source_text import text_of
from rho_wasm.untrusted import inert

__all__ = ["ENTRIES", "Project", "folder_name", "main_files", "read_folder", "read_main", "walk"]

_NAME_CHARS = 128
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_NOT_SOURCES = (".wasm", ".manifest.json", ".pyc", ".o", ".a")
_TEST = re.compile(r"(?:test_.*|.*_test)\.[^.]+")
"""How tests are called in every language here. What ``new`` makes has one in Python, whatever its tool is in."""
_NOT_FOLDERS = ("__pycache__", "node_modules", "target", "zig-cache", "zig-out")
"""What builds and package managers make."""
_DEPTH = 8
ENTRIES = 10_000
"""Files and folders that are looked at, sources or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The texts of one build by their relative POSIX names. ``main`` is the one that was named, or stands for all.

    Each part of a name is letters, digits and ``_ . + -``, and begins with none of the last three. ``name`` is what the
    author knows ``main`` by, for messages: it may hold anything.
    """

    main: str
    files: Mapping[str, str] = field(repr=False)
    name: str

    @classmethod
    def of_text(cls, text: str, *, name: str) -> Project:
        """One file alone. Where ``name`` is none for a file of a project, ``main`` is one like it."""
        file = PurePosixPath(name).name
        if _PLAIN_NAME.fullmatch(file) is None:
            file = f"x{re.sub(r'[^A-Za-z0-9_.+-]', '_', file)[-_NAME_CHARS + 1 :]}"
        return cls(main=file, files=MappingProxyType({file: text}), name=name)

    @property
    def text(self) -> str:
        """Of ``main``."""
        return self.files[self.main]

    @property
    def reviewed(self) -> str:
        """All of it, for who reviews an artifact: ``main`` first, each further file under its name."""
        others = (f"\n==== {name} ====\n{text}" for name, text in sorted(self.files.items()) if name != self.main)
        return self.text + "".join(others)

    def write_to(self, folder: Path) -> None:
        """Writes every file under ``folder``, which holds none of them yet."""
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="") as file:
                file.write(text)


async def read_folder(folder: Path, *, language: str, suffixes: tuple[str, ...], limits: BuildLimits) -> Project:
    """All sources under ``folder``: what has one of ``suffixes`` (the first is the language's own), or is named so.

    Hidden files and folders, and the folders that tools make, are passed over. The main file is ``FOLDER.suffix``,
    ``main.suffix``, ``src/lib.suffix``, ``src/main.suffix``, or the only one that is there.

    Raises :class:`BuildError`: ``source_unreadable`` (a link, a name that a compiler could misread, no main file, no
    UTF-8), ``source_too_large`` (``BuildLimits.source_bytes`` in all, ``source_files``).
    """
    return await anyio.to_thread.run_sync(_read_folder, folder, language, suffixes, limits)


async def main_files(folder: Path, suffixes: Mapping[str, str], *, limits: BuildLimits) -> dict[str, str]:
    """The main file of each language that ``folder`` may be a project in, by ``suffixes`` of languages.

    A file that is called as main files are counts before one that is only the sole one of its language. Raises as
    :func:`read_folder` does.
    """
    return await anyio.to_thread.run_sync(_main_files, folder, suffixes, limits)


async def read_main(folder: Path, *, language: str, suffix: str, limits: BuildLimits) -> tuple[str, bytes] | None:
    """The main file of ``folder`` alone, for languages whose tools are one file: its relative name, and what it holds.

    None where there is none. Raises as :func:`read_folder` does.
    """
    return await anyio.to_thread.run_sync(_read_main, folder, language, suffix, limits)


def folder_name(folder: Path) -> str:
    """What a folder is called, also where it is given as ``.`` or ``..``."""
    return Path(os.path.abspath(folder)).name  # noqa: PTH100 - a link keeps the name that its user knows


def _read_folder(folder: Path, language: str, suffixes: tuple[str, ...], limits: BuildLimits) -> Project:
    files: dict[str, str] = {}
    left = limits.source_bytes
    for name, parent in _names(folder, language, suffixes, limits):
        if any(_PLAIN_NAME.fullmatch(part) is None for part in name.split("/")):
            why = "is no name for a source, which is of letters, digits and _ . + -, and begins with a letter or digit"
            raise _refused(language, name, why)
        try:
            data = read_bounded(Path(PurePosixPath(name).name), left, folder=parent)
        except TooLong:
            why = f"the files of the folder have more than {limits.source_bytes} bytes in all"
            raise _refused(language, name, why, "source_too_large") from None
        except OSError as error:
            raise _refused(language, name, f"cannot be read: {error.strerror or error}") from None
        left -= len(data)
        files[name] = text_of(data, name=language, file=name)
    main = _called_main(folder, list(files), suffixes[0]) or _sole(
        [each for each in files if each.endswith(suffixes[0])]
    )
    if main is None:
        wanted = f"{folder.name}{suffixes[0]}, main{suffixes[0]} or src/lib{suffixes[0]}"
        raise _refused(language, folder.name, f"none of its files is the main one, which is called {wanted}")
    return Project(main=main, files=MappingProxyType(files), name=main)


def _read_main(folder: Path, language: str, suffix: str, limits: BuildLimits) -> tuple[str, bytes] | None:
    main = _main_files(folder, {language: suffix}, limits).get(language)
    if main is None:
        return None
    try:
        return main, read_inside(folder, main, limits.source_bytes)
    except TooLong:
        raise _refused(language, main, f"is longer than {limits.source_bytes} bytes", "source_too_large") from None
    except OSError as error:
        raise _refused(language, main, f"cannot be read: {error.strerror or error}") from None


def _main_files(folder: Path, suffixes: Mapping[str, str], limits: BuildLimits) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    longest_first = sorted(suffixes.items(), key=lambda item: -len(item[1]))
    for name, _ in _names(folder, "build", tuple(suffixes.values()), limits):
        language = next(language for language, suffix in longest_first if name.endswith(suffix))
        found.setdefault(language, []).append(name)
    called = {language: _called_main(folder, names, suffixes[language]) for language, names in found.items()}
    sole = {language: _sole(names) for language, names in found.items()}
    chosen = called if any(called.values()) else sole
    return {language: name for language, name in chosen.items() if name is not None}


def _names(folder: Path, language: str, suffixes: tuple[str, ...], limits: BuildLimits) -> Iterator[tuple[str, int]]:
    """The sources under ``folder`` in order, each with a descriptor of the folder that it lies in."""
    try:
        descriptor = os.open(folder, FOLDER)
    except OSError as error:
        raise _refused(language, folder_name(folder), f"cannot be read: {error.strerror or error}") from None
    seen = sources = 0
    try:
        for name, parent, is_folder in walk(descriptor, language=language):
            seen += 1
            if not is_folder and name.endswith(suffixes) and not _is_no_source(name, folder):
                sources += 1
                mode = os.stat(PurePosixPath(name).name, dir_fd=parent, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    why = "is no regular file; links are not followed, so copy what it stands for"
                    raise _refused(language, name, why)
                yield name, parent
            if sources > limits.source_files:
                why = f"the folder has more than {limits.source_files} sources"
                raise _refused(language, name, why, "source_too_large")
            if seen > ENTRIES:
                why = f"the folder has more than {ENTRIES} files: name one that holds a tool and little else"
                raise _refused(language, name, why, "source_too_large")
    except OSError as error:
        raise _refused(language, folder_name(folder), f"cannot be read: {error.strerror or error}") from None
    finally:
        os.close(descriptor)


def _is_no_source(name: str, folder: Path) -> bool:
    file = PurePosixPath(name).name
    if name.endswith(_NOT_SOURCES):
        return True
    own = folder_name(folder).replace("-", "_")
    return _TEST.fullmatch(file) is not None and file.partition(".")[0].replace("-", "_") != own


def walk(
    descriptor: int, *, language: str, apart_from: frozenset[tuple[int, int]] = frozenset(), prefix: str = ""
) -> Generator[tuple[str, int, bool], None, None]:
    """Everything under the folder of ``descriptor`` in order: its relative name, a descriptor of the folder that it
    lies in, and whether it is a folder. A link is none, whenever it was put there.

    Not gone into are the folders of ``apart_from``, each a device and an inode. Raises OSError, and :class:`BuildError`
    for folders that lie too deep.
    """
    with os.scandir(descriptor) as entries:
        looked_at = islice(entries, ENTRIES + 1)
        listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in looked_at)
    for name, is_folder in listed:
        if name.startswith(".") or (is_folder and name in _NOT_FOLDERS):
            continue
        yield prefix + name, descriptor, is_folder
        if not is_folder:
            continue
        inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
        try:
            status = os.fstat(inner)
            if (status.st_dev, status.st_ino) in apart_from:
                continue
            if prefix.count("/") >= _DEPTH:
                raise _refused(language, prefix + name, f"lies more than {_DEPTH} folders deep")
            yield from walk(inner, language=language, apart_from=apart_from, prefix=f"{prefix}{name}/")
        finally:
            os.close(inner)


def _called_main(folder: Path, names: list[str], suffix: str) -> str | None:
    own = folder_name(folder)
    wanted = (f"{own}{suffix}", f"{own.replace('-', '_')}{suffix}", f"main{suffix}")
    return next((name for name in (*wanted, f"src/lib{suffix}", f"src/main{suffix}") if name in names), None)


def _sole(names: list[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _refused(language: str, file: str, why: str, reason: str = "source_unreadable") -> BuildError:
    return BuildError(language, [Diagnostic(why, file=inert(file, limit=_NAME_CHARS))], reason=reason)
