"""Names by runtime address that are in no ELF file: perf maps of processes, and the kernel's kallsyms.

perf maps   the user's files, else /tmp/perf-PID.map of each process of the profile. If the user gives several files,
            one named perf-PID.map is used for that process only. All users can write to /tmp: a file there is used
            only if it is a regular file of this user or root, as in perf
kallsyms    the user's file, else the file kept with the recording (perf record --kcore), else the file of the build-id
            in perf's cache (relocated to the recorded load address), else /proc/kallsyms, if the profile was recorded
            on the running kernel: the build-id is equal, or without a build-id the address of the first symbol
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
COPY_KALLSYMS = "copy /proc/kallsyms as root, which sees the addresses, and give that copy with --kallsyms"
MAP_NAME = re.compile(r"perf-(\d+)\.map")


class NameList(NamedTuple):
    """A list of names, the source of its frames, and a description of where it is from."""

    names: NamedAddresses
    source: Source
    how: str


class MovedNames(NamedAddresses):
    """The names of a kernel that was loaded `moved` bytes higher. Modules are left out: each moved differently."""

    __slots__ = ("_moved", "_names_there")

    def __init__(self, names: NamedAddresses, moved: int) -> None:
        super().__init__()
        self._names_there, self._moved = names, moved

    def __len__(self) -> int:
        return len(self._names_there)

    def lookup(self, address: int) -> str:
        name = self._names_there.lookup(address - self._moved) if address >= self._moved else ""
        return "" if name.endswith("]") else name


class SymbolLists:
    """Names by runtime address that are in no ELF file; each list is read once.

    Args:
        perf_maps: paths of files that JIT compilers wrote.
        kallsyms: path of a list of the kernel's symbols.
        local: also use the perf maps and kallsyms of this machine.
        directory: where this machine's perf maps are.
        running: the kallsyms of the running kernel.
        notes: the ELF notes of the running kernel.

    Raises:
        OSError: a given file can't be read.
        ProfileError: a given file is not a regular file.
    """

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
        self.recorded = ""  # path of the kallsyms kept with the current profile
        self._read: dict[str, KernelNames] = {}  # by path
        self._cached: dict[tuple[str, str, int | None], NameList | None] = {}  # by recorded kallsyms, build-id, start
        self._directory = directory
        self._running, self._notes = running, notes
        self._given = [(os.fspath(path), given_map(os.fspath(path))) for path in perf_maps]
        self._perf_maps: dict[int, NameList | Missing] = {}  # by pid
        self._kernel: tuple[KernelNames, int | None] | None = None
        self.kallsyms = os.fspath(kallsyms) if kallsyms is not None else None
        if self.kallsyms is not None:
            self._kernel = read_kallsyms(self.kallsyms)

    def __repr__(self) -> str:
        kernel = "none" if self.kallsyms is None else ascii(str(self.kallsyms))
        return f"<profiles.SymbolLists: {len(self._given)} perf maps, kallsyms {kernel}>"

    # processes

    def of_processes(self, pids: Collection[int]) -> tuple[list[NameList], Missing]:
        """Return the perf maps of these processes, and the reason for an address that they have no name for."""
        if self._given:
            by_name = [(MAP_NAME.fullmatch(os.path.basename(path)), names) for path, names in self._given]
            by_pid = len(by_name) > 1 and pids
            lists = [names for name, names in by_name if not (by_pid and name) or int(name[1]) in pids]
            if lists:
                return lists, no_name_in(lists)
        if not pids:
            return [], Missing(Reason.NOT_FILE_BACKED, "the profile does not say which process", GIVE_PERF_MAP)
        results = [self._of_process(pid) for pid in sorted(pids)] if self.local else []
        lists = [result for result in results if isinstance(result, NameList)]
        if lists:
            return lists, no_name_in(lists)
        absent = next((result for result in results if isinstance(result, Missing)), None)
        return [], absent or Missing(Reason.NOT_FILE_BACKED, "no perf map was given", GIVE_PERF_MAP)

    def _of_process(self, pid: int) -> NameList | Missing:
        result = self._perf_maps.get(pid)
        if result is None:
            path = f"{self._directory}/perf-{pid}.map"
            live = perfmap.read(f"/proc/{pid}", pid) if self._directory == "/tmp" else None
            if live is not None and live[1] is not None:  # a running process may have its own /tmp
                result = NameList(perfmap.parse(live[1]), Source.PERFMAP, path)
            else:
                result = read_perf_map(path)
            self._perf_maps[pid] = result
        return result

    # the kernel

    def of_kernel(self, mapping: Mapping | None) -> tuple[NameList | None, Missing]:
        """Return the names of a mapping's kernel (None: of any kernel) if known, and the reason for other addresses."""
        path = mapping.path if mapping is not None and mapping.path else "kernel code"
        if self._kernel is not None and self.kallsyms is not None:
            if len(self._kernel[0]):
                how = f"given {self.kallsyms}"
                return NameList(self._kernel[0], Source.KALLSYMS, how), Missing(Reason.NOT_IN_ARCHIVE, how)
            return None, Missing(Reason.KERNEL_HIDDEN, f"{self.kallsyms} has no addresses", COPY_KALLSYMS)
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
        """The address of _text in the recorded kernel, from the user's kallsyms."""
        return self._kernel[1] if self._kernel is not None and self.kallsyms is not None else None

    def _of_cache(self, mapping: Mapping) -> NameList | None:
        """Return the names of the recorded kernel and its modules, from the recording or from perf's cache."""
        start = first_address(mapping)
        if not is_image(mapping.path):
            module = f"[{module_of(mapping.path)}]"
            lists = [names for names in self._cached.values() if names is not None and start is not None]
            if self.recorded and (names := self._names_in(self.recorded)):
                lists.insert(0, NameList(names, Source.KALLSYMS, self.recorded))
            return next((names for names in lists if module in names.names.lookup(start or 0)), None)
        build_id = key(mapping.build_id)
        query = self.recorded, build_id, start
        if query not in self._cached:
            recorded = [self.recorded] if self.recorded else []
            candidates = (self._relocated(path, mapping) for path in (*recorded, *self._cache_paths(build_id)))
            self._cached[query] = next((names for names in candidates if names is not None), None)
        return self._cached[query]

    def _cache_paths(self, build_id: str) -> Iterator[str]:
        """Yield where perf's cache may have the kallsyms of a kernel: alone, or with a copy of kcore, newest first."""
        for folder in self.folders if build_id else ():
            yield os.path.join(folder, ".build-id", build_id[:2], build_id[2:], "kallsyms")
            yield os.path.join(folder, "[kernel.kallsyms]", build_id, "kallsyms")
            copies = os.path.join(folder, "[kernel.kcore]", build_id)
            with suppress(OSError):
                yield from (os.path.join(copies, name, "kallsyms") for name in sorted(os.listdir(copies), reverse=True))

    def _names_in(self, path: str) -> KernelNames:
        """Return the names of a list, which is empty if it can't be read; each is read once."""
        if path not in self._read:
            self._read[path] = KernelNames()
            with suppress(OSError, ProfileError):
                self._read[path], _ = read_kallsyms(path)
        return self._read[path]

    def _relocated(self, path: str, mapping: Mapping) -> NameList | None:
        """Return the names of a list at a mapping's addresses; None if it is the list of another kernel."""
        names = self._names_in(path)
        if not len(names):
            return None
        image = re.fullmatch(IMAGE, mapping.path)
        mapped, listed = first_address(mapping), names.begins.get((image and image["symbol"]) or "_text")
        if mapped is None or listed is None or mapped == listed:
            return NameList(names, Source.KALLSYMS, path)
        if (mapped - listed) % PAGE:
            return None
        return NameList(MovedNames(names, mapped - listed), Source.KALLSYMS, path)

    def _of_this_machine(self, mapping: Mapping) -> KernelNames | None:
        """Return the running kernel's names if the mapping is of this kernel."""
        image = is_image(mapping.path)
        if image and mapping.build_id and mapping.build_id.lower() != self._running_build_id():
            return None
        if self._kernel is None:
            try:
                self._kernel = read_kallsyms(self._running)
            except OSError:
                self._kernel = KernelNames(), None
        names, first = self._kernel
        start = first_address(mapping)
        if start is None:
            return names if image and mapping.build_id else None
        if image:
            return names if start == first else None
        name = names.lookup(start)  # kallsyms has the module, as in [xfs], in the names of its functions
        return names if f"[{module_of(mapping.path)}]" in name or mapping.path in name else None

    def _running_build_id(self) -> str:
        try:
            with open(self._notes, "rb") as file:
                data = memoryview(file.read())
            return build_id(walk(data, 0, len(data), 4, "little" if sys.byteorder == "little" else "big"))
        except (OSError, WhenceError):
            return ""


def no_name_in(lists: Sequence[NameList]) -> Missing:
    """Return the reason for an address that none of the perf maps has a name for."""
    detail = f"no name for this address in {', '.join(names.how for names in lists)}"
    return Missing(Reason.NOT_FILE_BACKED, detail, GIVE_PERF_MAP)


def given_map(path: str) -> NameList:
    """Read a perf map that the user gave. Raises OSError, ProfileError."""
    with open_input(path, ProfileError) as file:
        return NameList(perfmap.parse(file.read()), Source.PERFMAP, f"given {path}")


def read_kallsyms(path: str) -> tuple[KernelNames, int | None]:
    """Return the names of a list, and the address of _text. Raises OSError, ProfileError."""
    with open_input(path, ProfileError) as file:
        data = file.read()
    names = KernelNames(data)
    return names, names.text_address


def read_perf_map(path: str) -> NameList | Missing:
    """Read a perf map at a path that all users can write to; a reason if the file is not to be trusted."""
    try:
        _, data = perfmap.read_file(path, (os.geteuid(),) if OWNED else ())
    except NotRegularError:
        return Missing(Reason.NOT_FILE_BACKED, f"{path} is not a regular file", GIVE_PERF_MAP)
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        return Missing(Reason.NOT_FILE_BACKED, f"{path} {why}", GIVE_PERF_MAP)
    return NameList(perfmap.parse(data or b""), Source.PERFMAP, path)
