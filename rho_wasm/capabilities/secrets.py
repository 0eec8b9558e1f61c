"""Values that a guest may have sent along but never sees.

A guest says a secret's name; the host puts the value into one header field of a request that the operator's
``[secrets.NAME]`` allows (:class:`rho_wasm.secret_policy.SecretPolicy`), and takes it out of what comes back.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

from rho_wasm.errors import PolicyError
from rho_wasm.secret_policy import SecretPolicy
from rho_wasm.untrusted import inert

__all__ = ["Secret", "Secrets"]

LEAST_CHARS: Final = 8
"""A shorter value cannot be taken out of a response: it stands in many that have nothing to do with it."""
MOST_CHARS: Final = 8_192
SCRUBBED: Final = "[secret]"
"""What stands where a value was. No longer than the shortest value, so that a bounded text stays so."""

_SCRUBBED: Final = SCRUBBED.encode()

_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")


@dataclass(frozen=True, slots=True)
class Secret:
    """One value, and the requests that it is for. ``repr`` and comparison do not know the value."""

    name: str
    policy: SecretPolicy
    value: str = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if not LEAST_CHARS <= len(self.value) <= MOST_CHARS or _VALUE.fullmatch(self.value) is None:
            raise PolicyError(
                f"secrets.{self.name}: a value is {LEAST_CHARS} to {MOST_CHARS:,} visible ASCII characters, "
                "with spaces only between them",
                reason="secret_invalid",
            )

    def covers(self, method: str, scheme: str, host: str, port: int, path: str) -> bool:
        """Whether a request of this method and URL (in canonical form) may carry it."""
        return method in self.policy.methods and self.policy.rule.covers(scheme, host, port, path)

    @property
    def header(self) -> tuple[str, str]:
        """The field's name in lower case, and its whole value."""
        return self.policy.header.lower(), self.policy.prefix + self.value


class Secrets:
    """All secrets of a host."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._secrets = {secret.name: secret for secret in secrets}
        forms = {form for secret in self._secrets.values() for form in _forms(secret.value)}
        # The longest first: some stand within others.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    @classmethod
    def load(
        cls,
        policies: Mapping[str, SecretPolicy],
        *,
        given: Mapping[str, str] | None = None,
        needed: Container[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Secrets:
        """The values of ``policies``: of ``given`` by name, else from the variable or the file that a policy names.

        White space around a value of a file or a variable does not count. Raises :class:`PolicyError` for one of
        ``needed`` (default: all) that has no value, for a given name that no policy describes, and for a value that
        cannot stand in a header field. Never is there an empty secret.
        """
        given = {} if given is None else given
        environ = os.environ if environ is None else environ
        for name in given:
            if name not in policies:
                raise PolicyError(
                    f"the secret {inert(name, limit=64)!r} is given, but no [secrets] says what it is for",
                    reason="secret_unknown",
                )
        secrets = []
        for name, policy in policies.items():
            value, where = given.get(name), "Host.open(secrets=...) gives none"
            if value is None:
                value, where = _found(policy, environ)
            if value:
                secrets.append(Secret(name, policy, value))
            elif needed is None or name in needed:
                raise PolicyError(f"secrets.{name} has no value: {where}", reason="secret_missing")
        return cls(secrets)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._secrets))})"

    def named(self, name: str) -> Secret | None:
        return self._secrets.get(name)

    def scrubbed(self, data: bytes) -> bytes:
        """``data`` without any value: as it is, escaped for URLs, JSON or HTML, in base64 or hexadecimal digits.

        An endpoint that writes it backwards or encrypts it is not seen through.
        """
        for form in self._forms:
            data = data.replace(form.encode(), _SCRUBBED)
        return data

    def scrubbed_reply(self, data: bytes, sent: Secret) -> bytes:
        """The same of the content of a response to a request with ``sent``, and without half of that value or more
        where ``data`` begins or ends within it: it may have been cut, and no cut in two shows both halves.

        Not for less, and not for what else came: who has part of a value could try out how it goes on.
        """
        data = self.scrubbed(data)
        first = last = 0
        for form in map(str.encode, _forms(sent.value)):
            first = max(first, _run(data[: len(form)], form))
            last = max(last, _run(data[-len(form) :][::-1], form[::-1]))
        if first + last >= len(data):
            return _SCRUBBED if first else data
        return (_SCRUBBED if first else b"") + data[first : len(data) - last] + (_SCRUBBED if last else b"")

    def scrubbed_text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, SCRUBBED)
        return text


def _run(data: bytes, form: bytes) -> int:
    """How many bytes at the begin of ``data`` stand in ``form`` up to where one of the two ends; 0 below half."""
    least = max(LEAST_CHARS, (len(form) + 1) // 2)
    begin = data[:least]
    at = form.find(begin) if len(begin) == least else -1
    while at >= 0:
        rest = form[at : at + len(data)]
        if data.startswith(rest):
            return len(rest)
        at = form.find(begin, at + 1)
    return 0


def _found(policy: SecretPolicy, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The value, or None and why there is none."""
    if policy.env is not None:
        return environ.get(policy.env, "").strip(), f"the environment variable {policy.env} is not set or empty"
    if policy.file is None:
        return None, "its policy names neither env nor file, so Host.open(secrets=...) must give it"
    try:
        with Path(policy.file).open("rb") as file:
            # A value that was cut is too long, which is said of it later.
            return file.read(MOST_CHARS + 256).decode("latin-1").strip(), f"the file {policy.file} is empty"
    except OSError as error:
        return None, f"the file {policy.file} cannot be read: {error.strerror}"


def _forms(value: str) -> Iterable[str]:
    """How a server that means no harm may show a value."""
    yield value
    for escaped in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield escaped
        yield _ESCAPE.sub(lambda found: found[0].lower(), escaped)
    in_json = json.dumps(value)[1:-1]
    yield in_json
    yield in_json.replace("/", "\\/")
    in_html = html.escape(value)
    yield in_html
    yield in_html.replace("&#x27;", "&#39;")
    yield html.escape(value, quote=False)
    data = value.encode()
    yield data.hex()
    yield data.hex().upper()
    for offset in range(3):
        # Within a longer text in base64, such as user:value, only the characters that this value alone makes.
        encoded = base64.b64encode(bytes(offset) + data).decode()
        whole = encoded.rstrip("=")
        whole = whole if whole == encoded else whole[:-1]
        inner = whole[(0, 2, 3)[offset] :]
        yield inner
        yield inner.translate({ord("+"): "-", ord("/"): "_"})
