"""Relocations of debug sections of object files (.o, .ko), applied as by a linker.

In an ET_REL file the compiler leaves numbers in .debug_* for the linker to fill in: offsets into .debug_str and
.debug_abbrev, addresses of code. The relocation section has their offsets and symbols (value S, addend A, place P).
Undefined symbols count as 0; the addresses of sections are those of sections.laid_out.

Other files are already relocated: a vmlinux that kept its .rela.debug_* sections is read unchanged.
"""

from __future__ import annotations

from array import array

from whence._base.errors import ElfError, ObjectError, Unsupported
from whence.objects.elf.kernels import constants
from whence.objects.elf.kernels import relocate as relocate_kernel
from whence.objects.elf.kernels.constants import (
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
from whence.objects.elf.layout import ELF64
from whence.objects.parts import ObjectSection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence.objects.elf.header import Header
    from whence.objects.elf.sections import Section

# machine -> relocation type -> what to do
KINDS: dict[int, dict[int, int]] = {
    constants.EM_X86_64: {
        constants.R_X86_64_64: STORE | 8,
        constants.R_X86_64_PC32: RELATIVE | 4,
        constants.R_X86_64_32: STORE | 4,
        constants.R_X86_64_32S: STORE | 4,
        constants.R_X86_64_DTPOFF64: STORE | 8,  # offset of a thread-local variable
        constants.R_X86_64_DTPOFF32: STORE | 4,
        constants.R_X86_64_PC64: RELATIVE | 8,
    },
    constants.EM_386: {
        constants.R_386_32: STORE | 4,
        constants.R_386_PC32: RELATIVE | 4,
        constants.R_386_TLS_LDO_32: STORE | 4,
    },
    constants.EM_AARCH64: {
        constants.R_AARCH64_ABS64: STORE | 8,
        constants.R_AARCH64_ABS32: STORE | 4,
        constants.R_AARCH64_ABS16: STORE | 2,
        constants.R_AARCH64_PREL64: RELATIVE | 8,
        constants.R_AARCH64_PREL32: RELATIVE | 4,
    },
    constants.EM_ARM: {
        constants.R_ARM_ABS32: STORE | 4,
        constants.R_ARM_REL32: RELATIVE | 4,
        constants.R_ARM_TLS_LDO32: STORE | 4,
    },
    constants.EM_S390: {
        constants.R_390_32: STORE | 4,
        constants.R_390_64: STORE | 8,
        constants.R_390_PC32: RELATIVE | 4,
        constants.R_390_PC64: RELATIVE | 8,
        constants.R_390_TLS_LDO32: STORE | 4,
        constants.R_390_TLS_LDO64: STORE | 8,
    },
    constants.EM_PPC: {
        constants.R_PPC_ADDR32: STORE | 4,
        constants.R_PPC_REL32: RELATIVE | 4,
        constants.R_PPC_DTPREL32: STORE | 4,
    },
    constants.EM_PPC64: {
        constants.R_PPC64_ADDR32: STORE | 4,
        constants.R_PPC64_ADDR64: STORE | 8,
        constants.R_PPC64_REL32: RELATIVE | 4,
        constants.R_PPC64_REL64: RELATIVE | 8,
        constants.R_PPC64_DTPREL64: STORE | 8,
    },
    constants.EM_MIPS: {
        constants.R_MIPS_32: STORE | 4,
        constants.R_MIPS_64: STORE | 8,
        constants.R_MIPS_TLS_DTPREL32: STORE | 4,
        constants.R_MIPS_TLS_DTPREL64: STORE | 8,
    },
    # relaxation moves code after the compiler has counted, so differences of labels are pairs of relocations
    constants.EM_RISCV: {
        constants.R_RISCV_32: STORE | 4,
        constants.R_RISCV_64: STORE | 8,
        constants.R_RISCV_TLS_DTPREL32: STORE | 4,
        constants.R_RISCV_TLS_DTPREL64: STORE | 8,
        constants.R_RISCV_ADD8: ADD | 1,
        constants.R_RISCV_ADD16: ADD | 2,
        constants.R_RISCV_ADD32: ADD | 4,
        constants.R_RISCV_ADD64: ADD | 8,
        constants.R_RISCV_SUB8: SUB | 1,
        constants.R_RISCV_SUB16: SUB | 2,
        constants.R_RISCV_SUB32: SUB | 4,
        constants.R_RISCV_SUB64: SUB | 8,
        constants.R_RISCV_SET8: STORE | 1,
        constants.R_RISCV_SET16: STORE | 2,
        constants.R_RISCV_SET32: STORE | 4,
        constants.R_RISCV_32_PCREL: RELATIVE | 4,
        constants.R_RISCV_SET_ULEB128: STORE_ULEB,
        constants.R_RISCV_SUB_ULEB128: SUB_ULEB,
    },
    constants.EM_LOONGARCH: {
        constants.R_LARCH_32: STORE | 4,
        constants.R_LARCH_64: STORE | 8,
        constants.R_LARCH_ADD8: ADD | 1,
        constants.R_LARCH_ADD16: ADD | 2,
        constants.R_LARCH_ADD32: ADD | 4,
        constants.R_LARCH_ADD64: ADD | 8,
        constants.R_LARCH_SUB8: SUB | 1,
        constants.R_LARCH_SUB16: SUB | 2,
        constants.R_LARCH_SUB32: SUB | 4,
        constants.R_LARCH_SUB64: SUB | 8,
        constants.R_LARCH_32_PCREL: RELATIVE | 4,
    },
}
FAULTS = {
    UNKNOWN_KIND: "unknown type for a debug section",
    OUTSIDE: "its offset is outside the section",
    NO_SYMBOL: "its symbol is outside the symbol table",
}


class Relocations:
    """The relocation sections of an object file, by the section that each is for.

    The kernel reads `kinds`, the operation for each relocation type (0: nothing); `section_vaddr`; and if the file is
    `elf64`, `big`-endian, or has r_info as `mips64` does, whose type is its last byte in either order.
    """

    def __init__(
        self, header: Header, sections: Sequence[Section], content: Callable[[Section], memoryview], file_size: int
    ) -> None:
        self._header, self._sections, self._content, self._file_size = header, sections, content, file_size
        self.elf64, self.big = header.bits == ELF64, header.order == "big"
        self.mips64 = self.elf64 and header.machine == constants.EM_MIPS
        self.kinds = bytearray(KINDS_ROOM)
        for type_, kind in KINDS.get(header.machine, {}).items():
            self.kinds[type_] = kind
        self.section_vaddr = array("Q", [section.vaddr for section in sections])
        self.tables: dict[int, list[Section]] = {}
        for section in sections:
            if section.type in (constants.SHT_RELA, constants.SHT_REL) and section.size:
                self.tables.setdefault(section.info, []).append(section)

    def applied(self, section: ObjectSection, content: memoryview, problems: list[ObjectError]) -> memoryview:
        """Return a section's content with its relocations applied; the same view if it has none.

        Invalid relocations are left out, and the first of each table is a problem.
        """
        header, sections = self._header, self._sections
        tables = self.tables.get(section.index)
        if not tables or not len(content):
            return content
        if header.machine not in KINDS:
            raise Unsupported(
                f"{section.part} of an object file: machine {header.machine} has relocations unknown to whence"
            )
        if sum(table.size for table in tables) > self._file_size:
            raise ElfError(section.part, None, f"its {len(tables)} tables of relocations have more bytes than the file")
        out = bytearray(content)
        for table in tables:
            if not 0 < table.link < len(sections):
                raise ElfError(table.part, None, f"its link {table.link} is not a symbol table")
            _, fault, index = relocate_kernel.apply(
                out,
                self._content(table),
                table.type == constants.SHT_RELA,
                self._content(sections[table.link]),
                self,
            )
            if fault:
                problems.append(ElfError(f"{table.part} relocation {index}", None, FAULTS[fault]))
        return memoryview(out).toreadonly()
