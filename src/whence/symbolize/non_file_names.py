"""Addresses whose names are in no ELF file: generated code (perf maps) and the kernel (kallsyms)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from whence._base.forks import Lock
from whence._base.lru import Lru
from whence._base.model import Frame, Source
from whence._base.reasons import Reason
from whence.procmap import perfmap
from whence.procmap.kallsyms import KernelNames
from whence.procmap.mapping import Mapping
from whence.procmap.names import NamedAddresses
from whence.symbolize.symbolized import Symbolized

MAX_PERF_MAPS = 32
HIDDEN_SECONDS = 10.0  # how long the kernel's names are taken to stay hidden


class NonFileNames:
    """The lists of names that were read last. Thread-safe."""

    def __init__(
        self, directory: Callable[[int], str], kallsyms: str, readable: Callable[[str], str] | None = None
    ) -> None:
        self._readable = readable or str
        self._directory = directory
        self._kallsyms = kallsyms
        self._kernel: KernelNames | None = None
        self._hidden: tuple[float, str] = (0.0, "")  # until when, and an error's words
        self._perf_maps: Lru[int, tuple[perfmap.Status, NamedAddresses]] = Lru(MAX_PERF_MAPS)
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<NonFileNames: {len(self._perf_maps)} perf maps>"

    def clear(self) -> None:
        with self._lock:
            self._perf_maps.clear()
            self._kernel = None
            self._hidden = (0.0, "")

    def generated(self, pid: int, places: list[tuple[int, Mapping]]) -> list[Symbolized]:
        """Answer for addresses in memory without a file, by the process's perf map."""
        names = self._perf_map(pid)
        answers = []
        for address, mapping in places:
            name = names.lookup(address)
            if name:
                answers.append(
                    Symbolized(address, (Frame(self._readable(name), source=Source.PERFMAP),), None, mapping)
                )
            else:
                answers.append(Symbolized(address, (), Reason.NOT_FILE_BACKED, mapping))
        return answers

    def span(self, pid: int, address: int) -> tuple[int, int, str] | None:
        """Return start, end and name of generated code by the process's perf map; None if it has no name there."""
        span = self._perf_map(pid).span(address)
        return None if span is None else (*span[:2], self._readable(span[2]))

    def in_kernel(self, address: int) -> Symbolized:
        """Return the answer for a kernel address."""
        with self._lock:
            if self._kernel is None and monotonic() >= self._hidden[0]:
                self._read_kernel()
            kernel, (_, why) = self._kernel, self._hidden
        if kernel is None:
            return Symbolized(address, reason=Reason.KERNEL_HIDDEN, detail=why)
        name = kernel.lookup(address)
        if not name:
            return Symbolized(address, reason=Reason.UNMAPPED)
        return Symbolized(address, (Frame(self._readable(name), source=Source.KALLSYMS),))

    def _read_kernel(self) -> None:
        why = ""
        try:
            self._kernel = KernelNames.read(self._kallsyms)
        except OSError as error:
            why = str(error)
        if not self._kernel:
            self._kernel = None
            self._hidden = (monotonic() + HIDDEN_SECONDS, why)

    def _perf_map(self, pid: int) -> NamedAddresses:
        """Return the process's perf map, read again if it has grown."""
        with self._lock:
            cached = self._perf_maps.get(pid)
        result = perfmap.read(self._directory(pid), pid, None if cached is None else cached[0])
        if result is None:
            return NamedAddresses()
        status, data = result
        if data is None and cached is not None:
            return cached[1]
        names = perfmap.parse(data or b"")
        with self._lock:
            self._perf_maps[pid] = (status, names)
        return names
