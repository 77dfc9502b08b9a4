"""The file header of a perf.data: its attributes and the extents of its parts.

    0 magic "PERFILE2"   8 size of the header: 104 is the file form, 16 the pipe form, whose records follow
    16 size of an attribute's entry   24 attributes   40 data   56 (event types, unused)   72 features, 256 bits

A part is an offset and a size. An attribute's entry ends with the offset and size of the array of its ids. After the
data follow an offset and a size for each feature whose bit is set. If the recorder was killed, the data's size is 0:
the records extend to the end of the file, and there are no features.
"""

from __future__ import annotations

import struct

from whence._base.errors import WRONG_KIND, ProfileError, cut_off, wrong_magic
from whence._base.records import Record, field
from whence.perfdata import attributes
from whence.perfdata.attributes import Attribute
from whence.perfdata.features import Features
from whence.perfdata.magic import MAGIC, MAGIC_BIG
from whence.perfdata.source import ByteSource

MAGIC_1 = b"PERFFILE"
PIPE_SIZE, FILE_SIZE = 16, 104
FEATURES_OFFSET, FEATURE_BITS = 72, 256
ENTRY = 16  # offset and size
MOST_ATTRIBUTES = 1 << 20  # bytes of their table
MOST_FEATURE = 256 << 20  # bytes of a section; larger sections are skipped


class RecordingHeader(Record):
    """The extent of the records, and everything that precedes them."""

    big: bool
    is_pipe: bool
    data: tuple[int, int]  # offset and end
    events: list[tuple[Attribute, tuple[int, ...]]] = field(default_factory=list)
    features: Features = field(default_factory=Features)
    was_killed: bool = False
    was_cut: bool = False  # the sections after the data are missing


def read(source: ByteSource) -> RecordingHeader:
    """Read the header of a recording. Raise ProfileError if the bytes are not a recording, or damaged."""
    head = bytes(source.read(0, FILE_SIZE))
    if head.startswith(MAGIC_1):
        problem = "perf.data of version 1 (before Linux 3.2) is not supported"
        raise ProfileError("", None, problem, code=WRONG_KIND)
    if not head.startswith((MAGIC, MAGIC_BIG)):
        raise wrong_magic(ProfileError, "a perf.data", head[:8], MAGIC, MAGIC_BIG)
    big = head.startswith(MAGIC_BIG)
    order = ">" if big else "<"
    if len(head) < PIPE_SIZE:
        raise cut_off(ProfileError, "header", 0, PIPE_SIZE, len(head))
    (size,) = struct.unpack_from(order + "Q", head, 8)
    if size == PIPE_SIZE:
        return RecordingHeader(big, True, (PIPE_SIZE, source.size))
    if size != FILE_SIZE:
        problem = f"header size {size} is neither {FILE_SIZE} (file) nor {PIPE_SIZE} (pipe)"
        raise ProfileError("header", 8, problem, found=size)
    if len(head) < FILE_SIZE:
        raise cut_off(ProfileError, "header", 0, FILE_SIZE, len(head))
    entry, table, table_size, data, data_size = struct.unpack_from(order + "QQQQQ", head, 16)
    end = min(data + data_size, source.size) if data_size else source.size
    header = RecordingHeader(big, False, (data, max(end, data)), was_killed=data_size == 0)
    header.events = read_attributes(source, order, entry, table, table_size)
    if data_size:
        header.was_cut = not read_features(source, order, head, data + data_size, header.features)
        named = header.features.events
        if len(named) == len(header.events):
            header.events = [(event, ids) for (event, _), (_, ids) in zip(named, header.events, strict=True)]
    return header


def read_attributes(
    source: ByteSource, order: str, entry: int, table: int, size: int
) -> list[tuple[Attribute, tuple[int, ...]]]:
    """Return the events with their ids. Raise ProfileError if one is invalid or all are missing."""
    smallest, largest = attributes.SMALLEST + ENTRY, attributes.LARGEST + ENTRY
    if not smallest <= entry <= largest:
        raise ProfileError("header", 16, f"attribute size {entry} is not between {smallest} and {largest}", found=entry)
    if size > MOST_ATTRIBUTES:
        raise ProfileError("header", 32, f"attributes of {size} bytes exceed {MOST_ATTRIBUTES} bytes", found=size)
    data = bytes(source.read(table, size))
    if len(data) < size:
        raise cut_off(ProfileError, "attributes", table, size, len(data))
    events = []
    for offset in range(0, size - size % entry, entry):
        try:
            attribute, _ = attributes.parse(data[offset : offset + entry - ENTRY], order == ">")
        except ValueError as error:
            raise ProfileError("attributes", table + offset, f"invalid attribute: {error}") from None
        ids_offset, count = struct.unpack_from(order + "QQ", data, offset + entry - ENTRY)
        ids = bytes(source.read(ids_offset, min(count, MOST_ATTRIBUTES)))
        events.append((attribute, struct.unpack_from(f"{order}{len(ids) // 8}Q", ids)))
    if not events:
        raise ProfileError("attributes", table, "no attributes")
    return events


def read_features(source: ByteSource, order: str, head: bytes, table: int, features: Features) -> bool:
    """Read the sections after the data, in the order of their bits. Return False if they are not in the file."""
    # a recorder of the other byte order may have written the bitmap as 64-bit or as 32-bit words: with the wrong size
    # the table points outside the file
    for word in ("Q", "I"):
        size = struct.calcsize(word)
        bitmap = struct.unpack_from(f"{order}{FEATURE_BITS // 8 // size}{word}", head, FEATURES_OFFSET)
        bits = [bit for bit in range(FEATURE_BITS) if bitmap[bit // (8 * size)] >> bit % (8 * size) & 1]
        rows = bytes(source.read(table, ENTRY * len(bits)))
        if len(rows) < ENTRY * len(bits):
            continue
        sections = [struct.unpack_from(order + "QQ", rows, ENTRY * row) for row in range(len(bits))]
        if all(offset + size <= source.size for offset, size in sections):
            break
    else:
        return False
    for bit, (offset, size) in zip(bits, sections, strict=True):
        if size <= MOST_FEATURE:
            features.read(bit, bytes(source.read(offset, size)), order == ">")
    return True
