"""Values as TOML says them (https://toml.io/en/v1.0.0), in one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

__all__ = ["toml_key", "toml_text"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    """``name`` as a key: quoted where it has to be."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def toml_text(value: Any) -> str:
    """A boolean, number, text, list or table; of a model what was said in it."""
    if isinstance(value, BaseModel):
        return toml_text(value.model_dump(exclude_unset=True))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, Mapping):
        items = ", ".join(f"{toml_key(key)} = {toml_text(item)}" for key, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    return str(value)
