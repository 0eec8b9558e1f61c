"""Where tools come from beside the registry's table: sources, asked on every look-up, and wrappers round a source.

A source answers from memory, at once: look-ups happen on the event loop. Tools that take I/O to find come through
:class:`RefreshingSource`, which fetches beside and keeps the last good answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import anyio

from rho_wasm.calls import RunningCall
from rho_wasm.errors import NotATool, RhoError
from rho_wasm.events import OnEvent, SourceFailed, emit, subscriber
from rho_wasm.option_checks import check_items
from rho_wasm.tools import Tool
from rho_wasm.untrusted import exception_text, inert, type_name

__all__ = [
    "FilteredSource",
    "PrefixedSource",
    "RefreshingSource",
    "ToolSource",
    "cancels_calls",
    "checked_sources",
    "source_name",
    "source_version",
]


class ToolSource(Protocol):
    """Something that is asked, on every look-up, for the tools that it has now. Sync: it answers from memory.

    It should answer the same :class:`Tool` objects as long as nothing changed, since a registry keeps what it worked
    out about each. Three attributes are optional: ``name`` is used in reports (else the class's name); ``version``
    is any value that differs from the one before whenever the tools changed, and a registry does not ask such a source
    for its list again before that; ``cancels_calls`` is False where it never cancels a call that it was told of, so
    that short guest calls need not be made ready for it.
    """

    def list(self) -> Sequence[Tool]:
        """The tools that it has now."""
        ...

    def lookup(self, name: str) -> Tool | None:
        """The tool of that name that it has now, or None."""
        ...

    def watch(self, call: RunningCall) -> None:
        """Told of every call that is about to run, its own or not. Raising costs nothing but a report."""
        ...


def checked_sources(sources: Iterable[ToolSource]) -> tuple[ToolSource, ...]:
    """``sources``, in order. Raises TypeError for what is no list of sources."""
    wanted = "sources are a list of objects with list(), lookup(name) and watch(call)"
    check_items(sources, wanted)
    found = tuple(sources)
    for each in found:
        for method in ("list", "lookup", "watch"):
            if not callable(getattr(each, method, None)):
                raise TypeError(f"{wanted}, not a {type_name(each)}")
    return found


def source_name(source: ToolSource) -> str:
    """What reports call ``source``."""
    name = getattr(source, "name", None)
    return inert(name, limit=128) if type(name) is str and name else type_name(source)


def source_version(source: ToolSource) -> Any:
    """The ``version`` of ``source``, None where it has none."""
    return getattr(source, "version", None)


def cancels_calls(source: ToolSource) -> bool:
    """Whether ``source`` may cancel calls. It may unless it says that it does not."""
    return getattr(source, "cancels_calls", True) is not False


class RefreshingSource:
    """A source whose tools are fetched: ``fetch`` is awaited by :meth:`refresh`, never on a look-up.

    Until the first good answer there are no tools. A fetch that raises, takes longer than ``timeout_s`` seconds or
    answers something else than Tools is reported (``SourceFailed``) and changes nothing. Of two at once the one that
    began later wins.
    """

    cancels_calls = False

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Iterable[Tool]]],
        *,
        name: str = "refreshing",
        timeout_s: float = 30.0,
        on_event: OnEvent | None = None,
    ) -> None:
        self.name = name
        self.version = 0
        self._fetch = fetch
        self._timeout_s = timeout_s
        self._on_event = subscriber(on_event)
        self._tools: tuple[Tool, ...] = ()
        self._by_name = MappingProxyType[str, Tool]({})
        self._begun = 0

    def list(self) -> Sequence[Tool]:
        return self._tools

    def lookup(self, name: str) -> Tool | None:
        return self._by_name.get(name)

    def watch(self, call: RunningCall) -> None:
        """What is fetched does not follow its calls."""

    async def refresh(self) -> bool:
        """Fetches once. True if the answer was good; the caller's own cancellation goes through."""
        self._begun += 1
        begun = self._begun
        try:
            with anyio.fail_after(self._timeout_s):
                tools = tuple(await self._fetch())
            for tool in tools:
                if not isinstance(tool, Tool):
                    raise NotATool(type_name(tool))
        except Exception as error:
            text = exception_text(error, trusted=isinstance(error, RhoError))
            emit(self._on_event, SourceFailed(source=self.name, operation="refresh", error=text))
            return False
        if begun >= self.version:
            self.version, self._tools = begun, tools
            # The first of a name wins, as among sources.
            self._by_name = MappingProxyType({tool.name: tool for tool in reversed(tools)})
        return True

    async def keep_fresh(self, every_s: float) -> NoReturn:
        """Refreshes now and then every ``every_s`` seconds, until cancelled. Start it in a task group of your own."""
        while True:
            await self.refresh()
            await anyio.sleep(every_s)


class PrefixedSource:
    """The tools of ``source`` under ``prefix`` + their name, which is how two sources of equal names live together.

    Handlers stay the same objects. A tool whose name becomes too long, or no name, is left out and reported once.
    """

    def __init__(self, source: ToolSource, prefix: str, *, on_event: OnEvent | None = None) -> None:
        self.source = source
        self.prefix = prefix
        self._on_event = subscriber(on_event)
        self._renamed: dict[str, tuple[Tool, Tool | None]] = {}

    @property
    def name(self) -> str:
        return f"{self.prefix}{source_name(self.source)}"

    @property
    def version(self) -> Any:
        return source_version(self.source)

    @property
    def cancels_calls(self) -> bool:
        return cancels_calls(self.source)

    def list(self) -> Sequence[Tool]:
        tools = self.source.list()
        offered = [renamed for tool in tools if (renamed := self._rename(tool)) is not None]
        if len(self._renamed) > len(tools):
            names = {tool.name for tool in tools}
            self._renamed = {name: pair for name, pair in self._renamed.items() if name in names}
        return offered

    def lookup(self, name: str) -> Tool | None:
        if not name.startswith(self.prefix):
            return None
        tool = self.source.lookup(name[len(self.prefix) :])
        return None if tool is None else self._rename(tool)

    def watch(self, call: RunningCall) -> None:
        self.source.watch(call)

    def _rename(self, tool: Tool) -> Tool | None:
        before, renamed = self._renamed.get(tool.name, (None, None))
        if before is not tool:
            try:
                renamed = tool.replace(name=self.prefix + tool.name)
            except ValueError:
                renamed = None
                why = f"{self.prefix}{tool.name} is no tool's name: at most 64 of A-Z a-z 0-9 _ -"
                emit(self._on_event, SourceFailed(source=self.name, operation="list", error=why, tools=(tool.name,)))
            self._renamed[tool.name] = (tool, renamed)
        return renamed


class FilteredSource:
    """The tools of ``source`` for which ``keep(tool)`` is true. It is asked each time, so it may change its mind."""

    def __init__(self, source: ToolSource, keep: Callable[[Tool], bool]) -> None:
        self.source = source
        self._keep = keep

    @property
    def name(self) -> str:
        return source_name(self.source)

    @property
    def cancels_calls(self) -> bool:
        return cancels_calls(self.source)

    def list(self) -> Sequence[Tool]:
        return [tool for tool in self.source.list() if self._keep(tool)]

    def lookup(self, name: str) -> Tool | None:
        tool = self.source.lookup(name)
        return tool if tool is not None and self._keep(tool) else None

    def watch(self, call: RunningCall) -> None:
        self.source.watch(call)
