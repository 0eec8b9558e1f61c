"""What a compiled guest declares of itself: its manifest, which it computes once, inside the sandbox, when it is built.

A module may export ``rho_manifest: () -> i64``, which answers where the plain CBOR of its manifest lies (guest_sdk/
ABI.md), packed as an answer of ``rho_call`` is: ``(ptr << 32) | len``. It is called in a fresh instance after
``_initialize``, and is gone from the module that is built. What it says is a guest's word: it is read strictly, and
only as far as a manifest may be long.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio.to_thread

from rho_wasm import plain
from rho_wasm.errors import BuildError, Diagnostic, ModuleRejected, PlainError
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import admission_checks, admission_layout
from rho_wasm.sandbox.abi import ABI_VERSION, EXPORT_TYPES, INITIALIZE, FunctionType
from rho_wasm.sandbox.admission_module import Facts
from rho_wasm.sandbox.boot import BootInstance, BootLimits, Stopped, boot
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.memory import OutOfBounds
from rho_wasm.toolchains.binary import FUNCTION, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.untrusted import inert

__all__ = ["DECLARE", "declared_manifest", "read_declaration", "without_declaration"]

DECLARE = "rho_manifest"

_TYPE = FunctionType((), ("i64",))
_OUTPUT_LINES, _OUTPUT_CHARS = 8, 300
"""Of what the guest wrote before it failed: the last lines, where a runtime says why it gave up."""


async def declared_manifest(
    wasm: bytes, *, language: str, file: str, limits: HostLimits
) -> tuple[bytes, Manifest | None]:
    """``wasm`` without its ``rho_manifest``, and what that declared; None where it has none.

    ``file`` is what the author knows his source by. Start and declaration together have the bounds of one call.

    Raises :class:`BuildError`: ``bad_manifest`` (another type, a loop, a trap, no plain CBOR, no manifest: the message
    has the path of the field and its fault) and ``build_unavailable``; and :class:`ModuleRejected` for a module that
    cannot be read, imports what no guest is given, or does not compile.
    """
    if DECLARE.encode() not in wasm:
        return wasm, None
    module = await anyio.to_thread.run_sync(_checked, wasm, limits)
    if all(each.name != DECLARE for each in module.exports):
        return wasm, None
    asked = _Asked(language, file)
    asked.check_types(module)
    data = await asked.answer(wasm, limits)
    manifest = await anyio.to_thread.run_sync(
        partial(read_declaration, data, language=language, file=file, limits=limits)
    )
    return _without(module), manifest


def read_declaration(data: bytes, *, language: str, file: str, limits: HostLimits) -> Manifest:
    """The manifest in ``data``, where ``abi`` and ``language`` may be left out, and ``engine`` must be.

    Raises :class:`BuildError` (``bad_manifest``).
    """
    asked = _Asked(language, file)
    try:
        given = plain.decode(data, max_bytes=limits.manifest_bytes)
    except PlainError as error:
        raise asked.bad(f"what {DECLARE} answered is {error}") from None
    if type(given) is not dict:
        raise asked.bad(f"what {DECLARE} answered is no map")
    if "engine" in given:
        raise asked.bad("engine: is written by the builder of images")
    written = {"abi": ABI_VERSION, "language": language, **given}
    try:
        return Manifest.decode(plain.encode(written, max_bytes=2 * limits.manifest_bytes), limits=limits)
    except ModuleRejected as error:
        bound = f" (limit {error.limit}, found {error.value})" if error.limit is not None else ""
        raise asked.bad(f"{error.detail}{bound}", hint=error.hint) from None


def without_declaration(wasm: bytes) -> bytes:
    """``wasm`` without its ``rho_manifest``, which is not called. Raises :class:`ModuleRejected` for what is none."""
    if DECLARE.encode() not in wasm:
        return wasm
    module = read_module(wasm)
    return _without(module) if any(each.name == DECLARE for each in module.exports) else wasm


def _checked(wasm: bytes, limits: HostLimits) -> Module:
    # A wrong import is named as admission names it, instead of by the linker.
    facts = Facts(wasm, limits)
    admission_layout.check_sections(facts)
    admission_layout.check_start(facts)
    admission_checks.check_types(facts)
    admission_checks.check_imports(facts)
    return read_module(wasm)


def _without(module: Module) -> bytes:
    return replace(module, exports=[each for each in module.exports if each.name != DECLARE]).encode()


class _Asked:
    """One guest that is asked. What it is refused for names the language and the file."""

    def __init__(self, language: str, file: str) -> None:
        self._language = language
        self._file = inert(file, limit=128)
        self._output = b""

    def check_types(self, module: Module) -> None:
        """What is called is what it must be: the boot calls whatever it is told to."""
        for name, wanted in ((DECLARE, _TYPE), (INITIALIZE, EXPORT_TYPES[INITIALIZE])):
            export = next((each for each in module.exports if each.name == name), None)
            if export is None:
                continue
            if export.kind != FUNCTION:
                raise self.bad(f"the export {name} is no function")
            try:
                found = module.signature(export.index)
            except IndexError:
                raise self.bad(f"the export {name} names a function that is not there") from None
            if found != wanted:
                raise self.bad(f"the export {name} must have the type {wanted}")

    async def answer(self, wasm: bytes, limits: HostLimits) -> bytes:
        """The bytes that the guest answers. Raises :class:`BuildError`."""
        said = b""

        def drive(instance: BootInstance) -> None:
            nonlocal said
            try:
                if INITIALIZE in instance.exports:
                    instance.call(INITIALIZE)
                packed = instance.call(DECLARE)
                pointer, length = packed >> 32, packed & 0xFFFF_FFFF
                if length > limits.manifest_bytes:
                    raise self.bad(f"it has {length} bytes, of {limits.manifest_bytes} that a manifest may have")
                said = instance.read(pointer, length)
            finally:
                self._output = instance.output

        try:
            await boot(wasm, drive=drive, limits=_bounds(limits))
        except CallFailed as error:
            if error.reason == "overloaded":
                raise self.bad(error.detail, reason="build_unavailable") from None
            bound = f" ({error.limit}={error.value})" if error.limit is not None else ""
            raise self.bad(f"{DECLARE} ended in {error.reason}{bound}: {error.detail}") from None
        except Stopped as stopped:
            raise self.bad(f"{DECLARE} ended the guest with status {stopped.exit_code}") from None
        except OutOfBounds:
            raise self.bad(f"{DECLARE} answered a place outside the guest's memory") from None
        if not said:
            raise self.bad(f"{DECLARE} answered nothing")
        return said

    def bad(self, why: str, *, reason: str = "bad_manifest", hint: str = "") -> BuildError:
        said = self._output.decode("utf-8", "replace").splitlines()[-_OUTPUT_LINES:]
        return BuildError(
            self._language,
            [
                Diagnostic(f"the manifest that it declares: {why}", file=self._file),
                *(Diagnostic(inert(line, limit=_OUTPUT_CHARS), severity="note") for line in said if line.strip()),
            ],
            reason=reason,
            hint=hint,
        )


def _bounds(limits: HostLimits) -> BootLimits:
    return BootLimits(
        fuel=limits.call.fuel,
        deadline_ms=limits.call.deadline_ms,
        memory_bytes=limits.call.memory_bytes,
        table_elements=limits.call.table_elements,
        stack_bytes=limits.guest_stack_bytes,
        output_bytes=limits.call.log_bytes,
        compile_cpu_ms=limits.compile_cpu_ms_max,
        compile_memory_bytes=limits.compile_memory_bytes,
    )
