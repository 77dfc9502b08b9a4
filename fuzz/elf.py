"""ELF files: every table, every section's content, functions and names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.forge.elf import Section, Segment, Symbol, build_id_note, debug_link, forge, packed
from tests.hostile.inputs.elf import big_text
from tests.hostile.inputs.names import numbered
from tests.hostile.inputs.names import program as named
from tests.hostile.inputs.tables import many_relocations, many_stubs
from whence._base.errors import WhenceError
from whence._base.window import ByteOrder
from whence.demangle import demangle
from whence.objects.elf import ElfFile, aliases, functions
from whence.objects.elf.kernels import constants


def forged(bits: int, order: ByteOrder, type: int, machine: int) -> bytes:
    info = Section(".debug_info", b"some debug info " * 64)
    line = Section(".debug_line", b"lines " * 64)
    relocations = Section(".rela.debug_info", bytes(range(48)) * 4, 4, link=".symtab", info=".debug_info")
    sections = [
        Section(".text", b"\xf3\x0f\x1e\xfa\xff\x25\1\0\0\0" * 32, flags=6, vaddr=0x1000, align=16),
        Section(".plt", b"\xff\x25\x10\0\0\0\x68\0\0\0\0\xe9\0\0\0\0" * 4, flags=6, vaddr=0x2000, entry_size=16),
        build_id_note("0123456789abcdef", order),
        debug_link("a.debug", 1, order),
        packed(line, "zlib", bits, order),
        packed(Section(".debug_str", b"text\0" * 99), "zstd", bits, order),
        packed(Section(".debug_abbrev", b"\1\2\3" * 99), "zdebug", bits, order),
        *([info, relocations] if type == constants.ET_REL else [packed(info, "zlib", bits, order)]),
    ]
    symbols = [
        Symbol(f"_ZN3foo{name}Ev", 0x1000 + 16 * i, 16 - 4 * (i % 5)) for i, name in enumerate(("1a", "2bb", "S_"))
    ]
    return forge(
        sections,
        [Segment(of=".text"), Segment(constants.PT_NOTE, 4, of=".note.gnu.build-id", align=4)],
        symbols=symbols,
        dynamic_symbols=symbols[:1],
        bits=bits,
        order=order,
        type=type,
        machine=machine,
    )


def seeds() -> list[bytes]:
    return [
        forged(64, "little", constants.ET_DYN, constants.EM_X86_64),
        forged(64, "little", constants.ET_REL, constants.EM_X86_64),
        forged(64, "little", constants.ET_REL, constants.EM_RISCV),
        forged(64, "little", constants.ET_DYN, constants.EM_AARCH64),
        forged(64, "big", constants.ET_EXEC, constants.EM_PPC64),
        forged(32, "big", constants.ET_REL, constants.EM_MIPS),
        forged(32, "little", constants.ET_DYN, constants.EM_ARM),
        big_text(200, 4000),
        many_stubs(200, 20),
        many_relocations(100, 2, 1000),
        named(numbered(8, 10)),
        *real(),
    ]


def real() -> list[bytes]:
    """A small program of this machine, and the same without a section table: functions through PT_DYNAMIC."""
    path = Path("/bin/true")
    if not path.is_file():
        return []
    data = path.read_bytes()
    bare = bytearray(data)
    if data[4] == 2:
        bare[40:48] = bytes(8)
        bare[58:64] = bytes(6)
    return [data, bytes(bare)]


def target(data: bytes) -> None:
    elf = ElfFile.from_bytes(data)
    for section in elf.sections:
        with suppress(WhenceError):
            elf.content(section)
    ranges = functions(elf)
    ends = [vaddr + size for vaddr, size in zip(ranges.vaddr, ranges.length)]
    assert all(end <= vaddr for end, vaddr in zip(ends, ranges.vaddr[1:])), "ranges overlap"
    for name in ranges.function[:100]:
        demangle(ranges.strings.text(name))
    assert isinstance(elf.build_id + elf.go_build_id, str)
    elf.vaddr_of(0x1000)
    for ask in (
        lambda: elf.debug_link,
        lambda: elf.alt_link,
        lambda: aliases(elf, 0x1000),
        lambda: elf.read_vaddr(0x1000, 4),
    ):
        with suppress(WhenceError):
            ask()
