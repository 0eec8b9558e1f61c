"""C++: :mod:`c_clang` and one header over rho.h, ``rho.hpp``.

The headers of the standard library are there (libc++, and those of C that it rests on), and nothing is linked: what a
guest uses of strings, vectors, maps and algorithms is templates, compiled with it in two to eight seconds of CPU, the
first time on a machine as any other. Building the library itself takes 40 s of CPU and more, into a cache that every
later build would trust, and it brings imports of WASI and 200 KB into a guest. So what needs it (streams, locales,
printf, regular expressions, sin) is not there.
"""

from __future__ import annotations

import anyio.to_thread

from rho_wasm.toolchains.c_clang import LINK, MODULE, Clang, Dialect, find_compiler
from rho_wasm.toolchains.confined import fresh_folder
from rho_wasm.toolchains.files import read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.toolchain import Built

__all__ = ["compile_cpp"]

_LIBRARY = {
    # As the compiler defines them for the library that it would build, but that indices are checked: the call then
    # traps with a line in its log.
    "_LIBCPP_ABI_VERSION": "1",
    "_LIBCPP_ABI_NAMESPACE": "__1",
    "_LIBCPP_HAS_THREADS": "0",
    "_LIBCPP_HAS_MONOTONIC_CLOCK": "1",
    "_LIBCPP_HAS_TERMINAL": "0",
    "_LIBCPP_HAS_MUSL_LIBC": "1",
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS": "1",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS": "0",
    "_LIBCPP_HAS_FILESYSTEM": "0",
    "_LIBCPP_HAS_RANDOM_DEVICE": "0",
    "_LIBCPP_HAS_LOCALIZATION": "1",
    "_LIBCPP_HAS_UNICODE": "1",
    "_LIBCPP_HAS_WIDE_CHARACTERS": "1",
    "_LIBCPP_PSTL_BACKEND_SERIAL": "1",
    "_LIBCPP_HARDENING_MODE": "_LIBCPP_HARDENING_MODE_FAST",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT": "_LIBCPP_ASSERTION_SEMANTIC_ENFORCE",
}
_DIALECT = Dialect(
    language="cpp",
    suffixes=(".cpp", ".cc", ".cxx"),
    flags=(
        "--target=wasm32-unknown-wasip1",
        "-std=gnu++23",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-threadsafe-statics",
        "-ffunction-sections",
        "-fdata-sections",
        *(f"-D{name}={value}" for name, value in _LIBRARY.items()),
    ),
    sdk={"rho.h": "c/rho.h", "rho.hpp": "cpp/rho.hpp"},
    headers=(
        "libcxx/include",
        "libcxxabi/include",
        "include",
        "libc/include/wasm-wasi-musl",
        "libc/include/generic-musl",
    ),
    native=True,
)


async def compile_cpp(project: Project, *, limits: BuildLimits, trusted: bool = False) -> Built:
    """A module of the project's ``.cpp`` files, which include ``rho.hpp``. Its constructors are ``_initialize``.

    In child processes in a fresh folder that is removed whatever happens. Raises :class:`BuildError` with line and
    column.
    """
    compiler = find_compiler(_DIALECT.language)
    async with fresh_folder() as folder:
        clang = Clang(project, _DIALECT, compiler, folder=folder, limits=limits, trusted=trusted)
        objects, warnings = await clang.compile()
        warnings += await clang.run((*LINK, "--gc-sections", *objects, "-o", MODULE))
        wasm = await anyio.to_thread.run_sync(read_bounded, folder / MODULE, limits.file_bytes)
    return Built(wasm=wasm, toolchain=compiler.version, log="\n".join(str(warning) for warning in warnings))
