"""Log lines that anybody who reaches the server can cause: few of each kind, so that nobody fills a disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FewOfEach", "few_lines"]

_LINES = 10
_PERIOD_S = 60.0
_KINDS = 64
_LOGGERS = ("rho_wasm.server", "uvicorn", "mcp", "sse_starlette")
"""Those of the server, and what is above every logger of what it is made of."""


class FewOfEach(logging.Filter):
    """Lets ten lines of one kind (the text without what is put into it) through in a minute, and drops the rest.

    The last of them says that more may follow. Lines of more than 64 kinds share one count.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since = time.monotonic()
        self._counts: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._since > _PERIOD_S:
            self._since = now
            self._counts.clear()
        kind = str(record.msg) if record.args else record.levelname
        if kind not in self._counts and len(self._counts) >= _KINDS:
            kind = ""
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count == _LINES:
            record.msg, record.args = f"{record.getMessage()} (more lines like this are left out for a minute)", None
        return count <= _LINES


class _Passing(logging.Handler):
    """Passes few lines of each kind of a logger, and of all below it, on to where they would have gone.

    A filter of the logger itself would see none of those that only come through it.
    """

    def __init__(self, above: logging.Logger) -> None:
        super().__init__()
        self._above = above
        self.addFilter(FewOfEach())

    def emit(self, record: logging.LogRecord) -> None:
        self._above.callHandlers(record)


_within = 0


@contextmanager
def few_lines() -> Iterator[None]:
    """Inside, the server, uvicorn and the SDK write few lines of each kind. May be entered more than once."""
    global _within
    _within += 1
    if _within == 1:
        for logger in map(logging.getLogger, _LOGGERS):
            if logger.propagate and logger.parent is not None:
                logger.addHandler(_Passing(logger.parent))
                logger.propagate = False
    try:
        yield
    finally:
        _within -= 1
        if not _within:
            for logger in map(logging.getLogger, _LOGGERS):
                for handler in [each for each in logger.handlers if isinstance(each, _Passing)]:
                    logger.removeHandler(handler)
                    logger.propagate = True
