"""The text of a source, given as a Path, or as the text or its bytes: a str never makes the host read a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread

from rho_wasm.errors import BuildError, Diagnostic
from rho_wasm.toolchains.files import TooLong, read_bounded
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.untrusted import inert

__all__ = ["Source", "read_source", "text_of"]

_BYTE_ORDER_MARK = "\ufeff"

Source: TypeAlias = str | bytes | os.PathLike[str]


async def read_source(source: Source, *, name: str, file: str, limits: BuildLimits) -> str:
    """The text of ``source``, without the byte order mark that it may begin with.

    Raises :class:`BuildError`: ``source_unreadable``, ``source_too_large``.
    """

    def refused(reason: str, why: str) -> BuildError:
        return BuildError(name, [Diagnostic(why, file=inert(file, limit=128))], reason=reason)

    if isinstance(source, os.PathLike):
        try:
            data = await anyio.to_thread.run_sync(read_bounded, Path(source), limits.source_bytes)
        except TooLong:
            raise refused("source_too_large", f"is longer than {limits.source_bytes} bytes") from None
        except OSError as error:
            raise refused("source_unreadable", f"cannot be read: {error.strerror or error}") from None
    else:
        data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else bytes(source)
    if len(data) > limits.source_bytes:
        raise refused("source_too_large", f"is longer than {limits.source_bytes} bytes")
    return text_of(data, name=name, file=file)


def text_of(data: bytes, *, name: str, file: str) -> str:
    """``data`` as text. Raises :class:`BuildError` (``source_unreadable``)."""

    def refused(why: str) -> BuildError:
        return BuildError(name, [Diagnostic(why, file=inert(file, limit=128))], reason="source_unreadable")

    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise refused(f"is no UTF-8 text: byte {error.start}") from None
    if "\0" in text:
        raise refused("has a zero byte, so it is no source text")
    return text.removeprefix(_BYTE_ORDER_MARK)
