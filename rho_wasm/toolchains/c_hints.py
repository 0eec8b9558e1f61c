"""What to say to a source of C or C++ that asks for what a guest has not: a header, or a function of the C library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from rho_wasm.errors import Diagnostic

__all__ = ["C_HEADERS", "c_hint"]

C_HEADERS: Final = (
    "float.h",
    "limits.h",
    "stdalign.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdnoreturn.h",
)
"""Of C's own headers those that both of its compilers bring."""

_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "c": (
            "there is no C library: a tool has rho.h, the files of its own project, and of the standard headers "
            f"{', '.join(C_HEADERS)}"
        ),
        "cpp": (
            "a tool has rho.hpp, the files of its own project and the headers of the standard library, of which "
            "nothing is linked: strings, containers and algorithms are there, streams, locales and printf are not"
        ),
    }
)
# The messages of clang, and of TinyCC.
_NOT_THERE: Final = re.compile(
    r"'[^']+' file not found|include file '[^']+' not found"
    r"|.+ is not defined anywhere: .*|call to undeclared (?:library )?function .*|implicit declaration of function .*"
)


def c_hint(found: Iterable[Diagnostic], language: str) -> str:
    """The hint for a build that ended in ``found``; empty where that is about something else."""
    wanting = any(each.severity == "error" and _NOT_THERE.fullmatch(each.message) is not None for each in found)
    return _HINTS[language] if wanting else ""
