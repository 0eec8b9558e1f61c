"""The tables in the tests' docstrings, which say where each sentence of the seeds is tested, name tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLES = [
    path
    for path in sorted(TESTS.rglob("test_*.py"))
    if "\n  -> " in (text := path.read_text()) and "\n  -> " in (ast.get_docstring(ast.parse(text), clean=False) or "")
]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_the_seeds_have_their_tables() -> None:
    names = {path.name for path in TABLES}
    assert {"test_registry.py", "test_runner.py", "test_executor.py", "test_loop.py"} <= names


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_test_that_a_table_names_exists(path: Path) -> None:
    table = ast.get_docstring(ast.parse(path.read_text())) or ""
    rows = re.findall(r"^  -> ((?:.*\n?)(?:     .*\n?)*)", table, flags=re.MULTILINE)
    for name in re.findall(r"(?:tests/\S+\.py(?:::\w+)?|\btest_\w+\b)", "\n".join(rows)):
        file, _, function = name.partition("::")
        if name.startswith("tests/"):
            assert (TESTS.parent / file).exists(), name
            assert not function or function in functions(TESTS.parent / file), name
        else:
            assert name in functions(path), name
