"""After a crash a model is told where to look, and after the last one what became of its tool and what it can do."""

from __future__ import annotations

import pytest

from rho_wasm.server import McpServer
from rho_wasm.testing import guest
from tests.helpers import raising
from tests.server.serving import NEWEST, client_of, text_of
from tests.workshop.shop import Session, opened, switched

pytestmark = pytest.mark.anyio

MINE = "workshop:a"


async def test_a_crash_says_where_it_was_and_which_tools_tell_more() -> None:
    async with opened(core=[raising(ValueError("no"), name="own")]) as host:
        session = Session(host)
        await switched(host, guest("fragile", body="unreachable"), guest("good", answer={"error": "no"}), author=MINE)
        line = (await session("fragile")).text.splitlines()[-1]
        assert line.startswith("[it stopped at ")
        assert 'tool_status {"name":"fragile"} tells its faults, test_tool calls it' in line
        assert (await session("good")).text == "no"
        own = await session("own")
        assert (own.kind, "tool_status" in own.text) == ("crashed", False)
        (fault,) = (await session.done("tool_status", name="fragile"))["faults"]
        assert fault["strike"] == "yes"
        assert "tool_status" not in fault["text"]


@pytest.mark.slow
async def test_the_last_crash_says_that_the_version_before_answers_now() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("tool", answer="old"), author=MINE)
        await switched(host, guest("tool", body="unreachable"), author=MINE)
        texts = [(await session("tool")).text for _ in range(3)]
        assert "quarantined" not in texts[1]
        assert (
            "[quarantined: this version of 'tool' was stopped after 3 x trapped, and the version before it answers"
            in (texts[2])
        )
        assert (await session("tool")).value == "old"
        refused = await session.refused("roll_back_tools", to=2)
        assert "only a person can pardon it" in refused.text
        assert "write it again with write_tool" in refused.text


async def test_a_tool_that_is_gone_is_told_as_quarantined_and_can_still_be_read_and_tried() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("tool", body="unreachable"), author=MINE)
        for _ in range(3):
            last = await session("tool")
        assert "nothing answers to its name now" in last.text
        gone = await session("tool")
        assert (gone.reason, "[quarantined: " in gone.text) == ("not_found", True)
        assert "quarantined" not in (await session("never_was")).text
        assert '"state":"withdrawn, was in generation 1"' in await session.done("read_tool", name="tool")
        assert (await session.refused("test_tool", name="tool")).value["tested"] == "earlier generation 1"
        for eager in (False, True):
            async with client_of(McpServer(host.runner, eager=eager), NEWEST) as client:
                said = await client.call_tool("tool", {})
                assert said.is_error
                assert "[quarantined: " in text_of(said)


@pytest.mark.slow
async def test_a_number_that_led_to_nothing_here_is_answered_with_those_that_did() -> None:
    async with opened() as host:
        for salt in (1, 2):
            await switched(host, guest("tool", salt=salt), author=MINE)
        assert "none of those that led to 2: 1, 0" in (await Session(host).refused("roll_back_tools", to=99)).text
