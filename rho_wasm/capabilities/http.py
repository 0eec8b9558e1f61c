"""``http.fetch``: one HTTP request of a guest, within its grant.

Asked: ``{"url": tstr, ? "method": tstr, ? "headers": {* tstr => tstr}, ? "body": tstr / bstr, ? "json": plain,
? "secret": tstr, ? "timeout_ms": uint}``. Answered: ``{"status": uint, "url": tstr, "headers": {* tstr => tstr},
"body": tstr / bstr}``, for every status: a 404 is an answer. ``url`` is the one that answered in the end; names of
header fields are lower case; ``body`` is text where its content type says so and it is that, else bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final, Self
from urllib.parse import unquote

import anyio
from pydantic import BeforeValidator, Field, model_validator

from rho_wasm import plain
from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.capabilities.http_addresses import Resolver, ThreadResolver
from rho_wasm.capabilities.http_content import BadContent, ContentTooLarge, readable
from rho_wasm.capabilities.http_head import MOST_FIELDS, MOST_INFORMATIONAL
from rho_wasm.capabilities.http_headers import MOST_FIELDS as MOST_SENT
from rho_wasm.capabilities.http_headers import (
    HeaderRefused,
    as_sent,
    checked,
    for_a_part,
    for_another_origin,
    same_field,
    without_content,
)
from rho_wasm.capabilities.http_urls import HttpUrl, UrlRefused
from rho_wasm.capabilities.in_thread import charged_in_thread
from rho_wasm.capabilities.secrets import Secret, Secrets
from rho_wasm.counting import ITEMS_AT_ONCE, items_of
from rho_wasm.errors import CapabilityError, TooLarge
from rho_wasm.grants import HttpBounds
from rho_wasm.long_work import LONG_ITEMS
from rho_wasm.untrusted import inert

if TYPE_CHECKING:
    import ssl

    from httpcore2 import AsyncNetworkBackend

    from rho_wasm.capabilities.http_transport import CheckedBackend, Response

__all__ = ["FetchArguments", "HttpFetch", "http_capabilities"]

NAME: Final = "http.fetch"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PARTS: Final = frozenset({206, 226})
"""Partial Content and IM Used (RFC 3229): a value that an endpoint echoes would come in pieces, which are not it."""
_WARNING: Final = 30
_CONTENT_AT_ONCE: Final = 16 * 1024
"""Bytes of a response that are looked through for secrets on the event loop's thread, with few header fields."""
_FIELDS_AT_ONCE: Final = 32


def _few(headers: Any) -> Any:
    """Before each of them is looked at."""
    if type(headers) is dict and len(headers) > MOST_SENT:
        raise ValueError(f"at most {MOST_SENT} header fields")
    return headers


class FetchArguments(Arguments):
    """What a guest asks for."""

    url: str
    method: str = "GET"
    headers: Annotated[dict[str, str], BeforeValidator(_few), Field(default_factory=dict)]
    body: str | bytes | None = None
    json_body: Annotated[Any, Field(alias="json")] = None
    """Sent as JSON, also null if it is said."""
    secret: str | None = None
    """The name of a secret to send along."""
    timeout_ms: Annotated[int, Field(ge=1)] | None = None
    """Lowers the grant's. That it passed is no fault of the host's."""

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.body is not None and "json_body" in self.model_fields_set:
            raise ValueError("a request has a body or json, not both")
        return self


@dataclass(frozen=True, slots=True)
class _Request:
    """One hop. ``headers`` are the guest's; the secret is for the first hop alone."""

    url: HttpUrl
    method: str
    headers: dict[str, str]
    body: bytes | None
    secret: Secret | None


class HttpFetch:
    """Answers ``http.fetch`` for a whole host. Keeps nothing between two requests but the certificates it trusts.

    Nothing is taken from the environment but, by OpenSSL's own rules, where these certificates are: no proxy, no
    netrc. ``ssl_context`` replaces them. ``resolve`` and ``network`` stand in for the system's.
    """

    def __init__(
        self,
        secrets: Secrets,
        *,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolver | None = None,
        network: AsyncNetworkBackend | None = None,
    ) -> None:
        self._secrets = secrets
        self._ssl_context = ssl_context
        self._resolve = ThreadResolver() if resolve is None else resolve
        self._network = network

    async def __call__(self, arguments: FetchArguments, context: CapabilityContext) -> dict[str, Any]:
        """Raises CapabilityError: ``denied`` by a rule, ``invalid_arguments``, ``quota`` beyond a bound (also that of
        the guest's own ``timeout_ms``), and ``unavailable`` for names, networks and servers that do not do their part
        in the grant's time."""
        bounds = context.bounds
        assert isinstance(bounds, HttpBounds)
        request = await self._first(arguments, bounds, context)
        most_ms = min(bounds.timeout_ms, arguments.timeout_ms or bounds.timeout_ms)
        own = most_ms < bounds.timeout_ms
        try:
            with anyio.move_on_after(most_ms / 1000):
                return await self._followed(request, bounds, context, most_ms / 1000)
        except CapabilityError as error:
            if not own or not _was_slow(error):
                raise
        if own:
            # Else a guest could have a capability unavailable whenever it likes, and bear nothing from then on.
            raise _error("quota", f"the time that it asked for is over: no whole response within {most_ms:,} ms")
        raise _error("unavailable", f"no whole response within {most_ms:,} ms")

    async def _first(self, arguments: FetchArguments, bounds: HttpBounds, context: CapabilityContext) -> _Request:
        try:
            url = HttpUrl.parse(arguments.url)
            headers = checked(arguments.headers, most_bytes=bounds.header_bytes)
        except (UrlRefused, HeaderRefused) as refused:
            raise _error("invalid_arguments" if refused.malformed else "denied", str(refused)) from None
        method = arguments.method.upper()
        _check_grant(method, url, bounds)
        body, content_type = await _body_of(arguments, bounds, context)
        names = frozenset(map(same_field, headers))
        if content_type is not None and "content-type" not in names:
            headers["content-type"] = content_type
        if body is not None and len(body) > bounds.request_bytes:
            raise _too_long(bounds)
        secret = None if arguments.secret is None else self._secret(arguments.secret, method, url, bounds)
        if secret is not None:
            if same_field(secret.header[0]) in names:
                raise _error("denied", f"the header field {secret.header[0]!r} is the secret's")
            part = for_a_part(headers)
            if part is not None:
                raise _error("denied", f"with a secret the whole content is asked for: leave out {part!r}")
        return _Request(url, method, headers, body, secret)

    def _secret(self, name: str, method: str, url: HttpUrl, bounds: HttpBounds) -> Secret:
        secret = self._secrets.named(name) if name in bounds.secrets else None
        if secret is None:
            # The same for a name that is another tool's and for one that nobody has: names cannot be guessed.
            raise _error("denied", "this tool may use no secret of that name")
        if not secret.covers(method, url.scheme, url.host, url.port, url.path):
            raise _error("denied", "that secret is not for this method, origin and path")
        return secret

    async def _followed(
        self, request: _Request, bounds: HttpBounds, context: CapabilityContext, connect_s: float
    ) -> dict[str, Any]:
        from rho_wasm.capabilities.http_transport import CheckedBackend

        backend = CheckedBackend(self._resolve, bounds.allowed_networks, inner=self._network)
        redirects = 0
        while True:
            used = context.used.get(NAME, 0)
            if used >= bounds.requests:
                raise _error("quota", f"at most {bounds.requests:,} requests in one call, redirects among them")
            context.used[NAME] = used + 1
            response = await self._asked(request, backend, bounds, connect_s)
            if request.secret is not None and response.status in _PARTS:
                raise _error("denied", "a part of the content is no answer to a request with a secret")
            if not _redirects(response.status, response.headers):
                if len(response.content) <= _CONTENT_AT_ONCE and len(response.headers) <= _FIELDS_AT_ONCE:
                    return self._reply(request, response)
                return await charged_in_thread(context.context.meter, self._reply, request, response)
            redirects += 1
            if redirects > bounds.redirects:
                raise _error("quota", f"at most {bounds.redirects} redirects")
            request = self._redirected(request, response, bounds)

    async def _asked(
        self, request: _Request, backend: CheckedBackend, bounds: HttpBounds, connect_s: float
    ) -> Response:
        from rho_wasm.capabilities import http_transport as transport

        headers = dict(request.headers)
        if request.secret is not None:
            name, value = request.secret.header
            headers[name] = value
        try:
            return await transport.exchange(
                request.url,
                request.method,
                as_sent(headers, request.url, request.method, request.body),
                request.body,
                backend=backend,
                tls=self._tls,
                header_bytes=bounds.header_bytes,
                content_bytes=bounds.response_bytes,
                connect_s=connect_s,
                wanted=lambda status, fields: not _redirects(status, fields),
            )
        except transport.AddressRefused:
            where = inert(request.url.host, limit=100)
            raise _error("denied", f"{where} is at an address that this grant does not reach") from None
        except transport.HeadersTooLarge:
            raise _error("quota", f"a response's header fields have at most {bounds.header_bytes:,} bytes") from None
        except transport.TooManyFields:
            raise _error("quota", f"a response has at most {MOST_FIELDS} header fields") from None
        except transport.TooManyInformational:
            raise _error("quota", f"at most {MOST_INFORMATIONAL} informational responses before a response") from None
        except (transport.ResponseTooLarge, ContentTooLarge):
            raise _error("quota", f"a response's body has at most {bounds.response_bytes:,} bytes") from None
        except BadContent:
            raise _error("unavailable", "the response's body is not in the encoding that it names") from None
        except transport.NoConnection as error:
            raise _error("unavailable", f"no connection to {self._shown(request.url.origin)}") from error
        except transport.TRANSPORT_ERRORS as error:
            raise _error("unavailable", f"no whole HTTP response from {self._shown(request.url.origin)}") from error

    def _redirected(self, request: _Request, response: Response, bounds: HttpBounds) -> _Request:
        """The request that a redirect asks for, held to the rules anew (RFC 9110, section 15.4)."""
        location = response.headers["location"]
        try:
            url = request.url.joined(location)
        except UrlRefused as refused:
            raise _error("denied", f"the redirect is not followed: {refused}") from None
        if any(self._secrets.scrubbed_text(text) != text for text in (location, str(url), unquote(str(url)))):
            raise _error("denied", "the redirect is not followed: a secret's value stands in its URL")
        method, body, headers = request.method, request.body, request.headers
        if (response.status == 303 and method != "HEAD") or (response.status in (301, 302) and method == "POST"):
            method, body, headers = "GET", None, without_content(headers)
        if url.origin != request.url.origin:
            if url.scheme != request.url.scheme == "https":
                raise _error("denied", "a redirect from https to http is not followed")
            headers = for_another_origin(headers)
        try:
            _check_grant(method, url, bounds)
        except CapabilityError:
            where = self._shown(f"{method} {url.origin}{url.path}")
            raise _error("denied", f"the redirect to {where} is not granted") from None
        return replace(request, url=url, method=method, headers=headers, body=body, secret=None)

    def _reply(self, request: _Request, response: Response) -> dict[str, Any]:
        secrets, sent = self._secrets, request.secret
        text = secrets.scrubbed_text
        headers = {text(name): text(value) for name, value in response.headers.items()}
        content = response.content
        content = secrets.scrubbed(content) if sent is None else secrets.scrubbed_reply(content, sent)
        body = readable(content, headers.get("content-type", ""))
        return {"status": response.status, "url": text(str(request.url)), "headers": headers, "body": body}

    def _shown(self, text: str) -> str:
        """What a server said, for a message."""
        return inert(self._secrets.scrubbed_text(text), limit=200)

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            from httpcore2 import default_ssl_context

            self._ssl_context = default_ssl_context()
        return self._ssl_context


def http_capabilities(
    *, secrets: Secrets | None = None, ssl_context: ssl.SSLContext | None = None, resolve: Resolver | None = None
) -> tuple[Capability, ...]:
    """``http.fetch``; nothing where the extra ``http`` is not installed, so that a host that grants it does not
    start."""
    if find_spec("httpcore2") is None:
        return ()
    fetch = HttpFetch(Secrets() if secrets is None else secrets, ssl_context=ssl_context, resolve=resolve)
    return (Capability(name=NAME, arguments=FetchArguments, bounds=HttpBounds, later=fetch),)


def _check_grant(method: str, url: HttpUrl, bounds: HttpBounds) -> None:
    if method not in bounds.methods:
        granted = ", ".join(bounds.methods) or "none"
        raise _error("denied", f"the method {inert(method, limit=40)!r} is not granted (granted: {granted})")
    if not any(rule.covers(url.scheme, url.host, url.port, url.path) for rule in bounds.rules):
        raise _error("denied", f"{inert(url.origin + url.path, limit=200)} is not granted")


def _was_slow(error: CapabilityError) -> bool:
    from rho_wasm.capabilities.http_transport import NoConnection

    return isinstance(error.__cause__, NoConnection) and error.__cause__.slow


async def _body_of(
    arguments: FetchArguments, bounds: HttpBounds, context: CapabilityContext
) -> tuple[bytes | None, str | None]:
    """The body, and what its content type is unless the guest says another."""
    if "json_body" in arguments.model_fields_set:
        items = items_of(arguments.json_body, most=bounds.request_bytes)
        if 2 * items - 1 > bounds.request_bytes:  # So many bytes they have at least; what writes them never looks up.
            raise _too_long(bounds)
        try:
            if items <= ITEMS_AT_ONCE:
                text, notes = plain.json_text(arguments.json_body)
            else:
                text, notes = await charged_in_thread(
                    context.context.meter,
                    plain.json_text,
                    arguments.json_body,
                    long=items > LONG_ITEMS,
                )
        except TooLarge as error:
            raise _error("quota", f"json is more than can be sent: {error}") from None
        for note in notes:
            context.log(_WARNING, note)
        return text.encode(), "application/json"
    if isinstance(arguments.body, str):
        return arguments.body.encode(), "text/plain; charset=utf-8"
    return arguments.body, None


def _too_long(bounds: HttpBounds) -> CapabilityError:
    return _error("quota", f"a request's body has at most {bounds.request_bytes:,} bytes")


def _redirects(status: int, headers: Mapping[str, str]) -> bool:
    return status in _REDIRECTS and "location" in headers


def _error(kind: str, message: str) -> CapabilityError:
    return CapabilityError(kind, message, capability=NAME)
