"""WebAssembly modules as tables and through the commands: forged ones, damaged ones, and one of a real linker."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function
from tests.forge.lines import uleb
from tests.forge.wasm import BODY, custom, module, name, names, section
from tests.helpers.objects import SOURCE, chains_of, code_of, damage, llvm_chains, named, tools
from whence._base.errors import ObjectError
from whence.objects.opening import open_object
from whence.objects.wasm import WasmFile

IMPORTS = [
    name("env") + name("f") + b"\x00\x00", name("env") + name("m") + b"\x02\x01\x01\x02",
    name("env") + name("g") + b"\x03\x7f\x00", name("env") + name("t") + b"\x01\x70\x00\x01",
]  # fmt: skip


def small() -> bytes:
    root = Die(0x11, [(0x03, 0x08, "a.c")], [function("f", 2, 0x20), function("dropped", 0, 0x10)])
    sections = Debug(address_size=4).unit(root).contents()
    return module(*(custom(f".debug_{title}", data) for title, data in sections.items()), names((0, "f"), (2, "last")))


def test_functions_are_named_by_index_after_the_imports() -> None:
    data = module(names((0, "imported"), (1, "first"), (3, "third"), (9, "none")), imports=IMPORTS)
    with WasmFile.from_bytes(data) as file:
        assert list(file.function_starts) == [2, 0x23, 0x44]
        assert named(file) == [(2, 0x20, "first"), (0x44, 0x20, "third")]
        assert file.code_ranges() == [(2, 0x64)]
        assert file.file_offset_of(2) == data.index(BODY)


def test_exports_name_functions_that_the_name_section_does_not() -> None:
    exports = section(7, uleb(2) + name("run") + b"\x00\x01" + name("memory") + b"\x02\x00")
    with WasmFile.from_bytes(module(exports)) as file:
        assert named(file) == [(0x23, 0x20, "run")]


def test_build_id_and_links_to_debug_info_are_reported() -> None:
    more = [
        custom("build_id", b"\x04\x01\x02\x03\x04"), custom("external_debug_info", name("a.debug.wasm")),
        custom("sourceMappingURL", name("a.map")),
    ]  # fmt: skip
    with WasmFile.from_bytes(module(*more)) as file:
        assert file.build_id == "01020304"
        assert (file.details["external debug info"], file.details["source map"]) == ("a.debug.wasm", "a.map")
        assert file.details["code offset"] == hex(file.code_offset) == "0xa"


def test_places_as_browsers_print_them_are_converted(tmp_path: Path) -> None:
    path = tmp_path / "a.wasm"
    path.write_bytes(module(names((1, "first"), (3, "third")), imports=IMPORTS))
    with WasmFile.open(path) as file:
        offset = file.file_offset_of(0x46)
        assert [file.vaddr_of_function(index) for index in range(5)] == [None, 2, 0x23, 0x44, None]

    def run(word: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "whence", "addr", str(path), word]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    words = (f"wasm-function[3]:{offset:#x}", f"http://host/a.wasm:wasm-function[9]:{offset:#x}", "wasm-function[3]")
    for word in words:
        code, answer, _ = run(word)
        assert (code, answer.split()[0]) == (0, "third")
    for word in ("wasm-function[0]", "wasm-function[3]:0x3"):
        code, _, error = run(word)
        assert code == 2
        assert f"{word!r} is not in the module's code" in error


def debug_only(build_id: bytes = b"") -> bytes:
    root = Die(0x11, [(0x03, 0x08, "a.c")], [function("described", 2, 0x20)])
    sections = Debug(address_size=4).unit(root).contents()
    more = [custom("build_id", bytes([len(build_id)]) + build_id)] if build_id else []
    return module(*more, *(custom(f".debug_{title}", data) for title, data in sections.items()), bodies=0)


@pytest.mark.parametrize("link", ["a.debug.wasm", "debug/../a.debug.wasm", "https://host/x/a.debug.wasm?v=1"])
def test_debug_info_in_a_file_of_its_own_is_found_by_its_link(tmp_path: Path, link: str) -> None:
    path, other = tmp_path / "a.wasm", tmp_path / "a.debug.wasm"
    (tmp_path / "debug").mkdir()
    path.write_bytes(module(names((0, "named")), custom("external_debug_info", name(link))))
    assert names_at(path, 4) == ["named"]
    other.write_bytes(debug_only())
    assert names_at(path, 4) == ["described"]
    other.rename(tmp_path / "debug" / "a.debug.wasm")
    assert names_at(path, 4) == ["named"]
    with whence.open(path, debug_dirs=[tmp_path / "debug"]) as binary:
        assert [frame.function for frame in binary.lookup(4)] == ["described"]


def test_debug_info_of_another_build_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.wasm"
    more = [custom("build_id", b"\x02ab"), custom("external_debug_info", name("d.wasm"))]
    path.write_bytes(module(names((0, "named")), *more))
    for build_id, expected in ((b"ab", "described"), (b"zz", "named"), (b"", "named")):
        (tmp_path / "d.wasm").write_bytes(debug_only(build_id))
        assert names_at(path, 4) == [expected]


def names_at(path: Path, vaddr: int) -> list[str]:
    with whence.open(path) as binary:
        return [frame.function for frame in binary.lookup(vaddr)]


def test_a_size_padded_to_five_bytes_is_read_and_a_longer_one_is_not() -> None:
    padded = b"\0asm\1\0\0\0" + b"\x0a\xe4\x80\x80\x80\x00" + uleb(3) + (uleb(len(BODY)) + BODY) * 3
    with WasmFile.from_bytes(padded) as file:
        assert len(file.function_starts) == 3
    with WasmFile.from_bytes(b"\0asm\1\0\0\0\x0a" + b"\xff" * 9) as file:
        assert "more than 5 bytes" in str(file.problems[0])


def test_a_component_is_refused() -> None:
    with pytest.raises(ObjectError, match=r"the version is 0x1000d \(a component\), expected 1"):
        WasmFile.from_bytes(b"\0asm" + struct.pack("<I", 0x1000D))


def test_commands_and_open_read_a_module_and_leave_out_dropped_functions(tmp_path: Path) -> None:
    path = tmp_path / "a.wasm"
    path.write_bytes(small())
    with whence.open(path) as binary:
        assert [frame.function for frame in binary.lookup(4)] == ["f"]
        assert [frame.function for frame in binary.lookup(0x45)] == ["last"]
        assert binary.lookup(0x24) == ()
    run = [sys.executable, "-m", "whence"]
    answer = subprocess.run([*run, "addr", path, "4"], capture_output=True, text=True, check=True)
    assert answer.stdout.split()[0] == "f"
    archive = tmp_path / "a.lidia"
    subprocess.run([*run, "lidia", "create", path, "-o", archive], capture_output=True, check=True)
    with whence.open(archive) as binary:
        assert [frame.function for frame in binary.lookup(4)] == ["f"]
    answer = subprocess.run([*run, "explain", path, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["type"] == "module, 32-bit, wasm32"


def test_ranges_of_a_dropped_unit_do_not_wrap_around_to_other_code(tmp_path: Path) -> None:
    debug = Debug(4, address_size=4)
    inner = function("inner", 0, 0)
    offset = debug.range_list((3, 0x10))
    call = [(d.DW_AT_abstract_origin, d.DW_FORM_ref4, inner), (d.DW_AT_ranges, d.DW_FORM_sec_offset, offset)]
    dropped = Die(
        d.DW_TAG_subprogram,
        [(d.DW_AT_name, d.DW_FORM_string, "dropped"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, offset)],
        [Die(d.DW_TAG_inlined_subroutine, call)],
    )
    root = [(d.DW_AT_name, d.DW_FORM_string, "a.c"), (d.DW_AT_low_pc, d.DW_FORM_addr, 0xFFFFFFFF)]
    debug.unit(Die(d.DW_TAG_compile_unit, root, [inner, dropped]))
    path = tmp_path / "a.wasm"
    sections = (custom(f".debug_{title}", data) for title, data in debug.contents().items())
    path.write_bytes(module(*sections, names((0, "named"))))
    assert names_at(path, 4) == ["named"]


def test_an_inlined_call_whose_end_was_lost_extends_to_the_end_of_its_caller(tmp_path: Path) -> None:
    debug = Debug(4, address_size=4)
    inner = function("inner", 0, 0)
    call = [
        (d.DW_AT_abstract_origin, d.DW_FORM_ref4, inner),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 4),
        (d.DW_AT_high_pc, d.DW_FORM_data4, 2**32 - 4),  # as binaryen writes 0 - low_pc
    ]
    outer = function("outer", 2, 6, Die(d.DW_TAG_inlined_subroutine, call))
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "a.c")], [inner, outer]))
    path = tmp_path / "a.wasm"
    sections = (custom(f".debug_{title}", data) for title, data in debug.contents().items())
    path.write_bytes(module(*sections))
    assert [names_at(path, vaddr) for vaddr in (3, 4, 7)] == [["outer"], ["inner", "outer"], ["inner", "outer"]]
    with whence.open(path) as binary:
        assert [len(frames) for frames in binary.lookup_many(range(12))][2:] == [1, 1, *[2] * 4, *[0] * 4]


def test_truncations_flipped_bits_and_mutations_raise_only_errors_of_whence() -> None:
    data = small()
    damage(WasmFile.from_bytes, data, bits=len(data) * 8)


def test_whole_chains_of_a_real_module_are_those_of_llvm_symbolizer(tmp_path: Path) -> None:
    clang, linker = tools("clang-19", "wasm-ld-19")
    (tmp_path / "a.c").write_text(SOURCE)
    flags = ["--target=wasm32", "-g", "-O1", "-ffreestanding"]
    subprocess.run([clang, *flags, "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    command = [linker, "--no-entry", "--export=start", "--build-id", "a.o", "-o", "a.wasm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    path = tmp_path / "a.wasm"
    vaddrs = code_of(path)
    with open_object(path) as file:
        assert len(file.build_id) == 32
    ours = chains_of(path, vaddrs)
    # llvm-symbolizer takes the outermost name from the name section, by offsets in the file, so that name is left out
    for vaddr, us, them in zip(vaddrs, ours, llvm_chains(path, vaddrs), strict=True):
        if us and us[0][1]:
            assert [frame[1:] for frame in us] == [frame[1:] for frame in them], hex(vaddr)
            assert [frame[0] for frame in us[:-1]] == [frame[0] for frame in them[:-1]], hex(vaddr)
    assert sum(map(bool, ours)) > len(vaddrs) * 0.9
    assert sum(len(chain) > 1 for chain in ours) > 10
