"""Whether a module keeps the guest ABI, clause by clause (guest_sdk/ABI.md): what ``rho-wasm conform`` says.

Above the sandbox and its examples, below the command line: nothing that serves calls needs it.
"""

from __future__ import annotations

from rho_wasm.conform.clauses import CLAUSES, Clause
from rho_wasm.conform.conform import conform
from rho_wasm.conform.report import ClauseResult, ConformReport

__all__ = ["CLAUSES", "Clause", "ClauseResult", "ConformReport", "conform"]
