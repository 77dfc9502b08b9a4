"""Read the mappings of one process: by PROCMAP_QUERY if the kernel has it, otherwise from the text of maps.

Both ways return the same mappings. There are two kinds of errors: ProcessLookupError, the process has ended, and
PermissionError, access was denied.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from time import monotonic
from typing import TypeVar

from whence._base.errors import MapsError
from whence.procmap import maps
from whence.procmap.kernels.constants import EXECUTE
from whence.procmap.mapping import Mapping
from whence.procmap.process import Identity, identify, visible_tid
from whence.procmap.query import MapsQuery

TEXT_TRUSTED = 0.05  # seconds for which text is not read again for an address that it does not have,
READING_SHARE = 20  # and at least this many times the duration of reading it
VSYSCALL, VSYSCALL_SIZE = 0xFFFFFFFFFF600000, 1 << 12  # the [vsyscall] page of x86-64
PAGE = 1 << 12  # maximal bytes of maps that one read returns
_GONE = (errno.ENOENT, errno.ESRCH)
PROC_SELF = "/proc/self"
_start = attrgetter("start")
_T = TypeVar("_T")


class ProcessReader:
    """Reads the mappings of the process in directory `root`/`pid`, each time anew.

    Build-ids are only returned if the kernel has them. `problems` has the malformed lines of the text that was read
    last.
    """

    __slots__ = ("_is_empty", "_root", "_texts", "directory", "linked", "pid", "problems", "queried")

    def __init__(self, root: str, pid: int, query: bool = True) -> None:
        self.pid = pid
        self._root = root
        self._is_empty = False  # True if the directory showed no memory
        self.directory = f"{root}/{pid}"
        self.linked = _links_open(root, self.directory)
        self.queried = query and self._kernel_answers()
        self.problems: list[MapsError] = []
        self._texts: dict[int, tuple[float, list[Mapping]]] = {}

    def find(self, address: int, flags: int) -> Mapping | None:
        """Return the mapping with these permissions at a runtime address."""
        return self._retried(lambda: self._find(address, flags))

    def executable(self) -> list[Mapping]:
        """Return all executable mappings in address order."""
        return self._retried(self._executable) or []

    def forget(self) -> None:
        """Drop the cached text."""
        self._texts.clear()

    def _find(self, address: int, flags: int) -> Mapping | None:
        if not self.queried:
            return self._find_in_text(address, flags)
        try:
            with MapsQuery(self.directory, self.linked) as query:
                result = query.find(address, flags)
        except ProcessLookupError:  # no memory: a zombie or a kernel thread
            os.stat(self.directory)
            self._is_empty = True
            return None
        if result is None and address & -VSYSCALL_SIZE == VSYSCALL:
            return self._find_in_text(address, flags)
        return result

    def _executable(self) -> list[Mapping]:
        if not self.queried:
            return self._text(EXECUTE)
        try:
            with MapsQuery(self.directory, self.linked) as query:
                result = list(query.walk(EXECUTE))
        except ProcessLookupError:
            os.stat(self.directory)
            self._is_empty = True
            return []
        if result and result[-1].limit >> 32:  # not in 32-bit processes
            result += self._vsyscall()
        return result

    def _retried(self, read_once: Callable[[], _T]) -> _T | None:
        """Return the result of `read_once`, repeated for another thread's directory if this one shows no memory.

        Raises ProcessLookupError, PermissionError.
        """
        result = None
        try:
            result = with_plain_errors(self.pid, read_once)
        except ProcessLookupError:
            if self.directory == f"{self._root}/{self.pid}":
                raise
            self._is_empty = True  # the thread of this directory has ended, too
        return with_plain_errors(self.pid, read_once) if not result and self._switch_thread() else result

    def _switch_thread(self) -> bool:
        """Switch to a thread's directory that shows the memory, if this one did not; return True if there is one.

        The first thread of a process may have ended before others.
        """
        if not self._is_empty:
            return False
        self._is_empty = False
        directory = f"{self._root}/{visible_tid(self._root, self.pid)}"
        is_another, self.directory = directory != self.directory, directory
        self._texts.clear()
        return is_another

    def _text(self, flags: int) -> list[Mapping]:
        data = maps.read(self.directory)
        self._is_empty = not data
        text = maps.parse(data, self.directory, flags, self.linked)
        self.problems = text.problems
        return text.mappings

    def _find_in_text(self, address: int, flags: int) -> Mapping | None:
        """Find an address in the text, which is read again if it does not have it."""
        trusted, mappings = self._texts.get(flags, (0.0, []))
        result = covering(mappings, address)
        now = monotonic()
        if result is None and now > trusted:
            mappings = self._text(flags)
            read = monotonic()
            self._texts[flags] = (read + max(TEXT_TRUSTED, READING_SHARE * (read - now)), mappings)
            result = covering(mappings, address)
        return result

    def _vsyscall(self) -> list[Mapping]:
        """Return the [vsyscall] page, common to all 64-bit processes, from our own maps."""
        try:
            line = vsyscall_line()
        except OSError:
            return []
        last = maps.parse(line, self.directory, linked=self.linked).mappings
        return [mapping for mapping in last if mapping.start == VSYSCALL]

    def _kernel_answers(self) -> bool:
        try:
            with MapsQuery(self.directory) as query:
                return query.supported()
        except OSError:
            return False


@cache
def vsyscall_line() -> bytes:
    """Return the last line of our own maps, which is the [vsyscall] page if the kernel has one.

    It is cached, because maps can be long.
    """
    lines = maps.read("/proc/self").rsplit(b"\n", 2)
    return lines[-2] if len(lines) > 1 else b""


def identity_of(root: str, pid: int) -> Identity:
    """Return the identity of the process that has a pid now. Raises ProcessLookupError, PermissionError."""
    return with_plain_errors(pid, lambda: identify(f"{root}/{pid}"))


def covering(mappings: Sequence[Mapping], address: int) -> Mapping | None:
    """Return the mapping with the address, from mappings in address order."""
    index = bisect_right(mappings, address, key=_start)
    return mappings[index - 1] if index and address < mappings[index - 1].limit else None


def with_plain_errors(pid: int, read: Callable[[], _T]) -> _T:
    """Call `read`; raise ProcessLookupError or PermissionError for all errors with these meanings."""
    try:
        return read()
    except PermissionError as error:
        raise PermissionError(error.errno, f"the memory map of process {pid} may not be read") from None
    except OSError as error:
        if error.errno in _GONE:
            why = "" if os.path.exists(PROC_SELF) else ": /proc is not mounted"
            raise ProcessLookupError(errno.ESRCH, f"there is no process {pid}{why}") from None
        raise


def _links_open(root: str, directory: str) -> bool:
    """Return True if the links in map_files open, which needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.

    Tried with the first file mapped in this process: listing the links of a large process takes long.
    """
    try:
        with open(f"{root}/self/maps", "rb", buffering=0) as text:
            lines = text.read(PAGE).split(b"\n")
        for line in lines[:-1]:
            addresses, *_, inode = line.split(None, 5)[:5]
            if inode != b"0":
                start, end = (int(address, 16) for address in addresses.split(b"-"))
                os.stat(f"{root}/self/map_files/{start:x}-{end:x}")
                return True
    except FileNotFoundError:  # a tree without this process
        return os.path.isdir(f"{directory}/map_files")
    except (OSError, ValueError):
        pass
    return False
