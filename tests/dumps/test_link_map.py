"""Libraries of a core without NT_FILE, by the loader's list in its memory."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.forge.core import NT_AUXV, Mapped, core, status
from tests.forge.elf import Section, Segment, build_id_note, forge, note
from whence.dumps.core import AT_ENTRY, AT_PHNUM, read_core
from whence.dumps.link_map import LIBRARIES_LIMIT, CoreSegments, loaded_files
from whence.dumps.process import CoreMappings, LocalPaths
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

PROGRAM, LIBRARY, HEAP = 0x550000000000, 0x7F0000000000, 0x600000000000
CODE, DATA = 0x1000, 0x3000
DEBUG_AT, LINKS, NAMES = HEAP, HEAP + 0x100, HEAP + 0x800


def elf_file(build_id: str) -> bytes:
    """Code at vaddr 0x1000, a dynamic table at 0x3000."""
    sections = [
        build_id_note(build_id),
        Section(".text", bytes(0x1000), flags=6, vaddr=CODE),
        Section(".dynamic", bytes(0x40), flags=3, vaddr=DATA),
    ]
    segments = [
        Segment(constants.PT_LOAD, 5, of=".text"),
        Segment(constants.PT_LOAD, 6, of=".dynamic"),
        Segment(constants.PT_DYNAMIC, 6, of=".dynamic"),
        Segment(constants.PT_NOTE, 4, of=".note.gnu.build-id", align=4),
    ]
    return forge(sections, segments, type=constants.ET_DYN, entry=CODE, section_table=False)


def core_of(links: bytes, names: bytes) -> bytes:
    """Return a core of the program and a library, whose link map is `links`."""
    heap = struct.pack("<5Q", 1, LINKS, 0, 0, 0).ljust(0x100, b"\0") + links.ljust(0x700, b"\0") + names
    auxiliary = note("CORE", NT_AUXV, struct.pack("<6Q", AT_PHNUM, 4, AT_ENTRY, PROGRAM + CODE, 0, 0))
    dynamic = struct.pack("<6Q", 1, 1, 21, DEBUG_AT, 0, 0)
    mapped = [
        Mapped(PROGRAM + CODE, PROGRAM + CODE + 0x1000),
        Mapped(PROGRAM + DATA, PROGRAM + DATA + 0x1000, flags=6, memory=dynamic),
        Mapped(HEAP, HEAP + 0x4000, flags=6, memory=heap),
        Mapped(LIBRARY + CODE, LIBRARY + CODE + 0x1000),
        Mapped(LIBRARY + DATA, LIBRARY + DATA + 0x1000, flags=6, memory=bytes(0x40)),
    ]
    return core(mapped, [status(1, LIBRARY + CODE) + auxiliary])


def link(base: int, name: int, next_one: int) -> bytes:
    return struct.pack("<5Q", base, name, base + DATA, next_one, 0)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    program, library = tmp_path / "program", tmp_path / "root" / "lib" / "x.so"
    library.parent.mkdir(parents=True)
    program.write_bytes(elf_file("aa" * 16))
    library.write_bytes(elf_file("bb" * 16))
    return program, library


def read(data: bytes, programs: list[Path], sysroot: Path | str = "") -> CoreMappings:
    return read_core(ElfFile.from_bytes(data), [str(each) for each in programs], LocalPaths(str(sysroot)))


WHOLE = link(PROGRAM, NAMES, LINKS + 40) + link(LIBRARY, NAMES + 1, 0), b"\0/lib/x.so\0"


def test_libraries_are_found_below_the_sysroot_or_among_the_files_given(files: tuple[Path, Path]) -> None:
    program, library = files
    expected = [(PROGRAM + CODE, str(program), "aa" * 16), (LIBRARY + CODE, "/lib/x.so", "bb" * 16)]
    for programs, sysroot in (([program], library.parent.parent), ([program, library], "")):
        result = read(core_of(*WHOLE), programs, sysroot).snapshot
        assert [(each.start, each.path, each.build_id) for each in result.mappings] == expected
    result = read(core_of(*WHOLE), [program]).snapshot
    assert [each.path for each in result.mappings] == [str(program), ""]


def test_a_file_whose_dynamic_table_is_elsewhere_is_not_the_library(files: tuple[Path, Path]) -> None:
    program, library = files
    moved = struct.pack("<5Q", LIBRARY, NAMES + 1, LIBRARY + DATA + 8, 0, 0)
    result = read(core_of(moved, WHOLE[1]), [program, library]).snapshot
    assert [each.path for each in result.mappings] == [str(program), ""]


@pytest.mark.parametrize(
    ("links", "names", "paths"),
    [
        (link(1, NAMES, LINKS + 40) + link(2, NAMES, LINKS), b"/a\0", ["/a", "/a"]),  # a cycle
        (link(1, NAMES, LINKS), b"/a\0", ["/a"]),
        (link(1, NAMES, 0x1234), b"/a\0", ["/a"]),  # a wild pointer
        (link(1, 0x1234, LINKS + 40) + link(2, NAMES, 0), b"/a\0", ["/a"]),
        (link(1, NAMES, 0), b"/" * 5000, []),  # a name without an end
        (b"", b"", []),
    ],
)
def test_the_walk_of_the_list_terminates(
    files: tuple[Path, Path], links: bytes, names: bytes, paths: list[str]
) -> None:
    elf = ElfFile.from_bytes(core_of(links, names))
    with ElfFile.open(files[0]) as program:
        assert [each.path for each in loaded_files(CoreSegments(elf), program, PROGRAM)] == paths


def test_the_walk_reads_no_more_than_its_bounds(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    count = 40
    links = b"".join(link(index + 1, NAMES, LINKS + 40 * (index + 1)) for index in range(count))
    with ElfFile.open(files[0]) as program:
        elf = ElfFile.from_bytes(core_of(links, b"/a\0"))
        assert len(list(loaded_files(CoreSegments(elf), program, PROGRAM))) == count < LIBRARIES_LIMIT
        monkeypatch.setattr("whence.dumps.link_map.LIBRARIES_LIMIT", 7)
        assert len(list(loaded_files(CoreSegments(elf), program, PROGRAM))) == 7
        monkeypatch.setattr("whence.dumps.link_map.READ_TIMES", 0)
        monkeypatch.setattr("whence.dumps.link_map.READ_ALLOWANCE", 3 * 4096)
        assert len(list(loaded_files(CoreSegments(elf), program, PROGRAM))) == 2
