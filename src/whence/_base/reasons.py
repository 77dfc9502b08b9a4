"""Why an address has no frames: a word, a sentence and a remedy for each reason.

Every output form spells reasons in this way; programs test the word or the member. `Missing` is a reason with details;
`remedy_for` names the package, the file and the server for this machine's Linux distribution.
"""

from __future__ import annotations

import enum
import os

from whence._base.records import NamedTuple

# Remedies that depend on who asks
AS_ITS_USER = "run as the process's user or as root, or with CAP_SYS_PTRACE"
AS_ROOT = "run as root, or with CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE)"
SET_SCOPE = (
    "set kernel.yama.ptrace_scope to 0 (sysctl kernel.yama.ptrace_scope=0), or run as root or with CAP_SYS_PTRACE"
)
WAIT_FOR_KERNEL = "wait until the kernel's work for the thread is done; root can see it in /proc/PID/task/TID/stack"
ADD_CAPABILITY = "add CAP_SYS_PTRACE, which root lacks in some containers (docker run --cap-add=SYS_PTRACE)"
FOR_ROOT = {
    AS_ITS_USER: f"{ADD_CAPABILITY}, or run in the process's user namespace; files need CAP_DAC_READ_SEARCH",
    AS_ROOT: ADD_CAPABILITY,
    SET_SCOPE: ADD_CAPABILITY,
    WAIT_FOR_KERNEL: "wait until the kernel's work for the thread is done; /proc/PID/task/TID/stack shows that work",
}


def for_user(remedy: str) -> str:
    """Return a remedy that the current user can follow: root cannot become root."""
    other = FOR_ROOT.get(remedy)
    return remedy if other is None or os.geteuid() else other


class Reason(enum.Enum):
    """Why an address has no frames. Part of an answer, not an error.

    `word` is for programs, `sentence` and `remedy` are for people.

    >>> Reason.UNMAPPED.word, Reason.UNMAPPED.sentence
    ('unmapped', 'no mapping of the process holds this address')
    """

    UNMAPPED = (
        "no mapping of the process holds this address",
        "compare it with whence maps; the mapping may be gone already: symbolize earlier, or take snapshots",
    )
    NOT_EXECUTABLE = (
        "the mapping at this address is not executable",
        "the address is data; check that the stack or the registers were read correctly",
    )
    NOT_FILE_BACKED = (
        "the code at this address is not in a file: it was generated at run time, or is the kernel's own page",
        "let the JIT compiler write /tmp/perf-PID.map (node --perf-basic-prof, jcmd PID Compiler.perfmap)",
    )
    NO_SUCH_PROCESS = (
        "there is no process with this pid",
        "symbolize while it runs, or take a snapshot of it: whence pid PID --save-snapshot FILE",
    )
    DAMAGED_TOKEN = (
        "the stack token is damaged: characters are missing or changed",
        "copy the whole token: from wst1. to the last letter, digit, - or _",
    )
    PERMISSION_DENIED = (
        "the process or its file may not be read",
        AS_ITS_USER,
    )
    NOT_TRACEABLE = (
        "the thread could not be stopped to read its registers",
        AS_ROOT,
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
        "give the file or an archive of it with --binary, a folder of archives with --archive-dir, a store with "
        "--store, or ask a server with --debuginfod",
    )
    NOT_PLACED = (
        "the address at which the file was mapped is unknown",
        "record the mappings as well (perf script --show-mmap-events, or -F +dsoff), or give the process with "
        "--pid, --core or --snapshot",
    )
    NOT_ELF = (
        "the mapped file is not an ELF file",
        "name a library in a zip file as base.apk!/lib/arm64-v8a/libx.so; other containers are not read",
    )
    BROKEN_FILE = (
        "the mapped file or its debug file is damaged or of an unknown kind",
        "see the detail; whence explain shows each step",
    )
    OUTSIDE_SEGMENTS = (
        "no executable segment of the file covers this part of the mapping",
        "the program mapped the file by itself, not through the loader",
    )
    NO_DEBUG_FILE = (
        "the file is stripped, and no debug file was found for its build-id",
        "give the debug file with --binary FILE.debug, its folder with --debug-dir DIR, or a store with --store",
    )
    NOT_IN_ARCHIVE = (
        "the file's symbols and debug info name nothing at this address",
        "the bytes there are data, padding, or assembly without symbols; whence explain shows what was read",
    )
    UNKNOWN_FUNCTION = (
        "no function of the file has this name",
        "the log may be of another build; if the file is stripped, give its debug file with --binary",
    )
    AMBIGUOUS = (
        "several functions have this name, and nothing distinguishes them",
        "give the file itself, with its code, not the debug file alone: its calls distinguish functions of one name",
    )
    BUILD_ID_MISMATCH = (
        "the file that was found has another build-id than the mapped file",
        "find the file of the mapped build-id: whence maps shows it",
    )

    UNREADABLE_FRAME = (
        "the interpreter's frame, or the code object it runs, cannot be read",
        "the core is truncated or damaged there, or the code was freed meanwhile: --native-only has the native frames",
    )
    INTERNAL_ERROR = (
        "whence itself failed at this address: a bug, not a fault of the file",
        "report it with the traceback that was logged",
    )
    NOT_AN_ADDRESS = (
        "the text is not an address in hex",
        "give addresses in hex, with or without 0x",
    )

    NO_BUILD_ID = (
        "no build-id identifies the file of this address",
        "give build-ids in hex, as readelf -n prints them, or as bytes",
    )

    def __init__(self, sentence: str, remedy: str) -> None:
        self.sentence = sentence
        self._remedy = remedy

    @property
    def remedy(self) -> str:
        return for_user(self._remedy)

    @property
    def word(self) -> str:
        """The spelling in JSON and on the command line, for instance ``no-debug-file``."""
        return self.name.lower().replace("_", "-")


class Missing(NamedTuple):
    """A reason with details, and advice that is more specific than the remedy of the reason."""

    reason: Reason
    detail: str = ""
    advice: str = ""

    @property
    def remedy(self) -> str:
        return for_user(self.advice) or self.reason.remedy

    def __str__(self) -> str:
        return f"{self.reason.sentence} ({self.detail})" if self.detail else self.reason.sentence


# What was seen, and advice that is better than a reason's own remedy

NOT_VERIFIED = "the mapped file was deleted, and there is no build-id to compare this one with"
GIVE_FILE = "give the file it was with --binary, or record with build-ids (perf record --buildid-mmap)"
OWN_PAGE = "nothing: the page is the kernel's, and no file of it was recorded"
NO_FRAME = (
    "usually not an address: frame pointers were followed through code without them (record with --call-graph dwarf)"
)
GIVE_KERNEL = "give the kernel's vmlinux, or the module with its symbols, with --binary"
GIVE_KALLSYMS = "or the names of the kernel it was recorded on with --kallsyms (root can copy its /proc/kallsyms)"
GIVE_PERF_MAP = (
    "let the compiler write /tmp/perf-PID.map (node --perf-basic-prof, jcmd PID Compiler.perfmap, python -X perf) "
    "and give that file with --perf-map"
)
ZOMBIE = "the thread has ended and is a zombie: only its exit status is left"
WAIT_FOR_IT = "nothing: a zombie has no stack; look at its parent, which has not waited for it, or at its other threads"
GIVE_PROGRAM = "a debug file does not say where its code is in the program: give the program with --binary, too"
MAKE_AGAIN = "make the archive again, or give the ELF file with --binary"
NAMELESS = "nothing: the file has debug info, but no name for this code (padding, the start of a PLT, assembly)"
NOT_CODE = "compare the address with the segments: is it a runtime address or a file offset?"


def not_traceable(
    detail: str, advice: str = "", *, tracer: int = 0, scope: int = 0, owner: int | None = None
) -> Missing:
    """Return why a thread could not be stopped (ptrace(2), "Ptrace access mode checking").

    Args:
        detail: the error of the system.
        advice: what to do, if that is known already.
        tracer: ID of the process that traces the thread; 0 if none does.
        scope: Yama's ptrace_scope.
        owner: the user of the process.

    >>> not_traceable("Operation not permitted", scope=3).remedy
    'nothing until the next start of the system: then set kernel.yama.ptrace_scope to less than 3'
    """
    if not advice:
        if tracer:
            detail = f"{detail}: process {tracer} traces it already"
            advice = f"let process {tracer} detach (a debugger, strace): a thread has one tracer"
        elif scope == 1:
            detail, advice = (
                f"{detail}: kernel.yama.ptrace_scope is 1, and it is not a child process",
                SET_SCOPE,
            )
        elif scope == 2:
            detail, advice = f"{detail}: kernel.yama.ptrace_scope is 2", AS_ROOT
        elif scope == 3:
            detail = f"{detail}: kernel.yama.ptrace_scope is 3"
            advice = "nothing until the next start of the system: then set kernel.yama.ptrace_scope to less than 3"
        elif owner is not None and os.geteuid() not in (0, owner):
            detail = f"{detail}: its user is {owner}"
            advice = f"run as user {owner}, as root, or with CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE)"
    return Missing(Reason.NOT_TRACEABLE, detail, advice)


# Remedies that name the package, the file and the server

SERVERS = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "centos": "https://debuginfod.centos.org",
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
    "alpine": "https://debuginfod.elfutils.org",
}
SYSTEM_FOLDERS = ("/usr/bin/", "/usr/sbin/", "/usr/lib", "/bin/", "/sbin/", "/lib")
ANY_SERVER = "https://debuginfod.elfutils.org"
OWN_PACKAGES = {"libc6": "libc6-dbg"}  # Debian keeps these in its main archive; others are PACKAGE-dbgsym
HELPED = (Reason.NO_DEBUG_FILE, Reason.NO_FILE, Reason.BUILD_ID_MISMATCH)
KEPT = 256
_packages: dict[tuple[str, str], str] = {}


def remedy_for(missing: Missing, path: str, build_id: str, root: str = "/") -> str:
    """Return what to do about a file whose addresses have no names.

    For a file of the Linux distribution: its debug package or its debuginfod server. For any other file: a file, folder
    or store of the user, as no public server has it. `build_id` is in hex; "" if the file has none.
    """
    if missing.advice or missing.reason not in HELPED:
        return missing.remedy
    is_system = is_of_system(path, root)
    if missing.reason is Reason.NO_DEBUG_FILE:
        if not is_system:
            return missing.remedy
        package = debug_package(path, root)
        ways = [f"install {package}" if package else "install the debug package"]
        ways.append(f"put {debug_path(build_id)} there" if build_id else "give a directory with --debug-dir")
    else:
        ways = [missing.remedy]
    ask = "ask a server with --debuginfod"
    if build_id and is_system:
        if ask in ways[0]:
            ways[0] = ways[0].replace(ask, f"{ask} {server(root)}")
        else:
            ways.append(f"{ask} {server(root)}")
    return "; or ".join(ways)


def is_of_system(path: str, root: str = "/") -> bool:
    """Return True if a file belongs to a Debian package, or is in a folder that belongs to the distribution.

    >>> is_of_system("/usr/lib/x86_64-linux-gnu/no-such.so"), is_of_system("/opt/app"), is_of_system("app")
    (True, False, False)
    """
    return path.startswith(SYSTEM_FOLDERS) or path.startswith("[") or bool(debug_package(path, root))


def debug_path(build_id: str) -> str:
    """Return the path at which debuggers expect the debug file of a build-id."""
    return f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def debug_package(path: str, root: str = "/") -> str:
    """Return the Debian package with the debug file of an installed file; "" if dpkg does not know the file."""
    package = _packages.get((path, root))
    if package is None:
        if len(_packages) >= KEPT:
            _packages.clear()
        package = _packages[path, root] = _find_package(path, os.path.join(root, "var/lib/dpkg/info"))
    return package


def _find_package(path: str, folder: str) -> str:
    lines = [f"\n{line}\n".encode("utf-8", "surrogateescape") for line in {path, path.removeprefix("/usr")}]
    try:
        names = os.listdir(folder) if path.startswith("/") else []
    except OSError:
        return ""
    for name in names:
        if name.endswith(".list"):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
            except OSError:
                continue
            if any(line in data for line in lines):
                package = name.removesuffix(".list").partition(":")[0]
                return OWN_PACKAGES.get(package, f"{package}-dbgsym")
    return ""


def server(root: str = "/") -> str:
    """Return the debuginfod server of this Linux distribution (os-release(5)), or elfutils' for others."""
    try:
        with open(os.path.join(root, "etc/os-release"), encoding="utf-8", errors="replace") as file:
            release = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except OSError:
        return ANY_SERVER
    kinds = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split()
    return next((SERVERS[kind] for kind in kinds if kind in SERVERS), ANY_SERVER)
