"""The table of names and types is the page guest_sdk/ABI.md, and reading it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rho_wasm.sandbox import abi

WASI_OF_THE_PAGE = """
args_get, args_sizes_get, environ_get, environ_sizes_get, clock_res_get, clock_time_get, fd_close, fd_fdstat_get,
fd_fdstat_set_flags, fd_filestat_get, fd_prestat_get, fd_prestat_dir_name, fd_read, fd_seek, fd_tell, fd_write,
poll_oneoff, proc_exit, random_get, sched_yield
"""


def test_exactly_the_wasi_functions_of_the_page_are_there() -> None:
    assert list(abi.WASI_IMPORTS) == [name.strip() for name in WASI_OF_THE_PAGE.split(",")]


def test_the_functions_of_rho_have_the_types_of_the_page() -> None:
    assert {name: str(signature) for name, signature in abi.RHO_IMPORTS.items()} == {
        "log": "(i32, i32, i32) -> ()",
        "host_call": "(i32, i32) -> (i32)",
        "host_take": "(i32, i32) -> (i32)",
    }


def test_the_exports_have_the_types_of_the_page() -> None:
    assert {name: str(signature) for name, signature in abi.EXPORT_TYPES.items()} == {
        "rho_alloc": "(i32) -> (i32)",
        "rho_call": "(i32, i32) -> (i64)",
        "_initialize": "() -> ()",
    }
    assert abi.REQUIRED_EXPORTS == ("memory", "rho_alloc", "rho_call")


def test_allowed_is_both_modules_together() -> None:
    assert len(abi.ALLOWED_IMPORTS) == 3 + 20
    assert {module for module, _ in abi.ALLOWED_IMPORTS} == {"rho", "wasi_snapshot_preview1"}


def test_the_table_is_read_without_wasmtime() -> None:
    code = (
        "import importlib.util as u, sys\n"
        f"spec = u.spec_from_file_location('abi', {str(Path(abi.__file__))!r})\n"
        "module = u.module_from_spec(spec)\n"
        "sys.modules['abi'] = module\n"
        "spec.loader.exec_module(module)\n"
        "sys.exit(any(name.startswith(('wasmtime', 'pydantic')) for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0
