"""Minidumps' structures and numbers: Microsoft's minidumpapiset.h, Breakpad's minidump_format.h, Crashpad's extensions.

A layout is a struct format without byte order: a minidump has that of the machine that wrote it.
"""

from __future__ import annotations

from typing import NamedTuple

from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_MIPS, EM_PPC, EM_PPC64, EM_RISCV, EM_X86_64

SIGNATURE = 0x504D444D  # "MDMP" in a little-endian file
VERSION = 0xA793  # the low half of the header's second word
HEADER = "IIIIIIQ"  # signature version streams directory checksum time flags
DIRECTORY = "III"  # type size offset
LOCATION = "II"  # size offset

# streams
(
    THREADS, MODULES, THREADS_EX, MEMORY, EXCEPTION, SYSTEM, MEMORY_64, COMMENT_ASCII, COMMENT, UNLOADED, MISC,
    MEMORY_INFO, THREAD_INFO, THREAD_NAMES,
) = 3, 4, 8, 5, 6, 7, 9, 10, 11, 14, 15, 16, 17, 24  # fmt: skip
BREAKPAD, ASSERTION = 0x47670001, 0x47670002
CPU_INFO, STATUS, RELEASE, COMMAND_LINE, ENVIRONMENT, AUXILIARY, MAPS, DSO_DEBUG = range(0x47670003, 0x4767000B)
CRASHPAD = 0x43500001

STREAM_NAMES = {
    0: "unused", THREADS: "threads", MODULES: "modules", MEMORY: "memory", EXCEPTION: "exception", SYSTEM: "system",
    THREADS_EX: "threads (extended)", MEMORY_64: "memory (64-bit)", COMMENT_ASCII: "comment (ASCII)",
    COMMENT: "comment", 12: "handles", 13: "function table", UNLOADED: "unloaded modules", MISC: "misc info",
    MEMORY_INFO: "memory info", THREAD_INFO: "thread info", 18: "handle operations", 19: "token",
    20: "JavaScript data", 21: "system memory info", 22: "process VM counters", 23: "Intel PT trace",
    THREAD_NAMES: "thread names", BREAKPAD: "Breakpad info", ASSERTION: "assertion", CPU_INFO: "Linux cpuinfo",
    STATUS: "Linux status", RELEASE: "Linux release", COMMAND_LINE: "Linux command line",
    ENVIRONMENT: "Linux environment", AUXILIARY: "Linux auxv", MAPS: "Linux maps", DSO_DEBUG: "Linux link map",
    CRASHPAD: "Crashpad info",
}  # fmt: skip

THREAD = "IIIIQQIIII"  # id suspended class priority teb stack:start,size,offset context:size,offset
THREAD_EX_SIZE = 64  # a THREAD and the backing store of IA-64
MODULE = "QIIII52xIIIIQQ"  # base size checksum time name codeview:size,offset misc:size,offset reserved
MODULE_VERSION_OFFSET = 24  # of VS_FIXEDFILEINFO in MODULE
FIXED_FILE_INFO = "IIIIII"  # signature structure file:high,low product:high,low
FIXED_FILE_SIGNATURE = 0xFEEF04BD
MEMORY_RANGE = "QII"  # start size offset
MEMORY_64_HEAD, MEMORY_64_RANGE = "QQ", "QQ"  # count offset; start size
UNLOADED_MODULE = "QIIII"  # base size checksum time name
LIST_HEAD, MEMORY_INFO_HEAD = "III", "IIQ"  # size of this head, size of an entry, count
MEMORY_REGION = "QQIIQIII"  # base allocation protection padding size state protection type
THREAD_TIMES = "IIIIQQQQQQ"  # id flags error exit created exited kernel user start affinity
THREAD_NAME = "IQ"  # id offset; packed
EXCEPTION_HEAD = "II"  # thread padding
EXCEPTION_RECORD = "IIQQII15Q"  # code flags record address count padding information
SYSTEM_INFO = "HHHBBIIIIIHH"  # cpu level revision count product major minor build platform text suite reserved
MISC_INFO = "IIIIII"  # size flags pid created user kernel
MISC_PID, MISC_TIMES = 1, 2  # flags
CODEVIEW_RSDS, CODEVIEW_NB10, CODEVIEW_ELF = 0x53445352, 0x3031424E, 0x4270454C
BREAKPAD_INFO = "III"  # validity dumping_thread requesting_thread
CRASHPAD_INFO = "I16s16sIIII"  # version report client annotations:size,offset modules:size,offset
CRASHPAD_MODULE = "III"  # index size offset
CRASHPAD_MODULE_INFO = "IIIIIII"  # version list:size,offset annotations:size,offset objects:size,offset
CRASHPAD_OBJECT = "IHHI"  # name type reserved value
CRASHPAD_TEXT = 1  # type of an annotation

MEM_COMMIT = 0x1000
PAGE_EXECUTE = 0xF0  # any of four protections
PAGE_READABLE, PAGE_WRITABLE = 0xEE, 0xCC

WINDOWS = (0, 1, 2, 3)
MACOS, IOS, LINUX, SOLARIS, ANDROID, PS3, NACL, FUCHSIA = 0x8101, 0x8102, 0x8201, 0x8202, 0x8203, 0x8204, 0x8205, 0x8206
PLATFORMS = {
    0: "Win32s", 1: "Windows 9x", 2: "Windows", 3: "Windows CE", 0x8000: "Unix", MACOS: "macOS", IOS: "iOS",
    LINUX: "Linux", SOLARIS: "Solaris", ANDROID: "Android", PS3: "PlayStation 3", NACL: "Native Client",
    FUCHSIA: "Fuchsia",
}  # fmt: skip


class Processor(NamedTuple):
    """A processor: its name, ELF's number and the bits of an address."""

    name: str
    machine: int
    bits: int


PROCESSORS = {
    0: Processor("x86", EM_386, 32), 1: Processor("mips", EM_MIPS, 32), 3: Processor("ppc", EM_PPC, 32),
    5: Processor("arm", EM_ARM, 32), 9: Processor("amd64", EM_X86_64, 64), 10: Processor("x86", EM_386, 32),
    12: Processor("arm64", EM_AARCH64, 64), 0x8001: Processor("sparc", 2, 32),
    0x8002: Processor("ppc64", EM_PPC64, 64), 0x8003: Processor("arm64", EM_AARCH64, 64),
    0x8004: Processor("mips64", EM_MIPS, 64), 0x8005: Processor("riscv", EM_RISCV, 32),
    0x8006: Processor("riscv64", EM_RISCV, 64),
}  # fmt: skip
UNKNOWN_PROCESSOR = Processor("unknown", 0, 64)
