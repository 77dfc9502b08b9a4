"""Looking at one process: by PROCMAP_QUERY where the kernel has it, else by the text of its maps.

Both ways find the same mappings. A failure is one of two errors that callers tell apart: the process is gone
(ProcessLookupError), or may not be looked at (PermissionError).
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
from whence.procmap.process import Identity, identify, shown
from whence.procmap.query import MapsQuery

TEXT_TRUSTED = 0.05  # seconds for which an address that is not in the text read is not in the process,
READING_SHARE = 20  # and at least so many times as long as the text took to be read
VSYSCALL, VSYSCALL_SIZE = 0xFFFFFFFFFF600000, 1 << 12  # the [vsyscall] page of x86-64
PAGE = 1 << 12  # bytes of maps that one read returns at most
_GONE = (errno.ENOENT, errno.ESRCH)
PROC_SELF = "/proc/self"
_start = attrgetter("start")
_T = TypeVar("_T")


class ProcessReader:
    """What there is to see of the process in directory `root`/`pid`, read anew each time. Build-ids only as the kernel
    tells them. `problems` are the bad lines of the text read last."""

    __slots__ = ("_is_empty", "_root", "_texts", "directory", "linked", "pid", "problems", "queried")

    def __init__(self, root: str, pid: int, query: bool = True) -> None:
        self.pid = pid
        self._root = root
        self._is_empty = False  # whether there was no memory to see
        self.directory = f"{root}/{pid}"
        self.linked = _links_open(root, self.directory)
        self.queried = query and self._kernel_answers()
        self.problems: list[MapsError] = []
        self._texts: dict[int, tuple[float, list[Mapping]]] = {}

    def find(self, address: int, flags: int) -> Mapping | None:
        """The mapping with these permissions that holds a runtime address."""
        return self._looked(lambda: self._find(address, flags))

    def executable(self) -> list[Mapping]:
        """All executable mappings in address order."""
        return self._looked(self._executable) or []

    def forget(self) -> None:
        """Drop the text read before."""
        self._texts.clear()

    def _find(self, address: int, flags: int) -> Mapping | None:
        if not self.queried:
            return self._find_in_text(address, flags)
        try:
            with MapsQuery(self.directory, self.linked) as query:
                found = query.find(address, flags)
        except ProcessLookupError:  # no memory any more, or never any: it is a zombie or the kernel's own
            os.stat(self.directory)
            self._is_empty = True
            return None
        if found is None and address & -VSYSCALL_SIZE == VSYSCALL:
            return self._find_in_text(address, flags)
        return found

    def _executable(self) -> list[Mapping]:
        if not self.queried:
            return self._text(EXECUTE)
        try:
            with MapsQuery(self.directory, self.linked) as query:
                found = list(query.walk(EXECUTE))
        except ProcessLookupError:
            os.stat(self.directory)
            self._is_empty = True
            return []
        if found and found[-1].limit >> 32:  # 32-bit processes have none
            found += self._vsyscall()
        return found

    def _looked(self, look: Callable[[], _T]) -> _T | None:
        """What is found in the directory, or in another one that shows the same memory. Raises ProcessLookupError,
        PermissionError."""
        found = None
        try:
            found = with_plain_errors(self.pid, look)
        except ProcessLookupError:
            if self.directory == f"{self._root}/{self.pid}":
                raise
            self._is_empty = True  # the thread that showed it has ended, too
        return with_plain_errors(self.pid, look) if not found and self._is_elsewhere() else found

    def _is_elsewhere(self) -> bool:
        """Whether another thread's directory shows the memory that this one did not: the first thread of a process may
        have ended, while others live on."""
        if not self._is_empty:
            return False
        self._is_empty = False
        directory = f"{self._root}/{shown(self._root, self.pid)}"
        is_another, self.directory = directory != self.directory, directory
        self._texts.clear()
        return is_another

    def _text(self, wanted: int) -> list[Mapping]:
        data = maps.read(self.directory)
        self._is_empty = not data
        text = maps.parse(data, self.directory, wanted, self.linked)
        self.problems = text.problems
        return text.mappings

    def _find_in_text(self, address: int, flags: int) -> Mapping | None:
        """By the text, which is read again when it does not have the address."""
        trusted, mappings = self._texts.get(flags, (0.0, []))
        found = covering(mappings, address)
        now = monotonic()
        if found is None and now > trusted:
            mappings = self._text(flags)
            read = monotonic()
            self._texts[flags] = (read + max(TEXT_TRUSTED, READING_SHARE * (read - now)), mappings)
            found = covering(mappings, address)
        return found

    def _vsyscall(self) -> list[Mapping]:
        """The [vsyscall] page: at the same place in every 64-bit process, and in the text only. Taken from ours."""
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
    """The last line of our own maps, which shows the [vsyscall] page where the kernel has one: that stays until the
    machine starts again. The text takes long where much is mapped here."""
    lines = maps.read("/proc/self").rsplit(b"\n", 2)
    return lines[-2] if len(lines) > 1 else b""


def who(root: str, pid: int) -> Identity:
    """The identity of the process that has a pid now. Raises ProcessLookupError, PermissionError."""
    return with_plain_errors(pid, lambda: identify(f"{root}/{pid}"))


def covering(mappings: Sequence[Mapping], address: int) -> Mapping | None:
    """The mapping among these, in address order, that holds the address."""
    index = bisect_right(mappings, address, key=_start)
    return mappings[index - 1] if index and address < mappings[index - 1].limit else None


def with_plain_errors(pid: int, read: Callable[[], _T]) -> _T:
    """Returns what `read` returns; errors that mean one of the two raise that one, others stay as they are."""
    try:
        return read()
    except PermissionError as error:
        raise PermissionError(error.errno, f"the memory map of process {pid} may not be read") from None
    except OSError as error:
        if error.errno in _GONE:
            why = "" if os.path.exists(PROC_SELF) else ": /proc, where processes are read, is not mounted"
            raise ProcessLookupError(errno.ESRCH, f"there is no process {pid}{why}") from None
        raise


def _links_open(root: str, directory: str) -> bool:
    """Whether the links in map_files open (the kernel wants CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN of us).

    Tried on the first file that is mapped in ourselves: to list the links of a process with many mappings takes long.
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
    except FileNotFoundError:  # not a tree that we are in
        return os.path.isdir(f"{directory}/map_files")
    except (OSError, ValueError):
        pass
    return False
