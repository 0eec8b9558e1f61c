"""What this interpreter was built without, and whose absence would read like a fault of the tool's."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Any

__all__ = ["install"]

_RESOLVERS = ("getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo")


def install() -> None:
    """Makes functions of :mod:`socket` that are not there such that say why."""
    for module in (sys.modules["_socket"], socket):
        for name in _RESOLVERS:
            if not hasattr(module, name):
                setattr(module, name, _no_network)


def _no_network(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOTSUP, f"{os.strerror(errno.ENOTSUP)}: there is no network here, ask with rho.host.call")
