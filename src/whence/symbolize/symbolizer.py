"""From (pid, runtime address) to frames or a reason, in batches.

The way of one address: mapping (procmap) -> file offset -> vaddr (the file's segments) -> frames (its binary).
Addresses of one file are named together. The ways that lead through no file: the vDSO is read from memory, generated
code is looked up in the process's perf map, kernel addresses in kallsyms.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import index

import whence
from whence.elf import ElfFile
from whence.errors import WhenceError
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.kallsyms import KERNEL_START
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.reader import GATE, GATE_SIZE
from whence.procmap.resolver import Resolver
from whence.procmap.vdso import read_vdso
from whence.reasons import Reason
from whence.symbolize.answer import Answer
from whence.symbolize.binaries import Binaries, Failure, Held, Opener, key_of, open_mapped, opener_with
from whence.symbolize.elsewhere import Elsewhere
from whence.symbolize.naming import name_all

MAX_FILES = 256
MAX_BYTES = 1 << 30
REFRESH = 10.0  # seconds after which mappings are asked for again: libraries come and go


class Symbolizer:
    """Names runtime addresses of live processes. Safe for use from many threads; a context manager.

    At most `max_files` binaries are held open, and tables of `max_bytes` (the binary in use may exceed that by itself).
    `opener(path)` opens a binary for lookups: `whence.open` unless given (see `opener_with`).
    """

    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        proc_root: str | os.PathLike[str] = "/proc",
        opener: Opener | None = None,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        kallsyms: str = "/proc/kallsyms",
    ) -> None:
        self.resolver = resolver or Resolver(proc_root, refresh=REFRESH)
        self.binaries = Binaries(max_files, max_bytes)
        self._opener = opener or opener_with()
        self._elsewhere = Elsewhere(self.resolver.directory, kallsyms)

    def __enter__(self) -> Symbolizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back every file and table. The symbolizer stays usable."""
        self.binaries.close()
        self.resolver.close()
        self._elsewhere.clear()

    def lookup(self, pid: int, address: int) -> Answer:
        """The answer for one runtime address."""
        return self.lookup_many(pid, (address,))[0]

    def lookup_many(self, pid: int, addresses: Iterable[int], *, return_addresses: bool = False) -> list[Answer]:
        """One answer for each runtime address of one process, in their order."""
        return self.answer(((pid, address) for address in addresses), return_addresses=return_addresses)

    def answer(self, requests: Iterable[tuple[int, int]], *, return_addresses: bool = False) -> list[Answer]:
        """One answer for each (pid, runtime address), in their order. Never raises for what it is asked about.

        With `return_addresses` each address is one past a call: the byte before it is looked up.
        """
        if return_addresses:
            return [one.after() for one in self.answer((pid, index(address) - 1) for pid, address in requests)]
        asked = [(pid, index(address)) for pid, address in requests]
        known, changed = self._answered(asked)
        if changed:  # a file was written to since it was opened: once more, with what is there now
            for pid in {pid for pid, _ in changed}:
                self.resolver.invalidate(pid)
            known.update(self._answered(changed)[0])
        return [known[request] for request in asked]

    def _answered(
        self, asked: Sequence[tuple[int, int]]
    ) -> tuple[dict[tuple[int, int], Answer], list[tuple[int, int]]]:
        """The answers, and those of them that count no longer because a file of theirs was written to."""
        known: dict[tuple[int, int], Answer] = {}
        changed: list[tuple[int, int]] = []
        by_file: dict[object, list[tuple[int, int, Mapping]]] = defaultdict(list)
        generated: dict[int, list[tuple[int, Mapping]]] = defaultdict(list)
        by_pid: dict[int, set[int]] = defaultdict(set)
        for pid, address in asked:
            by_pid[pid].add(address)
        for pid, addresses in by_pid.items():
            for address, place in self._locate(pid, addresses).items():
                if isinstance(place, Answer):
                    known[pid, address] = place
                elif place.kind.has_file or place.kind is Kind.VDSO:
                    by_file[place].append((pid, address, place))
                else:
                    generated[pid].append((address, place))
        for pid, in_memory in generated.items():
            known.update(((pid, answer.address), answer) for answer in self._elsewhere.generated(pid, in_memory))
        merged, failed = self._by_key(by_file)
        known.update(failed)
        for key, places in merged.items():
            named, holds = self._in_file(key, places)
            known.update(named)
            if not holds:
                changed += named
        return known, changed

    # where an address lies

    def _locate(self, pid: int, addresses: Iterable[int]) -> dict[int, Mapping | Answer]:
        found: dict[int, Mapping | Answer] = {}
        failure: Answer | None = None
        self.resolver.confirm(pid)
        for address in sorted(addresses):
            if not 0 <= address < 1 << 64:
                found[address] = Answer(address, reason=Reason.UNMAPPED, detail="an address has 64 bits")
            elif address >= KERNEL_START and address & -GATE_SIZE != GATE:
                found[address] = self._elsewhere.in_kernel(address)
            elif failure is not None:
                found[address] = failure._replace(address=address)
            else:
                try:
                    found[address] = self._mapping(pid, address)
                except OSError as error:
                    failure = found[address] = Answer(address, reason=_process_reason(error), detail=str(error))
        return found

    def _mapping(self, pid: int, address: int) -> Mapping | Answer:
        mapping = self.resolver.lookup(pid, address)  # the quick way; what it doesn't find is asked for again
        if mapping is not None:
            return mapping
        mapping = self.resolver.find(pid, address, 0)
        if mapping is None:
            return Answer(address, reason=Reason.UNMAPPED)
        return mapping if mapping.is_exec else Answer(address, reason=Reason.NOT_EXECUTABLE, mapping=mapping)

    # addresses of files

    def _by_key(
        self, by_file: dict[object, list[tuple[int, int, Mapping]]]
    ) -> tuple[dict[object, list[tuple[int, int, Mapping]]], dict[tuple[int, int], Answer]]:
        """The places of one file together, however many mappings and processes it is in."""
        merged: dict[object, list[tuple[int, int, Mapping]]] = defaultdict(list)
        failed: dict[tuple[int, int], Answer] = {}
        for places in by_file.values():
            try:
                merged[key_of(places[0][2])] += places
            except OSError as error:
                reason = Reason.PERMISSION_DENIED if isinstance(error, PermissionError) else Reason.FILE_GONE
                failure = Failure(reason, str(error))
                failed.update(((pid, address), self._failed(pid, address, m, failure)) for pid, address, m in places)
        return merged, failed

    def _in_file(
        self, key: object, places: list[tuple[int, int, Mapping]]
    ) -> tuple[dict[tuple[int, int], Answer], bool]:
        """The answers, and whether they hold: the file is still what it was when it was opened."""
        mapping = places[0][2]
        try:
            with self.binaries.use(key, lambda: self._open(mapping)) as held:
                named = self._name(held, places)
                fault = held.fault()
                if not fault:
                    return named, True
                self.binaries.drop(held)
                failure = Failure(Reason.BROKEN_FILE, fault)
        except Failure as error:
            return {(pid, address): self._failed(pid, address, m, error) for pid, address, m in places}, True
        return {(pid, address): self._failed(pid, address, m, failure) for pid, address, m in places}, False

    def _failed(self, pid: int, address: int, mapping: Mapping, failure: Failure) -> Answer:
        """No binary answers; but what lies in a memfd may be generated code with a perf map."""
        if mapping.kind is Kind.MEMFD:
            answer = self._elsewhere.generated(pid, [(address, mapping)])[0]
            if answer:
                return answer
        offset = mapping.file_offset_of(address) if mapping.kind.has_file else None
        return Answer(address, (), failure.reason, mapping, offset, None, failure.detail)

    def _open(self, mapping: Mapping) -> Held:
        if mapping.kind is not Kind.VDSO:
            return open_mapped(mapping, self._opener)
        try:
            elf = ElfFile.from_bytes(read_vdso(mapping), "[vdso]")
            return Held(whence.Binary.from_elf(elf), AddressMapper.from_elf(elf))
        except PermissionError as error:
            raise Failure(Reason.PERMISSION_DENIED, str(error)) from None
        except (OSError, WhenceError) as error:
            raise Failure(Reason.BROKEN_FILE, str(error)) from None

    def _name(self, held: Held, places: list[tuple[int, int, Mapping]]) -> dict[tuple[int, int], Answer]:
        answers: dict[tuple[int, int], Answer] = {}
        vaddrs: dict[tuple[int, int], tuple[Mapping, int, int]] = {}
        for pid, address, mapping in places:
            file_offset = mapping.file_offset_of(address)
            vaddr = held.mapper.file_offset_to_virtual_address(file_offset, mapping) if held.mapper else None
            if vaddr is None:
                answers[pid, address] = Answer(address, (), Reason.OUTSIDE_SEGMENTS, mapping, file_offset)
            else:
                vaddrs[pid, address] = (mapping, file_offset, vaddr)
        if vaddrs:
            named = name_all(held.binary, [vaddr for _, _, vaddr in vaddrs.values()])
            for (pid, address), (mapping, file_offset, vaddr) in vaddrs.items():
                frames, reason, detail = named[vaddr]
                answers[pid, address] = Answer(address, frames, reason, mapping, file_offset, vaddr, detail)
        return answers


def _process_reason(error: OSError) -> Reason:
    if isinstance(error, ProcessLookupError):
        return Reason.NO_SUCH_PROCESS
    return Reason.PERMISSION_DENIED if isinstance(error, PermissionError) else Reason.BROKEN_FILE
