"""Writes the vectors: ``python guest_sdk/vectors/generate.py [FOLDER]``. README.md beside this says what they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from encoding import cbor, meaning_json
from table import BAD, GOOD

__all__ = ["Vector", "vectors", "write"]


class Vector(NamedTuple):
    """One file: ``why`` says what is wrong with it, and is empty where it is good."""

    file: str
    data: bytes
    meaning: Any = None
    why: str = ""


def vectors() -> Iterator[Vector]:
    """All of them, in the order of the tables."""
    for kind, good in GOOD.items():
        for name, value in good.items():
            yield Vector(f"{kind}/good/{name}.cbor", cbor(value), meaning=value)
        for name, (value, why) in BAD[kind].items():
            yield Vector(f"{kind}/bad/{name}.cbor", value if isinstance(value, bytes) else cbor(value), why=why)


def write(folder: Path) -> None:
    """Writes every file of the vectors, and their index, into ``folder``; vectors of before that are none now go."""
    for old in folder.glob("*/*/*.cbor"):
        old.unlink()
    lines = []
    for vector in vectors():
        path = folder / vector.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(vector.data)
        told = {"why": vector.why} if vector.why else {"meaning": meaning_json(vector.meaning)}
        lines.append(json.dumps({"file": vector.file} | told, ensure_ascii=True))
    (folder / "index.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
