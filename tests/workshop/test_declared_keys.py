"""A schema of the call stands in the declaration that is put after a source, whatever its arguments are named."""

from __future__ import annotations

import pytest

from rho_wasm import Workshop
from tests.workshop.shop import NO_GATES, Session, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """What is built here hangs on no event loop."""
    return "asyncio"


LITERAL = '__proto__": "`${x}\\'


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_an_argument_may_have_any_name_that_a_language_has_for_something_else(
    engines: None, language: str
) -> None:
    inner = {"type": "object", "properties": {"__proto__": {"type": "integer"}, LITERAL: {"type": "string"}}}
    schema = {"type": "object", "properties": {"__proto__": inner, "constructor": inner}}
    source = "function tool() { return 1; }" if language == "javascript" else "def tool(**given):\n    return 1\n"
    async with opened(workshop=Workshop(languages=[language]), policy=NO_GATES) as host:
        told = await Session(host).done(
            "write_tool", language=language, source=source, name="tool", description="Answers 1.", schema=schema
        )
    assert told["tools"][0]["input_schema"] == schema
