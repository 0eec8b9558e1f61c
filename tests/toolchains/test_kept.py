"""Where toolchains keep what they compiled of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rho_wasm.toolchains.kept import kept_folder


def test_it_lies_beside_the_cache_of_native_code(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert kept_folder("go-1", environment=home) == tmp_path / ".cache" / "rho_wasm" / "toolchains" / "go-1"
    cache = home | {"RHO_WASM_CACHE": str(tmp_path / "native")}
    assert kept_folder("go-1", environment=cache) == tmp_path / "native-toolchains" / "go-1"
    given = cache | {"RHO_WASM_TOOLCHAINS": str(tmp_path / "mine")}
    assert kept_folder("go-1", environment=given) == tmp_path / "mine" / "go-1"


def test_it_is_this_users_alone_and_has_no_link_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = kept_folder("go-1", environment={"HOME": str(tmp_path), "RHO_WASM_TOOLCHAINS": str(tmp_path / "link")})
    assert made == (tmp_path / "real" / "go-1").resolve()
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    with pytest.raises(PermissionError):
        kept_folder("go-1", environment={"HOME": str(tmp_path), "RHO_WASM_TOOLCHAINS": str(tmp_path / "link")})
