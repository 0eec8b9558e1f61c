"""Which tool answers to a name: the host's core tools, tools registered at runtime, and sources asked on every look-up.

A plain object: there is no process-wide registry and no process-wide configuration.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from typing import Any

from rho_wasm.builtin import builtin_tools
from rho_wasm.builtin.outputs import MemoryOutputs, Outputs
from rho_wasm.calls import RunningCall
from rho_wasm.errors import NameInvalid, NameReserved, NotATool, RhoError, SchemaInvalid
from rho_wasm.events import OnEvent, SourceFailed, emit, subscriber
from rho_wasm.names import MAX_NAME_CHARS, Reservations, problem_of
from rho_wasm.offered import KnownTool, Shadowed, ToolSchemas, ToolSnapshot
from rho_wasm.portable import unportable
from rho_wasm.sources import ToolSource, cancels_calls, checked_sources, source_name, source_version
from rho_wasm.tools import Tool
from rho_wasm.untrusted import exception_text, inert, type_name

__all__ = ["ToolRegistry"]

_NAMES_REMEMBERED = 1_024


class _Merged:
    """One merge of the table and the sources, with what it was made of."""

    __slots__ = ("answers", "shadowed", "snapshot", "table", "versions")

    def __init__(
        self,
        table: int,
        versions: Sequence[Any],
        answers: tuple[tuple[Tool, ...], ...],
        snapshot: ToolSnapshot,
        shadowed: tuple[Shadowed, ...],
    ) -> None:
        self.table = table
        self.versions = versions
        self.answers = answers
        self.snapshot = snapshot
        self.shadowed = shadowed


class ToolRegistry:
    """The tools that a model may call, by name, from three places, in this order.

    * The table: ``core`` tools (None: :func:`rho_wasm.builtin.builtin_tools`; ``[]``: none), then those registered.
    * ``sources`` in their order, asked on every look-up, so one whose tools change changes what is offered at once.

    A core name always wins: it and its look-alikes can be neither registered nor offered by a source, and the same
    goes for the host's own names (``names.RESERVED``) and for those in ``reserved``. Core tools themselves are the
    host's, so they may have such names.

    ``outputs`` keeps texts too long for a model (default: in memory, bounded); ``on_event`` hears of sources that
    raise. Look-ups take no lock and may come from any thread; what is offered is merged again only when the table, a
    source's ``version`` or, for sources without one, the tools it answers have changed.

    Raises ValueError for two core tools of one name, :class:`NameInvalid`, :class:`NotATool` and
    :class:`rho_wasm.errors.SchemaInvalid` for core tools that cannot be.
    """

    def __init__(
        self,
        core: Iterable[Tool] | None = None,
        *,
        sources: Iterable[ToolSource] = (),
        reserved: Iterable[str] = (),
        outputs: Outputs | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.outputs: Outputs = MemoryOutputs() if outputs is None else outputs
        self._on_event = subscriber(on_event)
        self._schemas = ToolSchemas()
        self._core: dict[str, Tool] = {}
        for tool in builtin_tools() if core is None else core:
            self._check(tool)
            if (why := problem_of(tool.name)) is not None:
                raise NameInvalid(tool.name, why)
            if tool.name in self._core:
                raise ValueError(f"two core tools are named {tool.name!r}")
            self._core[tool.name] = tool
        self._sources = checked_sources(sources)
        self.calls_may_be_cancelled = any(map(cancels_calls, self._sources))
        """Whether a source may cancel a call that it was told of."""
        self._reservations = Reservations(core=self._core, reserved=reserved)
        # What a name looks like is looked at once, of those that are asked for again and again.
        self._offerable = lru_cache(maxsize=_NAMES_REMEMBERED)(self._reservations.leave_free)
        self._writing = threading.Lock()
        # Readers take no lock: each change is one assignment to one dict.
        self._table = dict(self._core)
        self._registered: dict[str, object] = {}
        self._changes = 0
        self._merged: _Merged | None = None

    def _check(self, tool: object) -> None:
        if not isinstance(tool, Tool):
            raise NotATool(type_name(tool))
        self._schemas.of(tool)
        if (why := unportable(tool.input_schema)) is not None:
            raise SchemaInvalid(f"{tool.name}: {why}")

    def register(self, tool: Tool) -> None:
        """Adds ``tool``, replacing a registered tool of that name; the model is offered it from its next call on.

        Raises :class:`NotATool`, :class:`NameReserved`, :class:`NameInvalid`, or SchemaInvalid for a schema that
        arguments cannot be checked against, or that the API of a model would refuse (:mod:`rho_wasm.portable`).
        """
        if not isinstance(tool, Tool):
            raise NotATool(type_name(tool))
        self._reservations.check(tool.name)
        self._check(tool)
        with self._writing:
            # A tool that replaces another keeps its token, so snapshots still answer the one that they showed.
            self._registered.setdefault(tool.name, object())
            self._table[tool.name] = tool
            self._changes += 1

    def unregister(self, name: str) -> None:
        """Takes a registered tool away, in snapshots too. Sources are not affected; an unknown name does nothing.

        Raises :class:`NameReserved` for the name of a core tool.
        """
        if name in self._core:
            raise NameReserved(name, name, "it is a core tool's")
        with self._writing:
            if self._registered.pop(name, None) is not None:
                del self._table[name]
                self._changes += 1

    def lookup(self, name: str) -> Tool | None:
        """The tool offered as ``name``: the table's, else the first source's that has it. 10,000 tools cost no more."""
        found = self.find(name)
        return None if found is None else found[0]

    def find(self, name: str) -> tuple[Tool, KnownTool] | None:
        """The same, with what is known of it."""
        if type(name) is not str:
            return None
        tool = self._table.get(name)
        if tool is not None:
            return tool, self._schemas.known(tool)
        if not self._sources or len(name) > MAX_NAME_CHARS or not self._offerable(name):
            return None
        for source in self._sources:
            try:
                found = source.lookup(name)
                if found is None:
                    continue
                if type(found) is not Tool or found.name != name:
                    _check_answers_to(name, found)
            except Exception as error:
                self._report(source, "lookup", error, (name,))
                continue
            # The first that has the name decides, as in the list: a later one must not step in unnoticed.
            known = self._schemas.known(found)
            return None if type(known.schema) is SchemaInvalid else (found, known)
        return None

    def list(self) -> Sequence[Tool]:
        """All tools offered now, sorted by name. The same object until something changes."""
        return self._merge().snapshot.list()

    def snapshot(self) -> ToolSnapshot:
        """What a loop reads at the start of each model call: the calls of that turn are answered from it."""
        return self._merge().snapshot

    def core_tools(self) -> Sequence[Tool]:
        """The core tools that the registry started with."""
        return tuple(self._core.values())

    def sources(self) -> Sequence[ToolSource]:
        """The sources, in order."""
        return self._sources

    def shadowed(self) -> Sequence[Shadowed]:
        """The tools of sources that are not offered now, and why."""
        return self._merge().shadowed

    def reservation(self, name: str) -> NameReserved | None:
        """The error that says why nobody but the host may use ``name``, or None where it is free."""
        return self._reservations.holds(name)

    def known(self, tool: Tool) -> KnownTool:
        """What is known of a tool that was offered."""
        return self._schemas.known(tool)

    def watch(self, call: RunningCall) -> None:
        """Tells every source that ``call`` is about to run. One that raises costs nothing but a report."""
        for source in self._sources:
            try:
                source.watch(call)
            except Exception as error:
                self._report(source, "watch", error, (call.tool.name,))

    def _report(self, source: ToolSource, operation: str, error: Exception, tools: tuple[str, ...] = ()) -> None:
        text = exception_text(error, trusted=isinstance(error, RhoError))
        emit(
            self._on_event,
            SourceFailed(source=source_name(source), operation=operation, error=text, tools=tools),
        )

    def _merge(self) -> _Merged:
        before, table = self._merged, self._changes
        versions: MutableSequence[Any] = []
        asked: MutableSequence[tuple[Tool, ...]] = []
        for n, source in enumerate(self._sources):
            version, answer = self._ask(source, None if before is None else (before.versions[n], before.answers[n]))
            versions.append(version)
            asked.append(answer)
        answers = tuple(asked)
        if before is not None and before.table == table and _same(before.answers, answers):
            before.versions = versions
            return before
        with self._writing:
            table, registered, by_name = self._changes, dict(self._registered), dict(self._table)
        shadowed = tuple(self._offer(by_name, answers))
        tools = sorted(by_name.values(), key=lambda tool: tool.name)
        snapshot = ToolSnapshot(tools, registered=registered, live=self._registered)
        merged = self._merged = _Merged(table, versions, answers, snapshot, shadowed)
        return merged

    def _ask(self, source: ToolSource, before: tuple[Any, tuple[Tool, ...]] | None) -> tuple[Any, tuple[Tool, ...]]:
        """The version and the tools of ``source``; ``before`` is what it answered last. None is no version."""
        try:
            # Read first: if the tools change in between, the version is found changed next time.
            version = source_version(source)
            if before is not None and version is not None and version == before[0]:
                return before
            tools = tuple(source.list())
            for tool in tools:
                if not isinstance(tool, Tool):
                    raise NotATool(type_name(tool))
        except Exception as error:
            self._report(source, "list", error)
            return None, ()
        return version, tools

    def _offer(self, by_name: dict[str, Tool], answers: tuple[tuple[Tool, ...], ...]) -> Iterator[Shadowed]:
        """Adds to the table what the sources offer, and yields what they offer in vain."""
        taken = dict.fromkeys(by_name, "the registry's table")
        for source, tools in zip(self._sources, answers, strict=True):
            name = source_name(source)
            for tool in tools:
                if tool.name in taken:
                    yield Shadowed(tool.name, name, tool.name, f"{taken[tool.name]} has a tool of that name")
                elif (invalid := problem_of(tool.name)) is not None:
                    yield Shadowed(tool.name, name, None, invalid)
                elif (reserved := self._reservations.holds(tool.name)) is not None:
                    yield Shadowed(tool.name, name, reserved.reserved, str(reserved))
                else:
                    taken[tool.name] = f"the source {name}"
                    if (problem := self._schemas.problem(tool)) is not None:
                        self._report_schema(source, tool, problem)
                        yield Shadowed(tool.name, name, None, problem)
                    else:
                        by_name[tool.name] = tool

    def _report_schema(self, source: ToolSource, tool: Tool, problem: str) -> None:
        failed = SourceFailed(source=source_name(source), operation="list", error=inert(problem), tools=(tool.name,))
        emit(self._on_event, failed)


def _check_answers_to(name: str, found: object) -> None:
    if not isinstance(found, Tool):
        raise NotATool(type_name(found))
    if found.name != name:
        raise NameInvalid(found.name, f"it was answered to {name!r}")


def _same(before: tuple[tuple[Tool, ...], ...], now: tuple[tuple[Tool, ...], ...]) -> bool:
    """Whether the sources answered the very same objects. Tools are not compared: that would read every schema."""
    return all(
        one is other or (len(one) == len(other) and all(map(_is, one, other)))
        for one, other in zip(before, now, strict=True)
    )


def _is(one: Tool, other: Tool) -> bool:
    return one is other
