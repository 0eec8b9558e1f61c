"""The verbs together, and the one place where what went wrong becomes an exit code."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from rho_wasm.cli import (
    conform,
    demo,
    dev,
    doctor,
    engines,
    inspection,
    modules,
    new,
    policy,
    recordings,
    serve,
    store,
    strikes,
)
from rho_wasm.cli.output import FAULT, USAGE, WORKED, Output, UsageProblem

__all__ = ["make_app", "run"]

_HELP = """Host tools that a model writes while it works: each call in a fresh WebAssembly sandbox.

Exit codes: 0 it worked; 1 the tool failed, crashed or the call was refused; 2 wrong usage, bad JSON or a missing extra;
3 a module, a candidate, a build or a policy was refused; 4 the store or the host failed. Every verb has --json."""


def make_app() -> typer.Typer:
    """The application with every verb."""
    app = typer.Typer(
        name="rho-wasm",
        help=_HELP,
        no_args_is_help=True,
        invoke_without_command=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for verbs in (
        demo,
        new,
        modules,
        dev,
        inspection,
        conform,
        store,
        strikes,
        policy,
        recordings,
        serve,
        engines,
        doctor,
    ):
        verbs.add_to(app)

    @app.callback()
    def common(
        version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    ) -> None:
        if version:
            typer.echo(importlib.metadata.version("rho-wasm"))
            raise typer.Exit

    return app


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and answers its exit code. Prints errors, never a traceback."""
    output = Output(as_json="--json" in arguments)
    try:
        code = make_app()(list(arguments), standalone_mode=False)
    except TyperException as error:
        if output.as_json:
            return output.error(UsageProblem(error.format_message()))
        if hasattr(error, "show"):
            error.show()
        return USAGE
    except (KeyboardInterrupt, Abort):
        sys.stderr.write("rho-wasm: stopped\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has read enough. Python would complain again at exit, so it gets nothing to flush to.
        sys.stdout = None
        return WORKED
    except Exception as error:
        return output.error(error)
    return code if isinstance(code, int) else WORKED if code is None else FAULT
