"""What tools in Python and in JavaScript are timed on: one source a language, which all contenders run as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from tests.benchmarks.jobs import Job

__all__ = ["LANGUAGES", "LANGUAGE_JOBS", "Language", "LanguageJob", "language_job", "tool_source"]

Language: TypeAlias = Literal["python", "javascript"]

LANGUAGES: tuple[Language, ...] = get_args(Language)
_SOURCES = Path(__file__).parent / "guests" / "languages"
_SUFFIXES: dict[Language, str] = {"python": ".py", "javascript": ".js"}
_TURNS = 1_000_000


@dataclass(frozen=True, slots=True)
class LanguageJob(Job):
    """``code`` defines a function ``run`` from text to text; ``python`` is the twin of it in Python, as is."""

    language: Language = "python"
    code: str = ""


def _words() -> str:
    text = "a tool's source becomes a module and each call of it runs in a fresh sandbox within limits of its own "
    return " ".join((text * 20).split()[:260])


def _orders() -> str:
    """At least 10,000 characters of JSON."""
    orders: list[dict[str, Any]] = []
    size = 0
    while size < 10_000:
        number = len(orders) + 1
        order = {
            "id": number,
            "customer": f"customer-{number * 7 % 13:02}",
            "status": ("paid", "open", "cancelled")[number % 3],
            "lines": [
                {"sku": f"sku-{number * at % 17}", "count": 1 + number * at % 5, "cents": 100 + number * at * 37 % 900}
                for at in (1, 2, 3)
            ],
        }
        orders.append(order)
        size += len(json.dumps(order)) + 2
    return json.dumps(orders)


def _log() -> str:
    """At least 100,000 characters, a line each request."""
    levels, parts = ("INFO", "WARN", "DEBUG", "ERROR", "INFO"), ("store", "search", "mail", "cart")
    lines: list[str] = []
    size = 0
    while size < 100_000:
        at = len(lines)
        clock = f"2026-03-{1 + at % 28:02}T10:{at % 60:02}:{at * 7 % 60:02}Z"
        lines.append(f"{clock} {levels[at % 5]} [{parts[at * 3 % 4]}] request {at:05} ended in {at * 7919 % 1000} ms")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


LANGUAGE_JOBS: dict[str, tuple[str, Callable[[], str]]] = {
    "tiny": ("a greeting", lambda: "world"),
    "words_260": ("260 words counted", _words),
    "json_10k": ("10 KB of JSON reshaped", _orders),
    "regex_100k": ("regex over 100 KB", _log),
    "loop_1m": ("a loop of 10^6", lambda: str(_TURNS)),
}
"""By tool: its title, and what makes its text."""


def language_job(tool: str, language: Language) -> LanguageJob:
    """Of :data:`LANGUAGE_JOBS`. The answer that is asked of everybody is what Python's twin answers here and now."""
    title, make = LANGUAGE_JOBS[tool]
    twin = _read(tool, "python")
    run = _function(twin)
    text = make()
    return LanguageJob(
        group=f"{language}_{tool}",
        title=f"{_named(language)}: {title}",
        tool=tool,
        text=text,
        answer=run(text),
        python=run,
        program=f"{twin}\ntext = run(text)",
        source=f"languages/{tool}{_SUFFIXES[language]}",
        language=language,
        code=_read(tool, language),
    )


def tool_source(code: str, language: Language, name: str) -> str:
    """``code`` as the source of a tool ``name``, in the idiom of this project."""
    if language == "python":
        return (
            f"from rho import tool\n\n{code}\n\n@tool\ndef {name}(text: str) -> str:\n"
            f'    """A benchmark."""\n    return run(text)\n'
        )
    return (
        f"{code}\n/**\n * A benchmark.\n * @param {{string}} args.text\n */\n"
        f"export function {name}(args) {{\n  return run(args.text);\n}}\n"
    )


def _named(language: Language) -> str:
    return {"python": "Python", "javascript": "JavaScript"}[language]


def _read(tool: str, language: Language) -> str:
    return (_SOURCES / f"{tool}{_SUFFIXES[language]}").read_text()


def _function(code: str) -> Callable[[str], str]:
    names: dict[str, Any] = {}
    exec(compile(code, "<job>", "exec"), names)
    run: Callable[[str], str] = names["run"]
    return run
