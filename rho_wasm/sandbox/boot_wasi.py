"""What WASI tells a module that is being started of its arguments and its environment. Guests are told of none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rho_wasm.sandbox.abi import WASI, WASI_IMPORTS
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.state import CallState

__all__ = ["process_functions"]


def process_functions(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[HostFunction, ...]:
    """The four host functions. ValueError for a text with a zero byte, which would end it early."""
    return (
        *_list_functions("args_get", "args_sizes_get", arguments),
        *_list_functions("environ_get", "environ_sizes_get", [f"{key}={value}" for key, value in environment.items()]),
    )


def _list_functions(get_name: str, sizes_name: str, texts: Sequence[str]) -> tuple[HostFunction, HostFunction]:
    if any("\0" in text for text in texts):
        raise ValueError("an argument or a variable has a zero byte")
    encoded = [text.encode() + b"\0" for text in texts]

    def get(state: CallState, memory: GuestMemory, pointers: int, buffer: int) -> int:
        for place, text in enumerate(encoded):
            memory.write_u32(pointers + 4 * place, buffer)
            memory.write(buffer, text)
            buffer += len(text)
        return 0

    def sizes(state: CallState, memory: GuestMemory, count: int, size: int) -> int:
        memory.write_u32(count, len(encoded))
        memory.write_u32(size, sum(map(len, encoded)))
        return 0

    return (
        HostFunction.typed(WASI, get_name, WASI_IMPORTS[get_name], get),
        HostFunction.typed(WASI, sizes_name, WASI_IMPORTS[sizes_name], sizes),
    )
