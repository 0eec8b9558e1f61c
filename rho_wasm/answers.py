"""What counts as a handler's answer, and what of an agent-written tool's answer reaches the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from rho_wasm.envelope import MAX_QUESTION_CHARS
from rho_wasm.errors import PlainError, ToolError
from rho_wasm.limits import Limits
from rho_wasm.plain import plain
from rho_wasm.results import AskUser, Failed, Halt, HandlerResult, Image, Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import image_type, inert, inert_plain, type_name

__all__ = ["checked", "is_host_made", "takes_copies"]

_BOUNDS = Limits()


def is_host_made(tool: Tool) -> bool:
    """True if the host made the handler of ``tool`` (for a guest): it raises ToolErrors, and is taken at its word."""
    return getattr(tool.handler, "trusted_errors", False) is True


def takes_copies(tool: Tool) -> bool:
    """True if the handler of ``tool`` is the host's and takes its arguments as a :class:`rho_wasm.plain.Copied` too."""
    return is_host_made(tool) and getattr(tool.handler, "takes_copies", False) is True


def checked(answer: Any, tool: Tool) -> HandlerResult:
    """``answer`` unchanged if it is one of the four; plain and bounded if an agent's Python code gave it.

    (The answers of guests are plain and bounded by construction: their handlers are the host's, see ``is_host_made``.)
    Raises :class:`ToolError` (``invalid_return``) for anything else: a question or a halt's reason that is no text,
    options that are no map with text keys, an image that is not what it says.
    """
    if tool.untrusted and not is_host_made(tool):
        return _made_plain(answer, tool)
    if isinstance(answer, Ok):
        if type(answer.images) is not tuple or answer.images:
            _check_images(answer.images, tool)
        return answer
    if isinstance(answer, Failed):
        return answer
    if isinstance(answer, AskUser):
        question: object = answer.question
        if not isinstance(question, str):
            _invalid(tool, f"the question is a {type_name(question)}, not text")
        if not _has_text_keys(answer.options):
            _invalid(tool, "the options of a question are a map with text keys")
        return answer
    if isinstance(answer, Halt):
        reason: object = answer.reason
        if not isinstance(reason, str):
            _invalid(tool, f"the reason to halt is a {type_name(reason)}, not text")
        return answer
    return _invalid(tool, f"it returned a {type_name(answer)}; Ok, Failed, AskUser and Halt are answers")


def _made_plain(answer: Any, tool: Tool) -> HandlerResult:
    # Exact types: a subclass could run its author's code when a field is read.
    kind = type(answer)
    try:
        if kind is Ok:
            images = _check_images(answer.images, tool)
            if len(images) > _BOUNDS.images or sum(len(image.data) for image in images) > _BOUNDS.images_bytes:
                _invalid(tool, f"more than {_BOUNDS.images} images or {_BOUNDS.images_bytes} bytes of them")
            return Ok(plain(answer.value), images, plain(answer.details))
        if kind is Failed:
            return Failed(plain(answer.reason), details=plain(answer.details))
        if kind is AskUser:
            question, options = plain(answer.question), plain(answer.options)
            if type(question) is not str or type(options) is not dict:
                _invalid(tool, "a question is text, its options a map with text keys")
            asked = inert(f"{tool.name} asks: {question}", limit=MAX_QUESTION_CHARS, newlines=True)
            return AskUser(asked, inert_plain(options))
        if kind is Halt:
            reason = plain(answer.reason)
            if type(reason) is not str:
                _invalid(tool, "the reason to halt is text")
            return Halt(inert(reason), plain(answer.value))
    except PlainError as error:
        _invalid(tool, inert(str(error)))
    return _invalid(tool, f"it returned a {type_name(answer)}; Ok, Failed, AskUser and Halt are answers")


def _check_images(images: Any, tool: Tool) -> tuple[Image, ...]:
    if type(images) not in (tuple, list):
        _invalid(tool, "images come as a tuple of Image(mime_type, data)")
    for image in images:
        if type(image) is not Image or (type(image.mime_type), type(image.data)) != (str, bytes):
            _invalid(tool, "images come as a tuple of Image(mime_type, data)")
        found = image_type(image.data)
        if found is None or found != image.mime_type:
            _invalid(tool, f"an image begins like {found or 'none of png, jpeg, webp, gif'}, and must say what it is")
    return tuple(images)


def _has_text_keys(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _invalid(tool: Tool, detail: str) -> NoReturn:
    raise ToolError("invalid_return", tool=tool.name, detail=detail)
