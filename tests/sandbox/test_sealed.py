"""A file in memory that nobody changes any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rho_wasm.sandbox.sealed import SealedFile, can_seal

pytestmark = pytest.mark.skipif(not can_seal(), reason="there are no such files here")


def test_what_was_written_is_read_back_and_nothing_can_be_written_any_more() -> None:
    with SealedFile.of(b"native code") as file:
        path = Path(file.path)
        assert path.read_bytes() == b"native code"
        with pytest.raises(PermissionError):
            os.pwrite(file.descriptor, b"other", 0)
        with pytest.raises(PermissionError):
            os.truncate(file.descriptor, 1)
        with pytest.raises(PermissionError):
            os.truncate(file.descriptor, 1_000)
        with path.open("r+b", buffering=0) as opened, pytest.raises(PermissionError):
            opened.write(b"other")
    assert not path.exists()


def test_it_is_closed_once_and_may_be_closed_again() -> None:
    file = SealedFile.of(b"")
    file.close()
    file.close()
    assert file.descriptor == -1


def test_another_process_has_it_by_a_descriptor_of_its_own() -> None:
    with SealedFile.of(b"native code") as file, SealedFile(os.dup(file.descriptor)) as other:
        assert Path(other.path).read_bytes() == b"native code"
