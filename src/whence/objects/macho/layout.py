"""Mach-O's structures and numbers (mach-o/loader.h, fat.h, nlist.h); a layout is a struct format without byte order."""

from __future__ import annotations

from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_PPC, EM_PPC64, EM_X86_64

MAGIC_32, MAGIC_64 = 0xFEEDFACE, 0xFEEDFACF
FAT_MAGIC, FAT_MAGIC_64 = 0xCAFEBABE, 0xCAFEBABF  # big-endian
FAT_ENTRY = {FAT_MAGIC: ">IIIII", FAT_MAGIC_64: ">IIQQII"}  # cputype cpusubtype offset size align [reserved]
MAX_SLICES = 43  # from 43 on the magic is that of a Java class, whose version is in the place of the count

HEADER = "IIIIII"  # after the magic: cputype cpusubtype filetype ncmds sizeofcmds flags
HEADER_SIZE = {32: 28, 64: 32}
# segname vmaddr vmsize fileoff filesize maxprot initprot nsects flags
SEGMENT = {32: "16sIIIIIIII", 64: "16sQQQQIIII"}
# sectname segname addr size offset align reloff nreloc flags reserved1 reserved2 [reserved3]
SECTION = {32: "16s16sIIIIIIIII", 64: "16s16sQQIIIIIIII"}
RELOCATION_SIZE = 8
SYMBOL = {32: "IBBHI", 64: "IBBHQ"}  # strx type sect desc value

CPU_64, CPU_64_32 = 0x01000000, 0x02000000
CPU_X86, CPU_ARM, CPU_PPC = 7, 12, 18
SUBTYPE_MASK = 0x00FFFFFF  # the high byte has capabilities
MACHINES = {
    CPU_X86: EM_386,
    CPU_X86 | CPU_64: EM_X86_64,
    CPU_ARM: EM_ARM,
    CPU_ARM | CPU_64: EM_AARCH64,
    CPU_ARM | CPU_64_32: EM_AARCH64,
    CPU_PPC: EM_PPC,
    CPU_PPC | CPU_64: EM_PPC64,
}
# names of architectures as lipo spells them, by type and subtype; the subtype None is any other
ARCHITECTURES: dict[tuple[int, int | None], str] = {
    (CPU_X86, None): "i386",
    (CPU_X86 | CPU_64, 8): "x86_64h",
    (CPU_X86 | CPU_64, None): "x86_64",
    (CPU_ARM, 5): "armv4t",
    (CPU_ARM, 6): "armv6",
    (CPU_ARM, 9): "armv7",
    (CPU_ARM, 11): "armv7s",
    (CPU_ARM, 12): "armv7k",
    (CPU_ARM, 14): "armv6m",
    (CPU_ARM, 15): "armv7m",
    (CPU_ARM, 16): "armv7em",
    (CPU_ARM, None): "arm",
    (CPU_ARM | CPU_64, 2): "arm64e",
    (CPU_ARM | CPU_64, None): "arm64",
    (CPU_ARM | CPU_64_32, None): "arm64_32",
    (CPU_PPC, None): "ppc",
    (CPU_PPC | CPU_64, None): "ppc64",
}


def architecture(cpu: int, subtype: int) -> str:
    """Return the name of an architecture; "cpu N.M" if it is unknown."""
    subtype &= SUBTYPE_MASK
    name = ARCHITECTURES.get((cpu, subtype)) or ARCHITECTURES.get((cpu, None))
    return name or f"cpu {cpu:#x}.{subtype}"


MH_OBJECT, MH_CORE, MH_DSYM = 1, 4, 10
KINDS = {
    MH_OBJECT: "object file",
    2: "executable",
    3: "fixed library",
    MH_CORE: "core file",
    5: "preloaded executable",
    6: "shared library",
    7: "dynamic linker",
    8: "bundle",
    9: "library stub",
    MH_DSYM: "dSYM companion file",
    11: "kernel extension",
    12: "set of files",
}

LC_SEGMENT, LC_SYMTAB, LC_SEGMENT_64, LC_UUID = 0x1, 0x2, 0x19, 0x1B
LC_ENCRYPTION_INFO, LC_ENCRYPTION_INFO_64 = 0x21, 0x2C
LC_FUNCTION_STARTS, LC_MAIN, LC_BUILD_VERSION = 0x26, 0x80000028, 0x32
MIN_VERSIONS = {0x24: "macOS", 0x25: "iOS", 0x2F: "tvOS", 0x30: "watchOS"}  # LC_VERSION_MIN_*
PLATFORMS = {
    1: "macOS", 2: "iOS", 3: "tvOS", 4: "watchOS", 5: "bridgeOS", 6: "Mac Catalyst", 7: "iOS simulator",
    8: "tvOS simulator", 9: "watchOS simulator", 10: "DriverKit", 11: "visionOS", 12: "visionOS simulator",
}  # fmt: skip

VM_PROT_WRITE, VM_PROT_EXECUTE = 2, 4
SECTION_TYPE = 0xFF
ZERO_FILL = (0x1, 0xC, 0x12)  # S_ZEROFILL, S_GB_ZEROFILL, S_THREAD_LOCAL_ZEROFILL
CODE_ATTRIBUTES = 0x80000400  # S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS

MAX_SECTIONS = 256  # symbols number sections with 8 bits
N_WEAK_DEF = 0x80

# Names of DWARF sections by which readers ask. A Mach-O section's name has 16 characters, so longer ones are cut.
DWARF_NAMES = (
    "abbrev", "addr", "aranges", "cu_index", "frame", "gnu_pubnames", "gnu_pubtypes", "info", "line", "line_str", "loc",
    "loclists", "macinfo", "macro", "names", "pubnames", "pubtypes", "ranges", "rnglists", "str", "str_offsets",
    "tu_index", "types",
)  # fmt: skip
NAME_SIZE = 16
STANDARD_NAMES = {f"__{z}debug_{name}"[:NAME_SIZE]: f".{z}debug_{name}" for name in DWARF_NAMES for z in ("", "z")}
OTHER_NAMES = {  # outside of the segment __DWARF, by section
    "__text": ".text",
    "__eh_frame": ".eh_frame",
    "__gopclntab": ".gopclntab",
    "__go_buildinfo": ".go.buildinfo",
    "__go_module": ".go.module",
}
