"""What is built: a file, or a folder of them, read whole and bounded before any toolchain sees it.

A toolchain is given texts and their names, never a folder of the host: what is not in the :class:`Project` it cannot
reach. So links are refused, not followed, and a name has no way out of the folder that the texts are written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.toolchains.files import TooLong, read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.source_text import text_of
from rho_wasm.untrusted import inert

__all__ = ["Project", "read_folder"]

_NAME_CHARS = 128
_NOT_SOURCES = (".wasm", ".manifest.json", ".pyc", ".o", ".a")
_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The texts of one build by their relative POSIX names. ``main`` is the one that was named, or stands for all.

    ``name`` is what the author knows ``main`` by, for messages.
    """

    main: str
    files: Mapping[str, str] = field(repr=False)
    name: str

    @classmethod
    def of_text(cls, text: str, *, name: str) -> Project:
        """One file alone."""
        file = PurePosixPath(name).name
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

    Hidden files and folders, and what a build leaves, are passed over. The main file is ``FOLDER.suffix``,
    ``main.suffix``, ``src/lib.suffix``, or the only one that is there.

    Raises :class:`BuildError`: ``source_unreadable`` (a link, no main file, no UTF-8), ``source_too_large``
    (``BuildLimits.source_bytes`` in all, ``source_files``).
    """
    return await anyio.to_thread.run_sync(_read_folder, folder, language, suffixes, limits)


def _read_folder(folder: Path, language: str, suffixes: tuple[str, ...], limits: BuildLimits) -> Project:
    files: dict[str, str] = {}
    left = limits.source_bytes
    for name in _names(folder, language, suffixes, limits):
        try:
            data = read_bounded(folder / name, left)
        except TooLong:
            why = f"the files of the folder have more than {limits.source_bytes} bytes in all"
            raise _refused(language, name, why, "source_too_large") from None
        except OSError as error:
            raise _refused(language, name, f"cannot be read: {error.strerror or error}") from None
        left -= len(data)
        files[name] = text_of(data, name=language, file=name)
    main = _main(folder, list(files), suffixes[0])
    if main is None:
        wanted = f"{folder.name}{suffixes[0]}, main{suffixes[0]} or src/lib{suffixes[0]}"
        raise _refused(language, folder.name, f"none of its files is the main one, which is called {wanted}")
    return Project(main=main, files=MappingProxyType(files), name=main)


def _names(folder: Path, language: str, suffixes: tuple[str, ...], limits: BuildLimits) -> list[str]:
    found: list[str] = []
    waiting = [(folder, "")]
    while waiting:
        here, prefix = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise _refused(language, prefix or folder.name, f"cannot be read: {error.strerror or error}") from None
        for entry in listed:
            name = prefix + entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            if entry.name.startswith("."):
                continue
            if stat.S_ISDIR(mode):
                if name.count("/") >= _DEPTH:
                    raise _refused(language, name, f"lies more than {_DEPTH} folders deep")
                waiting.append((Path(entry.path), f"{name}/"))
            elif entry.name.endswith(_NOT_SOURCES) or not entry.name.endswith(suffixes):
                continue
            elif not stat.S_ISREG(mode):
                raise _refused(language, name, "is no regular file; links are not followed, so copy what it stands for")
            else:
                found.append(name)
            if len(found) > limits.source_files:
                why = f"the folder has more than {limits.source_files} sources"
                raise _refused(language, name, why, "source_too_large")
    return sorted(found)


def _main(folder: Path, names: list[str], suffix: str) -> str | None:
    for wanted in (f"{folder.name}{suffix}", f"main{suffix}", f"src/lib{suffix}", f"src/main{suffix}"):
        if wanted in names:
            return wanted
    own = [name for name in names if name.endswith(suffix)]
    return own[0] if len(own) == 1 else None


def _refused(language: str, file: str, why: str, reason: str = "source_unreadable") -> BuildError:
    return BuildError(language, [Diagnostic(why, file=inert(file, limit=_NAME_CHARS))], reason=reason)
