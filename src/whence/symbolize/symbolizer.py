"""From runtime addresses of processes to frames or a reason, in batches.

An address is translated in steps: mapping (procmap) -> file offset -> vaddr (the file's segments) -> frames (its
binary, found by a Locator). Addresses of a file are looked up together. Without a file: the vDSO is read from memory,
generated code is looked up in the process's perf map, kernel addresses in kallsyms.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import index

from whence._base.closing import Closing
from whence._base.errors import MapsError
from whence._base.reasons import Reason
from whence.lidia.table import demangler
from whence.locator.coerce import locator_from
from whence.procmap.kallsyms import KERNEL_START
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.reader import VSYSCALL, VSYSCALL_SIZE
from whence.procmap.resolver import Resolver
from whence.symbolize.naming import name_all
from whence.symbolize.non_file_names import NonFileNames
from whence.symbolize.opening import open_mapped, open_vdso
from whence.symbolize.pool import BinaryPool, OpenError, PooledBinary, key_of
from whence.symbolize.process import LiveMemory, LivePid, ProcessView
from whence.symbolize.stored import stored_binary, symbolize_stored
from whence.symbolize.symbolized import Symbolized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from whence.binary import Binary
    from whence.listing import Listing, SourceFile, SourceOptions
    from whence.listing.model import ListingOptions
    from whence.locator.coerce import Places
    from whence.locator.locator import Locator
    from whence.locator.options import LocatorFields

MAX_FILES = 256
MAX_BYTES = 1 << 30
REFRESH = 10.0  # seconds after which mappings are read again


class Symbolizer(Closing):
    """Names runtime addresses of processes: live ones, snapshots and core files. Thread-safe.

    A context manager; closing releases the files, and the symbolizer stays usable.

    Args:
        locator: where names come from: a Locator, a Store, or a path or address; by default, files of this machine
            and debug files in /usr/lib/debug.
        demangle: return readable names.
        max_files: number of open binaries.
        max_bytes: bytes of their tables; the binary in use may exceed this.
        resolver: a resolver to share.
        proc_root: the folder of live processes.
        kallsyms: the file with the kernel's names.
        fields: keywords of whence.Locator: store, debug_dirs, binaries, ...

    >>> import whence
    >>> with whence.Symbolizer() as symbolizer:  # doctest: +SKIP
    ...     for answer in symbolizer.symbolize(1234, [0x7f3c1a2b4c5d]):
    ...         print(answer.frames or answer.reason)
    """

    def __init__(
        self,
        *,
        locator: Places | None = None,
        demangle: bool | Callable[[str], str] = False,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        resolver: Resolver | None = None,
        proc_root: str | os.PathLike[str] = "/proc",
        kallsyms: str = "/proc/kallsyms",
        **fields: Unpack[LocatorFields],
    ) -> None:
        self.resolver = resolver or Resolver(proc_root, refresh=REFRESH)
        self.binaries = BinaryPool(max_files, max_bytes)
        self._locator = locator_from(locator, **fields)
        self._readable = demangler(demangle)
        self._non_file_names = NonFileNames(self.resolver.directory, kallsyms, self._readable)

    def __repr__(self) -> str:
        return f"<whence.Symbolizer: {len(self.binaries)} files open>"

    @property
    def locator(self) -> Locator:
        """The Locator that finds files by build-id."""
        return self._locator

    def close(self) -> None:
        """Close every file and table. The symbolizer stays usable."""
        self.binaries.close()
        self.resolver.close()
        self._non_file_names.clear()

    def symbolize(
        self, process: int | ProcessView, addresses: Iterable[int], *, return_address: bool = False
    ) -> list[Symbolized]:
        """Return frames, or a reason, for each runtime address of a process, in order.

        Args:
            process: a Process or its pid, a Snapshot, a Core, or any object with `mappings` and `build_id`.
            addresses: runtime addresses.
            return_address: the addresses follow calls, so the bytes before them are looked up.

        Raises TypeError for an address that is not an integer; never for a bad address, file or process. Costs a search
        in the mappings for each distinct address, and opens each file once.
        """
        return self.symbolize_many(((process, address) for address in addresses), return_address=return_address)

    def symbolize_many(
        self, requests: Iterable[tuple[int | ProcessView, int]], *, return_address: bool = False
    ) -> list[Symbolized]:
        """Return frames, or a reason, for each (process, runtime address); each file is opened once."""
        back = 1 if return_address else 0
        lookups = [(_whose(process), index(address) - back) for process, address in requests]
        gone: dict[int, tuple[ProcessView, set[int]]] = {}
        live: list[tuple[int, int]] = []
        for process, address in dict.fromkeys(lookups):
            if isinstance(process, int):
                live.append((process, address))
            else:
                gone.setdefault(id(process), (process, set()))[1].add(address)
        stored: dict[tuple[object, int], Symbolized] = {}
        for process, addresses in gone.values():
            answers = symbolize_stored(process, addresses, self.binaries, self._locator, self._readable)
            stored.update(((id(process), address), answer) for address, answer in answers.items())
        live_answers, changed = self._answered(live)
        if changed:  # a file was written to since it was opened: once more, with what is there now
            for pid in {pid for pid, _ in changed}:
                self.resolver.invalidate(pid)
            live_answers.update(self._answered(changed)[0])
        answers_in_order = [
            live_answers[process, address] if isinstance(process, int) else stored[id(process), address]
            for process, address in lookups
        ]
        return [answer.after() for answer in answers_in_order] if return_address else answers_in_order

    def listing(
        self,
        process: int | ProcessView,
        address: int,
        end: int | None = None,
        *,
        sources: SourceOptions | None = None,
        syntax: str = "intel",
    ) -> Listing:
        """Return the instructions and source lines of the function at a runtime address, or of [address, end).

        The code is that of the executable, or else that in the memory of the process: generated code, the vDSO, and
        programs that have been removed. Generated code has the names and sizes in the process's perf map.

        Args:
            process: a live process, its pid, or a Core; of a Snapshot only files can be listed.
            address: a runtime address.
            end: the end of the listed code.
            sources: where source files are looked for.
            syntax: "intel" or "att", for x86.

        Raises:
            LookupError: no function contains the address.
            ImportError: capstone is not installed.
            WhenceError, OSError: the code cannot be read.
        """
        from whence.listing.model import ListingOptions

        return self.listing_of(process, address, end, ListingOptions(sources, syntax=syntax))

    def listing_of(self, process: int | ProcessView, address: int, end: int | None, options: ListingOptions) -> Listing:
        """Return the listing of the function at a runtime address, or of [address, end). Raises like `listing`."""
        from whence.symbolize.listing import file_listing, generated_listing

        pid = _whose(process)
        memory: object = LiveMemory(pid, self.resolver.directory(pid)) if isinstance(pid, int) else pid
        (answer,) = self.symbolize(pid, [address])
        mapping = answer.mapping
        if mapping is None:
            reason = answer.reason.sentence if answer.reason is not None else "unknown"
            raise LookupError(f"{address:#x}: {reason}")
        if answer.vaddr is not None:
            with self._binary_of(pid, mapping) as binary:
                return file_listing(binary, memory, answer, end, options)
        span = self._non_file_names.span(pid, address) if isinstance(pid, int) else None
        if end is not None:
            span = address, end, span[2] if span is not None else ""
        if span is None:
            reason = ": ".join(filter(None, [answer.reason.sentence if answer.reason else "", answer.detail]))
            raise LookupError(f"{address:#x}: no function is known there ({reason}): give START,END")
        return generated_listing(memory, span, lambda vaddr: self.symbolize(pid, [vaddr])[0], options)

    def source_file(
        self, process: int | ProcessView, mapping: Mapping, path: str, options: SourceOptions
    ) -> SourceFile | None:
        """Return a source file of the binary of a mapping, None if it is not found. Raises WhenceError."""
        with self._binary_of(_whose(process), mapping) as binary:
            return binary.source_file(path, options)

    @contextmanager
    def _binary_of(self, process: int | ProcessView, mapping: Mapping) -> Iterator[Binary]:
        """Open the binary of a mapping. Raises WhenceError."""
        try:
            if isinstance(process, int):
                with self.binaries.use(key_of(mapping), lambda: self._open(mapping, 1)) as pooled:
                    yield pooled.binary
            else:
                with stored_binary(process, mapping, self.binaries, self._locator) as binary:
                    yield binary
        except OpenError as error:
            raise MapsError("", None, f"{mapping.path}: {error.reason.sentence}: {error.detail}") from None

    def _answered(
        self, lookups: Sequence[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], Symbolized], list[tuple[int, int]]]:
        """Return the answers, and the requests whose file was written to meanwhile."""
        answers: dict[tuple[int, int], Symbolized] = {}
        changed: list[tuple[int, int]] = []
        by_file: dict[object, list[tuple[int, int, Mapping]]] = defaultdict(list)
        generated: dict[int, list[tuple[int, Mapping]]] = defaultdict(list)
        by_pid: dict[int, set[int]] = defaultdict(set)
        for pid, address in lookups:
            by_pid[pid].add(address)
        for pid, addresses in by_pid.items():
            for address, mapping in self._locate(pid, addresses).items():
                if isinstance(mapping, Symbolized):
                    answers[pid, address] = mapping
                elif mapping.kind.has_file or mapping.kind is Kind.VDSO:
                    by_file[mapping].append((pid, address, mapping))
                else:
                    generated[pid].append((address, mapping))
        for pid, in_memory in generated.items():
            answers.update(((pid, answer.address), answer) for answer in self._non_file_names.generated(pid, in_memory))
        merged, failed = self._by_key(by_file)
        answers.update(failed)
        for key, requests in merged.items():
            named, unchanged = self._in_file(key, requests)
            answers.update(named)
            if not unchanged:
                changed += named
        return answers, changed

    # mappings of addresses

    def _locate(self, pid: int, addresses: Iterable[int]) -> dict[int, Mapping | Symbolized]:
        located: dict[int, Mapping | Symbolized] = {}
        failure: Symbolized | None = None
        self.resolver.confirm(pid)
        for address in sorted(addresses):
            if not 0 <= address < 1 << 64:
                located[address] = Symbolized(address, reason=Reason.UNMAPPED, detail="an address has 64 bits")
            elif address >= KERNEL_START and address & -VSYSCALL_SIZE != VSYSCALL:
                located[address] = self._non_file_names.in_kernel(address)
            elif failure is not None:
                located[address] = failure._replace(address=address)
            else:
                try:
                    located[address] = self._mapping(pid, address)
                except OSError as error:
                    failure = located[address] = Symbolized(address, reason=_process_reason(error), detail=str(error))
        return located

    def _mapping(self, pid: int, address: int) -> Mapping | Symbolized:
        mapping = self.resolver.lookup(pid, address)  # fast, but may be out of date
        if mapping is not None:
            return mapping
        mapping = self.resolver.find(pid, address, 0)
        if mapping is None:
            return Symbolized(address, reason=Reason.UNMAPPED)
        return mapping if mapping.is_exec else Symbolized(address, reason=Reason.NOT_EXECUTABLE, mapping=mapping)

    # addresses of files

    def _by_key(
        self, by_file: dict[object, list[tuple[int, int, Mapping]]]
    ) -> tuple[dict[object, list[tuple[int, int, Mapping]]], dict[tuple[int, int], Symbolized]]:
        """Group requests by file, for any number of mappings and processes."""
        merged: dict[object, list[tuple[int, int, Mapping]]] = defaultdict(list)
        failed: dict[tuple[int, int], Symbolized] = {}
        for requests in by_file.values():
            try:
                merged[key_of(requests[0][2])] += requests
            except OSError as error:
                reason = Reason.PERMISSION_DENIED if isinstance(error, PermissionError) else Reason.FILE_GONE
                failure = OpenError(reason, str(error))
                failed.update(((pid, address), self._failed(pid, address, m, failure)) for pid, address, m in requests)
        return merged, failed

    def _in_file(
        self, key: object, requests: list[tuple[int, int, Mapping]]
    ) -> tuple[dict[tuple[int, int], Symbolized], bool]:
        """Return the answers, and True if the file did not change since it was opened."""
        mapping = requests[0][2]
        try:
            with self.binaries.use(key, lambda: self._open(mapping, len(requests))) as pooled:
                named = self._name(pooled, requests)
                fault = pooled.fault()
                if not fault:
                    return named, True
                self.binaries.drop(pooled)
                failure = OpenError(Reason.BROKEN_FILE, fault)
        except OpenError as error:
            return {(pid, address): self._failed(pid, address, m, error) for pid, address, m in requests}, True
        return {(pid, address): self._failed(pid, address, m, failure) for pid, address, m in requests}, False

    def _failed(self, pid: int, address: int, mapping: Mapping, failure: OpenError) -> Symbolized:
        """Answer without a binary; an address in a memfd may be generated code with a perf map."""
        if mapping.kind is Kind.MEMFD:
            answer = self._non_file_names.generated(pid, [(address, mapping)])[0]
            if answer:
                return answer
        offset = mapping.file_offset_of(address) if mapping.kind.has_file else None
        return Symbolized(address, (), failure.reason, mapping, offset, None, failure.detail)

    def _open(self, mapping: Mapping, addresses: int) -> PooledBinary:
        if mapping.kind is Kind.VDSO:
            return open_vdso(mapping, self._locator)
        return open_mapped(mapping, self._locator, addresses)

    def _name(
        self, pooled: PooledBinary, requests: list[tuple[int, int, Mapping]]
    ) -> dict[tuple[int, int], Symbolized]:
        answers: dict[tuple[int, int], Symbolized] = {}
        vaddrs: dict[tuple[int, int], tuple[Mapping, int, int]] = {}
        for pid, address, mapping in requests:
            file_offset = mapping.file_offset_of(address)
            vaddr = pooled.mapper.file_offset_to_virtual_address(file_offset, mapping) if pooled.mapper else None
            if vaddr is None:
                answers[pid, address] = Symbolized(address, (), Reason.OUTSIDE_SEGMENTS, mapping, file_offset)
            else:
                vaddrs[pid, address] = (mapping, file_offset, vaddr)
        if vaddrs:
            named = name_all(pooled.binary, [vaddr for _, _, vaddr in vaddrs.values()], function=self._readable)
            for (pid, address), (mapping, file_offset, vaddr) in vaddrs.items():
                frames, reason, detail = named[vaddr]
                answers[pid, address] = Symbolized(address, frames, reason, mapping, file_offset, vaddr, detail)
        return answers


def _whose(process: int | ProcessView) -> int | ProcessView:
    """Return the pid of a live process, and other processes unchanged."""
    return process.pid if isinstance(process, LivePid) else process


def _process_reason(error: OSError) -> Reason:
    if isinstance(error, ProcessLookupError):
        return Reason.NO_SUCH_PROCESS
    return Reason.PERMISSION_DENIED if isinstance(error, PermissionError) else Reason.BROKEN_FILE
