"""The checks of single sections: each reads its section once and leaves in :class:`Facts` what later ones need.

Every count is compared with its limit before anything is read or kept in proportion to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox import abi
from rho_wasm.sandbox import admission_module as parts
from rho_wasm.sandbox.admission_code import constant_end
from rho_wasm.sandbox.admission_module import Facts, finished, over, reference_type, shown, value_type
from rho_wasm.wasm import Reader

__all__ = [
    "check_abi_exports",
    "check_data",
    "check_elements",
    "check_exports",
    "check_functions",
    "check_globals",
    "check_imports",
    "check_memory",
    "check_tables",
    "check_types",
]

_KINDS = ("function", "table", "memory", "global", "tag")
_FUNCTION_KIND, _TABLE_KIND, _MEMORY_KIND, _GLOBAL_KIND = range(4)


def check_types(module: Facts) -> None:
    if (reader := module.reader(parts.TYPE)) is None:
        return
    count = _count(reader, "types", "types", module.limits.types)
    for index in range(count):
        if reader.byte() != 0x60:
            raise ModuleRejected(
                "feature_off", f"type {index} is no plain function type", hint="build it without garbage collection"
            )
        params = _value_types(reader, "params", "parameters", module.limits.params, index)
        results = _value_types(reader, "results", "results", module.limits.results, index)
        module.types.append(abi.FunctionType(params, results))
    finished(reader, "type")


def check_imports(module: Facts) -> None:
    """Only functions, only of the table, only with their types. A name may be imported more than once."""
    if (reader := module.reader(parts.IMPORT)) is None:
        return
    for _ in range(_count(reader, "imports", "imports", module.limits.imports)):
        key = (_name(reader, module), _name(reader, module))
        name = f"{shown(key[0])}.{shown(key[1])}"
        kind = reader.byte()
        if kind != _FUNCTION_KIND or key not in abi.ALLOWED_IMPORTS:
            what = _KINDS[kind] if kind < len(_KINDS) else "unknown"
            raise ModuleRejected(
                "import_forbidden",
                f"the module imports the {what} {name}, which no guest is given",
                name=name,
                hint="link without undefined symbols; toolchains stub other WASI imports (ENOSYS)",
            )
        index = reader.u32()
        found = _function_type(index, module)
        if found != (wanted := abi.ALLOWED_IMPORTS[key]):
            raise ModuleRejected(
                "import_type",
                f"the import {name} has a wrong type",
                name=name,
                limit=str(wanted),
                value=_short(found),
                hint="declare it with the type of the ABI",
            )
        module.imports.append(key)
        module.functions.append(index)
    module.imported_functions = len(module.functions)
    finished(reader, "import")


def check_functions(module: Facts) -> None:
    if (reader := module.reader(parts.FUNCTION)) is None:
        return
    for _ in range(_count(reader, "functions", "functions", module.limits.functions)):
        index = reader.u32()
        _function_type(index, module)
        module.functions.append(index)
    finished(reader, "function")


def check_tables(module: Facts) -> None:
    if (reader := module.reader(parts.TABLE)) is None:
        return
    module.tables = _count(reader, "tables", "tables", module.limits.tables)
    for _ in range(module.tables):
        if reader.data[reader.position : reader.position + 1] == b"\x40":
            raise ModuleRejected("feature_off", "a table has an initial value, function references are off")
        reference_type(reader)
        minimum = _bounds(reader, "table")
        if minimum > (limit := module.limits.call.table_elements):
            raise ModuleRejected("table_minimum", "the table is too large", limit=limit, value=minimum)
    finished(reader, "table")


def check_memory(module: Facts) -> None:
    """Exactly one memory, 32-bit, unshared, of ordinary pages, whose minimum a call may have."""
    reader = module.reader(parts.MEMORIES)
    module.memories = reader.u32() if reader is not None else 0
    if reader is None or module.memories != 1:
        raise ModuleRejected(
            "memory_count", f"the module has {module.memories} memories of its own", limit=1, value=module.memories
        )
    module.memory_pages = _bounds(reader, "memory")
    limit = module.limits.call.memory_bytes
    if (minimum := module.memory_pages * abi.PAGE_BYTES) > limit:
        raise ModuleRejected(
            "memory_minimum",
            "the memory that the module starts with is too large",
            limit=limit,
            value=minimum,
            hint="ask for less at the start and grow",
        )
    finished(reader, "memory")


def check_globals(module: Facts) -> None:
    if (reader := module.reader(parts.GLOBAL)) is None:
        return
    module.globals = _count(reader, "globals", "globals", module.limits.globals)
    for _ in range(module.globals):
        value_type(reader)
        if reader.byte() > 1:
            raise ModuleRejected("feature_off", "a global is shared, threads are off")
        _constant(reader, module)
    finished(reader, "global")


def check_exports(module: Facts) -> None:
    """Few exports, names once, indices that exist."""
    if (reader := module.reader(parts.EXPORT)) is None:
        return
    for _ in range(_count(reader, "exports", "exports", module.limits.exports)):
        name = _name(reader, module)
        kind, index = reader.byte(), reader.u32()
        if name.startswith(abi.RESERVED_PREFIX):
            raise ModuleRejected(
                "export_reserved",
                f"names that begin with {abi.RESERVED_PREFIX} are the host's: {shown(name)}",
                name=shown(name),
                hint="export it under another name",
            )
        if name in module.exports:
            raise ModuleRejected("export_duplicate", f"two exports are named {shown(name)}", name=shown(name))
        there = (len(module.functions), module.tables, module.memories, module.globals)
        if kind >= len(there) or index >= there[kind]:
            raise ModuleRejected("export_index", f"the export {shown(name)} names nothing", name=shown(name))
        module.exports[name] = (kind, index)
    finished(reader, "export")


def check_abi_exports(module: Facts) -> None:
    """The exports of the ABI are there, with their types, and the module's own."""
    for name in abi.REQUIRED_EXPORTS:
        if name not in module.exports:
            raise ModuleRejected(
                "export_missing", f"the module does not export {name}", name=name, hint=f"export {_wanted(name)}"
            )
    if module.exports[abi.MEMORY][0] != _MEMORY_KIND:
        raise ModuleRejected("export_type", f"the export {abi.MEMORY} is no memory", name=abi.MEMORY)
    for name, wanted in abi.EXPORT_TYPES.items():
        if name not in module.exports:
            continue
        kind, index = module.exports[name]
        found = module.types[module.functions[index]] if kind == _FUNCTION_KIND else None
        if found != wanted:
            raise ModuleRejected(
                "export_type",
                f"the export {name} has a wrong type",
                name=name,
                limit=str(wanted),
                value=_short(found) if found is not None else _KINDS[kind],
                hint=f"export {_wanted(name)}",
            )
        if index < module.imported_functions:
            raise ModuleRejected(
                "export_reexported",
                f"the export {name} is an import handed on, not a function of the module",
                name=name,
                hint="define it in the module",
            )


def check_elements(module: Facts) -> None:
    if (reader := module.reader(parts.ELEMENT)) is None:
        return
    for _ in range(_count(reader, "element_segments", "element segments", module.limits.element_segments)):
        flags = reader.u32()
        if flags > 7:
            raise ModuleRejected("element_segments", f"an element segment has unknown flags {flags}", value=flags)
        _element_header(reader, flags, module)
        count = reader.u32()
        module.elements += count
        if module.elements > (limit := module.limits.call.table_elements):
            raise over("elements", "elements in element segments", limit=limit, value=module.elements)
        for _ in range(count):
            if flags & 4:
                _constant(reader, module)
            else:
                reader.u32()
    finished(reader, "element")


def check_data(module: Facts) -> None:
    limit = module.limits.data_segments
    if (counted := module.reader(parts.DATA_COUNT)) is not None:
        _count(counted, "data_segments", "data segments", limit, entries=False)
        finished(counted, "data count")
    if (reader := module.reader(parts.DATA)) is None:
        return
    for _ in range(_count(reader, "data_segments", "data segments", limit)):
        flags = reader.u32()
        if flags > 2:
            raise ModuleRejected("data_segments", f"a data segment has unknown flags {flags}", value=flags)
        if flags == 2 and reader.u32() != 0:
            raise ModuleRejected("feature_off", "a data segment names another memory, multi-memory is off")
        if flags != 1:
            _constant(reader, module)
        reader.skip(reader.u32())
    finished(reader, "data")


def _count(reader: Reader, reason: str, what: str, limit: int, *, entries: bool = True) -> int:
    """The length of a vector, within ``limit`` and (each entry has a byte or more) within the section."""
    count = reader.u32()
    if count > limit:
        raise over(reason, what, limit=limit, value=count)
    if entries and count > reader.end - reader.position:
        raise ModuleRejected("truncated", f"the section ends before its {count} {what}")
    return count


def _name(reader: Reader, module: Facts) -> str:
    return reader.name(max_bytes=module.limits.name_bytes)


def _value_types(reader: Reader, reason: str, what: str, limit: int, index: int) -> tuple[abi.ValueType, ...]:
    count = reader.u32()
    if count > limit:
        raise over(reason, f"{what} in type {index}", limit=limit, value=count)
    return tuple(value_type(reader) for _ in range(count))


def _function_type(index: int, module: Facts) -> abi.FunctionType:
    if index >= len(module.types):
        raise ModuleRejected("type_index", f"a function has the type {index}, which is not there", value=index)
    return module.types[index]


def _short(found: abi.FunctionType) -> str:
    return shown(str(found))


_WANTED: Mapping[str, str] = MappingProxyType(
    {abi.MEMORY: "the memory as 'memory'"}
    | {name: f"{name}{signature}" for name, signature in abi.EXPORT_TYPES.items()}
)


def _wanted(name: str) -> str:
    return _WANTED[name]


def _bounds(reader: Reader, what: str) -> int:
    """The minimum of a table's or memory's limits (5.3.9), refusing every kind that is off."""
    flags = reader.byte()
    for bit, feature in ((2, "shared"), (4, "64-bit")):
        if flags & bit:
            raise ModuleRejected(
                f"{what}_type", f"the {what} is {feature}, which is off", hint="build for wasm32 without threads"
            )
    if flags > 1:
        raise ModuleRejected(f"{what}_type", f"the {what} has unknown or custom limits", value=flags)
    minimum = reader.u32()
    if flags:
        reader.u32()
    return minimum


def _constant(reader: Reader, module: Facts) -> None:
    reader.position = constant_end(reader.data, reader.position, reader.end, max_bytes=module.limits.constant_bytes)


def _element_header(reader: Reader, flags: int, module: Facts) -> None:
    """What stands before the elements (5.5.12): bit 0 no active segment, bit 1 a table or a kind, bit 2 expressions."""
    active = not flags & 1
    if active:
        if flags & 2:
            reader.u32()
        _constant(reader, module)
    if flags & 3 == 0:
        return
    if flags & 4:
        reference_type(reader)
    elif reader.byte() != 0:
        raise ModuleRejected("element_segments", "an element segment has an unknown kind")
