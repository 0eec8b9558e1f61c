"""The program that reads WebAssembly text from standard input and writes the module to standard output.

Run as a script, without the package on its path. A text bomb is its own problem and not the host's.
"""

from __future__ import annotations

import sys

__all__ = ["EXIT_NOT_WAT"]

EXIT_NOT_WAT = 65
"""Exit status where the text is no module. Standard error then says why and where."""


def _main() -> int:
    import wasmtime

    try:
        module = wasmtime.wat2wasm(sys.stdin.buffer.read())
    except wasmtime.WasmtimeError as error:
        sys.stderr.write(str(error))
        return EXIT_NOT_WAT
    sys.stdout.buffer.write(module)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
