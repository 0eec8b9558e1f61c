"""The vector guest in Python: what all SDKs are asked alike (tests/guest_sdk/vectors_guests.py)."""

import hashlib
import re
from collections import Counter
from typing import Any, Literal

from rho import AskUser, Failed, Halt, HostError, Image, Ok, host, log, tool

PNG = bytes.fromhex("89504e470d0a1a0a")
LEVELS = {10: log.debug, 20: log.info, 30: log.warning, 40: log.error}


class Broken(Exception):
    """What the shape ``raised`` raises."""


# Made when the file is loaded, so they are in the image: to compile the second takes the interpreter 0.2 s.
CAPITAL = re.compile("[A-Z]")
WORD = re.compile(r"[a-z0-9\x80-\U0010ffff][a-z0-9\x80-\U0010ffff']*")


@tool
def echo(value: Any) -> Any:
    """Gives a value back."""
    return value


@tool
def answer(shape: str) -> Any:
    """Answers in a shape."""
    if shape == "raised":
        raise Broken("broken")
    return {
        "ok": Ok(42),
        "ok_images": Ok(42, images=[Image("image/png", PNG)]),
        "ok_details": Ok(42, details={"n": 1}),
        "failed": Failed("no such user"),
        "failed_details": Failed("no such user", details={"n": 1}),
        "ask": AskUser("which one?"),
        "ask_options": AskUser("which one?", {"a": 1}),
        "halt": Halt("done", 7),
    }[shape]


KEY = {"capability": "kv.get", "arguments": {"key": "a"}}
FOUND = {"ok": {"value": 1}}


@tool(
    capabilities=["clock.now", "kv.get"],
    examples=[{"arguments": KEY, "answer": {"ok": FOUND}, "host": [[KEY, FOUND]]}],
)
def ask_host(capability: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Asks the host."""
    try:
        return {"ok": host.call(capability, arguments)}
    except HostError as error:
        return {"error": {"kind": error.kind, "message": error.message}}


@tool(name="log")
def log_text(level: Literal[10, 20, 30, 40], text: str) -> None:
    """Logs a text."""
    LEVELS[level](text)


@tool(read_only=True)
def word_count(text: str, top: int = 5) -> Any:
    """Counts the words, lines and characters of a text."""
    if not 0 <= top <= 100:
        return Failed("top is out of range: give 0 to 100")
    words = WORD.findall(CAPITAL.sub(lambda letter: letter[0].lower(), text))
    counts = Counter(words)
    return {
        "words": len(words),
        "lines": text.count("\n") + (not text.endswith("\n") and text != ""),
        "characters": len(text),
        "distinct": len(counts),
        "top": [{"word": word, "count": count} for word, count in counts.most_common(top)],
    }


@tool(read_only=True)
def sha256(text: str) -> str:
    """The SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
