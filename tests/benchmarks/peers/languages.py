"""Who is measured on tools in Python and in JavaScript. All run the same source, each call in a fresh sandbox."""

from __future__ import annotations

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.language_jobs import Language, LanguageJob
from tests.benchmarks.measure import Contender
from tests.benchmarks.peers.modebox import modebox
from tests.benchmarks.peers.monty import monty
from tests.benchmarks.peers.node import node
from tests.benchmarks.peers.ours import ours_in_a_language
from tests.benchmarks.peers.peer import OURS, Peer
from tests.benchmarks.peers.python import function, subprocess
from tests.benchmarks.peers.quickjs_rs import quickjs_rs

__all__ = ["IN_WEBASSEMBLY", "language_peers"]

IN_WEBASSEMBLY = ("modebox", "quickjs_rs", "pyeryx")
"""Of the peers, those whose guests run in WebAssembly, as ours do."""


async def _pyeryx(host: Host | None, job: LanguageJob, callers: int) -> Contender:
    raise Absent("pyeryx had no wheel where this was written, so nobody has seen a call of it here")


def language_peers(language: Language) -> tuple[Peer[LanguageJob], ...]:
    """Ours first, then in the order of the table."""
    function_peer: Peer[LanguageJob] = Peer(
        "python_function", "its twin as a plain Python function, no sandbox", function
    )
    if language == "python":
        return (
            Peer(OURS, "the whole way of a call; CPython, a fresh image", ours_in_a_language),
            Peer("pydantic_monty", "a fresh session of a pooled process; a subset of Python", monty),
            Peer("pyeryx", "CPython in WebAssembly", _pyeryx),
            Peer("python_subprocess", "python -I, a new process a call, no limits", subprocess),
            function_peer,
        )
    return (
        Peer(OURS, "the whole way of a call; QuickJS, a fresh image", ours_in_a_language),
        Peer("modebox", "a fresh run; JavaScript in WebAssembly", modebox),
        Peer("quickjs_rs", "a fresh runtime; QuickJS in WebAssembly", quickjs_rs),
        Peer("node_subprocess", "node -e, a new process a call, no limits", node),
        function_peer,
    )
