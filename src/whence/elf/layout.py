"""ELF's structures as the gABI lays them out, and the numbers whence knows by name.

A layout is a struct format without byte-order mark; 32-bit and 64-bit files differ in widths and, for program headers
and symbols, in the order of the fields. The tables map the class byte's meaning (32, 64) to the layout.
"""

from __future__ import annotations

MAGIC = b"\x7fELF"
IDENT_SIZE = 16
EI_CLASS, EI_DATA = 4, 5
BITS_OF_CLASS = {1: 32, 2: 64}
ORDER_OF_DATA = {1: "little", 2: "big"}

# after e_ident: type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx
HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
# name type flags addr offset size link info addralign entsize
SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
# 32: type offset vaddr paddr filesz memsz flags align; 64: type flags offset vaddr paddr filesz memsz align
SEGMENT = {32: "IIIIIIII", 64: "IIQQQQQQ"}
# 32: type size addralign; 64: type reserved size addralign
COMPRESSION = {32: "III", 64: "IIQQ"}
# 32: name value size info other shndx; 64: name info other shndx value size
SYMBOL_SIZE = {32: 16, 64: 24}

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4

EM_386, EM_MIPS, EM_PPC, EM_PPC64, EM_S390, EM_ARM = 3, 8, 20, 21, 22, 40
EM_X86_64, EM_AARCH64, EM_RISCV, EM_LOONGARCH = 62, 183, 243, 258

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 0, 1, 2, 3, 4
SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 6, 7, 8, 9, 11
SHT_SYMTAB_SHNDX = 18
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_INFO_LINK, SHF_GROUP, SHF_COMPRESSED = 1, 2, 4, 0x40, 0x200, 0x800
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF

GO_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid", ".go.buildinfo")

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
PF_X, PF_W, PF_R = 1, 2, 4
PN_XNUM = 0xFFFF

ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2

NT_GNU_BUILD_ID = 3
NT_GO_BUILD_ID = 4

STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE, STT_COMMON, STT_TLS, STT_GNU_IFUNC = 0, 1, 2, 3, 4, 5, 6, 10
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2

MACHINES = {
    3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 43: "sparc64", 50: "ia64", 62: "x86-64",
    183: "aarch64", 243: "riscv", 247: "bpf", 258: "loongarch",
}  # fmt: skip


def machine_name(number: int) -> str:
    """What people call e_machine; the number where they have no name for it here."""
    return MACHINES.get(number, f"machine {number}")
