"""The streams of type records (TPI) and of ids (IPI), which name the functions that were inlined."""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import PdbError, cut_off
from whence.objects.pdb import layout
from whence.pdb.kernels.names import TypeRecords
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.pdb import PdbFile

SMALLEST = 4  # bytes of a record
NO_RECORDS = memoryview(b"")


def read_records(pdb: PdbFile, stream: int, name: str) -> TypeRecords:
    """Return the records of a stream; none if it does not exist. Raises PdbError if its header is damaged."""
    content = pdb.msf.stream(stream, name)
    if not len(content):
        return TypeRecords(NO_RECORDS, 0, array("I"))
    if len(content) < layout.TPI_SIZE:
        raise cut_off(PdbError, name, 0, layout.TPI_SIZE, len(content))
    version, header, first, end, size = struct.unpack_from("<5I", content)
    if version not in layout.TPI_VERSIONS:
        raise PdbError(name, 0, f"the version is {version}, expected {layout.TPI_VERSIONS[-1]}")
    if not layout.TPI_SIZE <= header <= len(content) or first > end:
        raise PdbError(name, 4, f"the header has {header} bytes, for records {first:#x} to {end:#x}")
    records = content[header : header + size]
    return TypeRecords(records, first, zeros("I", min(end - first, len(records) // SMALLEST)))
