"""Every bound, with its default and the reason for the number.

:class:`Limits` bounds one call: of host, policy, manifest and tool the lowest wins. :class:`HostLimits` bounds the
whole host. Units are in the names. None is never "unlimited": there is no way to say unlimited. Numbers in brackets
are the largest found in real guests (C, C++, Zig, Rust, Go, AssemblyScript, QuickJS, CPython, sql.js, esbuild).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["MAX_DEADLINE_MS", "HostLimits", "Limits"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

MAX_DEADLINE_MS = 60_000
"""No call of a guest lasts longer, whatever is asked (milliseconds)."""

PositiveInt = Annotated[int, Field(strict=True, gt=0, lt=2**63)]
NaturalInt = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Limits(_Frozen):
    """The bounds of one guest call. What happens at each is said beside it."""

    fuel: PositiveInt = 1_000_000_000
    """Cost units of WebAssembly execution, about 0.4 s of plain arithmetic. At the limit: ``out_of_fuel``."""
    deadline_ms: Annotated[int, Field(strict=True, gt=0, le=MAX_DEADLINE_MS)] = 5_000
    """Wall clock from the moment that the guest starts. At the limit: ``deadline``, within 20 ms on an idle host."""
    memory_bytes: PositiveInt = 64 * MIB
    """Linear memory. At the limit ``memory.grow`` answers -1; a guest that then traps or raises: ``out_of_memory``."""
    table_elements: PositiveInt = 20_000
    """At the limit ``table.grow`` answers -1."""
    request_bytes: PositiveInt = 1 * MIB
    """Encoded request. Over it the call is refused (``invalid_arguments``) before anything runs."""
    answer_bytes: PositiveInt = 1 * MIB
    """Encoded answer without its images. Over it: ``bad_answer``."""
    images_bytes: NaturalInt = 8 * MIB
    """All images of an answer together, beside ``answer_bytes``. Over it: ``bad_answer``."""
    images: NaturalInt = 16
    """How many images an answer may carry. Over it: ``bad_answer``."""
    depth: PositiveInt = 64
    """Nesting of plain data, both ways. ``invalid_arguments`` or ``bad_answer``."""
    items: PositiveInt = 100_000
    """Items of plain data, both ways (each key and each value is one). ``invalid_arguments`` or ``bad_answer``."""
    log_bytes: NaturalInt = 64 * KIB
    """What a call may log. The rest is dropped and counted."""
    host_calls: NaturalInt = 1_000
    """Host calls of one call. Further ones answer ``quota``; after 100 more: ``too_many_host_calls``."""
    host_call_depth: NaturalInt = 4
    """How deeply ``tool.call`` may nest."""

    @classmethod
    def for_engines(cls) -> Self:
        """The defaults for interpreters: a loop of 10^6 turns in Python costs 2.3 G fuel, CPython boots in 21 MiB."""
        return cls(fuel=20_000_000_000, memory_bytes=128 * MIB)

    @classmethod
    def for_loading(cls) -> Self:
        """The defaults for loading a tool's source into an engine, which happens once, when the tool is built."""
        return cls(fuel=5_000_000_000, memory_bytes=128 * MIB, request_bytes=2 * MIB)

    def lowest(self, *others: Limits | Mapping[str, int] | None) -> Limits:
        """Of self and the others, field by field the lowest. A mapping may name some fields only; None says nothing.

        Raises pydantic's ``ValidationError`` for an unknown field or a number out of range.
        """
        merged: dict[str, int] | None = None
        for other in others:
            if other is None:
                continue
            given = dict(other) if not isinstance(other, Limits) else other.__dict__
            if merged is None:
                merged = dict(self.__dict__)
            for name, value in type(self).model_validate(merged | given).__dict__.items():
                if name in given and value < merged[name]:
                    merged[name] = value
        return self if merged is None else Limits(**merged)


_ENGINE_BOUNDS: Mapping[str, int] = MappingProxyType(
    {
        # CPython with its standard library has 18 MB, 10 MB of them code in 12,000 functions, and takes 19 s.
        "module_bytes": 64 * MIB,
        "code_bytes": 64 * MIB,
        "functions": 200_000,
        "types": 20_000,
        "imports": 1_000,
        "exports": 1_000,
        "globals": 10_000,
        "element_segments": 20_000,
        "data_segments": 100_000,
        "compile_cpu_ms": 300_000,
        "compile_cpu_ms_max": 300_000,
        "compile_memory_bytes": 8 * GIB,
    }
)


class HostLimits(_Frozen):
    """The bounds of a whole host: what runs at once, what a module may be, what compiling it may cost."""

    call: Limits = Limits()
    """The bounds of one call, unless policy, manifest or tool set lower ones."""
    engine_call: Limits = Limits.for_engines()
    """The same for a tool that is an image over an engine (Python, JavaScript). Where it is not said, each bound that
    ``call`` was given explicitly holds here too, if it is the lower one."""

    guest_stack_bytes: PositiveInt = 512 * KIB
    """WebAssembly stack of guests. A setting of the wasmtime engine, so never per tool. At the limit: ``trapped``."""
    engine_stack_bytes: PositiveInt = 2 * MIB
    """The same for interpreters, which recurse deeply. A second engine configuration."""

    max_concurrent_calls: PositiveInt = 64
    """Guest calls at once. Further ones wait ``queue_ms``, then ``overloaded``; the wait is not the tool's time."""
    max_concurrent_per_tool: PositiveInt = 8
    """The same for one tool, so that one slow tool does not take every slot."""
    queue_ms: PositiveInt = 5_000
    """How long a call waits for a slot."""
    total_memory_bytes: PositiveInt = 2 * GIB
    """Memory that guests at once may reach together (each counted at its limit). Beyond: wait, then ``overloaded``."""
    max_abandoned_handlers: PositiveInt = 16
    """Sync host handlers abandoned at their deadline and still running. Beyond: ``overloaded``."""

    module_bytes: PositiveInt = 16 * MIB
    """A module. ``ModuleRejected``, as for every bound from here on."""
    code_bytes: PositiveInt = 8 * MIB
    """Its code section: compile time and memory follow it."""
    manifest_bytes: PositiveInt = 64 * KIB
    description_bytes: PositiveInt = 4 * KIB
    """A tool's description, and each one inside its schema: it is what a model reads at every turn."""
    name_section_bytes: PositiveInt = 1 * MIB
    """The ``name`` custom section, kept for backtraces; a larger one is dropped, not refused."""
    functions: PositiveInt = 10_000
    function_bytes: PositiveInt = 64 * KIB
    """One body. Compilation is worse than linear in it: 210 KB of loops took 88 s."""
    locals_per_function: PositiveInt = 1_000
    """500 functions of 50,000 locals, 4 KB, took 3.2 s."""
    params: PositiveInt = 100
    """Parameters of a function type. 20,000 functions of 1,000 took 10 s."""
    results: PositiveInt = 16
    """Results of a function type."""
    loops: PositiveInt = 500
    """Loops of one function [203]."""
    blocks: PositiveInt = 4_000
    """Blocks, loops, ifs and try_tables of one function [1,587]."""
    br_table_entries: PositiveInt = 2_000
    """Entries of all br_tables of one function [1,222]. 508 tables of 121 entries took 12.9 s."""
    nesting: PositiveInt = 1_000
    """Blocks inside blocks [549]."""
    block_results: PositiveInt = 4
    """Results of a block type given by index; it may have no parameters [none found]. 64 KB of them took 23 GiB."""
    types: PositiveInt = 1_000
    """[125]. 500,000 took 40 s and 2.5 GiB."""
    imports: PositiveInt = 100
    """[46]"""
    exports: PositiveInt = 300
    """[290]"""
    globals: PositiveInt = 1_000
    tables: PositiveInt = 1
    element_segments: PositiveInt = 1_000
    """Their elements together are bounded by ``call.table_elements``."""
    custom_sections: PositiveInt = 100
    """Dropped before compiling, but each is looked at once. Linkers with debug information make about ten."""
    name_bytes: PositiveInt = 1_024
    """Of an import, an export, a custom section."""
    constant_bytes: PositiveInt = 128
    """Of a constant expression: it is evaluated on every instantiation, without fuel. A vector is 18."""
    data_segments: PositiveInt = 2_000
    """Toolchains merge them. 20,000 of one byte took 18.6 s to load."""
    image_segments: PositiveInt = 512
    """Data segments of an image."""
    image_bytes: PositiveInt = 8 * MIB
    """An image. A build that makes a larger one is refused (``image_too_large``)."""

    compile_cpu_ms: PositiveInt = 3_000
    """CPU time to compile a module, plus ``compile_cpu_ms_per_mib`` of code, at most ``compile_cpu_ms_max``."""
    compile_cpu_ms_per_mib: PositiveInt = 6_000
    compile_cpu_ms_max: PositiveInt = 30_000
    compile_memory_bytes: PositiveInt = 1 * GIB
    """Address space of the compiling child. ``compile_memory`` beyond."""
    compiled_cache_bytes: PositiveInt = 512 * MIB
    """Native code kept on disk. Least recently used is let go, by size."""
    output_bytes: PositiveInt = 64 * MIB
    """Outputs kept for ``read_artifact``, all sessions together. The oldest are let go."""
    kv_bytes: PositiveInt = 256 * MIB
    """What all tools together keep through ``kv.put``; each has a bound of its own, and the tools of
    one artifact have a quarter of what the others leave (or one tool's bound). Beyond: ``unavailable``."""
    max_result_chars: PositiveInt = 20_000
    """A result's text for the model. A longer one is cut at a line and kept whole as an output."""

    @model_validator(mode="before")
    @classmethod
    def _engine_call(cls, given: Any) -> Any:
        call = given.get("call") if isinstance(given, dict) else None
        if call is None or "engine_call" in given:
            return given
        call = Limits.model_validate(call)
        said = call.model_dump(include=call.model_fields_set)
        return given | {"call": call, "engine_call": Limits.for_engines().lowest(said)}

    def call_of(self, *, image: bool, standalone: bool = False) -> Limits:
        """The bounds of one call of a guest, of an ``image`` over an engine, or of a ``standalone`` module.

        That last one was found to be what it claims when it was loaded, and how long its calls may last is said before:
        no longer than those of guests.
        """
        if standalone:
            return self.engine_call.lowest({"deadline_ms": self.call.deadline_ms})
        return self.engine_call if image else self.call

    def loading(self) -> Limits:
        """The bounds of loading a tool's source into an engine: those of :meth:`Limits.for_loading`, and no more memory
        and time than calls of it have."""
        call = self.engine_call
        lower = Limits.for_loading().lowest({"memory_bytes": call.memory_bytes, "deadline_ms": call.deadline_ms})
        return lower.model_copy(update={"images_bytes": self.image_bytes})

    def for_engines(self) -> Self:
        """What an engine itself may be, and what compiling it may cost: one is pinned by its hash, not a model's."""
        return self.model_copy(update={"call": self.engine_call, **_ENGINE_BOUNDS})

    def for_standalone(self, engine_bytes: int | None = None) -> Self:
        """What a guest may be that has in it the code of an engine of ``engine_bytes`` (None: of any).

        What is the engine's own is held to the bounds of engines. Its data, its exports and its custom sections are
        anybody's, and held to those of guests: 100,000 data segments took 129 s and 2.9 GB to load.
        """
        largest = _ENGINE_BOUNDS["module_bytes"]
        if engine_bytes is not None:
            largest = min(largest, engine_bytes + self.image_bytes)
        own = {name: bound for name, bound in _ENGINE_BOUNDS.items() if name not in ("data_segments", "exports")}
        own["module_bytes"] = max(self.module_bytes, largest)
        return self.model_copy(update={"call": self.engine_call, **own})

    def compile_budget_ms(self, code_bytes: int) -> int:
        """CPU milliseconds that compiling ``code_bytes`` of code may take."""
        return min(self.compile_cpu_ms_max, self.compile_cpu_ms + self.compile_cpu_ms_per_mib * code_bytes // MIB)
