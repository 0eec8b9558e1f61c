"""What a source offers now, swapped whole: a look-up reads one attribute and never sees half a switch."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import MappingProxyType

from rho_wasm.dynamic.generation import Changes, Generation, VersionKey
from rho_wasm.dynamic.history import Switched
from rho_wasm.dynamic.modules import ModulePool
from rho_wasm.dynamic.offer import Offer, OfferMaker
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.dynamic.teller import Teller
from rho_wasm.events import Event, GenerationSwitched, SourceFailed, ToolQuarantined

__all__ = ["LiveTools"]

_SWITCHES_TOLD = 100
"""Of switches that other processes made since the last look, so many are told of; what is live is right regardless."""


class LiveTools:
    """The offer of the live generation. Read from any thread; changed by whoever switched, the latest switch wins."""

    def __init__(self, store: Store, maker: OfferMaker, *, modules: ModulePool, teller: Teller, name: str) -> None:
        self._store = store
        self._maker = maker
        self._modules = modules
        self._teller = teller
        self._name = name
        self._lock = threading.RLock()
        self._reported: dict[str, str] = {}
        self.serial = 0
        """Differs whenever what is offered changed."""
        self.offer: Offer = self._made(*store.history.live_switch())
        self._modules.retain(self.offer.artifacts)

    def look(self) -> None:
        """Takes in the switches of other processes. Raises :class:`StoreError`."""
        switch, generation = self._store.history.live_switch()
        before = self.offer.switch
        if switch <= before:
            return
        if self._install(switch, generation):
            self._teller.tell_later(self._switches_since(before))

    def switched(self, switched: Switched) -> None:
        """This process switched."""
        self._install(switched.id, switched.live)
        self._teller.tell_later([_event(switched)])

    def quarantined(self, held: Quarantine, switched: Switched | None) -> None:
        """A quarantine was written, with the switch that took the version's place, if it was live."""
        events: list[Event] = []
        if switched is not None:
            self._install(switched.id, switched.live)
        if held.active:
            events.append(self.quarantine_event(held, None if switched is None else switched.live))
        if switched is not None:
            events.append(_event(switched))
        self._teller.tell_later(events)

    def quarantine_event(self, held: Quarantine, live: Generation | None = None) -> ToolQuarantined:
        """What is told of a quarantine."""
        tool, artifact = held.version
        now = (live or self.offer.generation).tools.get(tool)
        return ToolQuarantined(
            tool=tool,
            artifact=artifact,
            generation=held.generation,
            reasons=held.reasons,
            replaced_by=None if now is None or now.artifact == artifact else now.artifact,
            backtrace=held.backtrace,
        )

    def drop(self, version: VersionKey) -> None:
        """No longer offers that version, before the switch that takes its place is written."""
        with self._lock:
            found = self.offer.generation.tools.get(version.tool)
            if found is None or found.artifact != version.artifact:
                return
            tools = {name: tool for name, tool in self.offer.tools.items() if name != version.tool}
            listed = tuple(tool for tool in self.offer.listed if tool.name != version.tool)
            self.offer = replace(self.offer, tools=MappingProxyType(tools), listed=listed)
            self.serial += 1

    def rebuild(self) -> None:
        """Offers the live generation anew: a quarantine ended, or a damaged artifact was staged again."""
        with self._lock:
            self.offer = self._made(self.offer.switch, self.offer.generation)
            self.serial += 1
            self._modules.retain(self.offer.artifacts)

    def _install(self, switch: int, generation: Generation) -> bool:
        with self._lock:
            if switch <= self.offer.switch:
                return False
            self.offer = self._made(switch, generation)
            self.serial += 1
            self._modules.retain(self.offer.artifacts)
            return True

    def _made(self, switch: int, generation: Generation) -> Offer:
        offer = self._maker.make(switch, generation)
        new = {tool: why for tool, why in offer.damaged.items() if self._reported.get(tool) != why}
        self._reported = dict(offer.damaged)
        self._teller.tell_later(
            SourceFailed(source=self._name, operation="refresh", error=why, tools=(tool,)) for tool, why in new.items()
        )
        return offer

    def _switches_since(self, before: int) -> list[Event]:
        events: list[Event] = []
        for switch in reversed(self._store.switches(limit=_SWITCHES_TOLD)):
            if switch.id > before:
                previous, live = self._store.generation(switch.previous), self._store.generation(switch.number)
                changes = Changes.between(previous.tools, live.tools)
                events.append(_event(Switched(switch.id, live, switch.previous, changes, switch.author, switch.note)))
        return events


def _event(switched: Switched) -> GenerationSwitched:
    return GenerationSwitched(
        number=switched.live.number,
        previous=switched.previous,
        author=switched.author,
        note=switched.note,
        added=switched.changes.added,
        changed=switched.changes.changed,
        removed=switched.changes.removed,
    )
