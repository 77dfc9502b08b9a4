"""Debug sections of object files (.o, .ko): their references resolved, as a linker would.

In an ET_REL file the compiler leaves numbers in .debug_* for the linker to fill in: offsets into .debug_str and
.debug_abbrev, addresses of code. The relocation section says where and from which symbol (value S, addend A, place P).
Symbols that are not defined count as 0; sections lie where sections.laid_out puts them.

Other files have had this done: a vmlinux that kept its .rela.debug_* sections is read as it is.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.elf import layout
from whence.elf.kernels.constants import (
    ADD,
    KINDS_ROOM,
    NO_SYMBOL,
    OUTSIDE,
    RELATIVE,
    STORE,
    STORE_ULEB,
    SUB,
    SUB_ULEB,
    UNKNOWN_KIND,
)
from whence.errors import ElfError, Unsupported

if TYPE_CHECKING:
    from whence.elf.file import ElfFile
    from whence.elf.sections import Section

# machine -> relocation type (the psABI's number) -> what to do
KINDS: dict[int, dict[int, int]] = {
    layout.EM_X86_64: {
        1: STORE | 8,  # R_X86_64_64
        2: RELATIVE | 4,  # PC32
        10: STORE | 4,  # 32
        11: STORE | 4,  # 32S
        17: STORE | 8,  # DTPOFF64: where a thread-local variable lies
        21: STORE | 4,  # DTPOFF32
        24: RELATIVE | 8,  # PC64
    },
    layout.EM_386: {1: STORE | 4, 2: RELATIVE | 4, 32: STORE | 4},  # R_386_32, PC32, TLS_LDO_32
    layout.EM_AARCH64: {
        257: STORE | 8,  # R_AARCH64_ABS64
        258: STORE | 4,  # ABS32
        259: STORE | 2,  # ABS16
        260: RELATIVE | 8,  # PREL64
        261: RELATIVE | 4,  # PREL32
    },
    layout.EM_ARM: {2: STORE | 4, 3: RELATIVE | 4, 106: STORE | 4},  # R_ARM_ABS32, REL32, TLS_LDO32
    # R_390_32, 64, PC32, PC64, TLS_LDO32, TLS_LDO64
    layout.EM_S390: {4: STORE | 4, 22: STORE | 8, 5: RELATIVE | 4, 23: RELATIVE | 8, 52: STORE | 4, 53: STORE | 8},
    layout.EM_PPC: {1: STORE | 4, 26: RELATIVE | 4, 78: STORE | 4},  # R_PPC_ADDR32, REL32, DTPREL32
    # R_PPC64_ADDR32, ADDR64, REL32, REL64, DTPREL64
    layout.EM_PPC64: {1: STORE | 4, 38: STORE | 8, 26: RELATIVE | 4, 44: RELATIVE | 8, 78: STORE | 8},
    layout.EM_MIPS: {2: STORE | 4, 18: STORE | 8, 39: STORE | 4, 41: STORE | 8},  # R_MIPS_32, 64, TLS_DTPREL32, 64
    # relaxation moves code after the compiler has counted, so differences of labels are pairs of relocations
    layout.EM_RISCV: {
        1: STORE | 4,  # R_RISCV_32
        2: STORE | 8,  # 64
        8: STORE | 4,  # TLS_DTPREL32
        9: STORE | 8,  # TLS_DTPREL64
        **{33 + i: ADD | 1 << i for i in range(4)},  # ADD8, ADD16, ADD32, ADD64
        **{37 + i: SUB | 1 << i for i in range(4)},  # SUB8 ...
        **{54 + i: STORE | 1 << i for i in range(3)},  # SET8, SET16, SET32
        57: RELATIVE | 4,  # 32_PCREL
        60: STORE_ULEB,  # SET_ULEB128
        61: SUB_ULEB,  # SUB_ULEB128
    },
    layout.EM_LOONGARCH: {
        1: STORE | 4,  # R_LARCH_32
        2: STORE | 8,  # 64
        47: ADD | 1,
        48: ADD | 2,
        50: ADD | 4,
        51: ADD | 8,
        52: SUB | 1,
        53: SUB | 2,
        55: SUB | 4,
        56: SUB | 8,
        99: RELATIVE | 4,  # 32_PCREL
    },
}
FAULTS = {
    UNKNOWN_KIND: "its type is one that debug sections have",
    OUTSIDE: "its place lies inside the section",
    NO_SYMBOL: "its symbol is in the symbol table",
}


class Relocations:
    """The relocation sections of an object file, by the section each is for."""

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf
        self.kinds = bytearray(KINDS_ROOM)
        for type_, kind in KINDS.get(elf.machine, {}).items():
            self.kinds[type_] = kind
        self.vaddrs = array("Q", [section.vaddr for section in elf.sections])
        self.tables: dict[int, list[Section]] = {}
        for section in elf.sections:
            if section.type in (layout.SHT_RELA, layout.SHT_REL) and section.size:
                self.tables.setdefault(section.info, []).append(section)

    def applied(self, section: Section, content: memoryview, problems: list[ElfError]) -> memoryview:
        """A section's content with its relocations applied; the same view when it has none.

        Relocations that break a rule are left out, and the first of each table is a problem.
        """
        from whence.elf.kernels import relocate as relocate_kernel

        elf = self.elf
        tables = self.tables.get(section.index)
        if not tables or not len(content):
            return content
        if elf.machine not in KINDS:
            raise Unsupported(
                f"{section.part} of an object file: machine {elf.machine} has relocations unknown to whence"
            )
        if sum(table.size for table in tables) > elf.size:
            raise ElfError(section.part, None, "its relocations fit the file", f"{len(tables)} tables")
        out = bytearray(content)
        for table in tables:
            if not 0 < table.link < len(elf.sections):
                raise ElfError(table.part, None, "its link is a symbol table", table.link)
            _, fault, index = relocate_kernel.apply(
                out,
                elf.content(table),
                table.type == layout.SHT_RELA,
                elf.content(elf.sections[table.link]),
                self.vaddrs,
                self.kinds,
                elf.bits == 64,
                elf.order == "big",
                elf.machine == layout.EM_MIPS and elf.bits == 64,
            )
            if fault:
                problems.append(ElfError(f"{table.part} relocation {index}", None, FAULTS[fault]))
        return memoryview(out).toreadonly()
