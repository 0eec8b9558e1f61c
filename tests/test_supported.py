"""rho_wasm says in one sentence where it does not run."""

from __future__ import annotations

import pytest

from rho_wasm.supported import require_supported_platform


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64", "AMD64"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_linux_and_macos_on_both_architectures_are_supported(system: str, machine: str) -> None:
    require_supported_platform(system, machine)


@pytest.mark.parametrize(
    ("system", "machine", "names"),
    [("win32", "AMD64", "Windows"), ("freebsd14", "x86_64", "freebsd14"), ("linux", "riscv64", "riscv64")],
)
def test_any_other_platform_is_refused_in_one_sentence_that_names_it(system: str, machine: str, names: str) -> None:
    with pytest.raises(ImportError, match=names) as refused:
        require_supported_platform(system, machine)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")
