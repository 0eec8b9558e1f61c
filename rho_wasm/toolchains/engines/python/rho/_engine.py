"""The two things that an engine does: load a source, and answer a call. Bytes in, bytes out (ABI.md)."""

from __future__ import annotations

import ast
import builtins
import gc
import marshal
import os
import re
import sys
import types
from collections.abc import Callable
from types import CodeType, CoroutineType
from typing import Any

from . import _loop
from ._answers import Failed, answer
from ._cbor import NotPlain, decode, encode
from ._host import host
from ._options import DeclarationError
from ._random import CallRandom
from ._tools import Handler, Registry
from ._trace import absent, frames, head, message_of, network, raised, type_of

__all__ = ["SCRUBBED_BYTES", "Engine", "tidy"]

SCRUBBED_BYTES = 1024 * 1024
"""Of free memory behind all objects: what is freed there while a source is loaded is overwritten with zeros."""

_HOLES = (32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500)
_SCRATCH_BYTES = 256 * 1024
"""Compiled code of up to so many bytes is moved to where nothing was before."""

_PACKAGE = __name__.rpartition(".")[0]
MODULE = "tool"
"""What the author's module is named, so that ``if __name__ == "__main__"`` does not run."""

_NO_NAME = re.compile(r"cannot import name '(\w+)' from").match
_NO_TOOL = "write `from rho import tool` and `@tool` above each function that a model may call"
_PLACES = {"['ok']": "the answer", "['error']": "the reason", "['details']": "the details", "['images']": "the images"}
_MARSHAL_VERSION = 2
"""Later ones write what occurs twice once, and say where it was."""
_DECLARATION_DEPTH = 3
"""A declaration is at ["ok"]["tools"][number] of a reply."""
_LAST_RESORT = encode({"raised": {"message": "the tool failed, and so did saying how", "type": "RuntimeError"}})


class Engine:
    """One source and its tools. Made once, while the engine boots; what changes it afterwards is the image."""

    def __init__(self, registry: Registry, chance: CallRandom | None = None) -> None:
        self._registry = registry
        self._chance = chance
        self._answered: dict[str, Any] | None = None
        self._tool: Handler | None = None
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._stdout: Any = sys.stdout
        self._stderr: Any = sys.stderr
        self._file = self._source = ""
        self.forget()

    def load(self, request: bytearray) -> bytes:
        """Runs a source (``{"source", "file"}``) and answers ``{"ok": {"tools", "capabilities"}}`` or ``{"error"}``.

        What is left in memory becomes the image, so as little is left, and as densely, as can be.
        """
        try:
            given = decode(request)
            self._file, self._source = given["file"], given["source"]
            reply = self._loaded()
        except BaseException as error:
            reply = {"error": self._refusal(error)}
        try:
            data = encode(reply)
        except NotPlain as error:
            del error.path[-_DECLARATION_DEPTH:]
            message = f"a tool's declaration: {error}"
            data = encode({"error": {"message": message, "hint": "schemas, examples and metadata are JSON's types"}})
        self._flush()
        if self._chance is not None:
            self._chance.forget()
        request[:] = bytes(len(request))
        del given, reply
        tidy()
        gc.freeze()
        return data

    def call(self, request: bytes | bytearray) -> bytes:
        """Answers one call. The request, and if it can be the answer, are in marshal's format: see ``marshal.wat``.

        Whatever the tool does, the answer is a map of ABI.md, or the process exits.
        """
        self._answered = self._tool = None
        try:
            self._answered = made = self._answer(marshal.loads(request))  # noqa: S302
            data = _packed(made)
        except BaseException as error:
            data = self._crash(error)
        self._flush()
        return data

    def explain(self) -> bytes:
        """The answer of the last call in CBOR, where the other format would not do, or what is wrong with it."""
        try:
            return encode(self._answered)
        except BaseException as error:
            return self._crash(error)

    def get_source(self, name: str) -> str:
        """For :mod:`linecache`, which asks a module's loader: the lines that tracebacks show."""
        return self._source

    def forget(self) -> None:
        """As if nothing had been loaded."""
        self._module = sys.modules[MODULE] = types.ModuleType(MODULE)
        # Added to while a source is loaded, a dict of these few would move.
        self._module.__dict__.update({"__file__": "", "__loader__": self, "__builtins__": builtins})
        self._file = self._source = ""
        self._answered = self._tool = None
        host.declared = frozenset()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["abi"] != 1:
            raise ValueError("rho: the request is not of ABI 1")
        self._tool = handler = self._registry.tools[request["tool"]]
        try:
            result = handler.run(request["arguments"], request["context"])
            if type(result) is CoroutineType:
                result = _loop.run(result)
        except Failed as failed:
            result = failed
        return answer(result)

    def _crash(self, error: BaseException) -> bytes:
        if isinstance(error, SystemExit):
            self._exit(error)
        try:
            if isinstance(error, NotPlain) and error.path:
                error.path[-1] = _PLACES.get(error.path[-1], error.path[-1])
            lines = self._source.splitlines()
            found = raised(error, self._file, lines)
            if not found["trace"] and self._tool is not None:
                # What the tool answered is at fault, and no line of it was running any more.
                found["trace"] = head(self._tool.function, self._file, lines)
            return encode({"raised": found})
        except BaseException:
            return _LAST_RESORT

    def _exit(self, error: SystemExit) -> None:
        """As the interpreter does it: what is no status is said, and is status 1. The log tells where it was."""
        code = error.code
        if code is not None and not isinstance(code, int):
            self._warn(code)
        for line in frames(error.__traceback__, self._file, self._source.splitlines())[-1:]:
            self._warn(f"SystemExit at {line}")
        self._flush()
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))

    def _loaded(self) -> dict[str, Any]:
        self._module.__file__ = self._file
        exec(self._compiled(), self._module.__dict__)  # noqa: S102
        if not self._registry.tools:
            return {"error": {"message": "the source declares no tool", "hint": _NO_TOOL}}
        found: dict[str, Any] = {"tools": self._registry.declarations()}
        if wanted := sorted({name for handler in self._registry.tools.values() for name in handler.capabilities}):
            found["capabilities"] = wanted
            host.declared = frozenset(wanted)
        return {"ok": found}

    def _compiled(self) -> CodeType:
        """The source's code, in memory that nothing else was in: not among what compiling it left behind."""
        data = marshal.dumps(compile(self._source, self._file, "exec", dont_inherit=True))
        size = len(data)
        if size > len(self._scratch):
            return marshal.loads(data)  # type: ignore[no-any-return]  # noqa: S302
        self._scratch[:size] = data
        del data
        tidy()
        code: CodeType = marshal.loads(memoryview(self._scratch)[:size])  # noqa: S302
        self._scratch[:size] = bytes(size)
        return code

    def _refusal(self, error: BaseException) -> dict[str, Any]:
        """The ``error`` of a source that could not be loaded."""
        if isinstance(error, SyntaxError) and error.filename == self._file:
            return _without_none(
                message=f"{type_of(error)}: {error.msg}",
                line=error.lineno or None,
                column=error.offset or None,
                text=(error.text or "").rstrip("\r\n")[:200] or None,
            )
        lines = self._source.splitlines()
        line = self._line(error)
        if isinstance(error, DeclarationError):
            message = message_of(error)
        elif isinstance(error, SystemExit):
            message = "the source ended the program while it was loaded (SystemExit)"
        else:
            message = f"{type_of(error)}: {message_of(error, hinted=True)}"
        return _without_none(
            message=message,
            line=line,
            text=lines[line - 1].strip()[:200] if line is not None and line <= len(lines) else None,
            trace=frames(error.__traceback__, self._file, lines) or None,
            hint=_hint(error),
        )

    def _line(self, error: BaseException) -> int | None:
        """Where in the source the error is: what it is about, else the innermost line of the author's."""
        if isinstance(error, DeclarationError) and error.function is not None:
            return _place(self._source, error.function, error.parameter)
        found, traceback = None, error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._file:
                found = traceback.tb_lineno
            traceback = traceback.tb_next
        if isinstance(error, DeclarationError) and error.option is not None and found is not None:
            return _option_place(self._source, error.option, found)
        return found

    def _warn(self, what: object) -> None:
        try:
            self._stderr.write(f"{what}\n")
        except Exception:
            return  # The tool closed it, or this has no text.

    def _flush(self) -> None:
        try:
            self._stdout.flush()
            self._stderr.flush()
        except Exception:
            return  # The tool closed them.


def _packed(answer: dict[str, Any]) -> bytes:
    try:
        return marshal.dumps(answer, _MARSHAL_VERSION)
    except ValueError:
        pass
    # Outside of the handler: marshal's reason would be told as what led to this one.
    return encode(answer)


def tidy() -> None:
    """Gives back what is not used, and overwrites it: what compiling left behind would be part of the image."""
    gc.collect()
    # Each takes the smallest hole that it fits in, or where there is none the free memory behind everything.
    holes = [bytearray(size) for size in _HOLES for _ in range(4)]
    del holes
    bytearray(SCRUBBED_BYTES)


def _place(source: str, function: Callable[..., Any], parameter: str | None) -> int | None:
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    first: int = code.co_firstlineno
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
            continue
        if first != min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]):
            continue
        given = node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        return next((each.lineno for each in named if each is not None and each.arg == parameter), node.lineno)
    return first


def _option_place(source: str, option: str, line: int) -> int:
    """The line of the keyword ``option`` of the call about ``line``, which may be written over several."""
    found = line
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or line):
            found = next((each.lineno for each in node.keywords if each.arg == option), found)
    return found


def _hint(error: BaseException) -> str | None:
    if isinstance(error, ModuleNotFoundError):
        return absent(error.name or "")
    if isinstance(error, ImportError) and error.name == _PACKAGE and (found := _NO_NAME(error.msg)):
        return f"rho has {', '.join(sys.modules[_PACKAGE].__all__)}{network(found[1])}"
    if isinstance(error, NameError) and error.name in (
        "tool",
        "Ok",
        "Failed",
        "AskUser",
        "Halt",
        "Image",
        "HostError",
        "Context",
        "host",
        "log",
        "progress",
    ):
        return f"write `from rho import {error.name}`"
    return None


def _without_none(**given: Any) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}
