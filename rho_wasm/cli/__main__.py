from __future__ import annotations

from rho_wasm.cli import main

main()
