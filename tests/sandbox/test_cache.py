"""Native code on disk is believed only if this host wrote it, and nothing on the disk breaks a call."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.cache import native_key
from rho_wasm.sandbox.config import guest_config
from rho_wasm.sandbox.sealed import can_seal
from tests.sandbox.guests import answering, called

KEY = "ab" * 32


@pytest.fixture
def cache(tmp_path: Path) -> NativeCache:
    return NativeCache(tmp_path / "native", tmp_path / "state" / "host.key")


def again(cache: NativeCache) -> NativeCache:
    """The same folder, as another process opens it."""
    return NativeCache(cache.folder, cache.key_path, cache.max_bytes)


def entry(cache: NativeCache, key: str = KEY) -> Path:
    return cache.folder / f"{key}.native"


def test_what_was_stored_is_loaded(cache: NativeCache) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert again(cache).load(KEY) == b"code"
    assert (cache.statistics().state, cache.statistics().stored, cache.statistics().misses) == ("on", 1, 1)


def test_folder_key_and_files_are_this_users_alone(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cache).stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.key_path.stat().st_mode) == 0o600
    assert [path.name for path in cache.folder.iterdir()] == [entry(cache).name]


def test_every_flipped_bit_is_found_and_the_entry_deleted(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    whole = entry(cache).read_bytes()
    for position in range(18, len(whole)):  # behind the magic
        entry(cache).write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert cache.load(KEY) is None
        assert not entry(cache).exists()
        cache.store(KEY, b"code")
    assert cache.statistics().rejected == len(whole) - 18


@pytest.mark.parametrize("content", [b"", b"rho_wasm native 1\n", b"x" * 1_000])
def test_a_truncated_or_foreign_file_is_deleted(cache: NativeCache, content: bytes) -> None:
    cache.store(KEY, b"code")
    entry(cache).write_bytes(content)
    assert cache.load(KEY) is None
    assert not entry(cache).exists()


def test_one_modules_code_is_not_taken_for_anothers(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    other = "cd" * 32
    entry(cache).rename(entry(cache, other))
    assert cache.load(other) is None


def test_code_of_another_host_key_is_not_believed(cache: NativeCache, tmp_path: Path) -> None:
    cache.store(KEY, b"code")
    assert NativeCache(cache.folder, tmp_path / "elsewhere" / "host.key").load(KEY) is None


def _others_may_read(path: Path) -> None:
    path.chmod(0o644)


def _link(path: Path) -> None:
    moved = path.with_suffix(".moved")
    path.rename(moved)
    path.symlink_to(moved)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [_others_may_read, _link])
def test_a_file_that_is_not_this_users_alone_is_not_believed(
    cache: NativeCache, change: Callable[[Path], None]
) -> None:
    cache.store(KEY, b"code")
    change(entry(cache))
    assert cache.load(KEY) is None
    assert not entry(cache).is_symlink()


def test_a_folder_in_an_entrys_place_costs_only_the_cache(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    _folder(entry(cache))
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.statistics().state.startswith("off: ")


def test_a_pipe_in_an_entrys_place_blocks_nobody(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    _pipe(entry(cache))
    assert cache.load(KEY) is None


def test_a_folder_that_others_may_write_to_turns_the_cache_off(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    cache.folder.chmod(0o777)
    assert cache.load(KEY) is None
    assert "others may write" in cache.statistics().state


def test_a_host_key_that_others_may_read_turns_the_cache_off(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    cache.key_path.chmod(0o640)
    fresh = again(cache)
    assert fresh.load(KEY) is None
    assert "host key" in fresh.statistics().state


def test_a_damaged_host_key_turns_the_cache_off_and_stays(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    cache.key_path.write_bytes(b"short")
    fresh = again(cache)
    fresh.store(KEY, b"code")
    assert "delete it" in fresh.statistics().state
    assert cache.key_path.read_bytes() == b"short"


def test_the_host_key_may_not_lie_in_the_cache(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="outside"):
        NativeCache(tmp_path, tmp_path / "deep" / "host.key")


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = NativeCache(tmp_path / "native", tmp_path / "host.key", max_bytes=3 * 1_100)
    keys = [f"{n:02x}" * 32 for n in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.store(key, bytes(1_000))
        os.utime(entry(cache, key), (age, age))
    assert cache.load(keys[0]) is not None  # now the most recent
    cache.store(keys[3], bytes(1_000))
    assert {key for key in keys if entry(cache, key).exists()} == {keys[0], keys[2], keys[3]}


def test_code_larger_than_the_cache_is_not_stored(tmp_path: Path) -> None:
    cache = NativeCache(tmp_path / "native", tmp_path / "host.key", max_bytes=10)
    cache.store(KEY, bytes(11))
    assert not (tmp_path / "native").exists()


def test_a_half_written_file_of_a_dead_process_is_swept(cache: NativeCache) -> None:
    cache.store(KEY, b"code")
    old, new = cache.folder / "x.native.0.part", cache.folder / "x.native.1.part"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    cache.store(KEY, b"code")
    assert (old.exists(), new.exists()) == (False, True)


def test_a_full_disk_leaves_no_half_entry_and_says_so(cache: NativeCache) -> None:
    # A process that may write files of 100 bytes only: writing fails as on a full disk.
    code = f"""
        import resource
        from rho_wasm.sandbox import NativeCache
        cache = NativeCache({str(cache.folder)!r}, {str(cache.key_path)!r})
        cache.store({KEY!r}, b"small")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        cache.store({"cd" * 32!r}, bytes(1000))
        print(cache.statistics().state, cache.load({KEY!r}))
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, check=True, text=True, env=environment
    )
    assert done.stdout.strip() == "off: File too large b'small'"
    assert [path.name for path in cache.folder.iterdir()] == [entry(cache).name]


def test_the_default_places_follow_the_environment(tmp_path: Path) -> None:
    cache = NativeCache.default(environment={"HOME": "/home/me"})
    assert cache.folder == Path("/home/me/.cache/rho_wasm/native")
    assert cache.key_path == Path("/home/me/.local/state/rho_wasm/host.key")
    given = {"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s", "RHO_WASM_CACHE": str(tmp_path)}
    cache = NativeCache.default(environment=given)
    assert (cache.folder, cache.key_path) == (tmp_path, Path("/s/rho_wasm/host.key"))


def test_the_key_tells_modules_and_configurations_apart() -> None:
    config = guest_config(stack_bytes=512 * 1024, signals_based_traps=True)
    other = guest_config(stack_bytes=512 * 1024, signals_based_traps=False)
    assert len({native_key("a", config), native_key("b", config), native_key("a", other)}) == 3
    assert native_key("a", config) == native_key("a", config)


async def test_a_second_process_does_not_compile_again(cache: NativeCache) -> None:
    wasm = answering({"ok": 1})
    async with Sandbox(cache=cache) as first:
        assert (await called(first, wasm)).result == Ok(1)
        assert first.statistics().compiled == 1
    async with Sandbox(cache=again(cache)) as second:
        assert (await called(second, wasm)).result == Ok(1)
        assert second.statistics().compiled == 0


async def test_a_corrupted_entry_is_compiled_again(cache: NativeCache) -> None:
    wasm = answering({"ok": 1})
    async with Sandbox(cache=cache) as sandbox:
        assert (await called(sandbox, wasm)).result == Ok(1)
        (path,) = cache.folder.iterdir()
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        assert (await called(sandbox, wasm)).result == Ok(1)
        assert sandbox.statistics().compiled == 2
    assert again(cache).load(path.stem) is not None


async def test_authentic_code_that_wasmtime_does_not_take_is_compiled_again(cache: NativeCache) -> None:
    wasm = answering({"ok": 1})
    async with Sandbox(cache=cache) as sandbox:
        assert (await called(sandbox, wasm)).result == Ok(1)
        (path,) = cache.folder.iterdir()
        cache.store(path.stem, b"not native code")
        assert (await called(sandbox, wasm)).result == Ok(1)
        assert sandbox.statistics().compiled == 2


async def test_without_a_place_for_the_cache_guests_run_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = NativeCache(tmp_path / "file" / "native", tmp_path / "host.key")
    async with Sandbox(cache=cache) as sandbox:
        assert (await called(sandbox, answering({"ok": 1}))).result == Ok(1)
        statistics = sandbox.statistics().cache
    assert statistics is not None
    assert statistics.state.startswith("off: ")


@pytest.mark.skipif(not can_seal(), reason="there are no sealed files here")
def test_large_code_is_verified_while_it_is_copied_into_a_file_that_nobody_changes(cache: NativeCache) -> None:
    code = bytes(range(256)) * 10_000
    cache.store(KEY, code)
    found = cache.load_sealed(KEY)
    assert found is not None
    with found:
        assert Path(found.path).read_bytes() == code
    whole = entry(cache).read_bytes()
    for place in (0, 20, len(whole) // 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1
        entry(cache).write_bytes(changed if place else whole[:-1])
        assert cache.load_sealed(KEY) is None
        assert not entry(cache).exists()
        cache.store(KEY, code)
    _others_may_read(entry(cache))
    assert cache.load_sealed(KEY) is None
    assert cache.load_sealed("cd" * 32) is None
    assert cache.statistics().rejected == 5
