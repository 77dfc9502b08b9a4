"""Names by runtime address that are in no ELF file: perf maps of processes, and the kernel's kallsyms.

perf maps   given by hand, else /tmp/perf-PID.map of the process a profile names. A file named perf-PID.map answers
            for that process when several are given; one given alone answers for all. /tmp is everyone's: what lies
            there is believed when it is a regular file of ours or root's, as perf does it
kallsyms    given by hand, else the one that was kept with the recording (perf record --kcore), else what perf's cache
            has of the build-id (moved to where the kernel lay then, if it lay elsewhere), else /proc/kallsyms, when the
            profile was recorded on the kernel that runs here: its build-id is the same, or without one the first symbol
            is at the same address
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from whence._base.errors import ProfileError, WhenceError
from whence._base.files import OWNED, NotRegularError, open_input
from whence._base.model import Source
from whence._base.reasons import GIVE_KALLSYMS, GIVE_KERNEL, GIVE_PERF_MAP, Missing, Reason
from whence.locate.identity import key
from whence.locate.names import IMAGE, is_image, module_of
from whence.objects.elf.notes import build_id, walk
from whence.objects.elf.segments import SMALLEST_PAGE as PAGE
from whence.procmap import perfmap
from whence.procmap.kallsyms import KernelNames
from whence.procmap.names import NamedAddresses
from whence.samples.kernel import first_address
from whence.samples.model import Mapping

KALLSYMS = "/proc/kallsyms"
KERNEL_NOTES = "/sys/kernel/notes"
MAP_NAME = re.compile(r"perf-(\d+)\.map")


class NameList(NamedTuple):
    """A list of names, which source its frames get, and in words where it came from."""

    names: NamedAddresses
    source: Source
    how: str


class MovedNames(NamedAddresses):
    """The names of a kernel that lay elsewhere, `moved` bytes higher; its modules lay anywhere and are left out."""

    __slots__ = ("_moved", "_there")

    def __init__(self, there: NamedAddresses, moved: int) -> None:
        super().__init__()
        self._there, self._moved = there, moved

    def __len__(self) -> int:
        return len(self._there)

    def lookup(self, address: int) -> str:
        name = self._there.lookup(address - self._moved) if address >= self._moved else ""
        return "" if name.endswith("]") else name


class SymbolLists:
    """Names by runtime address that are in no ELF file; each list is read once.

    `perf_maps` are files of JIT compilers' names, `kallsyms` one of the kernel's. `local` allows those of this machine
    that nobody gave by hand. Raises OSError and ProfileError for a given file that can't be read.
    """

    def __repr__(self) -> str:
        kernel = "none" if self.kallsyms is None else ascii(str(self.kallsyms))
        return f"<profiles.SymbolLists: {len(self._given)} perf maps, kallsyms {kernel}>"

    def __init__(
        self,
        perf_maps: Sequence[str | os.PathLike[str]] = (),
        kallsyms: str | os.PathLike[str] | None = None,
        *,
        local: bool = True,
        directory: str = "/tmp",
        running: str = KALLSYMS,
        notes: str = KERNEL_NOTES,
    ) -> None:
        self.local = local
        self.folders: Sequence[str] = ()  # debug folders: perf's cache has the kallsyms of recorded kernels
        self.recorded = ""  # the kallsyms that was kept with the profile that is being named
        self._read: dict[str, KernelNames] = {}  # by path
        self._cached: dict[tuple[str, str, int | None], NameList | None] = {}  # by what decides which it is
        self._directory = directory
        self._running, self._notes = running, notes
        self._given = [(os.fspath(one), given_map(os.fspath(one))) for one in perf_maps]
        self._found: dict[int, NameList | Missing] = {}
        self._kernel: tuple[KernelNames, int | None] | None = None
        self.kallsyms = os.fspath(kallsyms) if kallsyms is not None else None
        if self.kallsyms is not None:
            self._kernel = read_kallsyms(self.kallsyms)

    # processes

    def of_processes(self, pids: Collection[int]) -> tuple[list[NameList], Missing]:
        """The perf maps that answer for a place in one of these processes; and what to say when none of them does."""
        if self._given:
            named = [(MAP_NAME.fullmatch(os.path.basename(path)), one) for path, one in self._given]
            several = len(named) > 1 and pids
            out = [one for name, one in named if not (several and name) or int(name[1]) in pids]
            if out:
                detail = f"{', '.join(one.how for one in out)} names nothing there"
                return out, Missing(Reason.NOT_FILE_BACKED, detail, GIVE_PERF_MAP)
        if not pids:
            return [], Missing(Reason.NOT_FILE_BACKED, "the profile does not name the process", GIVE_PERF_MAP)
        found = [self._of_process(pid) for pid in sorted(pids)] if self.local else []
        lists = [one for one in found if isinstance(one, NameList)]
        if lists:
            detail = f"{', '.join(one.how for one in lists)} names nothing there"
            return lists, Missing(Reason.NOT_FILE_BACKED, detail, GIVE_PERF_MAP)
        absent = next((one for one in found if isinstance(one, Missing)), None)
        return [], absent or Missing(Reason.NOT_FILE_BACKED, "no perf map was given", GIVE_PERF_MAP)

    def _of_process(self, pid: int) -> NameList | Missing:
        found = self._found.get(pid)
        if found is None:
            path = f"{self._directory}/perf-{pid}.map"
            live = perfmap.read(f"/proc/{pid}", pid) if self._directory == "/tmp" else None
            if live is not None and live[1] is not None:  # a running process writes into its own /tmp
                found = NameList(perfmap.parse(live[1]), Source.PERFMAP, path)
            else:
                found = read_perf_map(path)
            self._found[pid] = found
        return found

    # the kernel

    def of_kernel(self, mapping: Mapping | None) -> tuple[NameList | None, Missing]:
        """The names of the kernel a mapping is of (None: of some kernel); or why there are none."""
        path = mapping.path if mapping is not None and mapping.path else "kernel code"
        if self._kernel is not None and self.kallsyms is not None:
            if len(self._kernel[0]):
                how = f"given {self.kallsyms}"
                return NameList(self._kernel[0], Source.KALLSYMS, how), Missing(Reason.NOT_IN_ARCHIVE, how)
            return None, Missing(Reason.KERNEL_HIDDEN, f"{self.kallsyms} has no addresses")
        cached = self._of_cache(mapping) if mapping is not None else None
        if cached is not None:
            return cached, Missing(Reason.NOT_IN_ARCHIVE, cached.how)
        if self.local and mapping is not None:
            names = self._of_this_machine(mapping)
            if names is not None:
                return NameList(names, Source.KALLSYMS, self._running), Missing(Reason.NOT_IN_ARCHIVE, self._running)
        return None, Missing(Reason.NO_FILE, path, f"{GIVE_KERNEL}; {GIVE_KALLSYMS}")

    @property
    def text_address(self) -> int | None:
        """Where _text of the recorded kernel lies, from a kallsyms file that was given."""
        return self._kernel[1] if self._kernel is not None and self.kallsyms is not None else None

    def _of_cache(self, mapping: Mapping) -> NameList | None:
        """The names that were kept of the recorded kernel, with the recording or by its build-id in perf's cache; those
        of modules are among them."""
        if not is_image(mapping.path):
            begins = first_address(mapping)
            inside = f"[{module_of(mapping.path)}]"
            known = [one for one in self._cached.values() if one is not None and begins is not None]
            if self.recorded and (names := self._names_in(self.recorded)):
                known.insert(0, NameList(names, Source.KALLSYMS, self.recorded))
            return next((one for one in known if inside in one.names.lookup(begins or 0)), None)
        build_id = key(mapping.build_id)
        asked = self.recorded, build_id, first_address(mapping)
        if asked not in self._cached:
            kept = [self.recorded] if self.recorded else []
            lists = (self._placed(path, mapping) for path in (*kept, *self._kept_of(build_id)))
            self._cached[asked] = next((one for one in lists if one is not None), None)
        return self._cached[asked]

    def _kept_of(self, build_id: str) -> Iterator[str]:
        """Where perf's cache may have the kallsyms of a kernel: by itself, or beside a copy of kcore, newest first."""
        for folder in self.folders if build_id else ():
            yield os.path.join(folder, ".build-id", build_id[:2], build_id[2:], "kallsyms")
            yield os.path.join(folder, "[kernel.kallsyms]", build_id, "kallsyms")
            copies = os.path.join(folder, "[kernel.kcore]", build_id)
            with suppress(OSError):
                yield from (os.path.join(copies, one, "kallsyms") for one in sorted(os.listdir(copies), reverse=True))

    def _names_in(self, path: str) -> KernelNames:
        """The names of a list, none where it can't be read; each is read once."""
        if path not in self._read:
            self._read[path] = KernelNames()
            with suppress(OSError, ProfileError):
                self._read[path], _ = read_kallsyms(path)
        return self._read[path]

    def _placed(self, path: str, mapping: Mapping) -> NameList | None:
        """The names of a list at the addresses where a mapping has the kernel; None where it can't be the same one."""
        names = self._names_in(path)
        if not len(names):
            return None
        found = re.fullmatch(IMAGE, mapping.path)
        here, there = first_address(mapping), names.begins.get((found and found["symbol"]) or "_text")
        if here is None or there is None or here == there:
            return NameList(names, Source.KALLSYMS, path)
        if (here - there) % PAGE:
            return None
        return NameList(MovedNames(names, here - there), Source.KALLSYMS, path)

    def _of_this_machine(self, mapping: Mapping) -> KernelNames | None:
        """The running kernel's names, when the mapping is of this kernel."""
        image = is_image(mapping.path)
        if image and mapping.build_id and mapping.build_id.lower() != self._running_build_id():
            return None
        if self._kernel is None:
            try:
                self._kernel = read_kallsyms(self._running)
            except OSError:
                self._kernel = KernelNames(), None
        names, first = self._kernel
        begins = first_address(mapping)
        if begins is None:
            return names if image and mapping.build_id else None
        if image:
            return names if begins == first else None
        inside = names.lookup(begins)  # what perf calls [xfs], kallsyms calls its functions' [xfs]
        return names if f"[{module_of(mapping.path)}]" in inside or mapping.path in inside else None

    def _running_build_id(self) -> str:
        try:
            with open(self._notes, "rb") as file:
                data = memoryview(file.read())
            return build_id(walk(data, 0, len(data), 4, "little" if sys.byteorder == "little" else "big"))
        except (OSError, WhenceError):
            return ""


def given_map(path: str) -> NameList:
    """A perf map someone gave. Raises OSError, ProfileError."""
    with open_input(path, ProfileError) as file:
        return NameList(perfmap.parse(file.read()), Source.PERFMAP, f"given {path}")


def read_kallsyms(path: str) -> tuple[KernelNames, int | None]:
    """The names, and where _text lies. Raises OSError, ProfileError."""
    with open_input(path, ProfileError) as file:
        data = file.read()
    names = KernelNames(data)
    return names, names.text_address


def read_perf_map(path: str) -> NameList | Missing:
    """The perf map at a path that everyone can write to, if it may be believed."""
    try:
        _, data = perfmap.read_file(path, (os.geteuid(),) if OWNED else ())
    except NotRegularError:
        return Missing(Reason.NOT_FILE_BACKED, f"{path} is no regular file", GIVE_PERF_MAP)
    except OSError as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        return Missing(Reason.NOT_FILE_BACKED, f"{path} {why}", GIVE_PERF_MAP)
    return NameList(perfmap.parse(data or b""), Source.PERFMAP, path)
