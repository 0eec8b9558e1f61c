"""Verbs that serve: ``serve mcp``, for a model's client to connect to."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from rho_wasm.cli.options import JsonOption, PolicyOption, StoreOption, policy_of, read_bytes
from rho_wasm.cli.output import Output, UsageProblem
from rho_wasm.cli.signals import until_signal
from rho_wasm.cli.which_store import DEFAULT_STORE
from rho_wasm.errors import RhoError
from rho_wasm.events import Event, GenerationSwitched, SourceFailed, ToolQuarantined
from rho_wasm.host import Host
from rho_wasm.toolchains import ImageBuilder
from rho_wasm.toolchains.image_builder import INTERPRETED
from rho_wasm.untrusted import exception_text, inert
from rho_wasm.workshop import Workshop

if TYPE_CHECKING:
    from rho_wasm.server import McpServer

__all__ = ["TOKEN_VARIABLE", "InertFormatter", "add_to", "client_token"]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
TOKEN_VARIABLE = "RHO_WASM_MCP_TOKEN"  # noqa: S105  (the name of a variable)

_TOKEN_BYTES = 4_096
_log = logging.getLogger("rho_wasm.serve")


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of standard input and output.")] = False,
    host: Annotated[
        str | None,
        typer.Option("--host", help=f"The address, by default {DEFAULT_HOST}; one that is not loopback needs a token."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help=f"By default {DEFAULT_PORT}; 0 is a free one.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help=f"The token of clients; or set {TOKEN_VARIABLE}."),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name by which clients reach it. May be repeated."),
    ] = None,
    eager: Annotated[
        bool, typer.Option("--eager", help="For clients that list tools once: adds call_tool, and news to each result.")
    ] = False,
    workshop: Annotated[
        bool, typer.Option("--workshop", help="Tools with which the model writes, tests and switches on tools.")
    ] = False,
    languages: Annotated[
        list[str] | None,
        typer.Option("--workshop-language", metavar="L", help="One that may be written; default: all sandboxed ones."),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve a store's live tools to a model's client (Model Context Protocol), until it goes or you stop this.

    Standard output is the protocol's alone; what happens is told on standard error.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageProblem("serve mcp needs an extra: pip install 'rho-wasm[mcp]'")
    from rho_wasm.server import EventFeed, McpServer

    output = Output(as_json=as_json)
    if not http and (host is not None or port is not None or token_file is not None or names):
        raise UsageProblem("--host, --port, --token-file and --allow-host are for --http")
    if languages and not workshop:
        raise UsageProblem("--workshop-language is for --workshop: say both")
    token = client_token(token_file) if http else None
    number = DEFAULT_PORT if port is None else port
    bench = _workshop(languages) if workshop else None
    _log_to_stderr()

    async def run() -> None:
        feed = EventFeed(_tell)
        async with Host.open(store, policy=policy_of(policy), on_event=feed, workshop=bench or False) as opened:
            server = McpServer(opened.runner, feed=feed, eager=eager)
            async with anyio.create_task_group() as group:
                await group.start(until_signal, group.cancel_scope)
                if bench is not None:
                    group.start_soon(_make_engines, bench)
                if http:
                    await _over_http(server, host or DEFAULT_HOST, number, token, names or (), output)
                else:
                    from rho_wasm.server.stdio import serve_stdio

                    if sys.stdin.isatty():
                        output.aside("serving on standard input and output, for an MCP client to start; Ctrl-C ends it")
                    await serve_stdio(server)
                group.cancel_scope.cancel()

    try:
        anyio.run(run)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _workshop(languages: Sequence[str] | None) -> Workshop:
    """The workshop that serves. Raises UsageProblem where nothing can be written in it."""
    try:
        made = Workshop(languages=languages or None)
        made.usable()
    except ValueError as error:
        raise UsageProblem(str(error)) from None
    return made


async def _make_engines(workshop: Workshop) -> None:
    """Makes the interpreters that the workshop's languages need and that are not there: up to a minute, once for each
    user, while all else is served."""
    for language in workshop.usable():
        if language in INTERPRETED:
            try:
                async with ImageBuilder() as images:
                    await images.engine(language)
            except Exception as error:
                # Whatever it is, the tools that there are go on being served.
                why = exception_text(error, trusted=isinstance(error, RhoError))
                _log.warning("nothing can be written in %s: %s", language, why)


async def _over_http(
    server: McpServer, host: str, port: int, token: str | None, names: Sequence[str], output: Output
) -> None:
    from rho_wasm.server.door import MIN_TOKEN_CHARS
    from rho_wasm.server.http import NeedsToken, serve_http

    def ready(url: str) -> None:
        output.object({"serving": "mcp", "url": url, "token": token is not None})
        output.aside(f"serving at {url} (Ctrl-C ends it)", style=None)
        if token is not None and not names:
            output.aside("clients reach it by that name and by loopback names; others are told with --allow-host")
        sys.stdout.flush()

    try:
        await serve_http(server, host=host, port=port, token=token, names=names, on_ready=ready)
    except NeedsToken:
        raise UsageProblem(
            f"{host} can be reached from elsewhere, so clients need a token of at least {MIN_TOKEN_CHARS} characters: "
            f"--token-file FILE, or {TOKEN_VARIABLE}"
        ) from None
    except OSError as error:
        raise UsageProblem(f"{host} port {port}: {error.strerror or 'cannot be served at'}") from None


def client_token(file: Path | None) -> str | None:
    """The token in ``file``, or in the environment; never on the command line, which every process may read.

    Raises :class:`UsageProblem` for one that could be guessed, or that no header can carry.
    """
    from rho_wasm.server.door import MIN_TOKEN_CHARS

    if file is not None:
        token, where = read_bytes(file, limit=_TOKEN_BYTES).decode("utf-8", "replace").strip(), str(file)
    elif TOKEN_VARIABLE in os.environ:
        token, where = os.environ[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageProblem(f"{where}: a token is at least {MIN_TOKEN_CHARS} printable ASCII characters without spaces")
    return token


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a group of tasks failed with, where that is one thing."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner


def _tell(event: Event) -> None:
    if isinstance(event, GenerationSwitched):
        _log.info("generation %d is live (%s)", event.number, event.author)
    elif isinstance(event, ToolQuarantined):
        _log.warning("%s is quarantined: %s", event.tool, ", ".join(event.reasons))
    elif isinstance(event, SourceFailed):
        _log.warning("%s failed in %s: %s", event.source, event.operation, event.error)


class InertFormatter(logging.Formatter):
    """One line a record, without what a terminal would obey, and no traceback: messages carry clients' words."""

    def format(self, record: logging.LogRecord) -> str:
        text = inert(record.getMessage(), limit=1_000)
        if record.exc_info is not None and record.exc_info[1] is not None:
            text += f": {exception_text(record.exc_info[1])}"
        return f"rho-wasm: {record.levelname.lower()}: {text}"


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(InertFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    _log.setLevel(logging.INFO)


def add_to(app: typer.Typer) -> None:
    verbs = typer.Typer(name="serve", help="Serve tools to clients.", no_args_is_help=True, rich_markup_mode=None)
    verbs.command("mcp")(mcp)
    app.add_typer(verbs)
