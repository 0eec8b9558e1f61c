"""Edits of a module that keep the index of everything the module itself defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rho_wasm.errors import ModuleRejected
from rho_wasm.sandbox.abi import ALLOWED_IMPORTS, FunctionType
from rho_wasm.toolchains.binary import FUNCTION, GLOBAL, MEMORY, TABLE, Element, Import, Module
from rho_wasm.toolchains.instructions import Renumbering, calls_any, renumbered
from rho_wasm.wasm import encode_u32

__all__ = [
    "ENOSYS",
    "allowed",
    "append_module",
    "enosys_body",
    "only_functions",
    "renumber_functions",
    "stub_imports",
]

ENOSYS = 52
"""WASI's error number for a function that is not there."""

_UNREACHABLE = b"\x00\x00\x0b"


def enosys_body(signature: FunctionType) -> bytes:
    """A function that answers :data:`ENOSYS`, does nothing where it has no result, and traps for any other result."""
    if not signature.results:
        return b"\x00\x0b"
    return b"\x00\x41\x34\x0b" if signature.results == ("i32",) else _UNREACHABLE


def allowed(function: Import, signature: FunctionType) -> bool:
    """Whether the guest ABI knows an import of that name and type."""
    return ALLOWED_IMPORTS.get((function.module, function.name)) == signature


def stub_imports(
    module: Module,
    *,
    bodies: Mapping[str, bytes] | None = None,
    keep: Callable[[Import, FunctionType], bool] = allowed,
    add: Sequence[str] = (),
) -> tuple[str, ...]:
    """Makes each imported function one of the module's own, unless ``keep`` says to keep it. Answers their names.

    ``bodies`` gives the code of some, by name (locals, instructions, ``end``); those are replaced whatever ``keep``
    says, and the others answer ENOSYS. The module's own functions keep their indices; the imports change places among
    themselves where they must, and whatever names them is changed with them. ``add`` are names of functions that
    the guest ABI knows, which are imported last: so every function that the module defines moves up.

    Raises :class:`ModuleRejected` (``import_kind``) for imported memories, tables and globals.
    """
    given = bodies or {}
    only_functions(module)
    kept = [
        place
        for place, each in enumerate(module.imports)
        if each.name not in given and keep(each, module.types[each.type_index])
    ]
    stubbed = [place for place in range(len(module.imports)) if place not in kept]
    imports = module.imports
    own = range(len(imports), len(imports) + len(module.functions) if add else 0)
    room = [-1] * len(add)
    moved = {old: new for new, old in enumerate([*kept, *room, *stubbed, *own]) if old != new and old >= 0}
    module.imports = [*(imports[place] for place in kept), *(_known_import(module, name) for name in add)]
    module.functions[:0] = [imports[place].type_index for place in stubbed]
    renumber_functions(module, moved)
    module.bodies[:0] = [
        given.get(imports[place].name) or enosys_body(module.types[imports[place].type_index]) for place in stubbed
    ]
    return tuple(imports[place].name for place in stubbed)


def _known_import(module: Module, name: str) -> Import:
    origin, signature = next((key[0], found) for key, found in ALLOWED_IMPORTS.items() if key[1] == name)
    index = module.type_index(signature)
    return Import(origin, name, FUNCTION, index, encode_u32(index))


def append_module(
    module: Module,
    added: Module,
    *,
    functions: Mapping[str, int] | None = None,
    globals_: Mapping[str, int] | None = None,
) -> None:
    """Appends the functions, globals and exports of ``added``, whose imports are things of ``module``.

    What ``added`` imports is found by name alone: in ``functions`` and ``globals_`` (indices in ``module``), else among
    the exports of ``module``. Its memory and its table are those of ``module``, whatever they are called.

    Raises :class:`ModuleRejected`: ``import_unknown``, ``import_type``, ``export_duplicate``, and ``cannot_append`` if
    it has a memory, a table, data, active elements or a start function of its own.
    """
    if added.memory or added.tables or added.start is not None or added.data != b"\0":
        raise ModuleRejected("cannot_append", "what is appended has a memory, a table, data or a start of its own")
    if any(not element.flags & 1 for element in added.elements):
        raise ModuleRejected("cannot_append", "what is appended writes to a table")
    numbers = _Places(module, added, functions or {}, globals_ or {}).renumbering()
    if (taken := {each.name for each in module.exports} & {each.name for each in added.exports}) != set():
        raise ModuleRejected("export_duplicate", "an export is there already", name=min(taken))
    module.functions += [numbers.types[index] for index in added.functions]
    module.bodies += [renumbered(body, numbers) for body in added.bodies]
    for each in added.globals:
        if each.initial[:1] in (b"\x23", b"\xd2"):
            raise ModuleRejected("cannot_append", "a global that is appended is not given as a constant")
        module.globals.append(each)
    for export in added.exports:
        if export.kind in (FUNCTION, GLOBAL):
            mapping = numbers.functions if export.kind == FUNCTION else numbers.globals
            module.add_export(export.name, export.kind, mapping[export.index])
    module.elements += [_moved_element(element, numbers.functions) for element in added.elements]


class _Places:
    """Where the things of an appended module end up."""

    def __init__(
        self, module: Module, added: Module, functions: Mapping[str, int], globals_: Mapping[str, int]
    ) -> None:
        self._module = module
        self._added = added
        self._named = {FUNCTION: functions, GLOBAL: globals_}

    def renumbering(self) -> Renumbering:
        module, added = self._module, self._added
        types = {place: module.type_index(signature) for place, signature in enumerate(added.types)}
        functions: dict[int, int] = {}
        globals_: dict[int, int] = {}
        for each in added.imports:
            if each.kind == FUNCTION:
                functions[len(functions)] = self._function(each)
            elif each.kind == GLOBAL:
                globals_[len(globals_)] = self._global(each)
            elif (each.kind == MEMORY and module.memory is None) or (each.kind == TABLE and not module.tables):
                raise ModuleRejected("import_unknown", f"there is nothing that {each} could be", name=str(each))
        first = module.imported(FUNCTION) + len(module.functions)
        functions |= {len(functions) + place: first + place for place in range(len(added.functions))}
        globals_ |= {len(globals_) + place: len(module.globals) + place for place in range(len(added.globals))}
        return Renumbering(functions=functions, globals=globals_, types=types)

    def _function(self, wanted: Import) -> int:
        index = self._index(wanted)
        if self._module.signature(index) != self._added.types[wanted.type_index]:
            raise _wrong_type(wanted)
        return index

    def _global(self, wanted: Import) -> int:
        index = self._index(wanted)
        if self._module.globals[index].encoded_type != wanted.raw:
            raise _wrong_type(wanted)
        return index

    def _index(self, wanted: Import) -> int:
        index = self._named[wanted.kind].get(wanted.name)
        if index is None:
            index = self._module.exported(wanted.name, wanted.kind)
        if index is None:
            raise ModuleRejected("import_unknown", f"there is nothing that {wanted} could be", name=str(wanted))
        return index


def _wrong_type(wanted: Import) -> ModuleRejected:
    return ModuleRejected("import_type", f"{wanted} has another type in the module", name=str(wanted))


def only_functions(module: Module) -> None:
    """Raises :class:`ModuleRejected` (``import_kind``) for imported memories, tables and globals."""
    for each in module.imports:
        if each.kind != FUNCTION:
            raise ModuleRejected("import_kind", f"{each} is imported, and is no function", name=str(each))


def renumber_functions(module: Module, moved: Mapping[int, int]) -> None:
    """Gives every function of ``module`` that is in ``moved`` its new index, wherever it is named."""
    if not moved:
        return
    may_name = calls_any(moved)
    numbers = Renumbering(functions=moved)
    module.bodies = [renumbered(body, numbers) if may_name(body) else body for body in module.bodies]
    module.elements = [_moved_element(element, moved) for element in module.elements]
    module.exports = [
        replace(each, index=moved.get(each.index, each.index)) if each.kind == FUNCTION else each
        for each in module.exports
    ]
    if module.start is not None:
        module.start = moved.get(module.start, module.start)


def _moved_element(element: Element, moved: Mapping[int, int]) -> Element:
    return element._replace(
        functions=tuple(index if index is None else moved.get(index, index) for index in element.functions)
    )
