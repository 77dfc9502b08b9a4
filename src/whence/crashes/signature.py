"""The signature of a crash: a hash that identifies a bug across builds and machines.

    1. Take the frames of the thread that crashed, innermost first, inlined functions included.
    2. Leave out frames without a name, handlers' trampolines, frames in the C and C++ runtime (RUNTIME_FILES), and
       functions that only report a fault (REPORTING).
    3. Remove what compilers append to names (`.isra.0`, `.cold`, Rust's hash), and names that occurred before, so that
       the depth of a recursion does not matter.
    4. Hash the file name of the program and the first TOP names, a line each: SHA-256, the first 12 hex digits.

If step 2 leaves no frame, all named frames are used; without any, the name of the signal.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from whence._base.files import DELETED_MARK
from whence.demangle import demangle
from whence.dumps.minidump_process import base_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whence.symbolize import Core, Stack

TOP = 5  # functions
DIGITS = 12  # of the hash
LONGEST = 1000  # characters of a name that count
RUNTIME_FILES = re.compile(
    r"(?:libc|libpthread|ld|libstdc\+\+|libc\+\+|libc\+\+abi|libgcc_s|libunwind|libasan|libubsan|libtsan)"
    r"(?:[-.][\w.+-]*)?\.so(?:\.[\d.]+)?|(?:ld-linux|ld-musl)[\w.-]*|libc\.musl[\w.-]*|\[?(?:vdso|vsyscall)\]?"
    r"|linux-(?:vdso|gate)\.so\.1|(?:ntdll|kernelbase|kernel32|ucrtbase|vcruntime\w*|msvcrt)\.dll",
    re.IGNORECASE,
)
REPORTING = re.compile(
    r"_*(?:GI_+)?(?:abort|raise|gsignal|t?g?kill|pthread_kill(?:_implementation|_internal)?|libc_message(?:_impl)?"
    r"|assert_(?:fail|fail_base|perror_fail|rtn)|assert|fortify_fail|chk_fail|stack_chk_fail(?:_local)?|malloc_printerr"
    r"|libc_start_main(?:_impl|@@.*)?|libc_start_call_main|start|start_thread|clone3?|restore_rt)"
    r"|(?:std::terminate|__cxxabiv1::|__gnu_cxx::__verbose_terminate|__cxa_|_Unwind_|__gxx_personality).*"
    r"|(?:core::panicking|std::panicking|std::sys::|std::rt::|core::result::unwrap_failed|core::option::unwrap_failed"
    r"|core::option::expect_failed|core::ops::function::FnOnce::call_once|alloc::alloc::handle_alloc_error"
    r"|rust_panic|rust_begin_unwind|__rust_|rust_eh_personality).*"
    r"|runtime\..*"
)
SUFFIXES = re.compile(
    r"(?:\s*\[clone [^\]]*\]|\.(?:isra|part|constprop|cold|lto_priv|localalias|llvm)(?:\.\d+)*|::h[0-9a-f]{16})+$"
)


class CrashSignature(NamedTuple):
    """The hash of a crash, and the functions that it was computed from, innermost first."""

    text: str
    program: str
    functions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text}: {' < '.join(self.functions) or '?'}"


def program_of(core: Core) -> str:
    """Return the file name of the program that left a core."""
    return base_name((core.executable or core.command).removesuffix(DELETED_MARK))


def signature_of(stack: Stack | None, program: str) -> CrashSignature:
    """Return the signature of the thread that crashed.

    >>> signature_of(None, "app")
    CrashSignature(text='a172cedcae47', program='app', functions=())
    """
    functions: tuple[str, ...] = ()
    if stack is not None:
        functions = _first(name for name, file in _named(stack) if not is_runtime(name, file))
        functions = functions or _first(name for name, _ in _named(stack))
    lines = [program, *functions]
    if not functions and stack is not None and stack.signal is not None:
        lines.append(stack.signal.name)
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return CrashSignature(digest[:DIGITS], program, functions)


def is_runtime(name: str, path: str) -> bool:
    """Return True for a function of the C or C++ runtime, and for a function that only reports a fault.

    >>> is_runtime("qsort", "/usr/lib/libc.so.6"), is_runtime("__GI_raise", "/opt/app"), is_runtime("main", "/opt/app")
    (True, True, False)
    """
    return RUNTIME_FILES.fullmatch(base_name(path)) is not None or REPORTING.fullmatch(name) is not None


def _named(stack: Stack) -> Iterator[tuple[str, str]]:
    """Yield the name and the file of each function that has a name."""
    for frame in stack.frames:
        if frame.is_trampoline:
            continue
        mapping = frame.place.mapping
        for function in frame.place.frames:
            name = SUFFIXES.sub("", demangle(function.function)[:LONGEST])
            if name:
                yield name, "" if mapping is None else mapping.path.removesuffix(DELETED_MARK)


def _first(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first TOP distinct names."""
    distinct: dict[str, None] = {}
    for name in names:
        distinct[name] = None
        if len(distinct) == TOP:
            break
    return tuple(distinct)
