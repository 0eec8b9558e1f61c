"""Which of the two compilers builds a C source: the one that is quick and native, or the one that is in the sandbox."""

from __future__ import annotations

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import tinycc
from rho_wasm.toolchains.c import compile_c
from rho_wasm.toolchains.c_clang import find_compiler
from rho_wasm.toolchains.tinycc import compile_tinycc
from rho_wasm.toolchains.toolchain import Toolchain
from rho_wasm.untrusted import inert

__all__ = ["C_COMPILERS", "c_compiler", "find_c", "no_choice"]

C_COMPILERS = ("clang", "tinycc")


def c_compiler(compiler: str | None, *, operators: bool) -> Toolchain:
    """``clang`` or ``tinycc`` as ``compiler`` says; None leaves it to whose source it is.

    The operator's own (``operators``) is built by clang, anybody else's by TinyCC, if that is installed, since a
    native compiler is no place for a hostile text. Where the kernel cannot confine clang, or it is not installed,
    TinyCC builds all.

    Raises :class:`BuildError` (``compiler_unknown``).
    """
    if compiler is None:
        native = operators and landlock_version() > 0 and _has_clang()
        compiler = "clang" if native or not tinycc.is_installed() else "tinycc"
    if compiler == "tinycc":
        return compile_tinycc
    if compiler == "clang":
        return compile_c
    raise BuildError(
        "c",
        [Diagnostic(f"{inert(compiler, limit=64)} is no compiler known here")],
        reason="compiler_unknown",
        hint=f"say one of {', '.join(C_COMPILERS)}",
    )


def find_c() -> None:
    """Raises :class:`BuildError` (``missing_extra``) where neither compiler is installed."""
    if not tinycc.is_installed():
        find_compiler("c")


def _has_clang() -> bool:
    try:
        find_compiler("c")
    except BuildError:
        return False
    return True


def no_choice(language: str, compiler: str | None) -> None:
    """Raises :class:`BuildError` (``compiler_unknown``) where a language with one compiler is told which."""
    if compiler is not None:
        raise BuildError(
            language, [Diagnostic(f"{language} has one compiler: leave the choice out")], reason="compiler_unknown"
        )
