"""From (pid, runtime address) to the mapping there, with its build-id: cached, for many processes at once.

What the kernel can tell about one address (query.py) is asked for one address at a time, so that a fresh process costs
one question; where it can't, the text of maps is read once (maps.py). Either way answers are kept, sorted, and found by
binary search. Nothing that failed is kept: a process we may not look into now may let us in a second later.

A kept process is looked at again every `recheck` seconds: another start time or another program (exec) under the same
pid starts afresh. Mappings that the process itself changes (dlopen, munmap) are the caller's to invalidate, but an
address that no kept mapping covers is always asked for.
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from operator import attrgetter
from time import monotonic

from whence.errors import ElfError, MapsError
from whence.procmap import maps
from whence.procmap.build_id import build_id_of
from whence.procmap.mapping import EXECUTE, Kind, Mapping
from whence.procmap.process import Identity, identify
from whence.procmap.query import MapsQuery

MAX_PROCESSES = 4096
MAX_BUILD_IDS = 65536
TEXT_TRUSTED = 0.05  # seconds for which an address that is not in the text read is not in the process
GATE, GATE_SIZE = 0xFFFFFFFFFF600000, 1 << 12
_GONE = (errno.ENOENT, errno.ESRCH)
FileKey = tuple[int, int, int, int, int]
_start = attrgetter("start")


class _Process:
    """What is known of one process. `table` is replaced, never changed: readers take no lock."""

    __slots__ = ("complete", "fresh_until", "identity", "linked", "lock", "problems", "query", "table", "texts")

    def __init__(self, identity: Identity, linked: bool, query: bool) -> None:
        self.identity = identity
        self.linked = linked
        self.query = query  # the kernel answers PROCMAP_QUERY
        self.table: tuple[list[int], list[Mapping]] = ([], [])
        self.complete = False
        self.fresh_until = 0.0
        self.problems: list[MapsError] = []
        self.texts: dict[int, tuple[float, list[Mapping]]] = {}  # wanted permissions -> when read, without build-ids
        self.lock = threading.Lock()

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


class Resolver:
    """Executable mappings of processes, with build-ids. Safe for use from many threads.

    `proc_root` is where the process directories are; `recheck` how many seconds a process is trusted to be the same
    program; `query` false keeps to the text of maps.
    """

    def __init__(
        self, proc_root: str | os.PathLike[str] = "/proc", *, recheck: float = 1.0, query: bool = True
    ) -> None:
        self._root = os.fspath(proc_root)
        self._recheck = recheck
        self._query = query
        self._processes: dict[int, _Process] = {}
        self._build_ids: OrderedDict[FileKey, str] = OrderedDict()
        self._lock = threading.Lock()

    def __enter__(self) -> Resolver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop everything kept. The resolver stays usable, as if new."""
        with self._lock:
            self._processes = {}
            self._build_ids = OrderedDict()

    def directory(self, pid: int) -> str:
        return f"{self._root}/{pid}"

    # the seed's questions: soft, they answer "nothing" where there is nothing to see

    def lookup(self, pid: int, address: int) -> Mapping | None:
        """The executable mapping that holds a runtime address, with its build-id.

        None when the address lies in none, when the process is gone, and when we may not look.
        """
        known = self._processes.get(pid)
        if known is not None and monotonic() < known.fresh_until:
            starts, mappings = known.table
            at = bisect_right(starts, address)
            if at:
                mapping = mappings[at - 1]
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
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            return ""
        return self._build_id_and_close(descriptor)

    def invalidate(self, pid: int) -> None:
        """Forget a process: it has exited, or changed as a whole."""
        with self._lock:
            self._processes.pop(pid, None)

    def invalidate_addr(self, pid: int, address: int) -> None:
        """Forget a process if no kept mapping holds the address: it has mapped something new. Cheap otherwise."""
        known = self._processes.get(pid)
        if known is None:
            return
        starts, mappings = known.table
        at = bisect_right(starts, address)
        if not at or address >= mappings[at - 1].limit:
            self.invalidate(pid)

    # the same questions, telling why

    def find(self, pid: int, address: int, flags: int = EXECUTE) -> Mapping | None:
        """As `lookup`, but raises ProcessLookupError and PermissionError. With flags 0 it answers for any mapping
        (those that are not executable have no build-id and are not kept)."""
        known = self._current(pid)
        starts, mappings = known.table
        at = bisect_right(starts, address)
        if at and address < mappings[at - 1].limit:
            return mappings[at - 1]
        process = self.directory(pid)
        try:
            if known.query:
                with MapsQuery(process, known.linked) as query:
                    found = query.find(address, flags)
                if found is None and address & -GATE_SIZE == GATE:  # [vsyscall] is in the text only
                    found = self._scan(process, known, address, flags)
            else:
                found = self._scan(process, known, address, flags)
        except OSError as error:
            raise _worded(error, pid) from None
        if found is None or not found.is_exec:
            return found
        if not found.build_id:
            found = found._replace(build_id=self.build_id_of(found))
        known.add(found)
        return found

    def require(self, pid: int) -> list[Mapping]:
        """As `mappings`, but raises ProcessLookupError and PermissionError."""
        known = self._current(pid)
        if not known.complete:
            self._fill(pid, known)
        return known.table[1]

    def problems(self, pid: int) -> list[MapsError]:
        """What was wrong with lines of the process's maps, as far as they have been read."""
        known = self._processes.get(pid)
        return list(known.problems) if known is not None else []

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
        known = self._processes.get(pid)
        now = monotonic()
        if known is not None and now < known.fresh_until:
            return known
        process = self.directory(pid)
        try:
            identity = identify(process)
        except OSError as error:
            self.invalidate(pid)
            raise _worded(error, pid) from None
        if known is None or known.identity != identity:
            known = _Process(
                identity, _map_files_readable(self._root, process), self._query and self._kernel_answers(pid)
            )
            with self._lock:
                self._processes.pop(pid, None)
                while len(self._processes) >= MAX_PROCESSES:
                    del self._processes[next(iter(self._processes))]
                self._processes[pid] = known
        known.fresh_until = now + self._recheck
        return known

    def _kernel_answers(self, pid: int) -> bool:
        try:
            with MapsQuery(self.directory(pid)) as query:
                return query.supported()
        except OSError:
            return False

    def _fill(self, pid: int, known: _Process) -> None:
        process = self.directory(pid)
        try:
            if known.query:
                with MapsQuery(process, known.linked) as query:
                    found = list(query.walk(EXECUTE))
                if found and found[-1].limit >> 32:
                    found += _gate(process)
            else:
                text = maps.parse(maps.read(process), process, EXECUTE, known.linked)
                found, known.problems = text.mappings, text.problems
        except OSError as error:
            raise _worded(error, pid) from None
        found = [
            mapping if mapping.build_id or not mapping.kind.has_file else self._with_build_id(mapping)
            for mapping in found
        ]
        with known.lock:
            known.table = ([mapping.start for mapping in found], found)
            known.complete = True

    def _with_build_id(self, mapping: Mapping) -> Mapping:
        build_id = self.build_id_of(mapping)
        return mapping._replace(build_id=build_id) if build_id else mapping

    def _scan(self, process: str, known: _Process, address: int, flags: int) -> Mapping | None:
        """The mapping of an address by the text, which is read again when it does not have the address."""
        read_at, mappings = known.texts.get(flags, (0.0, []))
        found = _covering(mappings, address)
        now = monotonic()
        if found is None and now - read_at > TEXT_TRUSTED:
            text = maps.parse(maps.read(process), process, flags, known.linked)
            known.texts[flags] = (now, text.mappings)
            known.problems = text.problems
            found = _covering(text.mappings, address)
        return found

    def _build_id_and_close(self, descriptor: int) -> str:
        try:
            status = os.fstat(descriptor)
            key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            known = self._build_ids.get(key)
            if known is None:
                known = build_id_of(descriptor)
                with self._lock:
                    while len(self._build_ids) >= MAX_BUILD_IDS:
                        self._build_ids.popitem(last=False)
                    self._build_ids[key] = known
            return known
        except (OSError, ElfError):
            return ""
        finally:
            os.close(descriptor)


def _covering(mappings: list[Mapping], address: int) -> Mapping | None:
    at = bisect_right(mappings, address, key=_start)
    return mappings[at - 1] if at and address < mappings[at - 1].limit else None


def _worded(error: OSError, pid: int) -> OSError:
    """The error of a look at a process as the two that callers tell apart; others as they are."""
    if error.errno in _GONE:
        return ProcessLookupError(errno.ESRCH, f"there is no process {pid}")
    if isinstance(error, PermissionError):
        return PermissionError(error.errno, f"the memory map of process {pid} may not be read")
    return error


def _map_files_readable(root: str, process: str) -> bool:
    """Whether the links in map_files open (the kernel wants CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN of us).

    Tried on ourselves: listing those of a process with many mappings takes long.
    """
    try:
        with os.scandir(f"{root}/self/map_files") as links:
            for link in links:
                os.stat(link.path)
                return True
    except FileNotFoundError:  # not a tree that we are in
        return os.path.isdir(f"{process}/map_files")
    except OSError:
        pass
    return False


def _gate(process: str) -> list[Mapping]:
    """The [vsyscall] page, which x86-64 kernels show every 64-bit process at the same place, in the text only."""
    try:
        lines = maps.read("/proc/self").rsplit(b"\n", 2)
    except OSError:
        return []
    gate = maps.parse(lines[-2] if len(lines) > 1 else b"").mappings
    return [m._replace(process=process) for m in gate if m.kind is Kind.SPECIAL and m.start == GATE]
