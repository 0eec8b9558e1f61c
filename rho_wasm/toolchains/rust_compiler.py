"""Finds a Rust compiler that can make WebAssembly: itself, its linker, and every file that the two must read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.untrusted import inert

__all__ = ["RustCompiler", "find_rust"]

_TARGET = "wasm32-unknown-unknown"
_USUAL = ("/usr/bin", "/usr/local/bin", "~/.cargo/bin")
_LOADER_CACHE = "/etc/ld.so.cache"
_HINT = f"Debian and Ubuntu: apt-get install rustc libstd-rust-dev-wasm32 lld; with rustup: rustup target add {_TARGET}"


@dataclass(frozen=True, slots=True)
class RustCompiler:
    """``read`` are the files and folders that compiling and linking must read, nothing of the user's among them."""

    program: Path
    linker: Path
    sysroot: Path
    version: str
    read: tuple[str, ...]


def find_rust(environment: Mapping[str, str] | None = None) -> RustCompiler:
    """The first ``rustc`` on the PATH, or where they are usually, that has the target ``wasm32-unknown-unknown``.

    Blocks while it asks the compilers that it finds, some 0.2 s. Raises :class:`BuildError` (``missing_toolchain``)
    that says what is there and what to install.
    """
    given = os.environ if environment is None else environment
    seen: list[str] = []
    for command in _commands(given):
        # What is started here may be rustup's, which picks a compiler by the user's own settings.
        sysroot = Path(_said([command, "--print", "sysroot"], given).strip())
        program = sysroot / "bin" / "rustc"
        version = _said([program, "--version"], given).strip()
        if not version.startswith("rustc "):
            continue
        linker = _linker(sysroot, given)
        if not _has_target(sysroot):
            seen.append(f"{version} without the target {_TARGET}")
        elif linker is None:
            seen.append(f"{version} without a linker (rust-lld or wasm-ld)")
        else:
            # The kernel's rules know real paths only.
            target = sysroot / "lib" / "rustlib" / _TARGET
            named = (program.resolve(), linker.resolve(), target.resolve(), _LOADER_CACHE)
            read = [*(str(each) for each in named), *_libraries(program), *_libraries(linker)]
            return RustCompiler(program.resolve(), linker, sysroot, version, tuple(dict.fromkeys(read)))
    found = f"; here is {inert(', '.join(seen), limit=300)}" if seen else ""
    message = f"there is no Rust compiler for WebAssembly on this machine{found}"
    raise BuildError("rust", [Diagnostic(message)], reason="missing_toolchain", hint=_HINT)


def _commands(environment: Mapping[str, str]) -> Iterator[Path]:
    folders = [*environment.get("PATH", "").split(os.pathsep), *_USUAL]
    seen: set[Path] = set()
    for folder in folders:
        command = Path(folder).expanduser() / "rustc"
        if command.is_absolute() and os.access(command, os.X_OK) and (real := command.resolve()) not in seen:
            seen.add(real)
            yield command


def _has_target(sysroot: Path) -> bool:
    return any((sysroot / "lib" / "rustlib" / _TARGET / "lib").glob("libstd-*.rlib"))


def _linker(sysroot: Path, environment: Mapping[str, str]) -> Path | None:
    for own in sorted((sysroot / "lib" / "rustlib").glob("*/bin/rust-lld")):
        return own
    path = os.pathsep.join([environment.get("PATH", ""), *_USUAL[:2]])
    found = shutil.which("rust-lld", path=path) or shutil.which("wasm-ld", path=path)
    return Path(found) if found is not None else None


def _said(argv: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """What a program of this machine's owner writes on standard output; nothing where it fails."""
    try:
        done = subprocess.run(argv, env=dict(environment), capture_output=True, stdin=subprocess.DEVNULL, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _libraries(program: Path) -> list[str]:
    """The shared libraries that ``program`` loads, and the loader: what the loader itself says of it."""
    lines = _said([program], {"LD_TRACE_LOADED_OBJECTS": "1"}).splitlines()
    paths = (line.partition(" => ")[2] or line for line in lines)
    return [path for path in (each.strip().partition(" (0x")[0] for each in paths) if path.startswith("/")]
