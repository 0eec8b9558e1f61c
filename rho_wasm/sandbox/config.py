"""The one configuration of the wasmtime engine that runs guests, with the reason for each setting.

It is data, because three must agree on it: the engine that runs guests, the child that compiles for it, and the key
under which native code is cached. wasmtime's own default accepts most of what is off here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["EngineConfig", "Setting", "guest_config", "interpreter_config"]

_GIB = 1024 * 1024 * 1024
_MIB = 1024 * 1024

_CRANELIFT = 1
_OPTIMIZE_SPEED = 1


class Setting(NamedTuple):
    """One ``wasmtime_config_NAME_set``: ``kind`` is the type of its argument in C."""

    name: str
    kind: Literal["bool", "u8", "u64"]
    value: int


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All settings of one engine. Two engines with equal settings can run each other's native code."""

    settings: tuple[Setting, ...]

    def as_json(self) -> str:
        """For the compiling child and for the key of the cache; the same text for the same settings."""
        return json.dumps([list(setting) for setting in self.settings], separators=(",", ":"))

    def __getitem__(self, name: str) -> int:
        return next(setting.value for setting in self.settings if setting.name == name)

    def but(self, **values: int) -> EngineConfig:
        """The same with other values for some settings that it has."""
        return EngineConfig(
            tuple(setting._replace(value=values.get(setting.name, setting.value)) for setting in self.settings)
        )


def guest_config(*, stack_bytes: int, signals_based_traps: bool) -> EngineConfig:
    """The configuration for guests.

    ``stack_bytes`` is ``HostLimits.guest_stack_bytes``. ``signals_based_traps`` is False where this process cannot
    keep wasmtime's signal handlers in place (faults.py decides): then every check is an instruction, which is slower.
    """
    on, off = 1, 0
    return EngineConfig(
        (
            # Bounds. Without fuel or epochs a loop has no end.
            Setting("consume_fuel", "bool", on),
            Setting("epoch_interruption", "bool", on),
            Setting("max_wasm_stack", "u64", stack_bytes),
            # A NaN's payload depends on the processor: the same request must give the same answer everywhere.
            Setting("cranelift_nan_canonicalization", "bool", on),
            # Enabling faulthandler later would replace wasmtime's handlers, and the next guest fault kill the host.
            Setting("signals_based_traps", "bool", int(signals_based_traps)),
            # All that a 32-bit memory can ever reach is reserved, so growing never moves it (1,000 one-page grows
            # took 32 s where it did) and an index needs no check in front of the guard. Reserving costs no memory.
            Setting("memory_reservation", "u64", 4 * _GIB),
            Setting("memory_guard_size", "u64", 32 * _MIB),
            Setting("memory_may_move", "bool", off),
            # The optimising compiler: guests are compiled once and called often.
            Setting("strategy", "u8", _CRANELIFT),
            Setting("cranelift_opt_level", "u8", _OPTIMIZE_SPEED),
            # A hostile module must not take every core of the host while it compiles.
            Setting("parallel_compilation", "bool", off),
            # What compilers emit today. Mutable globals, sign extension, non-trapping conversions and extended
            # constants are always on in wasmtime.
            Setting("wasm_multi_value", "bool", on),
            Setting("wasm_bulk_memory", "bool", on),
            Setting("wasm_reference_types", "bool", on),
            Setting("wasm_simd", "bool", on),
            Setting("wasm_tail_call", "bool", on),
            # Guests have one thread and no shared memory: nothing to race with, nothing to wait for.
            Setting("wasm_threads", "bool", off),
            Setting("shared_memory", "bool", off),
            # The ABI's pointers have 32 bits, and its memory is the one named "memory".
            Setting("wasm_memory64", "bool", off),
            Setting("wasm_multi_memory", "bool", off),
            Setting("wasm_custom_page_sizes", "bool", off),
            # A collected heap would be memory that no limit of ours counts.
            Setting("wasm_gc", "bool", off),
            Setting("wasm_function_references", "bool", off),
            Setting("wasm_exceptions", "bool", off),
            # Its results may differ from one processor to another.
            Setting("wasm_relaxed_simd", "bool", off),
            # Young, and used by no toolchain of ours: code that nobody runs is code that nobody tested.
            Setting("wasm_wide_arithmetic", "bool", off),
            Setting("wasm_stack_switching", "bool", off),
            # Guests are core modules.
            Setting("wasm_component_model", "bool", off),
        )
    )


def interpreter_config(*, stack_bytes: int, signals_based_traps: bool) -> EngineConfig:
    """The configuration for engines: interpreters, whose tools are images. They get what guests get, and no more.

    ``stack_bytes`` is ``HostLimits.engine_stack_bytes``.
    """
    config = guest_config(stack_bytes=stack_bytes, signals_based_traps=signals_based_traps)
    # An engine is pinned by its hash: no hostile module, and large enough to wait for.
    return config.but(parallel_compilation=1)
