"""Where rho_wasm runs. One clear sentence instead of a failure deep inside."""

from __future__ import annotations

import platform
import sys

__all__ = ["require_supported_platform"]


def require_supported_platform(system: str = sys.platform, machine: str | None = None) -> None:
    """Raises ImportError, in one sentence, on a platform where the limits that this package promises cannot be kept."""
    if system == "win32":
        raise ImportError(
            "rho_wasm does not run on Windows: CPU and memory limits of the compiling child process and the owner and "
            "mode checks of the native-code cache are absent there; use WSL, Linux or macOS."
        )
    if not system.startswith("linux") and system != "darwin":
        raise ImportError(f"rho_wasm runs on Linux and macOS, not on {system}: wasmtime has no build for it.")
    machine = (machine or platform.machine()).lower()
    if machine not in ("x86_64", "amd64", "aarch64", "arm64"):
        raise ImportError(f"rho_wasm runs on x86-64 and aarch64, not on {machine}: wasmtime has no build for it.")
