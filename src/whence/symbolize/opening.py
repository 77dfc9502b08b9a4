"""Opening the binary for a mapping: the mapped file, and what a Locator finds for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence._base.errors import ElfError, WhenceError
from whence._base.reasons import Reason
from whence.binary import Binary
from whence.locate.identity import is_same
from whence.locate.search import FileQuery
from whence.locate.segments import has_nobits
from whence.objects.elf import ElfFile
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.build_id import open_elf
from whence.procmap.mapping import Mapping
from whence.procmap.vdso import read_vdso
from whence.symbolize.internal_error import reason_of
from whence.symbolize.pool import OpenError, PooledBinary

if TYPE_CHECKING:
    from typing import TypeVar

    from whence.locator.locator import Locator
    from whence.objects.elf.segments import Segment
    from whence.objects.interface import ObjectFile

    M = TypeVar("M", bound=Mapping)


def library_mapping(mapping: M, locator: Locator) -> M:
    """Return a mapping of a zip file (Android's base.apk) as one of the library in it; others unchanged."""
    if mapping.build_id:
        return mapping
    path, offset, build_id = locator.library_in_zip(mapping.path, mapping.offset)
    return mapping._replace(path=path, offset=offset, build_id=build_id) if path else mapping


def open_mapped(mapping: Mapping, locator: Locator, addresses: int) -> PooledBinary:
    """Open what answers for a mapping of a live process. The mapped file places its addresses.

    Raises OpenError.
    """
    try:
        own = mapped_file(mapping)
    except OpenError as error:
        if not mapping.build_id or error.reason is Reason.NOT_ELF:
            raise
        try:  # it can't be reached, but files that were given or fetched may answer
            return open_wanted(FileQuery(mapping.build_id, mapping.path, local=False), locator, addresses)
        except OpenError:
            raise error from None
    try:
        mapper = AddressMapper.from_elf(own)
    except ElfError as error:
        own.close()
        raise OpenError(Reason.BROKEN_FILE, str(error)) from None
    return open_wanted(FileQuery(mapping.build_id, mapping.path), locator, addresses, own=own, mapper=mapper)


def open_wanted(
    query: FileQuery,
    locator: Locator,
    addresses: int,
    *,
    own: ObjectFile | None = None,
    mapper: AddressMapper | None = None,
    is_image: bool = False,
) -> PooledBinary:
    """Open what answers for an identity. Without a mapper the found file places addresses.

    `own` is the mapped file, if it is open; it is closed unless it answers. `is_image`: as in SnapshotFile. Raises
    OpenError.
    """

    def places(segments: Sequence[Segment]) -> bool:
        return mapper is not None or is_image or not has_nobits(segments)

    try:
        search = locator.search(query, own=own, addresses=addresses, places=places)
    except Exception as error:  # an error of any reader must not end the batch
        raise OpenError(*reason_of(error, f"opening {query.path}")) from None
    opened = search.opened
    if opened is None:
        missing = search.missing
        raise OpenError(*(Reason.NO_FILE, str(query)) if missing is None else (missing.reason, missing.detail))
    build_id = opened.binary.build_id
    if query.build_id and build_id and not is_same(query.build_id, build_id):
        opened.close()
        raise OpenError(Reason.BUILD_ID_MISMATCH, f"{opened.path} has {build_id}, the mapping {query.build_id}")
    if mapper is None and is_image and opened.source_elf is not None:
        mapper = AddressMapper.of_image(opened.source_elf.image_base)
    elif mapper is None and is_image:
        mapper = AddressMapper.of_stored(opened.binary.about.segments, is_image)
    elif mapper is None and opened.segments is not None:
        mapper = AddressMapper.from_segments(
            segment for segment in opened.segments if segment.executable and segment.file_size
        )
    return PooledBinary(opened.binary, mapper, opened.close)


def mapped_file(mapping: Mapping) -> ElfFile:
    """Return the mapped file, opened by its name if possible, as debug files are searched for next to it.

    Raises OpenError.
    """
    try:
        path, descriptor = mapping.open_with_name(prefer_name=True)
    except PermissionError as error:
        raise OpenError(Reason.PERMISSION_DENIED, str(error)) from None
    except OSError as error:
        raise OpenError(Reason.FILE_GONE, str(error)) from None
    try:
        return open_elf(descriptor, path)
    except ElfError as error:
        reason = Reason.NOT_ELF if error.part in ("", "header") else Reason.BROKEN_FILE
        raise OpenError(reason, str(error)) from None
    except OSError as error:
        raise OpenError(Reason.FILE_GONE, str(error)) from None
    finally:
        os.close(descriptor)


def open_vdso(mapping: Mapping, locator: Locator) -> PooledBinary:
    """Open the vDSO from the process's memory. Raises OpenError."""
    try:
        elf = ElfFile.from_bytes(read_vdso(mapping), "[vdso]")
        return PooledBinary(Binary.from_elf(elf, debug_files=locator.debug_files), AddressMapper.from_elf(elf))
    except PermissionError as error:
        raise OpenError(Reason.PERMISSION_DENIED, str(error)) from None
    except (OSError, WhenceError) as error:
        raise OpenError(Reason.BROKEN_FILE, str(error)) from None
