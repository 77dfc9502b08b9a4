"""The structures and numbers of PDB files; a layout is a struct format, always little-endian."""

from __future__ import annotations

MSF_MAGIC = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0"
OLD_MAGIC = b"Microsoft C/C++ program database 2.00\r\n\x1aJG"
PORTABLE_MAGIC = b"BSJB"  # metadata of .NET
PACKED_MAGIC = b"MSFZ"  # "PDZ": a compressed MSF of newer tools
CABINET_MAGIC = b"MSCF"

SUPERBLOCK = "<32sIIIIII"  # magic block_size free_map block_count directory_size unknown block_map
BLOCK_SIZES = tuple(1 << bits for bits in range(9, 16))
ABSENT = 0xFFFFFFFF  # size of a stream that does not exist
NO_STREAM = 0xFFFF

OLD_DIRECTORY, PDB_STREAM, TPI_STREAM, DBI_STREAM, IPI_STREAM = range(5)

INFO = "<III16s"  # version signature age guid
INFO_VERSIONS = range(19990604, 20140508 + 1)  # VC70 to VC140
FEATURE_MINIMAL_DEBUG_INFO = 0x494E494D  # "MINI": /DEBUG:FASTLINK

NAMES_MAGIC = 0xEFFEEFFE
NAMES_HEADER = 12  # magic, version, size

# signature version age globals build publics dll_version symbols dll_rebuild; sizes of modules, contributions,
# section map, files, type server; type server index; sizes of the optional header and edit-and-continue names; flags
# machine padding
DBI = "<iIIHHHHHHiiiiiIiiHHI"
DBI_SIZE = 64
DBI_VERSIONS = range(19970606, 20091201 + 1)
DBI_INCREMENTAL, DBI_STRIPPED = 1, 2  # of the flags

MODULE = "<I28sHHIIIHHII I"  # unused contribution flags stream symbols c11 c13 files padding unused names
MODULE_SIZE = 64
CONTRIBUTION_V1, CONTRIBUTION_V2 = 0xEFFE0000 + 19970605, 0xEFFE0000 + 20140516
CONTRIBUTION = {CONTRIBUTION_V1: 28, CONTRIBUTION_V2: 32}

FPO, EXCEPTION, FIXUP, OMAP_TO_SOURCE, OMAP_FROM_SOURCE, SECTIONS = range(6)  # of the optional header
NEW_FPO, ORIGINAL_SECTIONS = 9, 10

FRAME_DATA = "<IIIIIIHHI"  # start size locals parameters largest_stack program prologue saved_registers flags
FPO_DATA = "<IIIHH"  # start size, locals and parameters in words; bits: prologue 8, registers 3, SEH, ebp, -, type 2

TPI = "<IIIIIHHIIIIIIIII"  # version header_size first end size hash_stream and the hash's description
TPI_SIZE = 56
TPI_VERSIONS = (19961031, 19990903, 20040203)

UNINITIALIZED, CODE, EXECUTE, WRITE = 0x80, 0x20, 0x20000000, 0x80000000  # flags of a section
