"""ELF files whose tables claim much: notes, program headers, relocations, PLT stubs."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.forge.core import NT_FILE, Mapped, core
from tests.forge.elf import Section, Segment, Symbol, forge, note
from whence.dumps.core import read_core
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20


def notes_in_notes(count: int = 1500, size: int = MEGABYTE) -> bytes:
    """A 32-bit core: each note's description holds the next note and all that follows, and is an NT_FILE of five
    entries by the next one's header."""
    step = 12 + len(b"CORE\0\0\0\0")
    block = b"".join(
        struct.pack("<III", 5, size - (index + 1) * step, NT_FILE) + b"CORE\0\0\0\0" for index in range(count)
    ).ljust(size, b"\0")
    plain = [Section(".notes", block, align=4)]
    where = forge(plain, bits=32, machine=3, type=constants.ET_CORE, section_table=False).index(block[:64])
    # the segments move the block, which follows them
    head = 52 + 32 * count
    segments = [
        Segment(constants.PT_NOTE, 0, file_offset=head + index * step, vaddr=0, file_size=size - index * step, align=4)
        for index in range(count)
    ]
    data = forge(plain, segments, bits=32, machine=3, type=constants.ET_CORE, section_table=False)
    moved = data.index(block[:64])
    assert where <= moved
    segments = [
        Segment(constants.PT_NOTE, 0, file_offset=moved + index * step, vaddr=0, file_size=size - index * step, align=4)
        for index in range(count)
    ]
    return forge(plain, segments, bits=32, machine=3, type=constants.ET_CORE, section_table=False)


def count_beyond() -> bytes:
    """NT_FILE notes that say they have more entries than there are bytes."""
    notes = b"".join(note("CORE", NT_FILE, struct.pack("<QQ", count, 4096)) for count in (1 << 20, 1 << 60))
    segments = [Segment(constants.PT_NOTE, 0, of=".notes", align=4)]
    return forge([Section(".notes", notes, align=4)], segments, type=constants.ET_CORE, section_table=False)


def one_head_for_all(mappings: int = 5000) -> bytes:
    """Every mapping is of a file of its own, and all of them have the same 64 KB of memory, full of notes."""
    page = forge(
        [Section(".notes", note("Linux", 9, b"") * 3000, align=4)],
        [Segment(constants.PT_NOTE, 4, of=".notes", align=4)],
        section_table=False,
    )
    page = page.ljust(64 * KILOBYTE, b"\0")
    mapped = [Mapped(0x10000 * row, 0x10000 * row + 0x1000, f"/lib/{row}.so") for row in range(1, mappings)]
    data = bytearray(core([Mapped(0x9_0000_0000, 0x9_0001_0000, "/lib/0.so", memory=page), *mapped]))
    offset = data.index(page)
    head = struct.Struct("<IIQQQQQQ")
    count = struct.unpack_from("<H", data, 56)[0]
    start = struct.unpack_from("<Q", data, 32)[0]
    for row in range(count):
        fields = list(head.unpack_from(data, start + row * head.size))
        if fields[0] == constants.PT_LOAD:
            fields[2], fields[5] = offset, len(page)
            head.pack_into(data, start + row * head.size, *fields)
    return bytes(data)


def many_stubs(stubs: int = 60_000, symbols: int = 1) -> bytes:
    """Stubs of a PLT that jump to symbols of 4,000 letters: all to one, or to as many that share their letters."""
    plt_at, got_at = 0x10000, 0x800000
    code = b"".join(
        b"\xff\x25" + struct.pack("<i", got_at + 8 * (row % symbols) - (plt_at + 16 * row + 6)) + bytes(10)
        for row in range(stubs)
    )
    names = b"\0" + b"n" * (4000 + symbols) + b"\0"
    entries = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1 + row, 0x12, 0, 0, 0, 0) for row in range(symbols))
    relocations = b"".join(
        struct.pack("<QQq", got_at + 8 * row, (1 + row) << 32 | constants.R_X86_64_JUMP_SLOT, 0)
        for row in range(symbols)
    )
    return forge(
        [
            Section(".plt", code, flags=6, vaddr=plt_at, entry_size=16),
            Section(".dynsym", entries, constants.SHT_DYNSYM, 2, link=".dynstr", info=1, entry_size=24),
            Section(".dynstr", names, constants.SHT_STRTAB, 2),
            Section(".rela.plt", relocations, constants.SHT_RELA, 2, link=".dynsym", entry_size=24),
        ],
        [Segment(of=".plt")],
        type=constants.ET_DYN,
    )


def many_relocations(rows: int = 100_000, tables: int = 1, size: int = MEGABYTE) -> bytes:
    """An object file whose relocations all are of one place, for each debug section the same bytes."""
    entry = struct.pack("<QQq", 4, 1 << 32 | constants.R_RISCV_SET_ULEB128, 1)
    debug = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges", ".debug_loc"]
    long = b"\x80" * size
    return forge(
        [
            Section(".text", bytes(64), flags=6),
            *(Section(name, long, link=0) for name in debug),
            *(
                Section(f".rela{name}{n}", entry * (rows // tables), constants.SHT_RELA, link=".symtab", info=name)
                for name in debug
                for n in range(tables)
            ),
        ],
        symbols=[Symbol("main", 0, 16)],
        type=constants.ET_REL,
        machine=constants.EM_RISCV,
    )


def core_of_many_files(files: int = 60_000) -> bytes:
    return core(
        [Mapped(0x10000 * row, 0x10000 * row + 0x1000, f"/lib/{row}.so", load=False) for row in range(1, files)]
    )


def version_tables() -> bytes:
    """Names of symbols have their versions in .symtab; large .gnu.version sections are not needed."""
    sections = [
        Section(".text", bytes(64), flags=6, vaddr=0x1000),
        Section(".gnu.version", b"\xff\x7f" * MEGABYTE, 0x6FFFFFFF, 2, link=".symtab", entry_size=2),
        Section(".gnu.version_r", b"\1\0\xff\xff" * MEGABYTE, 0x6FFFFFFE, 2, link=".strtab", info=1 << 31),
        Section(".gnu.version_d", b"\1\0\xff\xff" * MEGABYTE, 0x6FFFFFFD, 2, link=".strtab", info=1 << 31),
    ]
    return forge(sections, [Segment(of=".text")], symbols=[Symbol("main", 0x1000, 16)], type=constants.ET_DYN)


def mappings_of(path: Path) -> str:
    """Return the number of mappings of a core file, and what was wrong with its notes."""
    with ElfFile.open(path) as elf:
        return f"{len(read_core(elf).snapshot.mappings)} mappings; {'; '.join(map(str, elf.problems))}"
