"""The line of a source in a backtrace, as guests of interpreted languages have it: ``file:line in name: text``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["innermost_line"]

_PLACE: Final = re.compile(r"(?:near )?[^:\n]{1,128}:([1-9][0-9]{0,5})(?: in |: |$)")


def innermost_line(backtrace: Sequence[str], *, language: str, lines: int) -> int | None:
    """The innermost line that a source of so many ``lines`` has; None where no frame names one.

    What stands there may be the guest's own words, so no more is taken of it than the number.
    """
    # Python says the innermost frame last.
    for frame in reversed(backtrace) if language == "python" else backtrace:
        found = _PLACE.match(frame)
        if found is not None and int(found[1]) <= lines:
            return int(found[1])
    return None
