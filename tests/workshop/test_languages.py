"""Each language that a workshop builds by itself: the first natural call works, and a wrong source says its line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from rho_wasm import Policy, Workshop, resources
from rho_wasm.sandbox.confine import landlock_version
from rho_wasm.toolchains import tinycc
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.workshop.idioms import IDIOMS
from tests.workshop.shop import NO_GATES, SPEAKING, Session, opened, wat

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """What is built here hangs on no event loop; the conversation has both."""
    return "asyncio"


@pytest.fixture
async def session(engines: None) -> AsyncIterator[Session]:
    if not tinycc.is_installed():
        pytest.skip("the extra tinycc is not installed")
    async with opened(workshop=Workshop(), policy=NO_GATES) as host:
        yield Session(host)


async def written(session: Session, language: str, source: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = await session.done("write_tool", language=language, source=source, name="tool", **more)
    return found


@pytest.mark.parametrize(("language", "answer"), [("python", 2), ("javascript", 2), ("typescript", 2), ("c", 3)])
async def test_what_a_model_is_shown_as_a_tool_is_one(session: Session, language: str, answer: int) -> None:
    told = await written(session, language, IDIOMS[language].replace("NAME", "tool"))
    assert told["tools"][0]["input_schema"]["required"] == ["text"]
    cases = [
        {"arguments": {"text": "a b"}, "expect": answer},
        {"arguments": {"text": ""}, "expect": {"error": "give a text"}},
    ]
    await session.done("test_tool", name="tool", cases=cases)
    await session.done("switch_tools", candidate=told["candidate"])
    assert (await session("tool", text="a b")).value == answer


async def test_text_of_webassembly_has_its_description_beside_it(session: Session) -> None:
    await session.refused("write_tool", language="wat", source=wat(), name="tool")
    told = await written(session, "wat", IDIOMS["wat"], description="Is done.", schema=SPEAKING)
    assert told["tools"] == [{"name": "tool", "description": "Is done.", "input_schema": SPEAKING}]
    await session.done("test_tool", name="tool", arguments={"text": ""}, expect="done")


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "def tool(text: str) -> int:\n    return len(text.split())"),
        ("python", "def tool(text):\n    return len(text.split())\n"),
        ("javascript", "function tool({ text }) { return text.split(' ').length; }"),
        ("javascript", "export function tool({ text }) { return text.split(' ').length; }\n"),
        ("javascript", "const tool = ({ text }) => text.split(' ').length;\n"),
        ("javascript", "export const tool = async ({ text }) => text.split(' ').length;\n"),
        ("typescript", "export const tool = ({ text }: { text: string }): number => text.split(' ').length;\n"),
    ],
)
async def test_a_plain_function_is_declared_as_the_call_says(session: Session, language: str, source: str) -> None:
    examples = [{"arguments": {"text": "a b"}, "answer": 2}]
    told = await written(
        session, language, source, description='Counts "words"\n\'\u00e9', schema=SPEAKING, examples=examples
    )
    (tool,) = told["tools"]
    assert tool["description"] == 'Counts "words"\n\'\u00e9'
    assert tool["input_schema"] == SPEAKING
    assert told["examples"] == {"passed": 1, "of": 1}
    await session.done("switch_tools", candidate=told["candidate"])
    assert (await session("tool", text="a b")).value == 2
    # What was added is a part of what a person reviews, and the same source makes the same bytes.
    text = await session.done("read_tool", name="tool")
    assert told["added_to_the_source"] in text
    assert '"provenance":"built here"' in text


async def test_a_description_in_the_call_does_for_a_docstring_that_is_missing(session: Session) -> None:
    source = "from rho import tool\n\n@tool\ndef tool_(text: str) -> str:\n    return text\n\ntool = tool_\n"
    told = await session.done(
        "write_tool", language="python", source=source, name="tool_", description="Answers its text."
    )
    assert told["tools"][0]["description"] == "Answers its text."


async def test_what_the_source_says_holds_over_the_call_and_the_difference_is_told(session: Session) -> None:
    told = await written(
        session,
        "python",
        IDIOMS["python"].replace("NAME", "tool").replace("examples=[", "metadata={}, examples=["),
        description="Another.",
        schema={"type": "object"},
        capabilities=["kv.get"],
    )
    warnings = "\n".join(told["warnings"])
    assert "a description of its own" in warnings
    assert "declares its arguments itself" in warnings
    assert "kv.get" in warnings
    assert '@tool(capabilities=["kv.get"])' in warnings


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "c"])
async def test_examples_beside_a_source_that_declares_itself_are_asked_at_the_switch(
    engines: None, language: str
) -> None:
    source = IDIOMS[language].replace("NAME", "tool")
    own = 1 if language == "python" else 0
    right = 3 if language == "c" else 2
    async with opened(workshop=Workshop(), policy=Policy()) as host:
        session = Session(host)
        wrong = [{"arguments": {"text": "a b"}, "answer": 7}]
        told = await written(session, language, source, examples=wrong)
        assert (told["examples"]["passed"], told["examples"]["of"]) == (own, own + 1)
        assert "no to candidate" in (await session.refused("switch_tools", candidate=told["candidate"])).text
        kept = [{"arguments": {"text": "a b"}, "answer": right}, {"arguments": {"text": "c d"}, "answer": right}]
        told = await written(session, language, source, examples=kept)
        # Of the source's own and the same in the call one is kept.
        assert told["examples"] == {"passed": 2, "of": 2}
        candidate = host.store.generation(told["candidate"])
        artifact = host.store.artifact(candidate.tools["tool"].artifact)
        assert artifact.source == source
        await session.done("switch_tools", candidate=told["candidate"])
        # Whoever gets it with its source makes the same bytes of it.
        elsewhere = await host.source.stage([replace(artifact, provenance="claimed")], author="operator")
        await host.source.review(elsewhere.number)
        assert host.store.artifact(artifact.sha256).provenance == "built here"


@pytest.mark.parametrize(
    ("language", "source", "said"),
    [
        ("python", "def tool(text: str) -> int:\n    return len(text.split(\n", "line 2, column 26: SyntaxError"),
        ("python", "import numpy\n", "line 1: ModuleNotFoundError"),
        ("python", "def tool(text: set) -> int:\n    return 1\n", "'text'"),
        ("javascript", "export function tool({ text }) {\n  return text..length;\n}\n", "line 2"),
        ("typescript", "export function tool(a: {text: string}) {\n  return a..text;\n}\n", "line 2"),
        ("c", '#include "rho.h"\n\nstatic rho_answer tool(rho_value a) { return rho_nothing(a); }\n', "line 3"),
        ("c", '#include "rho.h"\n#include "/etc/passwd"\n', "line 2"),
        ("wat", "(module\n  (func i32.ad))", "line 2, column 9"),
    ],
)
async def test_a_source_that_is_wrong_says_its_line_and_the_text_of_it(
    session: Session, language: str, source: str, said: str
) -> None:
    result = await session.refused("write_tool", language=language, source=source, name="tool", description="A tool.")
    assert said in result.text
    assert "root:" not in result.text
    number = said.removeprefix("line ").split(",")[0].split(":")[0]
    if number.isdigit():
        assert source.splitlines()[int(number) - 1].strip() in result.text


async def test_a_schema_without_properties_is_refused_in_a_source_too(session: Session) -> None:
    source = (
        IDIOMS["python"].replace("NAME", "tool").replace("@tool(", '@tool(input_schema={"text": {"type": "string"}}, ')
    )
    refused = await session.refused("write_tool", language="python", source=source, name="tool")
    assert "the schema of tool in the source: properties is missing" in refused.text


async def test_a_source_that_loops_while_it_is_loaded_is_stopped_and_told_where_work_belongs(session: Session) -> None:
    result = await session.refused("write_tool", language="python", source="while True: pass", name="tool")
    assert result.details["reason"] == "build_timeout"
    assert "do the work in the tool's function" in result.text


@pytest.mark.parametrize(
    ("language", "source", "frame"),
    [
        (
            "python",
            "from rho import tool\n\n@tool\ndef tool_(text: str) -> int:\n    while True:\n        len(text)\n",
            (":6 in tool_: len(text)", ":5 in tool_: while True:"),
        ),
        (
            "typescript",
            "/** Loops.\n * @param args.text A text. */\nexport function tool_(args: { text: string }): number {\n"
            "  for (;;) {\n    args.text.trim();\n  }\n}\n",
            (":5 in tool_: args.text.trim();",),
        ),
    ],
)
async def test_a_loop_without_end_is_told_with_its_line_and_the_text_of_that(
    session: Session, language: str, source: str, frame: tuple[str, ...]
) -> None:
    await session.done("write_tool", language=language, source=source, name="tool_", description="Loops.")
    result = await session.refused("test_tool", name="tool_", arguments={"text": "a"})
    (case,) = json.loads(result.text)["cases"]
    assert case["crashed"] in ("out_of_fuel", "deadline")
    assert case["backtrace"][0].endswith(frame)


async def test_a_name_that_the_source_does_not_declare_and_names_beside_it_are_looked_at(session: Session) -> None:
    source = IDIOMS["python"].replace("NAME", "another")
    result = await session.refused("write_tool", language="python", source=source, name="tool")
    assert "declares another, but not tool" in result.text
    both = source + "\n" + IDIOMS["python"].replace("NAME", "t0do")
    result = await session.refused("write_tool", language="python", source=both, name="another")
    assert "looks like 'todo'" in result.text


async def test_a_test_of_a_crash_names_the_line_and_what_was_printed(session: Session) -> None:
    source = "def tool(text: str) -> float:\n    print('got', text)\n    return 1 / len(text)\n"
    await written(session, "python", source, description="Divides.")
    result = await session.refused("test_tool", name="tool", arguments={"text": ""})
    (case,) = result.value["cases"]
    assert (case["crashed"], case["message"]) == ("handler_raised", "ZeroDivisionError: division by zero")
    assert case["backtrace"] == ["tool.py:3 in tool: return 1 / len(text)"]
    assert case["log"] == ["got "]
    assert case["fuel_used"] > 0


async def test_an_example_that_fails_is_told_when_it_is_written_and_stops_the_switch(engines: None) -> None:
    async with opened(workshop=Workshop(languages=["python"]), policy=Policy()) as host:
        session = Session(host)
        source = "def tool(text: str) -> int:\n    return len(text)\n"
        told = await written(
            session, "python", source, description="Counts.", examples=[{"arguments": {"text": "a b"}, "answer": 2}]
        )
        assert told["examples"]["failed"][0]["answer"] == {"ok": 3}
        result = await session.refused("switch_tools", candidate=told["candidate"])
        assert "gate 'examples' said no" in result.text
        assert "got" in result.text


async def test_the_interpreter_that_is_missing_is_named_and_nothing_is_made_in_a_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("RHO_WASM_ENGINES", str(tmp_path / "none"))
    async with opened(workshop=Workshop(languages=["python", "wat"])) as host:
        result = await Session(host).refused("write_tool", language="python", source="x = 1", name="tool")
        assert result.details["reason"] == "engine_missing"
        assert "take another" in result.text


async def test_a_language_with_a_native_compiler_is_there_only_where_the_operator_named_it() -> None:
    assert set(Workshop().usable()) <= set(IDIOMS)
    if missing("zig") is not None or landlock_version() == 0:
        pytest.skip("no Zig compiler that can be confined")
    source = resources.fixture("new/text_figures.zig").read_text(encoding="utf-8")
    async with opened(workshop=Workshop(languages=["zig"])) as host:
        session = Session(host)
        told = await session.done("write_tool", language="zig", source=source, name="text_figures")
        assert told["examples"]["passed"] == told["examples"]["of"] > 0
        wrong = source.replace("rho.failed(", "rho.fails(")
        result = await session.refused("write_tool", language="zig", source=wrong, name="text_figures")
        assert "rho.fails(" in result.text


def test_every_sandboxed_language_has_an_idiom() -> None:
    assert set(IDIOMS) == {"python", "javascript", "typescript", "c", "wat"}
