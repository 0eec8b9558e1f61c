"""What the operator says of one secret: where its value is, and for which requests alone it may be used."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, model_validator

from rho_wasm.grants import HttpMethods
from rho_wasm.untrusted import inert
from rho_wasm.url_rules import UrlRule

__all__ = ["SecretPolicy"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # RFC 9110, section 5.6.2
_PREFIX: Final = re.compile(r"[ -~]{0,64}")
_CONNECTION: Final = frozenset(
    (
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


def _variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise ValueError(f"{inert(name, limit=80)!r} is no name of an environment variable")
    return name


def _file(path: str) -> str:
    if not PurePosixPath(path).is_absolute() or "\0" in path:
        raise ValueError("a secret's file is an absolute path")
    return path


def _origin(text: str) -> str:
    rule = UrlRule.parse(text)
    if rule.subdomains or rule.path != "/":
        raise ValueError("a secret's origin is http(s)://HOST[:PORT], one host; its path stands in 'path'")
    return rule.origin


def _header(name: str) -> str:
    if _TOKEN.fullmatch(name) is None:
        raise ValueError(f"{inert(name, limit=80)!r} is no name of a header field")
    same = name.lower().replace("_", "-")  # Some servers read it as that.
    if same in _CONNECTION or same.startswith("proxy-"):
        raise ValueError(f"the header {name} is the connection's own, a secret cannot stand in it")
    return name


def _prefix(text: str) -> str:
    if _PREFIX.fullmatch(text) is None:
        raise ValueError("a prefix is at most 64 printable ASCII characters")
    return text


class SecretPolicy(BaseModel):
    """``[secrets.NAME]``: a guest says the name, the host sends the value, in one header, to one origin alone.

    The value is in the environment variable ``env`` or in the file ``file``. With neither, whoever opens the host must
    give it: ``Host.open(secrets={NAME: value})``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    env: Annotated[StrictStr, AfterValidator(_variable)] | None = None
    """The environment variable that has the value."""
    file: Annotated[StrictStr, AfterValidator(_file)] | None = None
    """The file that has it, in place of ``env``: an absolute path, for its owner alone to read."""
    origin: Annotated[StrictStr, AfterValidator(_origin)]
    """``https://HOST[:PORT]``."""
    path: Annotated[StrictStr, Field(max_length=512)] = "/"
    """Prefix of whole segments of the path."""
    methods: HttpMethods = ("GET",)
    """Methods of the requests that may carry it."""
    header: Annotated[StrictStr, AfterValidator(_header)] = "Authorization"
    """The header field that it stands in."""
    prefix: Annotated[StrictStr, AfterValidator(_prefix)] = "Bearer "
    """Stands before the value in the header."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.env is not None and self.file is not None:
            raise ValueError("a secret is in env or in file, not in both")
        if not self.path.startswith("/"):
            raise ValueError("path begins with /")
        UrlRule.parse(self.origin + self.path)
        return self

    @cached_property
    def rule(self) -> UrlRule:
        """The URLs that the value may be sent to."""
        return UrlRule.parse(self.origin + self.path)
