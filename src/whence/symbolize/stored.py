"""Addresses of a process that has ended, or ran elsewhere, by its saved mappings.

A file answers if it has the saved build-id: a Locator finds it. A file without a build-id answers if it is unchanged
under its old path, or if a person gives it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from whence._base.errors import ObjectError, WhenceError
from whence._base.reasons import Reason
from whence.binary import Binary
from whence.locate.search import FileQuery
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.snapshot import SnapshotFile
from whence.symbolize.naming import name_all
from whence.symbolize.opening import library_mapping, open_wanted
from whence.symbolize.pool import BinaryPool, OpenError, PooledBinary
from whence.symbolize.process import ProcessView, Snapshot
from whence.symbolize.symbolized import Symbolized

MappedAddress = tuple[int, Mapping]  # a runtime address and the mapping that holds it
Readable = Callable[[str], str] | None


def symbolize_stored(
    process: ProcessView, addresses: Iterable[int], pool: BinaryPool, locator: Locator, readable: Readable = None
) -> dict[int, Symbolized]:
    """Return frames, their names made `readable`, or a reason, for each distinct runtime address."""
    mappings = process.mappings()
    answers: dict[int, Symbolized] = {}
    vdso: list[MappedAddress] = []
    by_file: dict[tuple[str, str], tuple[SnapshotFile, list[MappedAddress]]] = {}
    for address in set(addresses):
        index = bisect_right(mappings, address, key=lambda mapping: mapping.start) - 1
        if index < 0 or address >= mappings[index].end:
            answers[address] = Symbolized(address, reason=Reason.UNMAPPED)
            continue
        mapping = mappings[index]
        file = _file_of(process, index, mapping)
        if file is not None and not file.build_id:
            library = library_mapping(mapping, locator)
            if library is not mapping:
                mapping, file = library, SnapshotFile(library.path, library.build_id, None)
        if file is None and mapping.kind is Kind.VDSO:
            vdso.append((address, mapping))
        elif file is None:
            answers[address] = Symbolized(address, (), Reason.NOT_FILE_BACKED, mapping)
        else:
            by_file.setdefault((file.path, file.build_id), (file, []))[1].append((address, mapping))
    if vdso:
        for answer in _in_vdso(process, vdso, locator, readable):
            answers[answer.address] = answer
    for file, mapped in by_file.values():
        for answer in _in_file(file, mapped, pool, locator, readable):
            answers[answer.address] = answer
    return answers


@contextmanager
def stored_binary(process: ProcessView, mapping: Mapping, pool: BinaryPool, locator: Locator) -> Iterator[Binary]:
    """Open the binary of a mapping. Raises OpenError."""
    index = process.mappings().index(mapping)
    file = _file_of(process, index, mapping)
    if file is None:
        pooled = _vdso(process, mapping, locator)
        try:
            yield pooled.binary
        finally:
            pooled.release()
        return
    with pool.use((file.path, file.build_id, file.stamp), lambda: _open(file, locator, 1)) as pooled:
        yield pooled.binary


def _vdso(process: ProcessView, mapping: Mapping, locator: Locator) -> PooledBinary:
    """Open the vDSO that a core has. Raises OpenError."""
    image = process.vdso_image(mapping) if isinstance(process, Snapshot) else b""
    try:
        elf = ElfFile.from_bytes(image, "[vdso]")
        return PooledBinary(Binary.from_elf(elf, debug_files=locator.debug_files), AddressMapper.from_elf(elf))
    except (OSError, WhenceError) as error:
        raise OpenError(Reason.NOT_FILE_BACKED, str(error)) from None


def _in_vdso(
    process: ProcessView, addresses: Sequence[MappedAddress], locator: Locator, readable: Readable
) -> list[Symbolized]:
    """Answer for addresses of the vDSO, by the image in a core."""
    try:
        pooled = _vdso(process, addresses[0][1], locator)
    except OpenError:
        return [Symbolized(address, (), Reason.NOT_FILE_BACKED, mapping) for address, mapping in addresses]
    try:
        return _name(pooled, addresses, readable)
    finally:
        pooled.release()


def _file_of(process: ProcessView, index: int, mapping: Mapping) -> SnapshotFile | None:
    """Return what is known of the file of a mapping; None if it has no file."""
    if isinstance(process, Snapshot):
        return process.file_of(index)
    return SnapshotFile(mapping.path, process.build_id(mapping), None) if mapping.kind.has_file else None


def _in_file(
    file: SnapshotFile, addresses: Sequence[MappedAddress], pool: BinaryPool, locator: Locator, readable: Readable
) -> list[Symbolized]:
    try:
        for _ in range(2):  # once more, where the file was written to since it was opened
            key = (file.path, file.build_id, file.stamp)
            with pool.use(key, lambda: _open(file, locator, len(addresses))) as pooled:
                answers = _name(pooled, addresses, readable, file.is_image)
                fault = pooled.fault()
                if not fault:
                    return answers
                pool.drop(pooled)
        raise OpenError(Reason.BROKEN_FILE, fault)
    except OpenError as error:
        return [
            Symbolized(
                address, (), error.reason, mapping, _file_offset(mapping, address, file.is_image), None, error.detail
            )
            for address, mapping in addresses
        ]


def _open(file: SnapshotFile, locator: Locator, addresses: int) -> PooledBinary:
    if file.build_id:
        query = FileQuery(file.build_id, file.path, module=file.module)
        return open_wanted(query, locator, addresses, mapper=file.mapper, is_image=file.is_image)
    own = _unchanged(file)
    mapper = file.mapper
    if own is not None and mapper is None:
        try:
            mapper = AddressMapper.of_file(own, file.is_image)
        except ObjectError as error:
            own.close()
            raise OpenError(Reason.BROKEN_FILE, str(error)) from None
    try:
        query = FileQuery("", file.path, local=False)
        return open_wanted(query, locator, addresses, own=own, mapper=mapper, is_image=file.is_image)
    except OpenError:
        if own is not None:
            raise
    fault = "was not given" if file.is_image else "is not the file it was"
    raise OpenError(Reason.NO_FILE, f"{file.path} had no build-id, and {fault}")


def _unchanged(file: SnapshotFile) -> ObjectFile | None:
    """Return the file under its old path if it is the mapped one. Raises OpenError if it cannot be read."""
    try:
        return open_object(file.local_path) if file.is_unchanged() else None
    except FileNotFoundError:
        return None
    except (OSError, ObjectError) as error:
        raise OpenError(Reason.BROKEN_FILE, str(error)) from None


def _file_offset(mapping: Mapping, address: int, is_image: bool) -> int | None:
    """Return the offset of a runtime address in its file; None if the mapping has offsets from the image's base."""
    return None if is_image else mapping.file_offset_of(address)


def _name(
    pooled: PooledBinary, addresses: Sequence[MappedAddress], readable: Readable, is_image: bool = False
) -> list[Symbolized]:
    answers = []
    by_vaddr: dict[int, list[MappedAddress]] = defaultdict(list)
    for address, mapping in addresses:
        vaddr = pooled.mapper.vaddr(mapping, address) if pooled.mapper is not None else None
        if vaddr is None:
            reason = Reason.NOT_PLACED if pooled.mapper is None else Reason.OUTSIDE_SEGMENTS
            answers.append(Symbolized(address, (), reason, mapping, _file_offset(mapping, address, is_image)))
        else:
            by_vaddr[vaddr].append((address, mapping))
    named = name_all(pooled.binary, list(by_vaddr), function=readable) if by_vaddr else {}
    for vaddr, (frames, reason_found, detail) in named.items():
        for address, mapping in by_vaddr[vaddr]:
            offset = _file_offset(mapping, address, is_image)
            answers.append(Symbolized(address, frames, reason_found, mapping, offset, vaddr, detail))
    return answers
