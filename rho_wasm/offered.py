"""What a registry offers at one moment, what it leaves out and why, and the schemas of the tools that live."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from rho_wasm.answers import is_host_made, takes_copies
from rho_wasm.errors import SchemaInvalid
from rho_wasm.schema import ArgumentSchema
from rho_wasm.schema_cache import compiled_schema
from rho_wasm.tools import Tool
from rho_wasm.untrusted import unsafe_characters

__all__ = ["KnownTool", "Shadowed", "ToolSchemas", "ToolSnapshot"]

_MAX_DESCRIPTION_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A source's tool that is not offered. ``by`` is the name that stands in its way, or None; ``why`` one line."""

    tool: str
    source: str
    by: str | None
    why: str


class ToolSnapshot(Mapping[str, Tool]):
    """What a model was shown, by name and in the order of names. It does not change, whatever switches meanwhile.

    One thing holds at once, here too: :meth:`lookup` no longer answers a registered tool that was unregistered since.
    (That a tool was quarantined or lost a grant its own handler says, which is the same object in every snapshot.)
    """

    __slots__ = ("_by_name", "_live", "_registered", "_tools")

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        registered: Mapping[str, object] = MappingProxyType({}),
        live: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in self._tools}
        self._registered = registered
        self._live = live

    def list(self) -> Sequence[Tool]:
        """The tools as they were shown."""
        return self._tools

    def lookup(self, name: str) -> Tool | None:
        """The tool that the model was shown as ``name``, None if there was none or it was unregistered since."""
        tool = self._by_name.get(name) if type(name) is str else None
        if tool is not None and name in self._registered and self._live.get(name) is not self._registered[name]:
            return None
        return tool

    def __getitem__(self, name: str) -> Tool:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<ToolSnapshot of {len(self._tools)} tools>"


class KnownTool:
    """What is worked out once of a tool that is offered, for all of its calls.

    ``schema`` is that of its arguments, compiled; or what is wrong with the tool. ``host_made`` and ``takes_copies``
    are what answers.py asks of its handler; ``may_refuse`` says that this has a ``refusal`` to be asked before each
    call, and ``generation`` which one it comes from, None for none. ``answers_any``: it declares no schema of its
    answers.
    Nothing here refers to the handler, which may refer to its tool: what is known must not keep that alive.
    """

    __slots__ = ("_output", "answers_any", "generation", "host_made", "may_refuse", "schema", "takes_copies")

    def __init__(self, tool: Tool) -> None:
        self.answers_any = tool.output_schema is None
        self._output: ArgumentSchema | None = None
        self.host_made = is_host_made(tool)
        self.takes_copies = takes_copies(tool)
        self.may_refuse = callable(getattr(tool.handler, "refusal", None))
        generation = getattr(tool.handler, "generation", None)
        self.generation: int | None = generation if type(generation) is int else None
        self.schema = _compiled(tool)
        # That of a generation was compiled when it was staged, and need not be before it is called.
        if self.generation is None and not self.answers_any and not isinstance(self.schema, SchemaInvalid):
            try:
                self.output(tool)
            except SchemaInvalid as error:
                self.schema = SchemaInvalid(f"the schema of its answers cannot be used: {error.detail}")

    def output(self, tool: Tool) -> ArgumentSchema:
        """The schema of the answers of ``tool``, compiled when it is first asked for. Raises :class:`SchemaInvalid`."""
        if self._output is None:
            assert tool.output_schema is not None, "it is asked for where there is one"
            self._output = compiled_schema(tool.output_schema, of_arguments=False)
        return self._output


class ToolSchemas:
    """What is known of each tool, its compiled argument schema above all, kept as long as the tool itself lives.

    A schema that cannot be used is remembered too: compiling it again at every look-up would be its author's to ask.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Tool], KnownTool]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, tool: Tool) -> ArgumentSchema:
        """Raises :class:`SchemaInvalid` if the schema of ``tool`` is none, or an untrusted tool's text hides things."""
        found = self.known(tool).schema
        if isinstance(found, SchemaInvalid):
            raise found.with_traceback(None)
        return found

    def problem(self, tool: Tool) -> str | None:
        """Why ``tool`` cannot be offered, or None."""
        found = self.known(tool).schema
        return str(found) if isinstance(found, SchemaInvalid) else None

    def known(self, tool: Tool) -> KnownTool:
        """What is known of ``tool``."""
        entry = self._entries.get(id(tool))
        if entry is None or entry[0]() is not tool:
            entry = self._look_at(tool)
        return entry[1]

    def _look_at(self, tool: Tool) -> tuple[weakref.ref[Tool], KnownTool]:
        key = id(tool)
        entry = (weakref.ref(tool, lambda _: self._forget(key)), KnownTool(tool))
        self._entries[key] = entry
        return entry

    def _forget(self, key: int) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry[0]() is None:  # the id may be another tool's by now
            del self._entries[key]


def _compiled(tool: Tool) -> ArgumentSchema | SchemaInvalid:
    try:
        if (size := len(tool.description.encode("utf-8", "replace"))) > _MAX_DESCRIPTION_BYTES:
            raise SchemaInvalid(
                f"its description has {size} bytes, at most {_MAX_DESCRIPTION_BYTES} are shown to a model"
            )
        shown = [tool.description, tool.input_schema, tool.output_schema]
        if tool.untrusted and (character := _unsafe(shown)) is not None:
            raise SchemaInvalid(f"its description or schema carries {character}")
        return compiled_schema(tool.input_schema)
    except SchemaInvalid as error:
        return error


def _unsafe(value: Any) -> str | None:
    """The first character inside frozen, so bounded, plain data that a model's eyes should not meet."""
    if isinstance(value, str):
        return unsafe_characters(value)
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for item in value:
            if (character := _unsafe(item)) is not None:
                return character
    return None
