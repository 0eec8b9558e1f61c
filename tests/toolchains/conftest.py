"""What the tests of the toolchains build."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.conftest import sandbox, shared_cache, way, with_workers

__all__ = ["MINIMAL_C", "MINIMAL_WAT", "anyio_backend", "manifest", "sandbox", "shared_cache", "way", "with_workers"]

MINIMAL_C = """
#include "rho.h"
static rho_answer nothing(rho_value arguments) { (void)arguments; return rho_ok_text("nothing"); }
RHO_TOOLS({"nothing", nothing})
"""

MINIMAL_WAT = """(module
  (memory (export "memory") 1)
  (func (export "rho_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "rho_call") (param i32 i32) (result i64) i64.const 0))
"""


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture
def manifest() -> dict[str, Any]:
    return {"tools": [{"name": "nothing", "description": "Does nothing.", "input_schema": {"type": "object"}}]}
