"""Find the mapping of a runtime address of a process, with its build-id; cached, for many processes at once.

If the kernel can answer for one address, it is asked about one address at a time, so that a new process costs one
query; otherwise the text of maps is read once (reader.py). Answers are cached in sorted tables; failures are not
cached, because access may be granted later.

A cached process is identified again every `recheck` seconds, and after `confirm`, which a symbolizer calls for each
batch: another start time or another program (exec) with the same pid clears its cache. An address outside all cached
mappings is always looked up. If a process replaces a mapping (dlclose, then dlopen of another library at the same
addresses), the caller must invalidate it, or set `refresh`.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from time import monotonic

from whence._base.closing import Closing
from whence._base.errors import ElfError, MapsError
from whence._base.files import open_examined, stamp
from whence._base.forks import Lock
from whence._base.lru import Lru
from whence.procmap.build_id import build_id_of
from whence.procmap.kernels.constants import EXECUTE
from whence.procmap.mapping import Mapping
from whence.procmap.process import Identity
from whence.procmap.reader import ProcessReader, identity_of

MAX_PROCESSES = 4096
MAX_BUILD_IDS = 65536
FileKey = tuple[int, ...]
_Table = tuple[list[int], list[Mapping]]


class _Process:
    """The cache of one process. `table` (starts, mappings) is replaced, never changed: readers take no lock."""

    __slots__ = ("complete", "fresh_until", "identity", "keep_until", "lock", "reader", "table")

    def __init__(self, identity: Identity, reader: ProcessReader) -> None:
        self.identity = identity
        self.reader = reader
        self.table: _Table = ([], [])
        self.complete = False  # True if the table has all executable mappings
        self.fresh_until = 0.0
        self.keep_until = 0.0
        self.lock = Lock()

    def find_cached(self, address: int) -> Mapping | None:
        """Return the cached mapping at an address."""
        starts, mappings = self.table
        index = bisect_right(starts, address)
        return mappings[index - 1] if index and address < mappings[index - 1].limit else None

    def add(self, mapping: Mapping) -> None:
        """Add a mapping, in place of the mappings it overlaps."""
        with self.lock:
            starts, mappings = self.table
            first = bisect_right(starts, mapping.start)
            if first and mappings[first - 1].limit > mapping.start:
                first -= 1
            last = bisect_left(starts, mapping.limit)
            self.table = (
                [*starts[:first], mapping.start, *starts[last:]],
                [*mappings[:first], mapping, *mappings[last:]],
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
    """The executable mappings of processes, with build-ids. Safe for use from many threads.

    Args:
        proc_root: the folder with the process directories.
        recheck: seconds for which a process is assumed to be the same program.
        refresh: seconds for which its mappings are assumed to be the same; None: until they are invalidated.
        query: use PROCMAP_QUERY if the kernel has it; otherwise only the text of maps.
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
        """Clear the cache. The resolver stays usable."""
        with self._lock:
            self._processes.clear()
            self._build_ids.clear()

    def directory(self, pid: int) -> str:
        return f"{self._root}/{pid}"

    def lookup(self, pid: int, address: int) -> Mapping | None:
        """Return the executable mapping at a runtime address, with its build-id.

        None if the address is not in an executable mapping, the process has ended, or access was denied.
        """
        process = self._processes.get(pid)
        if process is not None and monotonic() < process.fresh_until:
            starts, mappings = process.table  # like find_cached, inlined for speed
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
        """Return all executable mappings with their build-ids, in address order.

        [] if the process has ended or access was denied. The list is the cached one: don't change it. Raises OSError
        for other errors.
        """
        try:
            return self.require(pid)
        except (ProcessLookupError, PermissionError):
            return []

    def build_id(self, path: str | os.PathLike[str]) -> str:
        """Return the build-id of the file at `path`, cached by device, inode and times.

        "" if it has none or can't be read; the latter is not cached.
        """
        try:
            descriptor = open_examined(path)
        except (OSError, ValueError):
            return ""
        return self._build_id_and_close(descriptor)

    def confirm(self, pid: int) -> None:
        """Identify a process again before the next answer about its pid, because pids are reused."""
        process = self._processes.get(pid)
        if process is not None:
            process.fresh_until = 0.0

    def invalidate(self, pid: int) -> None:
        """Forget a process, because it has ended or changed completely."""
        with self._lock:
            self._processes.pop(pid, None)

    def invalidate_addr(self, pid: int, address: int) -> None:
        """Forget a process if no cached mapping has the address, because it has new mappings."""
        process = self._processes.get(pid)
        if process is not None and process.find_cached(address) is None:
            self.invalidate(pid)

    def find(self, pid: int, address: int, flags: int = EXECUTE) -> Mapping | None:
        """Return the executable mapping at a runtime address, with its build-id; None without one.

        With `flags` 0, any mapping is returned; a mapping that is not executable has no build-id and is not cached.

        Raises:
            ProcessLookupError: the process has ended.
            PermissionError: access was denied.
        """
        process = self._current(pid)
        mapping = process.find_cached(address)
        if mapping is not None:
            return mapping
        mapping = process.reader.find(address, flags)
        if mapping is not None and mapping.is_exec:
            mapping = self._with_build_id(mapping)
            process.add(mapping)
        return mapping

    def require(self, pid: int) -> list[Mapping]:
        """Return all executable mappings with their build-ids, in address order.

        Raises:
            ProcessLookupError: the process has ended.
            PermissionError: access was denied.
        """
        process = self._current(pid)
        if not process.complete:
            process.fill([self._with_build_id(mapping) for mapping in process.reader.executable()])
        return process.table[1]

    def problems(self, pid: int) -> list[MapsError]:
        """Return the problems in the process's maps, as far as they were read."""
        process = self._processes.get(pid)
        return list(process.reader.problems) if process is not None else []

    def build_id_of(self, mapping: Mapping) -> str:
        """Return the build-id of the mapped file, never of another file with its name; "" if unreachable."""
        if not mapping.kind.has_file:
            return ""
        try:
            descriptor = mapping.open()
        except OSError:
            return ""
        return self._build_id_and_close(descriptor)

    def _current(self, pid: int) -> _Process:
        """Return the cache of a process, after checking its identity. Raises ProcessLookupError."""
        with self._lock:
            process = self._processes.get(pid)
        now = monotonic()
        if process is not None and now < process.fresh_until:
            return process
        try:
            identity = identity_of(self._root, pid)
        except OSError:
            self.invalidate(pid)
            raise
        if process is None or process.identity != identity:
            process = _Process(identity, ProcessReader(self._root, pid, self._query))
            with self._lock:
                self._processes[pid] = process
        if now >= process.keep_until:
            process.forget()
            process.keep_until = now + self._refresh
        process.fresh_until = min(now + self._recheck, process.keep_until)
        return process

    def _with_build_id(self, mapping: Mapping) -> Mapping:
        """Return the mapping with the build-id of its file, if the kernel has not returned it."""
        if mapping.build_id or not mapping.kind.has_file:
            return mapping
        build_id = self.build_id_of(mapping)
        return mapping._replace(build_id=build_id) if build_id else mapping

    def _build_id_and_close(self, descriptor: int) -> str:
        try:
            status = os.fstat(descriptor)
            key = (*stamp(status), status.st_ctime_ns)
            with self._lock:
                build_id = self._build_ids.get(key)
            if build_id is None:
                build_id = build_id_of(descriptor)
                with self._lock:
                    self._build_ids[key] = build_id
            return build_id
        except (OSError, ElfError):
            return ""
        finally:
            os.close(descriptor)
