"""What host and guest say to each other: one request map in, one answer map out (guest_sdk/ABI.md, "Envelopes").

The shapes are exact. An answer with a key that its shape does not have, or of two shapes at once, is a bad answer: a
guest that is wrong about the protocol is not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rho_wasm import plain
from rho_wasm.errors import Malformed, RhoError, TooLarge
from rho_wasm.limits import Limits
from rho_wasm.results import AskUser, Failed, Halt, HandlerResult, Image, Ok
from rho_wasm.sandbox.abi import ABI_VERSION
from rho_wasm.untrusted import image_type, inert, inert_plain

__all__ = [
    "MAX_MESSAGE_CHARS",
    "MAX_QUESTION_CHARS",
    "MAX_TRACE_LINES",
    "MAX_TRACE_WIDTH",
    "BadAnswer",
    "Raised",
    "answer_of",
    "parse_answer",
    "read_answer",
    "request",
]

MAX_QUESTION_CHARS = 2_000
"""Of a question to a person, and of a halt's reason."""
MAX_MESSAGE_CHARS = 2_000
"""Of what a guest's exception says; the rest is cut."""
MAX_TRACE_LINES = 64
MAX_TRACE_WIDTH = 200

_SHAPES: Mapping[str, frozenset[str]] = {
    "ok": frozenset({"images", "details"}),
    "error": frozenset({"details"}),
    "raised": frozenset(),
    "ask_user": frozenset({"options"}),
    "halt": frozenset({"value"}),
}
"""What tells an answer's shape, and the keys that may stand beside it."""

_CONTEXT_KEYS = ("values", "call_id", "request_id", "session_id")
"""In the order of plain.py."""
_MOSTLY = frozenset({"call_id"})


class BadAnswer(RhoError):
    """A guest's answer that keeps no shape of the ABI, or is over a bound. ``detail`` is one inert line.

    ``limit`` names the bound that was met (a field of :class:`Limits`) and ``value`` what was found.
    """

    reason = "bad_answer"

    def __init__(self, detail: str, *, limit: str | None = None, value: int | None = None) -> None:
        self.detail = detail
        self.limit = limit
        self.value = value
        super().__init__(detail)


class Raised(RhoError):
    """The handler in the guest crashed and its SDK caught it. All text is inert and bounded.

    ``trace`` is at most 64 lines of 200 characters, in the order that the SDK gave them.
    """

    reason = "handler_raised"

    def __init__(self, message: str, *, type: str | None = None, trace: tuple[str, ...] = ()) -> None:
        self.message = message
        self.type = type
        self.trace = trace
        super().__init__(": ".join(part for part in (type, message) if part) or "an exception that says nothing")


def request(tool: str, arguments: Mapping[str, Any], *, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The request map of one call. ``context`` may have call_id, session_id, request_id, values; None is left out.

    Its keys, and those of its context, are in the order that they have in its bytes; the arguments are the last.
    Raises ValueError for any other key: what crosses to a guest is a closed list.
    """
    told = dict(context or ())
    if told.keys() != _MOSTLY or told["call_id"] is None:
        told = _in_order(told)
    return {"abi": ABI_VERSION, "tool": tool, "context": told, "arguments": arguments}


def _in_order(context: dict[str, Any]) -> dict[str, Any]:
    if unknown := context.keys() - set(_CONTEXT_KEYS):
        raise ValueError(f"the context of a request has no {', '.join(sorted(unknown))}")
    return {key: context[key] for key in _CONTEXT_KEYS if context.get(key) is not None}


def parse_answer(data: bytes, *, limits: Limits) -> HandlerResult:
    """What a guest answered, from its bytes.

    The bytes are bounded before they are decoded, by ``answer_bytes`` and ``images_bytes`` together; what is not
    image data is then held to ``answer_bytes`` alone. Raises :class:`BadAnswer`, and :class:`Raised` where the answer
    says that the handler crashed.
    """
    if not data:
        raise BadAnswer("the answer is empty")
    try:
        answer = plain.decode(
            data,
            max_bytes=limits.answer_bytes + limits.images_bytes,
            max_depth=limits.depth,
            max_items=limits.items,
        )
    except TooLarge as error:
        limit = {"bytes": "answer_bytes"}.get(error.what, error.what)
        raise BadAnswer("the answer is too large", limit=limit, value=error.value) from None
    except Malformed as error:
        raise BadAnswer(str(error)) from None
    result = read_answer(answer, limits=limits)
    rest = len(data)
    if rest > limits.answer_bytes and isinstance(result, Ok):
        rest -= sum(len(image.data) for image in result.images)
    if rest > limits.answer_bytes:
        raise BadAnswer("the answer is too large without its images", limit="answer_bytes", value=rest)
    return result


def read_answer(answer: Any, *, limits: Limits) -> HandlerResult:
    """The same for an answer that is plain data already (a manifest's example); its encoded size is not looked at."""
    if type(answer) is not dict:
        raise BadAnswer(f"the answer is {_kind(answer)}, not a map")
    if len(answer) == 1 and "ok" in answer:
        return Ok(answer["ok"])
    shape = _shape(answer)
    if shape == "ok":
        images = _images(answer["images"], limits) if "images" in answer else ()
        return Ok(answer["ok"], images=images, details=answer.get("details"))
    if shape == "error":
        return Failed(answer["error"], details=answer.get("details"))
    if shape == "ask_user":
        options = answer.get("options", {})
        if type(options) is not dict:
            raise BadAnswer(f"'options' is {_kind(options)}, not a map")
        try:
            # A person is shown them, as the question is.
            return AskUser(_text(answer, "ask_user"), inert_plain(options))
        except TooLarge as error:
            raise BadAnswer("'options' has too many entries to be shown", limit="items", value=error.limit) from None
    if shape == "halt":
        if "value" not in answer:
            raise BadAnswer("an answer with 'halt' must have 'value'")
        return Halt(_text(answer, "halt"), answer["value"])
    raise _raised(answer["raised"])


def answer_of(result: HandlerResult) -> dict[str, Any]:
    """The answer map that reads back as ``result``: the inverse of :func:`read_answer`."""
    if isinstance(result, AskUser):
        return {"ask_user": result.question} | ({"options": dict(result.options)} if result.options else {})
    if isinstance(result, Halt):
        return {"halt": result.reason, "value": result.value}
    answer: dict[str, Any] = {"error": result.reason} if isinstance(result, Failed) else {"ok": result.value}
    if isinstance(result, Ok) and result.images:
        answer["images"] = [{"mime_type": image.mime_type, "data": image.data} for image in result.images]
    if result.details is not None:
        answer["details"] = result.details
    return answer


def _shape(answer: dict[str, Any]) -> str:
    if len(answer) == 1:
        (only,) = answer
        if only in _SHAPES:
            return only
    shapes = [key for key in _SHAPES if key in answer]
    if not shapes:
        raise BadAnswer(f"the answer has none of {', '.join(_SHAPES)}")
    if len(shapes) > 1:
        raise BadAnswer(f"the answer has two shapes at once: {' and '.join(shapes)}")
    _only(answer, {shapes[0]} | _SHAPES[shapes[0]], f"an answer with {shapes[0]!r}")
    return shapes[0]


def _only(given: dict[str, Any], known: set[str], what: str) -> None:
    for key in given:
        if key not in known:
            raise BadAnswer(f"{what} has no key '{inert(key, limit=64)}'")


def _text(answer: dict[str, Any], key: str) -> str:
    """A text that a person reads: over the bound it is refused, since half a question is another question."""
    text = answer[key]
    if type(text) is not str:
        raise BadAnswer(f"{key!r} is {_kind(text)}, not text")
    if len(text) > MAX_QUESTION_CHARS:
        raise BadAnswer(f"{key!r} is over {MAX_QUESTION_CHARS} characters", value=len(text))
    # Escapes are longer than what they stand for: the bound here only has to be high enough never to cut.
    return inert(text, limit=10 * MAX_QUESTION_CHARS, newlines=True)


def _images(images: Any, limits: Limits) -> tuple[Image, ...]:
    if type(images) is not list or not images:
        raise BadAnswer("'images' is not a list with at least one image")
    if len(images) > limits.images:
        raise BadAnswer("too many images", limit="images", value=len(images))
    checked = tuple(_image(image, number) for number, image in enumerate(images))
    if (size := sum(len(image.data) for image in checked)) > limits.images_bytes:
        raise BadAnswer("the images are too large together", limit="images_bytes", value=size)
    return checked


def _image(image: Any, number: int) -> Image:
    where = f"images[{number}]"
    if type(image) is not dict:
        raise BadAnswer(f"{where} is {_kind(image)}, not a map")
    _only(image, {"mime_type", "data"}, where)
    mime_type, data = image.get("mime_type"), image.get("data")
    if type(mime_type) is not str or type(data) is not bytes:
        raise BadAnswer(f"{where} needs 'mime_type' as text and 'data' as bytes")
    found = image_type(data)
    if found is None:
        raise BadAnswer(f"{where} is no png, jpeg, webp or gif by its first bytes")
    if found != mime_type:
        raise BadAnswer(f"{where} says {inert(mime_type, limit=64)} but is {found} by its first bytes")
    return Image(found, data)


def _raised(raised: Any) -> Raised:
    if type(raised) is not dict:
        raise BadAnswer(f"'raised' is {_kind(raised)}, not a map")
    _only(raised, {"message", "type", "trace"}, "'raised'")
    message, kind, trace = raised.get("message"), raised.get("type", ""), raised.get("trace", [])
    if type(message) is not str or type(kind) is not str:
        raise BadAnswer("'raised' needs 'message' as text, and 'type' is text")
    if type(trace) is not list or not all(type(line) is str for line in trace):
        raise BadAnswer("the 'trace' of 'raised' is not a list of text")
    return Raised(
        inert(message, limit=MAX_MESSAGE_CHARS),
        type=inert(kind, limit=128) or None,
        trace=tuple(_trace_line(line) for line in trace[:MAX_TRACE_LINES]),
    )


def _trace_line(line: str) -> str:
    # "ValueError: " of one without a text.
    return inert(line[:MAX_TRACE_WIDTH].removesuffix(": "), limit=10 * MAX_TRACE_WIDTH)[:MAX_TRACE_WIDTH]


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a bool", int: "an integer", float: "a float", str: "text", bytes: "bytes"}
    return names.get(type(value), "a list" if type(value) is list else "a map")
