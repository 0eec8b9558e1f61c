"""A tool's question for a person, in the words of each protocol version, and the answer that becomes the call's result.

The newest version answers the call with an input-required result, whose sealed state the retry brings back; older
clients that can are asked by an elicitation while the call waits; for all others the question is the call's text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import INVALID_PARAMS, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from pydantic import ValidationError

from rho_wasm.limits import HostLimits
from rho_wasm.rendering import model_text
from rho_wasm.results import ToolResult

__all__ = ["ANSWER_S", "answer_to_retry", "asked_now", "asked_on_retry", "question_text", "told"]

ANSWER_S = 600.0
"""How long a person has to answer (seconds): the state of a question expires, and an elicitation ends unanswered."""

_ANSWER = "answer"
_MAX_CHOICES = 50
_MAX_CHOICE_CHARS = 200
_SINCE = "2025-06-18"
"""The version that brought elicitation."""


def question_text(result: ToolResult) -> str:
    """The question, and its options one a line. The tool's author wrote both; the sandbox made them inert."""
    lines = [model_text(result.text, trusted=True)]
    for name, meaning in (result.options or {}).items():
        said = f": {meaning}" if type(meaning) is str and meaning != name else ""
        lines.append(model_text(f"- {name}{said}", trusted=True))
    return "\n".join(lines)


def asked_on_retry(ctx: ServerRequestContext[Any, Any], result: ToolResult, *, declares: bool) -> dict[str, Any] | None:
    """The input-required result of the newest version; None where the client has nobody to ask.

    The state says what the answer may be; the SDK's boundary seals it, bound to session, tool, arguments and time.
    ``declares``: the tool has a schema of its answers, which an answer of a person does not fit.
    """
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _has_form(ctx):
        return None
    form = {"mode": "form", "message": question_text(result), "requestedSchema": _schema(result.options)}
    return {
        "resultType": "input_required",
        "inputRequests": {_ANSWER: {"method": "elicitation/create", "params": form}},
        "requestState": json.dumps({"choices": _choices(result.options), "declares": declares}),
    }


def answer_to_retry(state: str, responses: Mapping[str, Any] | None) -> dict[str, Any]:
    """The result of a retry, without a call of the tool. ``state`` is the one that was sealed here.

    Raises MCPError where the answer is missing or none of the choices.
    """
    known = json.loads(state)
    response = (responses or {}).get(_ANSWER)
    if not isinstance(response, ElicitResult):
        raise MCPError(INVALID_PARAMS, f"The retry brings no elicitation result under {_ANSWER!r}")
    return _answered(response, known["choices"], declares=known["declares"])


async def asked_now(
    ctx: ServerRequestContext[Any, Any], result: ToolResult, *, declares: bool
) -> dict[str, Any] | None:
    """The result of asking an older client's person while the call waits; None where nobody can be asked that way."""
    if (
        ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        or not is_version_at_least(ctx.protocol_version, _SINCE)
        or not _has_form(ctx)
        or not ctx.session.can_send_request
    ):
        return None
    try:
        with anyio.move_on_after(ANSWER_S):
            response = await ctx.session.elicit_form(question_text(result), _schema(result.options), ctx.request_id)
            return _answered(response, _choices(result.options), declares=declares)
    except (MCPError, NoBackChannelError, ValidationError):
        return None  # It said that it could and cannot: the model reads the question instead.
    return told(f"nobody answered within {ANSWER_S:.0f} seconds", is_error=True)


def _has_form(ctx: ServerRequestContext[Any, Any]) -> bool:
    declared = None if ctx.session.client_capabilities is None else ctx.session.client_capabilities.elicitation
    # Before there were two kinds an empty declaration meant the form.
    return declared is not None and (declared.form is not None or declared.url is None)


def _choices(options: Mapping[str, Any] | None) -> list[str]:
    """What may be answered; empty: any text, where there are no options or too many for a form."""
    choices = [model_text(name, trusted=True) for name in options or {}]
    if len(choices) > _MAX_CHOICES or any(len(choice) > _MAX_CHOICE_CHARS for choice in choices):
        return []
    return choices


def _schema(options: Mapping[str, Any] | None) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string"}
    if choices := _choices(options):
        field["enum"] = choices
    return {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}


def _answered(response: ElicitResult, choices: list[str], *, declares: bool) -> dict[str, Any]:
    if response.action != "accept":
        said = "declined to answer" if response.action == "decline" else "closed the question without an answer"
        return told(f"the person {said}; do not ask again unless they want you to", is_error=True)
    text = (response.content or {}).get(_ANSWER)
    if not isinstance(text, str) or (choices and text not in choices):
        raise MCPError(INVALID_PARAMS, f"The content of an accepted answer has {_ANSWER!r}, one of the choices")
    return told(model_text(text[: HostLimits().max_result_chars], trusted=True), is_error=declares)


def told(text: str, *, is_error: bool) -> dict[str, Any]:
    """The result of a call that is this text and nothing else."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}
