"""What a tool may answer with, beside a plain value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._cbor import NotPlain, encode

__all__ = ["AskUser", "Failed", "Halt", "Image", "Ok", "answer"]


@dataclass(frozen=True)
class Image:
    """A picture for the model. png, jpeg, webp or gif; ``mime_type`` must agree with the data's first bytes.

    Raises :class:`TypeError` for data that are no bytes.
    """

    mime_type: str
    data: bytes

    def __post_init__(self) -> None:
        _text(self.mime_type, "an Image's MIME type")
        if not isinstance(self.data, bytes | bytearray | memoryview):
            raise TypeError(f"an Image's data is bytes, not {type(self.data).__name__}")


@dataclass(frozen=True)
class Ok:
    """The answer. ``images`` go to the model beside the text, ``details`` to the host's screens only."""

    value: Any = None
    images: Sequence[Image] = ()
    details: Any = None


class Failed(Exception):
    """Reports a failure, which the model reads as it is. It is no crash. ``raise Failed(...)`` equals returning it."""

    def __init__(self, reason: Any, *, details: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


@dataclass(frozen=True)
class AskUser:
    """Stops and asks a person; the answer becomes this call's result, the tool is not called again.

    Raises :class:`TypeError` for options that are no map of text keys to plain values.
    """

    question: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Said here and not where the answer is encoded: only here is the author's own line in the trace.
        if not self.options:
            return
        what = 'an AskUser\'s options are a map of text keys to plain values, like {"a": "first choice"}'
        if not isinstance(self.options, Mapping):
            raise TypeError(f"{what}, not {type(self.options).__name__}")
        try:
            encode(self.options)
        except NotPlain as error:
            raise TypeError(f"{what}; {error}") from None


@dataclass(frozen=True)
class Halt:
    """Ends the model's loop, with ``reason`` for the caller and ``value`` as the outcome."""

    reason: str
    value: Any = None


def answer(result: Any) -> dict[str, Any]:
    """The answer map (ABI.md) of what a handler returned; what is none of the four is the value of an Ok."""
    kind = type(result)
    if kind is Ok:
        found = {"ok": result.value}
        if result.images:
            found["images"] = _images(result.images)
    elif kind is AskUser:
        found = {"ask_user": _text(result.question, "an AskUser's question")}
        if result.options:
            found["options"] = result.options
        return found
    elif kind is Halt:
        return {"halt": _text(result.reason, "a Halt's reason"), "value": result.value}
    elif isinstance(result, Failed):
        found = {"error": result.reason}
    else:
        return {"ok": result}
    if result.details is not None:
        found["details"] = result.details
    return found


def _images(images: Any) -> list[dict[str, Any]]:
    if not isinstance(images, Iterable) or isinstance(images, str | bytes | Mapping):
        raise TypeError(f"an Ok's images are a list of Image(mime_type, data), not {type(images).__name__}")
    return [_image(image) for image in images]


def _image(image: Any) -> dict[str, Any]:
    if not isinstance(image, Image):
        raise TypeError(f"images are Image(mime_type, data), not {type(image).__name__}")
    return {"mime_type": image.mime_type, "data": bytes(image.data)}


def _text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is text, not {type(text).__name__}")
    return text
