"""What the tools of a workshop declare is sent to every client: it is bounded, of one tool and of all that are live."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import Artifact, Workshop
from rho_wasm.testing import guest
from rho_wasm.workshop.authors import Authors
from rho_wasm.workshop.limits import WorkshopLimits
from tests.workshop.shop import Session, opened, switched, wat

pytestmark = pytest.mark.anyio


def wide(name: str, size: int) -> Artifact:
    """A guest whose description has so many bytes, beside the rest of what it declares."""
    return guest({"name": name, "description": "d" * size, "input_schema": {"type": "object"}})


async def test_a_tool_that_declares_too_much_is_not_written() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20)}}
    limits = WorkshopLimits(declared_bytes=400)
    async with opened(workshop=Workshop(languages=["wat"], limits=limits)) as host:
        given: dict[str, Any] = {"language": "wat", "source": wat(), "name": "tool", "description": "d"}
        result = await Session(host).refused("write_tool", **given, schema=schema)
        assert result.details == {"reason": "declares_too_much", "tool": "tool", "limit": 400}
        assert "Shorten" in result.text
        assert await Session(host).done("write_tool", **given, schema={"type": "object", "properties": {}})


async def test_what_is_live_of_one_session_declares_no_more_than_half_of_what_others_leave() -> None:
    limits = WorkshopLimits(declared_bytes_of_all=2_000)
    async with opened(workshop=Workshop(languages=["wat"], limits=limits)) as host:
        session, author = Session(host), Authors("workshop").of("one")
        await switched(host, wide("others", 4_000))  # The operator's own take nobody's room.

        async def candidate(name: str, size: int) -> int:
            return (await host.source.stage([wide(name, size)], author=author)).number

        await session.done("switch_tools", candidate=await candidate("first", 400))
        too_much = await candidate("second", 600)
        result = await session.refused("switch_tools", candidate=too_much)
        assert result.details == {"reason": "declares_too_much", "limit": 1_000}
        assert host.source.live().tools.keys() == {"others", "first"}
        # Less than before may always go live, and what is gone leaves its room.
        await session.done("switch_tools", candidate=await candidate("first", 300))
        await session.done("switch_tools", remove=["first"])
        await session.done("switch_tools", candidate=too_much)
        assert host.source.live().tools.keys() == {"others", "second"}
