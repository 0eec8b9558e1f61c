"""The jobs that every contender does: text in, text out, and what the answer must be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ECHO", "JOBS", "LOOP", "SHA256", "WORD_COUNT", "Job", "after", "echo_of"]


@dataclass(frozen=True, slots=True)
class Job:
    """``python`` is the same job as a plain Python function, and ``program`` the expression of it for a subprocess."""

    group: str
    title: str
    tool: str
    text: str
    answer: str
    python: Callable[[str], str]
    program: str
    source: str | None = None
    """The file in ``guests/``, which needs a C compiler; None for echo, whose guests are WebAssembly text."""

    @property
    def echoes(self) -> bool:
        """The echo guest answers its arguments, ``{"text": ...}``; every other answers its text."""
        return self.source is None

    def check(self, answer: object) -> None:
        """Raises where a contender did another job than the others."""
        got = answer["text"] if self.echoes and isinstance(answer, dict) else answer
        if got != self.answer:
            raise AssertionError(f"{self.group}: the answer is wrong: {str(got)[:100]!r}")


def echo_of(text: str, group: str = "echo_1k") -> Job:
    return Job(group, f"echo, {len(text):,} B", "echo", text, text, lambda given: given, "text")


def _loop(text: str) -> str:
    state = 1
    for _ in range(int(text)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
    return str(state)


_LOOP_PROGRAM = """
state = 1
for _ in range(int(text)):
    state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
text = str(state)
"""


def after(turns: int) -> str:
    """What the loop ends in after ``turns``, by squaring: the turn is an affine map, and maps can be composed."""
    factor, addend, result = 1664525, 1013904223, (1, 0)
    while turns:
        if turns & 1:
            result = (result[0] * factor % 2**32, (result[1] * factor + addend) % 2**32)
        factor, addend = factor * factor % 2**32, (addend * factor + addend) % 2**32
        turns >>= 1
    return str((result[0] + result[1]) % 2**32)


_WORDS = ("a tool's source becomes a module; each call of it runs in a fresh sandbox " * 20)[:1000]
_MEGABYTE = ("0123456789abcdef" * 62_500)[:1_000_000]
_TURNS = 10**8

ECHO = echo_of("x" * 1000)
WORD_COUNT = Job(
    "word_count_1k",
    "word count, 1 KB",
    "word_count",
    _WORDS,
    str(len(_WORDS.split())),
    lambda text: str(len(text.split())),
    "str(len(text.split()))",
    "word_count.c",
)
SHA256 = Job(
    "sha256_1m",
    "SHA-256 of 1 MB",
    "sha256",
    _MEGABYTE,
    hashlib.sha256(_MEGABYTE.encode()).hexdigest(),
    lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "__import__('hashlib').sha256(text.encode()).hexdigest()",
    "sha256.c",
)
LOOP = Job("loop_100m", "a loop of 10^8", "loop", str(_TURNS), after(_TURNS), _loop, _LOOP_PROGRAM, "loop.c")
JOBS = (ECHO, WORD_COUNT, SHA256, LOOP)
