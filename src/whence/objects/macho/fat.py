"""Fat files: several Mach-O files, one for each architecture, in one file.

The header is big-endian: a magic, a count, and for each slice its architecture, offset, size and alignment. Java's
classes have the same magic; their second word, the version, is larger than any count of slices.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from whence._base.errors import WRONG_KIND, MachoError, cut_off
from whence._base.records import Record
from whence.objects.macho import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Slice(Record, frozen=True):
    """A Mach-O file in a fat file: bytes [file_offset, file_offset + size)."""

    architecture: str
    file_offset: int
    size: int


def is_fat(data: bytes | memoryview) -> bool:
    """Return True if the bytes begin like a fat file, and not like a Java class."""
    if len(data) < 8:
        return False
    magic, count = struct.unpack_from(">II", data)
    return magic in layout.FAT_ENTRY and count < layout.MAX_SLICES


def read_slices(data: memoryview) -> tuple[Slice, ...]:
    """Return the slices in the file's order. Raises MachoError unless each is in the file and none overlap."""
    magic, count = struct.unpack_from(">II", data)
    form = layout.FAT_ENTRY[magic]
    stride = struct.calcsize(form)
    if 8 + count * stride > len(data):
        raise cut_off(MachoError, "fat header", 8, count * stride, len(data) - 8)
    slices = []
    for index in range(count):
        offset = 8 + index * stride
        cpu, subtype, start, size, *_ = struct.unpack_from(form, data, offset)
        name = layout.architecture(cpu, subtype)
        if start + size > len(data):
            fault = f"slice {name} ends at {start + size:#x}, after the end of the file ({len(data):#x})"
            raise MachoError("fat header", offset, fault)
        if start < 8 + count * stride:
            raise MachoError("fat header", offset, f"slice {name} starts at {start:#x}, inside the fat header")
        if is_fat(data[start : start + 8]):
            raise MachoError("fat header", offset, f"slice {name} is a fat file itself")
        slices.append(Slice(name, start, size))
    ordered = sorted(slices, key=lambda slice: slice.file_offset)
    for current, following in pairwise(ordered):
        if current.file_offset + current.size > following.file_offset:
            fault = f"slices {current.architecture} and {following.architecture} overlap"
            raise MachoError("fat header", None, fault)
    return tuple(slices)


def choose(slices: Sequence[Slice], architecture: str, path: str) -> Slice:
    """Return the slice of an architecture; "" chooses the only slice.

    Raises MachoError, with the names of all slices, if there are several, or none of that architecture.
    """
    chosen = [each for each in slices if architecture in ("", each.architecture)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(each.architecture for each in slices) or "no slices"
    if not architecture:
        fault = f"a fat file with {len(slices)} architectures: {names}"
    elif chosen:
        fault = f"several slices are {architecture}"
    else:
        fault = f"no slice is {architecture}; the file has {names}"
    error = MachoError("", None, fault, code=WRONG_KIND, path=path)
    raise error.with_hint(f"name one of them, as in {path or 'FILE'}:{slices[0].architecture}" if slices else "")
