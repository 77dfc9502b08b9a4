"""Checks of untrusted Arrow streams before pyarrow reads them.

The header of a message states its number of rows, its compression, and the offset of each buffer in the body (Arrow's
IPC format, Message.fbs, in flatbuffers' encoding). Encodings in which a few bytes represent many values are refused or
limited before pyarrow reads them:

    compressed buffers             refused
    rows, entries of dictionaries  at most `addresses`
    overlapping buffers            refused: each reference may cost a validation and a copy
    list views                     refused at any depth: their lists may overlap
    text and binary views          at most `answer_bytes` in total
    lists of addresses             at most `addresses` values, counted by their offsets
    texts of addresses, build-ids  at most LONGEST_TEXT each: rows that share a dictionary's value are parsed separately

Run ends, unions, maps, structs, fixed-size lists, null columns and extension types are returned as they are stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from whence.columns.flatbuffers import BUFFERS, COMPRESSION, LENGTH, batch_of
from whence.columns.namer import ADDRESS, BUILD_ID, FILE_OFFSET, MAPPING_OFFSET, MAPPING_START, build_id_of
from whence.server.bodies import Refusal
from whence.server.deadlines import check_deadline

if TYPE_CHECKING:
    from whence.server.settings import RequestLimits

SLICE = 1 << 14  # rows that are named together
LONGEST_TEXT = 1 << 8  # bytes of an address or a build-id
VIEW_BYTES = 16
READ = (BUILD_ID, ADDRESS, FILE_OFFSET, MAPPING_START, MAPPING_OFFSET)  # columns that are read, not only returned


def batches_of(body: bytes, limits: RequestLimits) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a stream, and its checked batches of at most SLICE rows.

    Raises Refusal, pyarrow's errors, OSError.
    """
    check(body, limits)
    reader = pa.ipc.open_stream(body)
    for field in reader.schema:
        check_type(field.name, field.type)

    def slices() -> Iterator[Any]:
        addresses = 0
        with reader:
            for batch in reader:
                check_deadline()
                batch.validate()
                check_views(batch, limits)
                addresses += count_elements(batch)
                if addresses > limits.addresses:
                    raise Refusal(413, f"the lists have more than {limits.addresses} addresses: split the stream")
                batch.validate(full=True)
                check_texts(batch)
                for start in range(0, max(batch.num_rows, 1), SLICE):
                    check_deadline()
                    yield batch.slice(start, SLICE)

    return reader.schema, slices()


def check_type(name: str, type: Any) -> None:
    """Raise Refusal if a type has list views, at any depth."""
    waiting = [type]
    while waiting:
        inner = waiting.pop()
        if pa.types.is_list_view(inner) or pa.types.is_large_list_view(inner):
            raise Refusal(415, f"column {ascii(name)[1:-1][:80]} has list views, which may overlap: send plain lists")
        if isinstance(inner, pa.BaseExtensionType):
            waiting.append(inner.storage_type)
        elif pa.types.is_dictionary(inner):
            waiting.append(inner.value_type)
        else:
            waiting += (inner.field(index).type for index in range(inner.num_fields))


def arrays_in(column: Any) -> Iterator[Any]:
    """Yield a column and all arrays inside it: items, members, dictionaries, runs, storage of extensions."""
    waiting = [column]
    while waiting:
        array = waiting.pop()
        yield array
        type = array.type
        if isinstance(type, pa.BaseExtensionType):
            waiting.append(array.storage)
        elif pa.types.is_dictionary(type):
            waiting.append(array.dictionary)
        elif pa.types.is_struct(type) or pa.types.is_union(type):
            waiting += (array.field(index) for index in range(type.num_fields))
        elif type.num_fields:  # lists, maps, run ends
            waiting.append(array.values)


def check_views(batch: Any, limits: RequestLimits) -> None:
    """Raise Refusal if text and binary views are too long in total: they may overlap, and each is validated."""
    size = 0
    for column in batch.columns:
        for array in arrays_in(column):
            if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
                size += sum(view_lengths(array))
    if size > limits.answer_bytes:
        raise Refusal(413, f"text views of {size} bytes, at most {limits.answer_bytes} are allowed")


def view_lengths(views: Any) -> memoryview:
    """Return the length of each view of an array, including those outside its slice."""
    buffer = memoryview(views.buffers()[1] or b"").cast("B")
    return buffer[: len(buffer) - len(buffer) % VIEW_BYTES].cast("I")[:: VIEW_BYTES // 4]


def count_elements(batch: Any) -> int:
    """Return the number of values in the lists of a batch's addresses, by their offsets."""
    largest = 0
    for name in READ:
        if name not in batch.schema.names:
            continue
        column = plain(batch.column(name))
        if pa.types.is_fixed_size_list(column.type):
            largest = max(largest, len(column) * column.type.list_size)
        elif len(column) and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            largest = max(largest, column.offsets[-1].as_py() - column.offsets[0].as_py())
    return largest


def check_texts(batch: Any) -> None:
    """Raise Refusal if a column that is read has long texts."""
    for name in READ:
        if name not in batch.schema.names:
            continue
        for array in arrays_in(batch.column(name)):
            type = array.type
            if pa.types.is_string_view(type) or pa.types.is_binary_view(type):
                longest = max(view_lengths(array), default=0)
            elif pa.types.is_fixed_size_binary(type):
                longest = type.byte_width
            elif pa.types.is_binary(type) or pa.types.is_string(type) or is_large_text(type):
                longest = pc.max(pc.binary_length(array)).as_py() or 0
            else:
                continue
            if longest > LONGEST_TEXT:
                raise Refusal(413, f"column {name} has a text of {longest} bytes, at most {LONGEST_TEXT} are allowed")


def plain(array: Any) -> Any:
    """Return an array without its extension types."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def is_list(type: Any) -> bool:
    """Return True for lists whose items are in one array."""
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type))


def is_large_text(type: Any) -> bool:
    """Return True for texts and binary with 64-bit offsets."""
    return bool(pa.types.is_large_binary(type) or pa.types.is_large_string(type))


def build_ids_in(batch: Any) -> set[str]:
    """Return the distinct build-ids of a batch, including those in lists."""
    if BUILD_ID not in batch.schema.names:
        return set()
    values = plain(batch.column(BUILD_ID))
    while pa.types.is_dictionary(values.type) or is_list(values.type):
        values = plain(values.dictionary if pa.types.is_dictionary(values.type) else values.flatten())
    if pa.types.is_nested(values.type):
        return set()
    distinct = pc.unique(values).to_pylist()
    texts = (value.encode() if isinstance(value, str) else value for value in distinct)
    return {build_id_of(text) for text in texts if isinstance(text, bytes)}


def check(body: bytes, limits: RequestLimits) -> None:
    """Raise Refusal for a stream with too many rows, or with compressed or overlapping buffers.

    Also raises pyarrow's errors.
    """
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        check_deadline()
        try:
            batch = batch_of(message.metadata.to_pybytes())
            if batch is None:
                continue
            compressed, length = batch.field(COMPRESSION), batch.number(LENGTH, "<q")
            used = sum(max(size, 0) for _, size in batch.buffers(BUFFERS))
        except struct.error:
            raise Refusal(400, "damaged Arrow stream: the header of a message is cut off") from None
        if compressed:
            raise Refusal(415, "the Arrow stream has compressed buffers: compress the whole body by gzip instead")
        if length < 0:
            raise Refusal(400, f"damaged Arrow stream: a batch has {length} rows")
        if used > (message.body.size if message.body is not None else 0):
            raise Refusal(400, "damaged Arrow stream: the buffers of a batch overlap or extend past its end")
        rows += length
        if rows > limits.addresses:
            raise Refusal(413, f"the stream has more than {limits.addresses} rows: split it")
