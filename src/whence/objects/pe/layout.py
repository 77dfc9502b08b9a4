"""PE's structures and numbers (Microsoft's "PE Format"); a layout is a struct format, always little-endian."""

from __future__ import annotations

from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_X86_64

DOS_MAGIC, MAGIC = b"MZ", b"PE\0\0"
HEADER_OFFSET = 0x3C  # of the offset of MAGIC
COFF = "<HHIIIHH"  # machine sections time symbols symbol_count optional_size characteristics
SECTION = "<8sIIIIIIHHI"  # name vsize rva raw_size raw_offset relocations lines counts characteristics
SYMBOL = "<8sIhHBB"  # name value section type class auxiliary
SYMBOL_SIZE = 18
PE32, PE32_PLUS = 0x10B, 0x20B
BASE = {PE32: ("<I", 28), PE32_PLUS: ("<Q", 24)}
DIRECTORIES = {PE32: 96, PE32_PLUS: 112}  # offset in the optional header; their count is before them
ENTRY_RVA, IMAGE_SIZE = 16, 56
EXPORTS, EXCEPTIONS, DEBUG = 0, 3, 6
DEBUG_ENTRY = "<IIHHIIII"  # characteristics time major minor type size rva offset
DEBUG_CODEVIEW = 2
RSDS = b"RSDS"

MACHINES = {0x14C: EM_386, 0x8664: EM_X86_64, 0xAA64: EM_AARCH64, 0x1C0: EM_ARM, 0x1C4: EM_ARM, 0xA641: EM_AARCH64}
NAMES = {0x14C: "i386", 0x8664: "x86-64", 0xAA64: "arm64", 0xA641: "arm64ec", 0x1C0: "arm", 0x1C4: "armnt"}

CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
IMAGE_DLL = 0x2000

CLASS_EXTERNAL, CLASS_STATIC = 2, 3
FUNCTION_TYPE = 0x20
CHAINED = 4 << 3  # of the flags in the first byte of unwind information
