"""Builds every guest of ``fixtures/`` from its source: ``python -m tests.fixture_build [--check] [NAME...]``.

``--check`` writes nothing and exits 1 where the committed bytes differ. Guests in WebAssembly text need wasmtime only;
those in C are built by ``rho_wasm.toolchains`` with the exactly pinned compiler of the extra ``c``. The text ones do
not go through ``build``, because it refuses what no host lets in, and one of them is made for that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import anyio
import wasmtime

from rho_wasm.manifest import Manifest, embed
from rho_wasm.toolchains import build

__all__ = ["FIXTURES", "built", "names"]

FIXTURES = Path(__file__).parent.parent / "fixtures"


def names(suffix: str) -> list[str]:
    """The guests whose source ends in ``suffix`` (``.wat`` or ``.c``)."""
    return sorted(path.stem for path in FIXTURES.glob(f"*{suffix}"))


def built(name: str) -> bytes:
    """The bytes that ``fixtures/NAME.wasm`` must have. For C, call it outside an event loop."""
    text = FIXTURES / f"{name}.wat"
    if text.exists():
        manifest = Manifest.from_json((FIXTURES / f"{name}.manifest.json").read_text(encoding="utf-8"))
        return embed(bytes(wasmtime.wat2wasm(text.read_text(encoding="utf-8"))), manifest)

    async def from_c() -> bytes:
        return (await build(FIXTURES / f"{name}.c", trusted=True)).wasm

    return anyio.run(from_c)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fixture_build", description="Build the fixtures.")
    parser.add_argument("--check", action="store_true", help="compare with the committed bytes, write nothing")
    parser.add_argument("name", nargs="*", help="some guests only (default: all)")
    options = parser.parse_args()
    differing = 0
    for name in options.name or [*names(".wat"), *names(".c")]:
        target = FIXTURES / f"{name}.wasm"
        data = built(name)
        same = target.exists() and target.read_bytes() == data
        differing += not same
        if not options.check and not same:
            target.write_bytes(data)
        print(f"{name}: {len(data)} bytes{'' if same else ', differs' if options.check else ', written'}")
    return 1 if options.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
