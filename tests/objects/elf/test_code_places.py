"""Code where flags don't say so: bare-metal programs, and debug files of Go programs with their code cut away."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, Recipe, build
from tests.helpers import golang
from tests.oracle.compare import differing_files
from whence import lidia
from whence._base.model import Frame
from whence.binary import Binary
from whence.gopclntab import Pclntab
from whence.locate.segments import placing_segments
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

PHOFF, PHENTSIZE, PHNUM = 32, 54, 56  # of an ELF64 header
SHOFF, SHENTSIZE = 40, 58
PROGRAM_HEADER, SECTION_HEADER = struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")


def changed(
    data: bytes, *, segments: dict[str, int] | None = None, text: dict[str, int] | None = None, headers: bool = True
) -> bytes:
    """Return a copy of an x86-64 program with changed fields of its executable segments and its .text section.

    Without `headers` it has no segment table.
    """
    out = bytearray(data)
    with ElfFile.from_bytes(data) as elf:
        executable = [index for index, each in enumerate(elf.segments) if each.executable]
        section = elf.section(".text")
    assert executable
    assert section is not None
    fields = {"type": 0, "flags": 1, "file_size": 5}
    table = int.from_bytes(data[PHOFF : PHOFF + 8], "little")
    for index in executable:
        offset = table + index * PROGRAM_HEADER.size
        row = list(PROGRAM_HEADER.unpack_from(out, offset))
        for name, value in (segments or {}).items():
            row[fields[name]] = value
        PROGRAM_HEADER.pack_into(out, offset, *row)
    fields = {"type": 1, "flags": 2}
    offset = int.from_bytes(data[SHOFF : SHOFF + 8], "little") + section.index * SECTION_HEADER.size
    row = list(SECTION_HEADER.unpack_from(out, offset))
    for name, value in (text or {}).items():
        row[fields[name]] = value
    SECTION_HEADER.pack_into(out, offset, *row)
    if not headers:
        out[PHOFF : PHOFF + 8] = bytes(8)
        out[PHNUM : PHNUM + 2] = bytes(2)
    return bytes(out)


def chains(data: bytes, vaddrs: list[int]) -> list[tuple[Frame, ...]]:
    with Binary.from_elf(ElfFile.from_bytes(data)) as binary:
        return [binary.lookup(vaddr) for vaddr in vaddrs]


def functions_of(data: bytes) -> list[int]:
    with ElfFile.from_bytes(data) as elf:
        symbols = elf.symbols()
        kinds = zip(symbols.value, symbols.info, symbols.section, strict=True)
        return sorted(value for value, info, section in kinds if info & 15 == constants.STT_FUNC and section)


READ_WRITE = constants.PF_R | constants.PF_W


@pytest.mark.parametrize("sections", [True, False], ids=["executable sections", "no executable section"])
def test_code_in_a_segment_that_is_not_executable_has_its_dwarf(sections: bool, tmp_path: Path) -> None:
    try:
        plain = build(Recipe(variant="static"), tmp_path).read_bytes()
    except MissingTool as missing:
        pytest.skip(str(missing))
    asked = functions_of(plain)
    text = {} if sections else {"flags": constants.SHF_ALLOC}
    bare = changed(plain, segments={"flags": READ_WRITE}, text=text)
    want = chains(plain, asked)
    assert sum(frames[0].source == "dwarf" for frames in want) > 5
    assert chains(bare, asked) == want
    out = io.BytesIO()
    with ElfFile.from_bytes(bare) as elf:
        lidia.create_from_elf(elf, out)
    with lidia.from_bytes(out.getvalue()) as table:
        assert [table.lookup(vaddr) for vaddr in asked] == want
        assert bool(table.about.segments) == sections
    (tmp_path / "bare").write_bytes(bare)
    with ElfFile.open(tmp_path / "bare") as elf:
        assert any(each.executable for each in placing_segments(elf)) == sections


CUTS = {
    "an empty segment": {"segments": {"file_size": 0}, "text": {"type": constants.SHT_NOBITS}},
    "no segment of code": {"segments": {"type": 0}, "text": {"type": constants.SHT_NOBITS}},
    "no segment table": {"headers": False, "text": {"type": constants.SHT_NOBITS}},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("flags", ["-s -w", "-w"])
@pytest.mark.parametrize("version", ["", pytest.param("1.24.11", marks=pytest.mark.oracle)])
def test_a_go_debug_file_without_its_code_has_the_names_of_the_whole_file(
    cut: str, flags: str, version: str, tmp_path: Path
) -> None:
    full = golang.build("small", tmp_path / "small", ldflags=flags, version=version).read_bytes()
    with ElfFile.from_bytes(full) as elf:
        table = Pclntab.find(elf)
        assert table is not None
        asked = [each.entry for each in table.functions()][::7]
    hollow = changed(full, **CUTS[cut])  # type: ignore[arg-type]
    result = chains(hollow, asked)
    assert result == chains(full, asked)
    assert all(frames and frames[-1].line for frames in result)
    assert differing_files(archive_of(hollow), 5_000) == []


def archive_of(data: bytes) -> bytes:
    out = io.BytesIO()
    with ElfFile.from_bytes(data) as elf:
        lidia.create_from_elf(elf, out)
    return out.getvalue()
