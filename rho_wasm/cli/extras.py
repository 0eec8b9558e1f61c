"""What tools in a language need beside this package, whether it is there, and how to get it: extras, and compilers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import NamedTuple

from rho_wasm.errors import BuildError
from rho_wasm.toolchains import languages
from rho_wasm.toolchains.engines.spec import PinnedFile
from rho_wasm.toolchains.image_builder import INTERPRETED
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.toolchains.tinycc import TINYCC

__all__ = ["Extra", "Need", "extra_for", "extras", "needed"]


class Extra(NamedTuple):
    """One extra of rho-wasm. ``problem`` is None where all that it brings is there and is what is known."""

    name: str
    languages: tuple[str, ...]
    brings: tuple[str, ...]
    """Distributions with their versions, one line each."""
    problem: str | None
    hint: str
    """The pip command that helps."""


class Need(NamedTuple):
    """What one language needs here. ``problem`` is None where it is ready; else ``hint`` says what to run."""

    language: str
    suffix: str
    brings: tuple[str, ...]
    """The distributions of its extra, where it has one."""
    problem: str | None
    hint: str


def needed(language: str) -> Need:
    """Looks whether tools in ``language`` can be built here. Raises :class:`BuildError` (``language_unknown``)."""
    suffix = languages().get(language, "")
    extra = extra_for(language)
    if extra is not None and extra.problem is not None:
        return Need(language, suffix, extra.brings, extra.problem, extra.hint)
    error = missing(language) if language not in INTERPRETED else None
    problem, hint = (error.diagnostics[0].message, error.hint) if error is not None else (None, "")
    return Need(language, suffix, extra.brings if extra is not None else (), problem, hint)


def extras() -> tuple[Extra, ...]:
    """Those of languages. Reads and hashes the files that engines are made of: tens of milliseconds."""
    from rho_wasm.toolchains.engines import cpython, quickjs, typescript

    return (
        _pinned("python", cpython.SPEC),
        _pinned("javascript", quickjs.SPEC, typescript.STRIPPER),
        _c(),
        _pinned("tinycc", TINYCC),
    )


def extra_for(language: str) -> Extra | None:
    """The one that tools in ``language`` need; None where they need none. Of several one that is there is enough."""
    found = [extra for extra in extras() if language in extra.languages]
    return next((extra for extra in found if extra.problem is None), found[0] if found else None)


def _pinned(name: str, *files: PinnedFile) -> Extra:
    problem, hint = None, f"pip install 'rho-wasm[{name}]'"
    for file in files:
        try:
            file.read()
        except BuildError as error:
            problem, hint = error.diagnostics[0].message, error.hint or hint
            break
    languages = tuple(language for file in files for language in file.languages)
    brings = tuple(f"{file.distribution} {file.version}" for file in files)
    return Extra(name, tuple(dict.fromkeys(languages)), brings, problem, hint)


def _c() -> Extra:
    hint = "pip install 'rho-wasm[c]'"
    if importlib.util.find_spec("ziglang") is None:
        return Extra("c", ("c", "cpp"), ("ziglang",), "the C compiler is not installed", hint)
    return Extra("c", ("c", "cpp"), (f"ziglang {importlib.metadata.version('ziglang')}",), None, hint)
