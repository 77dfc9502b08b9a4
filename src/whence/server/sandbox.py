"""The confinement of a process that parses untrusted files: limits of memory, time and files, and few system calls.

On Linux on x86-64 and aarch64 a seccomp filter (classic BPF over struct seccomp_data, linux/seccomp.h) allows a list of
system calls; on other systems only the limits apply.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

OPEN_FILES = 64
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, AND, JUMP_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # BPF instructions
NR_OFFSET, ARCH_OFFSET, ARGS_OFFSET, ARG_BYTES = 0, 4, 16, 8  # in struct seccomp_data; the low word is first
ALLOW, DENY, ABSENT = 0x7FFF0000, 0x00050001, 0x00050026  # continue; fail with EPERM, with ENOSYS
PROT_EXEC, CLONE_THREAD = 4, 0x10000
MAP_SHARED, MAP_ANONYMOUS = 1, 0x20  # together: memory that no limit counts
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC = 0, 1, 2, 3, 1030  # others can send signals (F_SETOWN, F_SETSIG)
# for each machine: AUDIT_ARCH, and the numbers of the allowed calls
CALLS = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "munmap": 11, "brk": 12,
            "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "pwrite64": 18, "readv": 19,
            "writev": 20, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "nanosleep": 35, "getpid": 39,
            "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "exit": 60, "fcntl": 72, "fsync": 74,
            "ftruncate": 77, "gettimeofday": 96, "sigaltstack": 131, "gettid": 186, "futex": 202,
            "sched_getaffinity": 204, "restart_syscall": 219, "clock_gettime": 228, "clock_nanosleep": 230,
            "exit_group": 231, "newfstatat": 262, "ppoll": 271, "set_robust_list": 273, "getrandom": 318, "rseq": 334,
            "mmap": 9, "mprotect": 10, "clone": 56, "clone3": 435,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "read": 63, "write": 64, "close": 57, "fstat": 80, "ppoll": 73, "lseek": 62, "munmap": 215, "brk": 214,
            "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "pread64": 67, "pwrite64": 68, "readv": 65,
            "writev": 66, "sched_yield": 124, "mremap": 216, "madvise": 233, "dup": 23, "nanosleep": 101, "getpid": 172,
            "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "exit": 93, "fcntl": 25, "fsync": 82,
            "ftruncate": 46, "gettimeofday": 169, "sigaltstack": 132, "gettid": 178, "futex": 98,
            "sched_getaffinity": 123, "restart_syscall": 128, "clock_gettime": 113, "clock_nanosleep": 115,
            "exit_group": 94, "newfstatat": 79, "set_robust_list": 99, "getrandom": 278, "rseq": 293,
            "mmap": 222, "mprotect": 226, "clone": 220, "clone3": 435,
        },
    ),
}  # fmt: skip
# refused if this argument has all of these bits
DENIED_WITH = {"mmap": ((2, PROT_EXEC), (3, MAP_SHARED | MAP_ANONYMOUS)), "mprotect": ((2, PROT_EXEC),)}
ALLOWED_WITH = {"clone": (0, CLONE_THREAD)}  # allowed only for threads, not for processes
ALLOWED_VALUES = {"fcntl": (1, (F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC))}  # of this argument
ABSENT_CALLS = ("clone3",)  # a filter can't read its flags in memory; the C library then uses clone


def confine(memory: int, seconds: float) -> None:
    """Restrict this process to reading and writing its open files. Raises OSError if the system refuses the filter."""
    import resource  # POSIX only

    for kind, limit in (
        (resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_FSIZE, memory), (resource.RLIMIT_NOFILE, OPEN_FILES), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if not sys.platform.startswith("linux"):
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the system refused no_new_privs")
    if platform.machine() in CALLS:
        code = filter_of(*CALLS[platform.machine()])
        buffer = ctypes.create_string_buffer(code, len(code))
        program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
        if prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the system refused the seccomp filter")


def filter_of(machine: int, calls: dict[str, int]) -> bytes:
    """Return the BPF program that allows the listed calls of this machine; all others fail with EPERM.

    The numbers of x86-64's x32 interface are not in the list.
    """
    rows = [
        (LOAD_WORD, 0, 0, ARCH_OFFSET), (JUMP_EQUAL, 1, 0, machine), (RETURN, 0, 0, DENY), (LOAD_WORD, 0, 0, NR_OFFSET),
    ]  # fmt: skip
    for name, number in calls.items():
        decided = _decision_of(name)
        rows += [(JUMP_EQUAL, 0, len(decided), number), *decided]
    rows.append((RETURN, 0, 0, DENY))
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def _decision_of(name: str) -> list[tuple[int, int, int, int]]:
    """Return the instructions that decide about a listed call by its arguments."""

    def load(argument: int) -> tuple[int, int, int, int]:
        return LOAD_WORD, 0, 0, ARGS_OFFSET + ARG_BYTES * argument

    def return_if(value: int, decision: int) -> list[tuple[int, int, int, int]]:
        return [(JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, decision)]

    rows: list[tuple[int, int, int, int]] = []
    for argument, bits in DENIED_WITH.get(name, ()):
        rows += [load(argument), (AND, 0, 0, bits), *return_if(bits, DENY)]
    if name in ALLOWED_WITH:
        argument, bits = ALLOWED_WITH[name]
        rows += [load(argument), (AND, 0, 0, bits), *return_if(bits, ALLOW)]
    if name in ALLOWED_VALUES:
        argument, values = ALLOWED_VALUES[name]
        rows.append(load(argument))
        for value in values:
            rows += return_if(value, ALLOW)
    restricted = name in ALLOWED_WITH or name in ALLOWED_VALUES
    rows.append((RETURN, 0, 0, DENY if restricted else ABSENT if name in ABSENT_CALLS else ALLOW))
    return rows
