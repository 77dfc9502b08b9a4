"""PROCMAP_QUERY: ask the kernel about one address instead of reading the complete maps file (Linux 6.11).

An ioctl on an open /proc/PID/maps. `struct procmap_query` (include/uapi/linux/fs.h), 104 bytes in native order:

    0x00 u64 size            in       0x38 u64 vma_offset      out, bytes of the file
    0x08 u64 query_flags     in       0x40 u64 inode           out
    0x10 u64 query_addr      in       0x48 u32 dev_major       out     0x4c u32 dev_minor      out
    0x18 u64 vma_start       out      0x50 u32 vma_name_size   in/out  0x54 u32 build_id_size  in/out
    0x20 u64 vma_end         out      0x58 u64 vma_name_addr   in
    0x28 u64 vma_flags       out      0x60 u64 build_id_addr   in
    0x30 u64 vma_page_size   out

The descriptor refers to the memory it was opened on: after exit or exec every query fails with ESRCH, so a reused pid
can't answer for its predecessor. The kernel returns build-ids of at most 20 bytes, and none if it can't read the notes
of a file. Names are not escaped. The [vsyscall] page is only in the text of maps.
"""

from __future__ import annotations

import errno
import os
import struct
from array import array
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # only Linux has the query
    fcntl = None  # type: ignore[assignment]

from whence._base.closing import Closing
from whence.procmap.kernels.constants import EXECUTE, PERMISSIONS
from whence.procmap.mapping import Mapping, kind_of

REQUEST = 0xC0686611
COVERING_OR_NEXT = 0x10

_STRUCT = struct.Struct("=9Q4I2Q")
_BUILD_ID_CAPACITY = 64
_NAME_CAPACITY = 4096 + 64

new_tuple = tuple.__new__


class MapsQuery(Closing):
    """An open maps file that answers queries. A context manager, for one thread at a time.

    Opening raises OSError; `find` and `walk` raise ProcessLookupError if the memory is gone.
    """

    __slots__ = (
        "_build_id",
        "_build_id_address",
        "_descriptor",
        "_linked",
        "_name",
        "_name_address",
        "_process",
        "_request",
    )

    def __init__(self, process: str, linked: bool = True) -> None:
        self._process = process
        self._linked = linked
        self._name = array("B", bytes(_NAME_CAPACITY))
        self._build_id = array("B", bytes(_BUILD_ID_CAPACITY))
        self._name_address = self._name.buffer_info()[0]
        self._build_id_address = self._build_id.buffer_info()[0]
        self._request = bytearray(_STRUCT.size)
        self._descriptor = os.open(f"{process}/maps", os.O_RDONLY)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def supported(self) -> bool:
        """Return True if this kernel has the query, and this is a real maps file."""
        try:
            self.find(0, EXECUTE | COVERING_OR_NEXT, build_id=False)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True

    def find(self, runtime: int, flags: int = 0, build_id: bool = True) -> Mapping | None:
        """Return the mapping with these permissions at a runtime address; with COVERING_OR_NEXT, or after it.

        The build-id is "" if the kernel has none; that of the file may still be readable.
        """
        if not 0 <= runtime < 1 << 64:
            return None
        id_capacity, build_id_address = (_BUILD_ID_CAPACITY, self._build_id_address) if build_id else (0, 0)
        request = self._request
        sizes = _NAME_CAPACITY, id_capacity
        addresses = self._name_address, build_id_address
        _STRUCT.pack_into(request, 0, _STRUCT.size, flags, runtime, *[0] * 8, *sizes, *addresses)
        try:
            fcntl.ioctl(self._descriptor, REQUEST, request)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        (_, _, _, start, end, bits, _, offset, inode, major, minor, name_size, id_size, _, _) = _STRUCT.unpack(request)
        name = self._name[: name_size - 1].tobytes() if name_size else b""
        kind, path, deleted = kind_of(name.decode("utf-8", "surrogateescape"))
        hex_id = self._build_id[:id_size].tobytes().hex() if id_size else ""
        # like Mapping(...), but faster: a process may have thousands
        return new_tuple(
            Mapping,
            (
                path, start, end, offset, hex_id, kind, bits & PERMISSIONS, os.makedev(major, minor), inode, deleted,
                self._process, self._linked,
            ),
        )  # fmt: skip

    def walk(self, flags: int = EXECUTE, build_id: bool = True) -> Iterator[Mapping]:
        """Yield all mappings with these permissions, in address order."""
        address = 0
        while True:
            mapping = self.find(address, flags | COVERING_OR_NEXT, build_id)
            if mapping is None or mapping.limit <= address:
                return
            yield mapping
            address = mapping.limit
