"""From (pid, runtime address) to the mapping there, with its build-id: cached, for many processes at once.

What the kernel can say about one address is asked for one address at a time, so that a fresh process costs one
question; where it can't, the text of maps is read once (reader.py). Either way answers are kept, sorted, and found by
binary search. Nothing that failed is kept: a process we may not look into now may let us in a second later.

A kept process is looked at again every `recheck` seconds, and when `confirm` asks for it, as a symbolizer does at each
batch: another start time or another program (exec) under the same pid starts afresh. An address that no kept mapping
holds is always asked for. A mapping that the process has replaced (dlclose, then dlopen of another library in its
place) is the caller's to invalidate, or `refresh` seconds do it.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from time import monotonic

from whence._base.closing import Closing
from whence._base.errors import ElfError, MapsError
from whence._base.files import open_looked_at, stamp
from whence._base.forks import Lock
from whence._base.lru import Lru
from whence.procmap.build_id import build_id_of
from whence.procmap.kernels.constants import EXECUTE
from whence.procmap.mapping import Mapping
from whence.procmap.process import Identity
from whence.procmap.reader import ProcessReader, who

MAX_PROCESSES = 4096
MAX_BUILD_IDS = 65536
FileKey = tuple[int, ...]
_Table = tuple[list[int], list[Mapping]]


class _Process:
    """What is kept of one process. `table` (starts, mappings) is replaced, never changed: readers take no lock."""

    __slots__ = ("complete", "fresh_until", "identity", "keep_until", "lock", "reader", "table")

    def __init__(self, identity: Identity, reader: ProcessReader) -> None:
        self.identity = identity
        self.reader = reader
        self.table: _Table = ([], [])
        self.complete = False  # all executable mappings are in the table
        self.fresh_until = 0.0
        self.keep_until = 0.0
        self.lock = Lock()

    def at(self, address: int) -> Mapping | None:
        starts, mappings = self.table
        index = bisect_right(starts, address)
        return mappings[index - 1] if index and address < mappings[index - 1].limit else None

    def add(self, mapping: Mapping) -> None:
        """Put a mapping in its place; those it overlaps are not there any more."""
        with self.lock:
            starts, known = self.table
            first = bisect_right(starts, mapping.start)
            if first and known[first - 1].limit > mapping.start:
                first -= 1
            last = bisect_left(starts, mapping.limit)
            self.table = (
                [*starts[:first], mapping.start, *starts[last:]],
                [*known[:first], mapping, *known[last:]],
            )

    def fill(self, mappings: list[Mapping]) -> None:
        with self.lock:
            self.table = ([mapping.start for mapping in mappings], mappings)
            self.complete = True

    def forget(self) -> None:
        with self.lock:
            self.table = ([], [])
            self.complete = False
            self.reader.forget()


class Resolver(Closing):
    """Executable mappings of processes, with build-ids. Safe for use from many threads.

    `proc_root` is where the process directories are; `recheck` how many seconds a process is trusted to be the same
    program, `refresh` how many its mappings are (None: until they are invalidated); `query` false keeps to the text.
    """

    def __init__(
        self,
        proc_root: str | os.PathLike[str] = "/proc",
        *,
        recheck: float = 1.0,
        refresh: float | None = None,
        query: bool = True,
    ) -> None:
        self._root = os.fspath(proc_root)
        self._recheck = recheck
        self._refresh = float("inf") if refresh is None else refresh
        self._query = query
        self._processes: Lru[int, _Process] = Lru(MAX_PROCESSES)
        self._build_ids: Lru[FileKey, str] = Lru(MAX_BUILD_IDS)
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<whence.procmap.Resolver of {self._root}: {len(self._processes)} processes>"

    def close(self) -> None:
        """Drop everything kept. The resolver stays usable, as if new."""
        with self._lock:
            self._processes.clear()
            self._build_ids.clear()

    def directory(self, pid: int) -> str:
        return f"{self._root}/{pid}"

    # lookups: nothing where the process or the mapping is gone or may not be read

    def lookup(self, pid: int, address: int) -> Mapping | None:
        """The executable mapping that holds a runtime address, with its build-id.

        None when the address lies in none, when the process is gone, and when we may not look.
        """
        known = self._processes.get(pid)
        if known is not None and monotonic() < known.fresh_until:
            starts, mappings = known.table  # as _Process.at, in line: this is the way nearly all lookups end
            index = bisect_right(starts, address)
            if index:
                mapping = mappings[index - 1]
                if address < mapping.limit:
                    return mapping
        try:
            return self.find(pid, address)
        except OSError:
            return None

    def mappings(self, pid: int) -> list[Mapping]:
        """All executable mappings with their build-ids, in address order; [] when there are none to see.

        The list is the one kept: don't change it. Raises OSError only for what is neither a missing process nor a
        missing right.
        """
        try:
            return self.require(pid)
        except (ProcessLookupError, PermissionError):
            return []

    def build_id(self, path: str | os.PathLike[str]) -> str:
        """The build-id of the file at `path`, kept by what file it is (device, inode, times), not by its name.

        "" when it has none or can't be read; the latter is tried again next time.
        """
        try:
            descriptor = open_looked_at(path)
        except (OSError, ValueError):
            return ""
        return self._build_id_and_close(descriptor)

    def confirm(self, pid: int) -> None:
        """Look, before the next answer about a pid, whether it is still the same process: pids are used again."""
        known = self._processes.get(pid)
        if known is not None:
            known.fresh_until = 0.0

    def invalidate(self, pid: int) -> None:
        """Forget a process: it has exited, or changed as a whole."""
        with self._lock:
            self._processes.pop(pid, None)

    def invalidate_addr(self, pid: int, address: int) -> None:
        """Forget a process if no kept mapping holds the address: it has mapped something new. Cheap otherwise."""
        known = self._processes.get(pid)
        if known is not None and known.at(address) is None:
            self.invalidate(pid)

    # the same, raising the reason

    def find(self, pid: int, address: int, flags: int = EXECUTE) -> Mapping | None:
        """As `lookup`, but raises ProcessLookupError and PermissionError. With flags 0 it answers for any mapping
        (those that are not executable have no build-id and are not kept)."""
        known = self._current(pid)
        found = known.at(address)
        if found is not None:
            return found
        found = known.reader.find(address, flags)
        if found is not None and found.is_exec:
            found = self._with_build_id(found)
            known.add(found)
        return found

    def require(self, pid: int) -> list[Mapping]:
        """As `mappings`, but raises ProcessLookupError and PermissionError."""
        known = self._current(pid)
        if not known.complete:
            known.fill([self._with_build_id(mapping) for mapping in known.reader.executable()])
        return known.table[1]

    def problems(self, pid: int) -> list[MapsError]:
        """What was wrong with lines of the process's maps, as far as they have been read."""
        known = self._processes.get(pid)
        return list(known.reader.problems) if known is not None else []

    def build_id_of(self, mapping: Mapping) -> str:
        """The build-id of the file behind a mapping, never of another file by its name; "" when unreachable."""
        if not mapping.kind.has_file:
            return ""
        try:
            descriptor = mapping.open()
        except OSError:
            return ""
        return self._build_id_and_close(descriptor)

    # inside

    def _current(self, pid: int) -> _Process:
        """What is kept of a process, after making sure it is still the same one. Raises ProcessLookupError."""
        with self._lock:
            known = self._processes.get(pid)
        now = monotonic()
        if known is not None and now < known.fresh_until:
            return known
        try:
            identity = who(self._root, pid)
        except OSError:
            self.invalidate(pid)
            raise
        if known is None or known.identity != identity:
            known = _Process(identity, ProcessReader(self._root, pid, self._query))
            with self._lock:
                self._processes[pid] = known
        if now >= known.keep_until:
            known.forget()
            known.keep_until = now + self._refresh
        known.fresh_until = min(now + self._recheck, known.keep_until)
        return known

    def _with_build_id(self, mapping: Mapping) -> Mapping:
        """The mapping with the build-id of its file, where the kernel did not give it."""
        if mapping.build_id or not mapping.kind.has_file:
            return mapping
        build_id = self.build_id_of(mapping)
        return mapping._replace(build_id=build_id) if build_id else mapping

    def _build_id_and_close(self, descriptor: int) -> str:
        try:
            status = os.fstat(descriptor)
            key = (*stamp(status), status.st_ctime_ns)
            with self._lock:
                known = self._build_ids.get(key)
            if known is None:
                known = build_id_of(descriptor)
                with self._lock:
                    self._build_ids[key] = known
            return known
        except (OSError, ElfError):
            return ""
        finally:
            os.close(descriptor)
