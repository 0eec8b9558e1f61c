"""Admission, check by check: each test makes one thing wrong in a module that is otherwise good."""

from __future__ import annotations

import hashlib

import pytest
import wasmtime

from rho_wasm import wasm
from rho_wasm.errors import ModuleRejected
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.manifest import Manifest
from rho_wasm.sandbox import abi
from rho_wasm.sandbox.admission import Admitted, admit
from rho_wasm.wasm import HEADER, encode_name, encode_section, encode_u32
from tests.sandbox.module_bytes import ALLOC, CALL, I32, I64, MANIFEST, Guest, body, export, function_type, vector

F32 = 0x7D
WIDTHS = {"i32": I32, "i64": I64}
NO_PAGES = b"\x01\x00\x00"


def rejected(data: bytes | Guest, *, limits: HostLimits | None = None) -> ModuleRejected:
    with pytest.raises(ModuleRejected) as caught:
        admit(data.build() if isinstance(data, Guest) else data, limits=limits)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000
    return caught.value


def reason(data: bytes | Guest, *, limits: HostLimits | None = None) -> str:
    return rejected(data, limits=limits).reason


def accepted(guest: Guest, *, limits: HostLimits | None = None) -> Admitted:
    """Admitted, and wasmtime finds what is to be compiled valid too."""
    admitted = admit(guest.build(), limits=limits)
    wasmtime.Module.validate(wasmtime.Engine(), admitted.code)
    return admitted


def imported(module: str, name: str, type_index: int, *, kind: int = 0) -> bytes:
    return encode_name(module) + encode_name(name) + bytes([kind]) + encode_u32(type_index)


def test_a_good_module_is_admitted_and_described() -> None:
    guest = Guest().with_raw(5, b"\x01\x00\x03")
    data = guest.build()
    admitted = accepted(guest)
    assert admitted.sha256 == hashlib.sha256(data).hexdigest()
    assert admitted.manifest == Manifest.decode(MANIFEST)
    assert admitted.memory_min_bytes == 3 * 65_536
    assert admitted.code_bytes == len(vector([ALLOC, CALL]))
    assert admitted.imports == frozenset()
    assert admitted.exports == {"memory", "rho_alloc", "rho_call"}
    assert not admitted.has_initialize


class TestWholeModule:
    def test_its_size_is_bounded(self) -> None:
        error = rejected(Guest(), limits=HostLimits(module_bytes=64))
        assert (error.reason, error.limit, error.value) == ("too_large", 64, len(Guest().build()))

    @pytest.mark.parametrize("data", [b"", b"\0asm", b"\x7fELF" + bytes(100), b"\0asm\x0d\0\x01\0", b"(module)"])
    def test_only_core_modules(self, data: bytes) -> None:
        assert reason(data) == "header"

    def test_a_section_stands_once(self) -> None:
        assert reason(HEADER + encode_section(1, b"\x00") * 2) == "section_order"

    def test_sections_stand_in_order(self) -> None:
        assert reason(HEADER + encode_section(3, b"\x00") + encode_section(1, b"\x00")) == "section_order"
        # The count of data segments stands before the code, whatever its id.
        assert reason(HEADER + encode_section(10, b"\x00") + encode_section(12, b"\x00")) == "section_order"

    @pytest.mark.parametrize("identifier", [14, 15, 64, 255])
    def test_unknown_sections_are_refused(self, identifier: int) -> None:
        assert reason(HEADER + encode_section(identifier, b"")) == "section_id"

    def test_a_size_over_the_file_is_truncated(self) -> None:
        assert reason(Guest().build()[:-1]) == "truncated"

    def test_a_size_over_32_bits_is_refused(self) -> None:
        assert reason(HEADER + b"\x01\xff\xff\xff\xff\x7f") == "leb128"

    @pytest.mark.parametrize("identifier", [1, 3, 5, 7, 10])
    def test_nothing_stands_after_a_sections_content(self, identifier: int) -> None:
        contents = {1: vector(Guest().types), 3: b"\x02\x00\x01", 5: b"\x01\x00\x01", 7: vector(Guest().exports)}
        content = contents.get(identifier, vector([ALLOC, CALL]))
        assert reason(Guest().with_raw(identifier, content + b"\x00")) == "section_size"

    def test_the_code_section_is_bounded(self) -> None:
        assert reason(Guest(), limits=HostLimits(code_bytes=8)) == "code_too_large"

    def test_a_start_section_is_refused_and_says_what_to_do(self) -> None:
        guest = Guest().add_function(body(b"")).with_raw(8, b"\x02")
        assert "_initialize" in rejected(guest).hint

    def test_tags_are_refused(self) -> None:
        assert reason(Guest().with_raw(13, b"\x01\x00\x02")) == "feature_off"


class TestCustomSections:
    def test_they_are_dropped_and_the_names_kept_apart(self) -> None:
        guest = Guest()
        names = b"\x00\x02\x01t"
        guest.customs += [("producers", b"x" * 50), ("name", names), (".debug_info", b"y" * 50)]
        admitted = admit(guest.build())
        assert list(wasm.custom_sections(admitted.code)) == []
        assert admitted.names == names

    def test_too_large_or_second_name_sections_are_dropped_not_refused(self) -> None:
        guest = Guest()
        guest.customs += [("name", b"\x00\x02\x01t" * 100)]
        assert admit(guest.build(), limits=HostLimits(name_section_bytes=64)).names == b""
        guest.customs += [("name", b"")]
        assert admit(guest.build()).names == b"\x00\x02\x01t" * 100

    def test_their_number_and_the_length_of_their_names_are_bounded(self) -> None:
        guest = Guest()
        guest.customs += [("x", b"")] * 100
        error = rejected(guest)
        assert (error.reason, error.limit) == ("custom_sections", 100)
        guest.customs = [("x" * 1_025, b"")]
        assert reason(guest) == "name"

    def test_a_name_that_is_no_utf8_is_refused(self) -> None:
        assert reason(Guest().build() + encode_section(0, b"\x02\xc3\x28")) == "name"


class TestManifest:
    def test_it_must_be_there(self) -> None:
        guest = Guest()
        guest.customs = []
        assert rejected(guest).name == "rho.manifest"
        assert reason(guest) == "manifest_missing"

    def test_it_must_be_there_once(self) -> None:
        guest = Guest()
        guest.customs *= 2
        error = rejected(guest)
        assert (error.reason, error.value) == ("manifest_duplicate", 2)

    def test_it_is_bounded(self) -> None:
        guest = Guest()
        guest.customs = [(abi.MANIFEST_SECTION, bytes(65_537))]
        error = rejected(guest)
        assert (error.reason, error.limit, error.value) == ("manifest_too_large", 65_536, 65_537)

    def test_it_is_plain_and_valid(self) -> None:
        guest = Guest()
        guest.customs = [(abi.MANIFEST_SECTION, b"\xc0\xa0")]
        assert reason(guest) == "manifest_malformed"
        guest.customs = [(abi.MANIFEST_SECTION, b"\xa1\x63abi\x01")]
        assert reason(guest) == "manifest_invalid"
        guest.customs = [(abi.MANIFEST_SECTION, b"\xa1\x63abi\x02")]
        assert reason(guest) == "abi_version"

    def test_a_module_with_code_names_no_engine(self) -> None:
        guest = Guest()
        manifest = Manifest.decode(MANIFEST).model_copy(update={"engine": bytes(32)})
        guest.customs = [(abi.MANIFEST_SECTION, manifest.encode())]
        assert reason(guest) == "manifest_engine"


class TestTypes:
    def test_their_number_is_bounded(self) -> None:
        guest = Guest()
        guest.types += [function_type()] * 997
        accepted(guest)
        guest.types.append(function_type())
        error = rejected(guest)
        assert (error.reason, error.limit, error.value) == ("types", 1_000, 1_001)

    def test_parameters_and_results_are_bounded(self) -> None:
        guest = Guest()
        guest.types.append(function_type([I32] * 100, [I64] * 16))
        accepted(guest)
        guest.types[-1] = function_type([I32] * 101)
        assert reason(guest) == "params"
        guest.types[-1] = function_type([], [I32] * 17)
        assert reason(guest) == "results"

    def test_vectors_and_references_are_value_types(self) -> None:
        guest = Guest()
        guest.types.append(function_type([0x7B, 0x70, 0x6F, F32, 0x7C]))
        accepted(guest)

    @pytest.mark.parametrize("code", [0x6E, 0x69, 0x64, 0x63, 0x78, 0x00, 0x40])
    def test_other_value_types_are_off(self, code: int) -> None:
        guest = Guest()
        guest.types.append(function_type([code]))
        assert reason(guest) == "feature_off"

    @pytest.mark.parametrize("form", [0x4E, 0x50, 0x4F, 0x5F, 0x5E, 0x00])
    def test_types_of_garbage_collection_are_off(self, form: int) -> None:
        guest = Guest()
        guest.types.append(bytes([form, 0]))
        assert reason(guest) == "feature_off"

    def test_a_count_over_the_section_is_truncated(self) -> None:
        assert reason(Guest().with_raw(1, b"\x05\x60\x00\x00")) == "truncated"


class TestImports:
    @pytest.mark.parametrize(("key", "signature"), abi.ALLOWED_IMPORTS.items())
    def test_each_function_of_the_abi_may_be_imported_with_its_type_only(
        self, key: tuple[str, str], signature: abi.FunctionType
    ) -> None:
        guest = Guest()
        guest.types += [
            function_type([WIDTHS[p] for p in signature.params], [WIDTHS[r] for r in signature.results]),
            function_type([F32]),
        ]
        guest.imports = [imported(*key, 3)]
        guest.exports = [export("memory", 2, 0), export("rho_alloc", 0, 1), export("rho_call", 0, 2)]
        assert accepted(guest).imports == {key}
        guest.imports = [imported(*key, 4)]
        error = rejected(guest)
        assert (error.reason, error.name) == ("import_type", ".".join(key))
        assert (error.limit, error.value) == (str(signature), "(f32) -> ()")

    def test_a_name_may_be_imported_more_than_once(self) -> None:
        guest = Guest()
        guest.types += [function_type([I32, I32, I32])]
        guest.imports = [imported("rho", "log", 3)] * 3
        guest.exports = [export("memory", 2, 0), export("rho_alloc", 0, 3), export("rho_call", 0, 4)]
        assert accepted(guest).imports == {("rho", "log")}

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            ("env", "system"),
            ("wasi_snapshot_preview1", "path_open"),
            ("wasi_snapshot_preview1", "sock_accept"),
            ("wasi_unstable", "fd_write"),
            ("rho", "host_call2"),
            ("rho ", "log"),
            ("", ""),
        ],
    )
    def test_anything_else_is_refused_by_name(self, module: str, name: str) -> None:
        guest = Guest()
        guest.imports = [imported(module, name, 2)]
        error = rejected(guest)
        assert (error.reason, error.name) == ("import_forbidden", f"{module}.{name}")

    @pytest.mark.parametrize(("kind", "what"), [(1, "table"), (2, "memory"), (3, "global"), (4, "tag"), (9, "unknown")])
    def test_only_functions_are_imported(self, kind: int, what: str) -> None:
        guest = Guest()
        guest.imports = [imported("rho", "log", 0, kind=kind)]
        error = rejected(guest)
        assert error.reason == "import_forbidden"
        assert what in error.detail

    def test_a_hostile_name_is_shown_inert_and_bounded(self) -> None:
        guest = Guest()
        guest.imports = [imported("e\x1b[31m\u202e", "x" * 1_000, 0)]
        error = rejected(guest)
        assert error.name is not None
        assert error.name.startswith("e\\x1b[31m\\u202e.xxx")
        assert len(error.name) <= 2 * 128 + 1

    def test_names_and_numbers_are_bounded(self) -> None:
        guest = Guest()
        guest.imports = [imported("x" * 1_025, "", 0)]
        assert reason(guest) == "name"
        guest.types += [function_type([I32, I32, I32])]
        guest.imports = [imported("rho", "log", 3)] * 101
        assert reason(guest) == "imports"

    def test_the_type_must_be_there(self) -> None:
        guest = Guest()
        guest.imports = [imported("rho", "log", 77)]
        assert reason(guest) == "type_index"


class TestFunctions:
    def test_their_number_is_bounded(self) -> None:
        guest = Guest()
        for _ in range(9_999):
            guest.add_function(body(b""))
        error = rejected(guest)
        assert (error.reason, error.limit, error.value) == ("functions", 10_000, 10_001)

    def test_their_type_must_be_there(self) -> None:
        assert reason(Guest().add_function(body(b""), type_index=3)) == "type_index"

    def test_every_function_has_one_body(self) -> None:
        guest = Guest()
        guest.bodies.append(body(b""))
        assert reason(guest) == "function_count"
        assert reason(Guest().with_raw(10, None)) == "function_count"
        assert reason(Guest().with_raw(3, None).with_raw(7, vector(Guest().exports[:1]))) == "export_missing"


class TestMemory:
    def test_there_is_exactly_one(self) -> None:
        assert reason(Guest().with_raw(5, None)) == "memory_count"
        assert reason(Guest().with_raw(5, b"\x00")) == "memory_count"
        error = rejected(Guest().with_raw(5, b"\x02\x00\x01\x00\x01"))
        assert (error.reason, error.limit, error.value) == ("memory_count", 1, 2)

    @pytest.mark.parametrize("flags", [2, 3, 4, 5, 6, 7, 8, 9, 0x40, 0xFF])
    def test_it_is_32_bit_unshared_and_of_ordinary_pages(self, flags: int) -> None:
        assert reason(Guest().with_raw(5, bytes([1, flags, 1, 1]))) == "memory_type"

    def test_its_minimum_is_within_the_limit_of_a_call(self) -> None:
        limits = HostLimits(call=Limits(memory_bytes=2 * 65_536))
        accepted(Guest().with_raw(5, b"\x01\x00\x02"), limits=limits)
        error = rejected(Guest().with_raw(5, b"\x01\x00\x03"), limits=limits)
        assert (error.reason, error.limit, error.value) == ("memory_minimum", 131_072, 196_608)
        # What it may grow to is the limiter's to bound.
        accepted(Guest().with_raw(5, b"\x01\x01\x02" + encode_u32(65_536)), limits=limits)

    def test_it_is_exported_as_memory(self) -> None:
        guest = Guest()
        guest.exports = [export("mem", 2, 0), *guest.exports[1:]]
        error = rejected(guest)
        assert (error.reason, error.name) == ("export_missing", "memory")
        guest.exports[0] = export("memory", 0, 0)
        assert reason(guest) == "export_type"


class TestTablesAndGlobals:
    def test_there_is_one_table_at_most(self) -> None:
        accepted(Guest().with_raw(4, b"\x01\x70\x00\x01"))
        assert reason(Guest().with_raw(4, b"\x02" + b"\x70\x00\x01" * 2)) == "tables"

    def test_its_size_and_kind_are_bounded(self) -> None:
        accepted(Guest().with_raw(4, b"\x01\x6f\x01" + encode_u32(20_000) + encode_u32(2**32 - 1)))
        assert reason(Guest().with_raw(4, b"\x01\x70\x00" + encode_u32(20_001))) == "table_minimum"
        assert reason(Guest().with_raw(4, b"\x01\x7f\x00\x01")) == "table_type"
        assert reason(Guest().with_raw(4, b"\x01\x70\x04\x01")) == "table_type"
        assert reason(Guest().with_raw(4, b"\x01\x40\x00\x70\x00\x01\xd0\x70\x0b")) == "feature_off"
        assert reason(Guest().with_raw(4, b"\x01\x63\x70\x00\x01")) == "feature_off"

    def test_globals_are_bounded(self) -> None:
        one = b"\x7f\x01\x41\x00\x0b"
        accepted(Guest().with_raw(6, vector([one] * 1_000)))
        assert reason(Guest().with_raw(6, vector([one] * 1_001))) == "globals"
        assert reason(Guest().with_raw(6, b"\x01\x7f\x02\x41\x00\x0b")) == "feature_off"

    @pytest.mark.parametrize(
        ("code", "expression"),
        [
            (0x7F, b"\x41\x7f\x0b"),
            (0x7E, b"\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x0b"),
            (0x7D, b"\x43\x0b\x0b\x0b\x0b\x0b"),
            (0x7C, b"\x44" + b"\x0b" * 9),
            (0x7B, b"\xfd\x0c" + b"\x0b" * 17),
            (0x70, b"\xd0\x70\x0b"),
            (0x70, b"\xd2\x00\x0b"),
            (0x7F, b"\x41\x01\x41\x02\x6a\x41\x03\x6c\x41\x04\x6b\x0b"),
            (0x7E, b"\x42\x01\x42\x02\x7c\x42\x03\x7e\x42\x04\x7d\x0b"),
        ],
    )
    def test_constant_expressions_of_every_kind_are_read(self, code: int, expression: bytes) -> None:
        accepted(Guest().with_raw(6, b"\x01" + bytes([code, 0]) + expression))

    @pytest.mark.parametrize(
        "expression",
        [
            b"\x41\x00",
            b"\x10\x00\x0b",
            b"\x41\x00" + b"\x41\x00\x6a" * 100 + b"\x0b",
            b"\x41\xff\xff\xff\xff\x3f\x0b",
            b"\x20\x00\x0b",
            b"\xfb\x00\x00\x0b",
        ],
    )
    def test_long_or_other_expressions_are_refused(self, expression: bytes) -> None:
        assert reason(Guest().with_raw(6, b"\x01\x7f\x00" + expression)) == "constant_expression"


class TestExports:
    @pytest.mark.parametrize("name", ["memory", "rho_alloc", "rho_call"])
    def test_each_of_the_abi_must_be_there(self, name: str) -> None:
        guest = Guest()
        guest.exports = [entry for entry in guest.exports if encode_name(name) not in entry]
        error = rejected(guest)
        assert (error.reason, error.name) == ("export_missing", name)
        assert name in error.hint

    def test_their_types_are_those_of_the_abi(self) -> None:
        guest = Guest()
        guest.exports[2] = export("rho_call", 0, 0)
        error = rejected(guest)
        assert (error.reason, error.name) == ("export_type", "rho_call")
        assert (error.limit, error.value) == ("(i32, i32) -> (i64)", "(i32) -> (i32)")
        guest = Guest().with_raw(4, b"\x01\x70\x00\x01")
        guest.exports[1] = export("rho_alloc", 1, 0)
        assert rejected(guest).value == "table"

    def test_initialize_may_be_there_with_its_type(self) -> None:
        guest = Guest().add_function(body(b""))
        guest.exports.append(export("_initialize", 0, 2))
        assert accepted(guest).has_initialize
        guest.exports[-1] = export("_initialize", 0, 0)
        assert rejected(guest).name == "_initialize"

    def test_an_import_handed_on_is_no_export_of_the_abi(self) -> None:
        guest = Guest()
        guest.imports = [imported("wasi_snapshot_preview1", "fd_close", 0)]
        guest.exports = [export("memory", 2, 0), export("rho_alloc", 0, 0), export("rho_call", 0, 2)]
        error = rejected(guest)
        assert (error.reason, error.name) == ("export_reexported", "rho_alloc")

    def test_other_exports_may_be_there_in_bounds(self) -> None:
        guest = Guest()
        guest.exports += [export(f"x{n}", 0, 0) for n in range(297)]
        assert accepted(guest).exports == {"memory", "rho_alloc", "rho_call"}
        guest.exports.append(export("one too many", 0, 0))
        error = rejected(guest)
        assert (error.reason, error.limit, error.value) == ("exports", 300, 301)

    def test_names_occur_once_and_indices_exist(self) -> None:
        guest = Guest()
        guest.exports.append(export("memory", 0, 0))
        assert reason(guest) == "export_duplicate"
        for kind, index in ((0, 2), (1, 0), (2, 1), (3, 0), (4, 0), (9, 0)):
            guest.exports[-1] = export("x", kind, index)
            assert reason(guest) == "export_index"
        guest.exports[-1] = export("x" * 1_025, 0, 0)
        assert reason(guest) == "name"


class TestSegments:
    TABLE = b"\x01\x70\x00\x0a"

    @pytest.mark.parametrize(
        "segment",
        [
            b"\x00\x41\x00\x0b\x02\x00\x01",
            b"\x01\x00\x02\x00\x01",
            b"\x02\x00\x41\x00\x0b\x00\x01\x00",
            b"\x03\x00\x01\x00",
            b"\x04\x41\x00\x0b\x01\xd2\x00\x0b",
            b"\x05\x70\x02\xd0\x70\x0b\xd2\x01\x0b",
            b"\x06\x00\x41\x00\x0b\x70\x01\xd2\x00\x0b",
            b"\x07\x70\x01\xd2\x00\x0b",
        ],
    )
    def test_element_segments_of_all_eight_kinds_are_read(self, segment: bytes) -> None:
        accepted(Guest().with_raw(4, self.TABLE).with_raw(9, b"\x01" + segment))

    def test_element_segments_and_their_elements_are_bounded(self) -> None:
        def guest(content: bytes) -> Guest:
            return Guest().with_raw(4, self.TABLE).with_raw(9, content)

        assert reason(guest(vector([b"\x03\x00\x00"] * 1_001))) == "element_segments"
        assert reason(guest(vector([b"\x03\x00" + vector([b"\x00"] * 10_001)] * 2))) == "elements"
        assert reason(guest(b"\x01\x08")) == "element_segments"
        assert reason(guest(b"\x01\x01\x01\x00")) == "element_segments"
        assert reason(guest(b"\x01\x05\x7f\x00")) == "table_type"
        assert reason(guest(b"\x01\x03\x00\xff\xff\xff\xff\x0f")) == "elements"

    @pytest.mark.parametrize("segment", [b"\x00\x41\x00\x0b\x01x", b"\x01\x01x", b"\x02\x00\x41\x00\x0b\x01x"])
    def test_data_segments_of_all_three_kinds_are_read(self, segment: bytes) -> None:
        accepted(Guest().with_raw(12, b"\x01").with_raw(11, b"\x01" + segment))

    def test_data_segments_are_bounded(self) -> None:
        one = b"\x00\x41\x00\x0b\x01x"
        accepted(Guest().with_raw(11, vector([one] * 2_000)))
        error = rejected(Guest().with_raw(11, vector([one] * 2_001)))
        assert (error.reason, error.limit, error.value) == ("data_segments", 2_000, 2_001)
        assert reason(Guest().with_raw(12, encode_u32(2_001))) == "data_segments"
        assert reason(Guest().with_raw(11, b"\x01\x03")) == "data_segments"
        assert reason(Guest().with_raw(11, b"\x01\x02\x01\x41\x00\x0b\x00")) == "feature_off"
        assert reason(Guest().with_raw(11, b"\x01\x01\xff\xff\xff\xff\x0f")) == "truncated"
