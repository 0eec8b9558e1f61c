"""Reads a core WebAssembly module into lists (binary.py), strictly.

What the toolchains cannot represent is refused with :class:`ModuleRejected`, never passed on half understood: types
beyond functions (garbage collection), tags, several memories, memories that are shared or have 64 bits, tables with an
initial value, elements that are computed. A source has a say in what its compiler writes, so there are bounds on what
is read one by one: 5,000,000 functions of three bytes each took a quarter of a minute.
"""

from __future__ import annotations

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import MIB, HostLimits
from rho_wasm.sandbox import admission_layout as layout
from rho_wasm.sandbox import admission_module as parts
from rho_wasm.sandbox.abi import FunctionType
from rho_wasm.sandbox.admission_code import constant_end
from rho_wasm.toolchains.binary import (
    FUNCTION,
    GLOBAL,
    MEMORY,
    SECTION_ORDER,
    TABLE,
    Element,
    Export,
    Global,
    Import,
    Memory,
    Module,
)
from rho_wasm.wasm import CUSTOM, Reader

__all__ = ["check_extent", "read_module"]

_NAME_BYTES = 4_096
_CONSTANT_BYTES = 128
_FUNCTIONS = 200_000
"""More than any engine has."""
_SECTION_BYTES = 2 * MIB
"""Of a section whose entries are read one by one: all but code, of which functions are counted, and data."""
_FUNCTION_TYPE = 0x60
_HAS_MAXIMUM = 1
_REF_NULL, _REF_FUNC, _END, _FUNCREF = 0xD0, 0xD2, 0x0B, 0x70


def check_extent(data: bytes, limits: HostLimits) -> None:
    """Raises :class:`ModuleRejected` for more code or functions than a host takes, before any of it is read.

    It costs next to nothing. What else is refused of sections, admission refuses with the same reasons.
    """
    facts = parts.Facts(data, limits)
    layout.check_sections(facts)
    layout.check_code_size(facts)
    for section in (parts.FUNCTION, parts.CODE):
        if (reader := facts.reader(section)) is not None:
            _check_functions(reader, limits.functions)


def read_module(data: bytes) -> Module:
    """The module of ``data``, of at most 200,000 functions. Custom sections other than ``name`` are left out.

    Raises :class:`ModuleRejected`: ``feature_off``, ``memories``, ``element_segment``, ``section_order``,
    ``function_count``, ``functions``, ``type_index``, ``too_large`` for a section of more than 2 MiB that is neither
    code nor data, and what :mod:`rho_wasm.wasm` raises.
    """
    module = Module()
    last = -1
    for section in wasm.sections(data):
        reader = section.reader(data)
        if section.id == CUSTOM:
            if reader.name(max_bytes=_NAME_BYTES) == "name":
                module.names = data[reader.position : section.end]
            continue
        if section.id == parts.TAG:
            raise _off("exceptions")
        if section.id not in SECTION_ORDER or (rank := SECTION_ORDER.index(section.id)) <= last:
            raise ModuleRejected("section_order", f"the section of id {section.id} stands twice or too late")
        last = rank
        if section.id == parts.CODE:
            _check_functions(section.reader(data), _FUNCTIONS)
        elif section.id != parts.DATA and (size := section.end - section.content) > _SECTION_BYTES:
            raise ModuleRejected(
                "too_large", f"the section of id {section.id} is too large", limit=_SECTION_BYTES, value=size
            )
        _READERS[section.id](module, reader)
        parts.finished(reader, f"id {section.id}")
    if len(module.functions) != len(module.bodies):
        raise ModuleRejected("function_count", "the module has not as many bodies as functions")
    return module


def _check_functions(reader: Reader, limit: int) -> None:
    if (count := reader.u32()) > limit:
        raise parts.over("functions", "functions", limit=limit, value=count)


def _off(feature: str) -> ModuleRejected:
    return ModuleRejected(
        "feature_off", f"the module needs {feature}, which is off", hint=f"build it without {feature}"
    )


def _read_types(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        if reader.byte() != _FUNCTION_TYPE:
            raise _off("garbage collection")
        params = tuple(parts.value_type(reader) for _ in range(reader.u32()))
        results = tuple(parts.value_type(reader) for _ in range(reader.u32()))
        module.types.append(FunctionType(params, results))


def _read_imports(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        owner, name = reader.name(max_bytes=_NAME_BYTES), reader.name(max_bytes=_NAME_BYTES)
        kind, start = reader.byte(), reader.position
        type_index = 0
        if kind == FUNCTION:
            type_index = reader.u32()
            if type_index >= len(module.types):
                raise ModuleRejected("type_index", f"there is no type {type_index}")
        elif kind == TABLE:
            _table(reader)
        elif kind == MEMORY:
            _memory(reader)
        elif kind == GLOBAL:
            parts.value_type(reader)
            reader.byte()
        else:
            raise _off("exceptions")
        module.imports.append(Import(owner, name, kind, type_index, reader.data[start : reader.position]))


def _read_functions(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        type_index = reader.u32()
        if type_index >= len(module.types):
            raise ModuleRejected("type_index", f"there is no type {type_index}")
        module.functions.append(type_index)


def _read_tables(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        start = reader.position
        _table(reader)
        module.tables.append(reader.data[start : reader.position])


def _read_memory(module: Module, reader: Reader) -> None:
    count = reader.u32() + module.imported(MEMORY)
    if count > 1:
        raise ModuleRejected("memories", "the module has several memories", limit=1, value=count)
    if not reader.done:
        module.memory = _memory(reader)


def _read_globals(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        value_type, mutable = parts.value_type(reader), reader.byte()
        if mutable > 1:
            raise ModuleRejected("global_type", "a global is neither constant nor mutable", value=mutable)
        module.globals.append(Global(value_type, bool(mutable), _constant(reader)))


def _read_exports(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        name, kind = reader.name(max_bytes=_NAME_BYTES), reader.byte()
        if kind > GLOBAL:
            raise _off("exceptions")
        module.exports.append(Export(name, kind, reader.u32()))


def _read_start(module: Module, reader: Reader) -> None:
    module.start = reader.u32()


def _read_elements(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        flags, start = reader.u32(), reader.position
        if flags > 7:
            raise ModuleRejected("element_segment", f"there is no element segment of kind {flags}", value=flags)
        if flags & 2 and not flags & 1:
            reader.u32()  # the table
        if not flags & 1:
            _constant(reader)
        if flags & 3:
            reader.byte()  # the kind of elements, or their type
        head = reader.data[start : reader.position]
        functions = tuple(_function_reference(reader) if flags & 4 else reader.u32() for _ in range(reader.u32()))
        module.elements.append(Element(flags, head, functions))


def _function_reference(reader: Reader) -> int | None:
    """An element that is an expression: ``ref.func`` or ``ref.null``, anything else is refused."""
    opcode = reader.byte()
    index = reader.u32() if opcode == _REF_FUNC else None
    if not (index is not None or (opcode == _REF_NULL and reader.byte() == _FUNCREF)) or reader.byte() != _END:
        raise ModuleRejected("element_segment", "an element is neither a function nor null")
    return index


def _read_data_count(module: Module, reader: Reader) -> None:
    reader.u32()
    module.counts_data = True


def _read_bodies(module: Module, reader: Reader) -> None:
    for _ in range(reader.u32()):
        module.bodies.append(reader.take(reader.u32()))


def _read_data(module: Module, reader: Reader) -> None:
    module.data = reader.take(reader.end - reader.position)


_READERS = {
    parts.TYPE: _read_types,
    parts.IMPORT: _read_imports,
    parts.FUNCTION: _read_functions,
    parts.TABLE: _read_tables,
    parts.MEMORIES: _read_memory,
    parts.GLOBAL: _read_globals,
    parts.EXPORT: _read_exports,
    parts.START: _read_start,
    parts.ELEMENT: _read_elements,
    parts.DATA_COUNT: _read_data_count,
    parts.CODE: _read_bodies,
    parts.DATA: _read_data,
}


def _limits(reader: Reader, what: str) -> Memory:
    flags = reader.byte()
    if flags > _HAS_MAXIMUM:
        raise _off(f"a {what} that is shared or has 64-bit addresses")
    return Memory(reader.u32(), reader.u32() if flags else None)


def _memory(reader: Reader) -> Memory:
    return _limits(reader, "memory")


def _table(reader: Reader) -> None:
    parts.reference_type(reader)
    _limits(reader, "table")


def _constant(reader: Reader) -> bytes:
    end = constant_end(reader.data, reader.position, reader.end, max_bytes=_CONSTANT_BYTES)
    return reader.take(end - reader.position)
