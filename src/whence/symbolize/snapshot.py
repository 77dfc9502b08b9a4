"""Addresses of a process that is gone, or ran elsewhere, by the snapshot taken of it.

A file answers if it has the build-id the snapshot tells: the binary under its old path, or one that the caller names
(a binary or an archive). A file without a build-id answers if it is the very same under its old path, unchanged.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import index

from whence.errors import ElfError, MapsError, WhenceError, naming
from whence.files import open_input
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.build_id import read_build_id
from whence.procmap.snapshot import SIZE_LIMIT, Snapshot, SnapshotFile, stamp_of
from whence.reasons import Reason
from whence.symbolize.answer import Answer
from whence.symbolize.binaries import Binaries, Failure, Held, Opener, checked, opener_with
from whence.symbolize.naming import name_all
from whence.symbolize.symbolizer import MAX_BYTES, MAX_FILES


class SnapshotSymbolizer:
    """Answers for one snapshot; a context manager.

    `binaries` maps a build-id to the path of a binary or an archive that has it; such a path goes first.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        binaries: dict[str, str] | None = None,
        opener: Opener | None = None,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.snapshot = snapshot
        self._paths = dict(binaries or {})
        self._opener = opener or opener_with()
        self._binaries = Binaries(max_files, max_bytes)

    def __enter__(self) -> SnapshotSymbolizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._binaries.close()

    def answer(self, addresses: Iterable[int], *, return_addresses: bool = False) -> list[Answer]:
        """One answer for each runtime address, in their order; with `return_addresses` for the byte before each."""
        if return_addresses:
            return [one.after() for one in self.answer(index(address) - 1 for address in addresses)]
        asked = list(map(index, addresses))
        known: dict[int, Answer] = {}
        by_file: dict[int, tuple[SnapshotFile, list[tuple[int, int]]]] = {}
        for address in asked:
            at = self.snapshot.index(address)
            if at is None:
                known[address] = Answer(address, reason=Reason.UNMAPPED)
                continue
            file = self.snapshot.file_of[at]
            if file is None:
                known[address] = Answer(address, (), Reason.NOT_FILE_BACKED, self.snapshot.mappings[at])
            else:
                by_file.setdefault(id(file), (file, []))[1].append((address, at))
        for file, places in by_file.values():
            known.update((answer.address, answer) for answer in self._in_file(file, places))
        return [known[address] for address in asked]

    def _in_file(self, file: SnapshotFile, places: Sequence[tuple[int, int]]) -> list[Answer]:
        try:
            for _ in range(2):  # once more, where the file was written to since it was opened
                with self._binaries.use((file.path, file.build_id), lambda: self._open(file)) as held:
                    answers = self._name(held, places)
                    fault = held.fault()
                    if not fault:
                        return answers
                    self._binaries.drop(held)
            raise Failure(Reason.BROKEN_FILE, fault)
        except Failure as failure:
            return [self._failed(address, at, failure) for address, at in places]

    def _failed(self, address: int, at: int, failure: Failure) -> Answer:
        mapping = self.snapshot.mappings[at]
        return Answer(address, (), failure.reason, mapping, mapping.file_offset_of(address), None, failure.detail)

    def _open(self, file: SnapshotFile) -> Held:
        path = self._paths.get(file.build_id, "") if file.build_id else ""
        if not path:
            path = self._own_path(file)
        mapper = file.mapper
        if mapper is None:
            try:
                mapper = AddressMapper(path)
            except (OSError, ElfError) as error:
                raise Failure(Reason.BROKEN_FILE, str(error)) from None
        return checked(path, file.build_id, mapper, self._opener)

    @staticmethod
    def _own_path(file: SnapshotFile) -> str:
        """The path the file had, if what is there now is the same file. Raises Failure."""
        try:
            if not file.build_id:
                if file.stamp and stamp_of(file.path) == file.stamp:
                    return file.path
                raise Failure(Reason.NO_FILE, f"{file.path} had no build-id, and is not the file it was")
            found = read_build_id(file.path)
        except FileNotFoundError as error:
            raise Failure(Reason.NO_FILE, str(error)) from None
        except (OSError, WhenceError) as error:
            raise Failure(Reason.FILE_GONE, str(error)) from None
        if found != file.build_id:
            raise Failure(Reason.BUILD_ID_MISMATCH, f"{file.path} has {found or 'none'}, the snapshot {file.build_id}")
        return file.path

    def _name(self, held: Held, places: Sequence[tuple[int, int]]) -> list[Answer]:
        answers = []
        wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for address, at in places:
            mapping = self.snapshot.mappings[at]
            vaddr = held.mapper.vaddr(mapping, address) if held.mapper is not None else None
            if vaddr is None:
                answers.append(Answer(address, (), Reason.OUTSIDE_SEGMENTS, mapping, mapping.file_offset_of(address)))
            else:
                wanted[vaddr].append((address, at))
        for vaddr, (frames, reason, detail) in name_all(held.binary, list(wanted)).items() if wanted else ():
            for address, at in wanted[vaddr]:
                mapping = self.snapshot.mappings[at]
                answers.append(Answer(address, frames, reason, mapping, mapping.file_offset_of(address), vaddr, detail))
        return answers


def from_snapshot(
    path: str | os.PathLike[str], *, binaries: dict[str, str] | None = None, opener: Opener | None = None
) -> SnapshotSymbolizer:
    """Read a snapshot file. Options as of SnapshotSymbolizer. Raises OSError, MapsError."""
    with open_input(path, MapsError) as file, naming(os.fspath(path)):
        snapshot = Snapshot.from_json(file.read(SIZE_LIMIT + 1))
    return SnapshotSymbolizer(snapshot, binaries=binaries, opener=opener)
