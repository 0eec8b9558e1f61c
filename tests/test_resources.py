"""The files that ship with the package are found in a checkout and in an installed copy."""

from __future__ import annotations

import pytest

from rho_wasm import resources


def test_the_demo_guests_and_the_c_header_are_found() -> None:
    assert resources.fixture("echo.wasm").read_bytes().startswith(b"\0asm")
    assert "rho_call" in resources.sdk("c/rho.h").read_text()


def test_a_missing_file_says_that_the_installation_is_broken() -> None:
    with pytest.raises(FileNotFoundError, match="install the package again"):
        resources.fixture("no-such-guest.wasm")
