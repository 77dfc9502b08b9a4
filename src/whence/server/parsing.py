"""A file of a stranger is parsed first in a process of its own, with limits: what crashes or hangs does so there.

`python -m whence.server.parsing` reads a path and the limits as JSON, looks at the file and makes an archive of it that
nobody keeps. Its memory, its processor time and what it may write are limited, it gets no privileges, and where the
machine is known the kernel refuses it sockets and programs.
"""

from __future__ import annotations

import ctypes
import json
import platform
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from whence.errors import WhenceError, without_file
from whence.server.bodies import Refusal

if TYPE_CHECKING:
    from whence.server.settings import RequestLimits

REFUSED = 3  # exit code: the file is not good, stderr says why
OPEN_FILES = 64
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions
NUMBER_AT, MACHINE_AT = 0, 4  # offsets in struct seccomp_data
ALLOW, DENY = 0x7FFF0000, 0x00050001  # go on; fail with EPERM
# calls that are refused, by machine: AUDIT_ARCH, and the numbers of socket, socketpair, connect, accept, bind, listen,
# fork, vfork, execve, execveat, ptrace, kill, tkill, process_vm_readv, process_vm_writev, mount, umount2, pivot_root,
# chroot, unshare, setns, bpf, io_uring_setup, memfd_create, rename, renameat, renameat2, link, linkat, symlink,
# symlinkat, chmod, fchmodat, chown, fchownat, mknod, mknodat, as far as the machine has them
LISTS = {
    "x86_64": (
        0xC000003E,
        (
            41, 53, 42, 43, 49, 50, 57, 58, 59, 322, 101, 62, 200, 310, 311, 165, 166, 155, 161, 272, 308, 321, 425,
            319, 82, 264, 316, 86, 265, 88, 266, 90, 268, 92, 260, 133, 259,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            198, 199, 203, 202, 200, 201, 221, 281, 117, 129, 130, 270, 271, 40, 39, 41, 51, 97, 268, 280, 425, 279, 38,
            276, 37, 36, 53, 54, 33,
        ),
    ),
}  # fmt: skip
X32 = 0x40000000  # calls of x86-64's other interface begin here


def must_parse(path: str, limits: RequestLimits) -> None:
    """Parse a file in a process of its own. Raises Refusal: 422 when that fails in any way."""
    asked = {"path": path, "bytes": limits.parse_bytes, "seconds": limits.parse_seconds}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps(asked).encode(), capture_output=True, check=False,
            timeout=limits.parse_seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Refusal(422, f"it was not parsed within {limits.parse_seconds:g} seconds") from None
    if done.returncode == REFUSED:
        raise Refusal(422, done.stderr.decode("utf-8", "replace").strip())
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise Refusal(422, f"parsing it failed ({how})")


def confine(most_bytes: int, seconds: float) -> None:
    """Take from this process what parsing does not need."""
    import resource  # only POSIX has limits: elsewhere the child ends here, and the upload is refused

    cpu = int(seconds) + 1
    for kind, most in (
        (resource.RLIMIT_DATA, most_bytes), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_FSIZE, most_bytes),
        (resource.RLIMIT_NOFILE, OPEN_FILES), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        _, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if not sys.platform.startswith("linux"):
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or platform.machine() not in LISTS:
        return
    code = filter_of(*LISTS[platform.machine()])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)


def filter_of(machine: int, denied: tuple[int, ...]) -> bytes:
    """The BPF program: calls of this machine go on, unless they are on the list."""
    rows = [
        (LOAD_WORD, 0, 0, MACHINE_AT), (JUMP_EQUAL, 1, 0, machine), (RETURN, 0, 0, DENY), (LOAD_WORD, 0, 0, NUMBER_AT),
        (JUMP_AT_LEAST, 0, 1, X32), (RETURN, 0, 0, DENY),
    ]  # fmt: skip
    for number in denied:
        rows += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, DENY)]
    rows.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def main() -> int:
    from whence.elf import ElfFile
    from whence.lidia.build import archive_producers
    from whence.locate.debug_files import DebugFiles
    from whence.producers import Producers
    from whence.store.quality import look

    asked = json.load(sys.stdin)
    with tempfile.TemporaryFile() as out:
        confine(int(asked["bytes"]), float(asked["seconds"]))
        try:
            look(asked["path"])
            with (
                ElfFile.open(asked["path"]) as elf,
                Producers(elf, finder=DebugFiles(()), jobs=1) as producers,
                suppress(WhenceError),
            ):  # one that can't be archived is kept with a note
                archive_producers(producers, out)
        except WhenceError as error:
            print(without_file(error), file=sys.stderr)
            return REFUSED
        except MemoryError:
            print(f"it takes more than {asked['bytes']} bytes of memory to parse", file=sys.stderr)
            return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
