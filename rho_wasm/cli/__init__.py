"""The command line. It needs the extra ``cli``; everything it does is the public API."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point ``rho-wasm``. Exits with 2, naming the extra, where typer or rich is missing."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print("rho-wasm: the command line needs an extra: pip install 'rho-wasm[cli]'", file=sys.stderr)
        sys.exit(2)
    from rho_wasm.cli.app import run

    sys.exit(run(sys.argv[1:]))
