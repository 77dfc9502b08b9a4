"""Why an address has no frames: one word, one sentence, one remedy each.

Every room and every output form spells reasons as they are spelt here; programs test the word or the member.
"""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """Part of an answer, not an error: the rest of the batch goes on.

    >>> Reason.UNMAPPED.word, Reason.UNMAPPED.sentence
    ('unmapped', 'no mapping of the process holds this address')
    """

    UNMAPPED = (
        "no mapping of the process holds this address",
        "compare it with whence maps; the mapping may be gone already: symbolize earlier, or take snapshots",
    )
    NOT_EXECUTABLE = (
        "the mapping at this address is not executable",
        "the address is data; look for a stack or registers read wrongly",
    )
    NOT_FILE_BACKED = (
        "the code at this address is in no file: generated at run time, or the kernel's own page",
        "let the JIT compiler write /tmp/perf-PID.map (node --perf-basic-prof, java -XX:+DumpPerfMapAtExit)",
    )
    NO_SUCH_PROCESS = (
        "there is no process with this pid",
        "symbolize while it runs, or take a snapshot of it: whence pid PID --save-snapshot FILE",
    )
    PERMISSION_DENIED = (
        "the process or its file may not be read",
        "run as the process's user or as root, or with CAP_SYS_PTRACE",
    )
    KERNEL_HIDDEN = (
        "the address is the kernel's, and the kernel's names are hidden",
        "run with CAP_SYSLOG, or set kernel.kptr_restrict to 0",
    )
    FILE_GONE = (
        "the mapped file was removed or replaced, and the process's own copy can't be reached",
        "run with CAP_CHECKPOINT_RESTORE, which opens /proc/PID/map_files; or restart the process",
    )
    NO_FILE = (
        "the mapped file is not on this machine",
        "give the file or an archive of it (addr --snapshot: a word; core, profile: --binary; profile also: "
        "--archive-dir, --debuginfod)",
    )
    NOT_PLACED = (
        "nothing says where in the process the file was mapped",
        "record the mappings as well (perf script --show-mmap-events, or -F +dsoff)",
    )
    NOT_ELF = (
        "the mapped file is not an ELF file",
        "archives of libraries (apk, zip) and other containers are not read",
    )
    BROKEN_FILE = (
        "the mapped file or its debug file is damaged or of an unknown kind",
        "see the detail; whence explain shows each step",
    )
    OUTSIDE_SEGMENTS = (
        "no executable segment of the file makes up this part of the mapping",
        "the program mapped the file by itself, not through the loader",
    )
    NO_DEBUG_FILE = (
        "the file is stripped, and no debug file was found for its build-id",
        "install the debug package, or give a directory with --debug-dir",
    )
    NOT_IN_ARCHIVE = (
        "the file's symbols and debug info name nothing at this address",
        "the bytes there are data, padding, or assembly without symbols; whence explain shows what was read",
    )
    BUILD_ID_MISMATCH = (
        "the file at hand has another build-id than the one that was mapped",
        "find the file of the mapped build-id: whence maps shows it",
    )

    INTERNAL_ERROR = (
        "whence itself failed at this address: a bug, not a fault of the file",
        "report it with the traceback that was logged",
    )
    NOT_AN_ADDRESS = (
        "the text asked for is not an address in hex",
        "give addresses in hex, with or without 0x",
    )

    def __init__(self, sentence: str, remedy: str) -> None:
        self.sentence = sentence
        self.remedy = remedy

    @property
    def word(self) -> str:
        """As JSON and the command line show it, for instance ``no-debug-file``."""
        return self.name.lower().replace("_", "-")
