"""Compiles one module to native code, in a process of its own that ends afterwards. Run as a script, never imported.

    python -I compile_child.py '{"task": "compile", "original": 0, "library": ..., ...}' < ORIGINAL+MODULE > NATIVE

The first ``original`` bytes are only looked at, whether they are a valid module; the task "validate" is nothing but
that. Ends with 0 and the native code of the rest on standard output, or with 3 and wasmtime's message on standard
error. It calls wasmtime's C API itself: importing the Python package would take five times as long as all else here. It
shuts itself in before it looks at the module: limits, no file, no network (confine.py).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

REFUSED = 3
"""Exit code: wasmtime does not take the module."""

_KINDS = {"bool": ctypes.c_bool, "u8": ctypes.c_uint8, "u64": ctypes.c_uint64}


class _Bytes(ctypes.Structure):
    """``wasm_byte_vec_t``."""

    _fields_ = (("size", ctypes.c_size_t), ("data", ctypes.c_void_p))


def _main() -> int:
    job = json.loads(sys.argv[1])
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - imports as little as it can
    import confine  # type: ignore[import-not-found]

    library = ctypes.CDLL(job["library"])
    confine.apply(job["limits"])
    given = sys.stdin.buffer.read()
    # What was added to the module must not be what makes it valid: the author's own bytes stand first.
    original, module = given[: job["original"]], given[job["original"] :]
    engine = _engine(library, job["settings"])
    native = _Bytes()
    error = _validate(library, engine, original) if original or job["task"] == "validate" else None
    if not error and job["task"] == "compile":
        error = _compile(library, engine, module, native)
    if error:
        sys.stderr.buffer.write(_message(library, error))
        return REFUSED
    sys.stdout.buffer.write(ctypes.string_at(native.data, native.size))
    return 0


def _engine(library: Any, settings: list[tuple[str, str, int]]) -> Any:
    new_config = _function(library, "wasm_config_new", ctypes.c_void_p)
    config = new_config()
    for name, kind, value in settings:
        _function(library, f"wasmtime_config_{name}_set", None, ctypes.c_void_p, _KINDS[kind])(config, value)
    return _function(library, "wasm_engine_new_with_config", ctypes.c_void_p, ctypes.c_void_p)(config)


def _validate(library: Any, engine: Any, module: bytes) -> Any:
    """The error, or None for a valid module."""
    return _function(
        library, "wasmtime_module_validate", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    )(engine, module, len(module))


def _compile(library: Any, engine: Any, module: bytes, native: _Bytes) -> Any:
    """The error, or None with the native code in ``native``."""
    compiled = ctypes.c_void_p()
    error = _function(
        library,
        "wasmtime_module_new",
        ctypes.c_void_p,
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p),
    )(engine, module, len(module), ctypes.byref(compiled))
    if error:
        return error
    serialize = _function(library, "wasmtime_module_serialize", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return serialize(compiled, ctypes.byref(native))


def _message(library: Any, error: Any) -> bytes:
    text = _Bytes()
    tell = _function(library, "wasmtime_error_message", None, ctypes.c_void_p, ctypes.c_void_p)
    tell(error, ctypes.byref(text))
    return ctypes.string_at(text.data, min(text.size, 4096))


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]
    function.restype = result
    function.argtypes = arguments
    return function


if __name__ == "__main__":
    raise SystemExit(_main())
