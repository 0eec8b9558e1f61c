"""Rust builds are the same everywhere, tell where a source is wrong, and give a hostile one nothing of the host."""

from __future__ import annotations

import stat
from pathlib import Path
from types import MappingProxyType

import pytest

from rho_wasm.errors import BuildError
from rho_wasm.toolchains import build
from rho_wasm.toolchains.limits import BuildLimits
from rho_wasm.toolchains.pipeline import missing
from rho_wasm.toolchains.project import Project
from rho_wasm.toolchains.rust import compile_rust
from rho_wasm.toolchains.rust_compiler import find_rust
from tests.guest_sdk.raw import RawGuest

pytestmark = pytest.mark.anyio

TOOLS = "\nrho::tool! {\n/// Of a test.\nfn nothing() {}\n}\nrho::tools![nothing];\n"
ENDS = {"build_timeout", "build_memory", "build_failed", "build_crashed"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def rust() -> None:
    if (error := missing("rust")) is not None:
        pytest.skip(f"{error}: {error.hint}")


def project(main: str, **others: str) -> Project:
    files = {"main.rs": main + TOOLS} | {f"{name}.rs": text for name, text in others.items()}
    return Project(main="main.rs", files=MappingProxyType(files), name="main.rs")


async def refused(main: str, *, limits: BuildLimits | None = None, **others: str) -> BuildError:
    with pytest.raises(BuildError) as caught:
        await compile_rust(project(main, **others), limits=limits or BuildLimits())
    return caught.value


def test_a_compiler_without_the_target_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "rustc"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --print ] && echo {tmp_path} || echo "rustc 1.99.0 (a fake one)"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("rho_wasm.toolchains.rust_compiler._USUAL", ())
    with pytest.raises(BuildError) as caught:
        find_rust({"PATH": str(fake.parent)})
    assert caught.value.reason == "missing_toolchain"
    assert "rustc 1.99.0 (a fake one) without the target wasm32-unknown-unknown" in str(caught.value)
    for way in ("apt-get install rustc libstd-rust-dev-wasm32 lld", "rustup target add wasm32-unknown-unknown"):
        assert way in caught.value.hint
    with pytest.raises(BuildError, match="there is no Rust compiler for WebAssembly on this machine"):
        find_rust({"PATH": ""})


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
async def test_a_folder_becomes_one_module_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "src/lib.rs": "mod part;\nrho::tool! {\n/// Of a test.\nfn told() -> String {\n"
        '    if part::TEXT.is_empty() { panic!("nothing") }\n    [part::TEXT, include_str!("words.txt")].concat()\n}\n'
        "}\nrho::tools![told];\n",
        "src/part/mod.rs": 'pub const TEXT: &str = "from a part, ";\n',
        "src/words.txt": "and from a text",
    }
    built = []
    for place in ("here", "elsewhere"):
        # Each with a crate rho of its own making.
        monkeypatch.setenv("RHO_WASM_TOOLCHAINS", str(tmp_path / f"kept-{place}"))
        for name, text in sources.items():
            (tmp_path / place / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place / name).write_text(text)
        built.append((await build(tmp_path / place)).wasm)
    assert built[0] == built[1]
    assert b"rho-build-" not in built[0]
    assert str(Path.home()).encode() not in built[0]
    assert RawGuest(built[0]).call("told", {}) == {"ok": "from a part, and from a text"}
    assert len(list((tmp_path / "kept-here").rglob("*.rlib"))) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
async def test_errors_and_warnings_have_file_line_and_column() -> None:
    error = await refused("mod part;\n", part="\npub const NUMBER: u8 = 300;\n")
    [first, *_] = error.diagnostics
    assert (error.reason, first.file, first.line, first.column) == ("build_failed", "part.rs", 2, 24)
    assert "literal out of range for `u8`" in first.message
    error = await refused('\ncompile_error!("not /home/user/secret\\u{1b}[31m");\n')
    [first] = error.diagnostics
    assert (first.file, first.line) == ("main.rs", 2)
    assert "\x1b" not in str(error)
    assert "/home" not in str(error)
    built = await compile_rust(project("fn unused() {}\n"), limits=BuildLimits())
    assert built.log.startswith("main.rs:1:4: warning: function `unused` is never used")


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
async def test_what_is_wrong_inside_a_macro_is_told_at_the_authors_line() -> None:
    error = await refused("struct Odd;\nrho::tool! {\n/// Of a test.\nfn odd(\n    given: Odd,\n) {}\n}\n")
    lines = {each.line for each in error.diagnostics if each.file == "main.rs"}
    assert lines
    assert lines <= {2, 5}
    error = await refused("rho::tool! {\n/// Of a test.\n#[shiny]\nfn odd() {}\n}\n")
    assert "no attribute of a tool: shiny" in str(error)


READERS = {
    "include_str": 'const P: &str = include_str!("{}");',
    "include_bytes": 'const P: &[u8] = include_bytes!("{}");',
    "include": 'include!("{}");',
    "path": '#[path = "{}"] mod x;',
    "doc": '#[doc = include_str!("{}")] pub struct X;',
}


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
@pytest.mark.parametrize("way", READERS)
async def test_nothing_outside_the_project_is_read_nor_told_whether_it_is_there(way: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    places = [
        "/etc/passwd",
        "/proc/self/environ",
        "../../../../../../etc/passwd",
        f"{tmp_path}/secret",
        f"{tmp_path}/link",
    ]
    said = set()
    for place in [*places, f"{tmp_path}/not-there"] if way == "include_str" else places[:3:2]:
        error = await refused(READERS[way].replace("{}", place))
        said.add(error.diagnostics[0].message.partition(": ")[2])
        assert "root:" not in str(error)
    assert said == {"it is no text of this project"}


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
async def test_what_the_compiler_must_read_is_no_text_of_a_source() -> None:
    """The loader's cache and the system's libraries are in its reach, and would tell what the host has installed."""
    library = next(each for each in find_rust().read if each.startswith("/") and "libc.so" in each)
    for place in ("/etc/ld.so.cache", library, "/dev/null"):
        # What is computed of it could tell it in a message too.
        text = 'const P: &[u8] = include_bytes!({});\nconst _: () = assert!(P.len() == 1, "told");\n'
        made = f'macro_rules! place {{ () => {{ concat!("{place[:4]}", "{place[4:]}") }} }}\n'
        for error in [await refused(text.format(f'"{place}"')), await refused(made + text.format("place!()"))]:
            [only] = error.diagnostics
            assert only.message == f"couldn't read {Path(place).name}: it is no text of this project"


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('const H: &str = env!("HOME");', "environment variable `HOME` not defined"),
        ("#![feature(asm_experimental_arch)]", "may not be used on the stable release channel"),
        ('core::arch::global_asm!(".incbin \\"/etc/passwd\\"");', "inline assembly is not stable yet"),
        ("extern crate proc_macro;\n#[proc_macro] fn m() {}", "crates of the `proc-macro` crate type"),
        ("extern crate serde;", "can't find crate for `serde`"),
        ('#[link(name = "c")] extern "C" {}', "unable to find library -lc"),
        ('#[link_args = "-o /tmp/x"] extern "C" {}', "cannot find attribute `link_args`"),
    ],
    ids=["environment", "feature", "assembler", "procedural macro", "crate", "library", "link arguments"],
)  # fmt: skip
async def test_a_source_brings_no_program_no_library_and_no_flag(
    source: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "--cfg x"), ("RUSTC_WRAPPER", "/bin/false")):
        monkeypatch.setenv(variable, value)
    assert why in str(await refused(source))


VARIABLES = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "OLDPWD", "PATH", "PWD", "PYTHONPATH"),
    *("RUSTUP_HOME", "SECRET_TOKEN", "SHELL", "SHLVL", "TEMP", "TERM", "TMP", "TMPDIR", "USER", "XDG_CACHE_HOME", "_"),
)


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
async def test_what_a_source_asks_of_the_environment_tells_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    asked = ", ".join(f'option_env!("{name}")' for name in VARIABLES)
    text = f"rho::tool! {{\n/// Of a test.\nfn seen() -> Vec<Option<&'static str>> {{ vec![{asked}] }}\n}}\n"
    alone = text.replace("seen", "nothing").removesuffix("\n") + "\nrho::tools![nothing];\n"
    source = Project(main="main.rs", files=MappingProxyType({"main.rs": alone}), name="main.rs")
    first, second = [(await compile_rust(source, limits=BuildLimits())).wasm for _ in range(2)]
    assert first == second
    assert b"rho-build-" not in first
    told = dict(zip(VARIABLES, RawGuest(first).call("nothing", {})["ok"], strict=True))
    assert {name: value for name, value in told.items() if value is not None} == {
        "PATH": "",
        "LANG": "C",
        "TMPDIR": "tmp",
    }
    error = await refused('compile_error!(concat!("x", env!("TMPDIR")));')
    assert [each.message for each in error.diagnostics] == ["xtmp"]


@pytest.mark.slow
@pytest.mark.usefixtures("rust")
@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("const X: u64 = { let mut n = 0u64; loop { n = n.wrapping_add(1); } };\npub static Y: u64 = X;\n", ENDS),
        ('#![recursion_limit = "999999"]\nmacro_rules! m { ($($t:tt)*) => { m! { $($t)* $($t)* } } }\nm! {a}\n', ENDS),
        ("#[no_mangle] pub static BIG: [u8; 40 << 20] = [1; 40 << 20];\n", {"build_too_large", "build_timeout"}),
    ],
    ids=["constant", "macro", "disk"],
)  # fmt: skip
async def test_what_never_ends_at_compile_time_ends(source: str, reasons: set[str]) -> None:
    assert (await refused(source, limits=BuildLimits(native_cpu_seconds=3))).reason in reasons
