"""PE's structures and numbers (Microsoft's "PE Format"); a layout is a struct format, always little-endian."""

from __future__ import annotations

from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_X86_64

DOS_MAGIC, MAGIC = b"MZ", b"PE\0\0"
HEADER_OFFSET = 0x3C  # of the offset of MAGIC
COFF = "<HHIIIHH"  # machine sections time symbols symbol_count optional_size characteristics
BIG_HEADER = "<HHHH4x16s16xIII"  # 0 0xffff version machine class_id section_count symbols symbol_count
BIG_VERSION = 2
BIG_MARK = b"\0\0\xff\xff"
BIG_CLASS_ID = bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8")
SECTION = "<8sIIIIIIHHI"  # name vsize rva raw_size raw_offset relocations lines counts characteristics
SYMBOL = "<8sIhHBB"  # name value section type class auxiliary
SYMBOL_SIZE, BIG_SYMBOL_SIZE = 18, 20
RELOCATION_SIZE = 10
MANY_RELOCATIONS = 0xFFFF  # with OVERFLOW: the count is in the first relocation
PE32, PE32_PLUS = 0x10B, 0x20B
BASE = {PE32: ("<I", 28), PE32_PLUS: ("<Q", 24)}
DIRECTORIES = {PE32: 96, PE32_PLUS: 112}  # offset in the optional header; their count is before them
ENTRY_RVA, IMAGE_SIZE, HEADERS_SIZE = 16, 56, 60
EXPORTS, EXCEPTIONS, DEBUG = 0, 3, 6
DEBUG_ENTRY = "<IIHHIIII"  # characteristics time major minor type size rva offset
DEBUG_CODEVIEW = 2
RSDS = b"RSDS"

MACHINES = {0x14C: EM_386, 0x8664: EM_X86_64, 0xAA64: EM_AARCH64, 0x1C0: EM_ARM, 0x1C4: EM_ARM, 0xA641: EM_AARCH64}
NAMES = {0x14C: "i386", 0x8664: "x86-64", 0xAA64: "arm64", 0xA641: "arm64ec", 0x1C0: "arm", 0x1C4: "armnt"}

CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
INFO, REMOVE, COMDAT, OVERFLOW, DISCARDABLE = 0x200, 0x800, 0x1000, 0x01000000, 0x02000000
ALIGN_SHIFT, ALIGN_MASK = 20, 0xF
IMAGE_EXECUTABLE, IMAGE_DLL = 0x2, 0x2000

CLASS_EXTERNAL, CLASS_STATIC = 2, 3
FUNCTION_TYPE = 0x20
# by machine, what relocations of debug info do: bytes, with 0x10 for an offset in the symbol's section
IN_SECTION = 0x10
RELOCATIONS = {
    EM_X86_64: {1: 8, 2: 4, 0xB: IN_SECTION | 4},  # ADDR64 ADDR32 SECREL
    EM_386: {6: 4, 0xB: IN_SECTION | 4},  # DIR32 SECREL
    EM_AARCH64: {1: 4, 0xE: 8, 8: IN_SECTION | 4},  # ADDR32 ADDR64 SECREL
    EM_ARM: {1: 4, 0xF: IN_SECTION | 4},  # ADDR32 SECREL
}
CHAINED = 4 << 3  # of the flags in the first byte of unwind information
