"""The file header of a perf.data, its attributes and where its parts are.

    0 magic "PERFILE2"   8 size of the header: 104 is the file form, 16 the pipe form, whose records follow at once
    16 size of an attribute's entry   24 attributes   40 data   56 (event types, unused)   72 features, 256 bits

Parts are given by offset and size. An entry of an attribute ends with offset and size of the array of its ids. Behind
the data lies an offset and a size for each feature whose bit is set. Of a recorder that was killed the data's size is
0: its records go on to the end of the file, and there are no features.
"""

from __future__ import annotations

import struct

from whence._base.errors import WRONG_KIND, ProfileError
from whence._base.records import Record, field
from whence.perfdata import attributes
from whence.perfdata.attributes import Attribute
from whence.perfdata.features import Features
from whence.perfdata.magic import MAGIC, MAGIC_BIG
from whence.perfdata.source import ByteSource

MAGIC_1 = b"PERFFILE"
PIPE_SIZE, FILE_SIZE = 16, 104
FEATURES_AT, FEATURE_BITS = 72, 256
ENTRY = 16  # offset and size
MOST_ATTRIBUTES = 1 << 20  # bytes of their table
MOST_FEATURE = 256 << 20  # bytes of a section that is read


class RecordingHeader(Record):
    """Where records are, and what is known before the first of them."""

    big: bool
    is_pipe: bool
    data: tuple[int, int]  # offset and end
    events: list[tuple[Attribute, tuple[int, ...]]] = field(default_factory=list)
    features: Features = field(default_factory=Features)
    was_killed: bool = False


def read(source: ByteSource) -> RecordingHeader:
    """The header of a recording. ProfileError for what is none."""
    head = bytes(source.read(0, FILE_SIZE))
    if head.startswith(MAGIC_1):
        fault = "a perf.data of version 1, which perf wrote before Linux 3.2"
        raise ProfileError("header", 0, "the version is 2", "1", fault=fault, code=WRONG_KIND)
    if not head.startswith((MAGIC, MAGIC_BIG)):
        raise ProfileError("header", 0, 'the magic is "PERFILE2"', head[:8], code=WRONG_KIND)
    big = head.startswith(MAGIC_BIG)
    order = ">" if big else "<"
    if len(head) < PIPE_SIZE:
        raise ProfileError("header", len(head), f"the header has {PIPE_SIZE} bytes", f"{len(head)}")
    (size,) = struct.unpack_from(order + "Q", head, 8)
    if size == PIPE_SIZE:
        return RecordingHeader(big, True, (PIPE_SIZE, source.size))
    if size != FILE_SIZE or len(head) < FILE_SIZE:
        rule = f"the header has {FILE_SIZE} bytes, or {PIPE_SIZE} in the pipe form"
        raise ProfileError("header", 8, rule, str(size) if size != FILE_SIZE else f"{len(head)} bytes of it")
    entry, table, table_size, data, data_size = struct.unpack_from(order + "QQQQQ", head, 16)
    end = min(data + data_size, source.size) if data_size else source.size
    found = RecordingHeader(big, False, (data, max(end, data)), was_killed=data_size == 0)
    found.events = read_attributes(source, order, entry, table, table_size)
    if data_size:
        read_features(source, order, head, data + data_size, found.features)
        named = found.features.events
        if len(named) == len(found.events):
            found.events = [(one, ids) for (one, _), (_, ids) in zip(named, found.events, strict=True)]
    return found


def read_attributes(
    source: ByteSource, order: str, entry: int, table: int, size: int
) -> list[tuple[Attribute, tuple[int, ...]]]:
    """The events with their ids. ProfileError."""
    if not attributes.SMALLEST + ENTRY <= entry <= attributes.LARGEST + ENTRY or size > MOST_ATTRIBUTES:
        rule = f"an attribute has {attributes.SMALLEST} bytes or more, and all of them {MOST_ATTRIBUTES} at most"
        raise ProfileError("attributes", 16, rule, f"{entry} of {size}")
    data = bytes(source.read(table, size))
    if len(data) < size:
        raise ProfileError("attributes", table, f"their table has {size} bytes", f"{len(data)}")
    out = []
    for at in range(0, size - size % entry, entry):
        try:
            attribute, _ = attributes.parse(data[at : at + entry - ENTRY], order == ">")
        except ValueError as error:
            raise ProfileError("attributes", table + at, "an attribute is whole", str(error)) from None
        where, count = struct.unpack_from(order + "QQ", data, at + entry - ENTRY)
        ids = bytes(source.read(where, min(count, MOST_ATTRIBUTES)))
        out.append((attribute, struct.unpack_from(f"{order}{len(ids) // 8}Q", ids)))
    if not out:
        raise ProfileError("attributes", table, "there is an attribute", "none")
    return out


def read_features(source: ByteSource, order: str, head: bytes, table: int, features: Features) -> None:
    """The sections behind the data, in the order of their bits."""
    # two machines of different orders may disagree about whether the bitmap is of 64-bit or 32-bit words; a table that
    # leads out of the file was read by the wrong ones
    for word in ("Q", "I"):
        size = struct.calcsize(word)
        words = struct.unpack_from(f"{order}{FEATURE_BITS // 8 // size}{word}", head, FEATURES_AT)
        bits = [bit for bit in range(FEATURE_BITS) if words[bit // (8 * size)] >> bit % (8 * size) & 1]
        rows = bytes(source.read(table, ENTRY * len(bits)))
        if len(rows) < ENTRY * len(bits):
            continue
        sections = [struct.unpack_from(order + "QQ", rows, ENTRY * at) for at in range(len(bits))]
        if all(offset + size <= source.size for offset, size in sections):
            break
    else:
        return
    for bit, (offset, size) in zip(bits, sections, strict=True):
        if size <= MOST_FEATURE:
            features.read(bit, bytes(source.read(offset, size)), order == ">")
