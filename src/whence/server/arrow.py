"""Arrow streams of strangers: looked at before pyarrow unpacks them, and answered within bounds.

A message's head says how many rows it has, whether its buffers are packed, and where in the body each buffer is
(Arrow's IPC format, Message.fbs, in flatbuffers' encoding). Whatever lets a few bytes represent many values is refused
or charged before pyarrow reads it:

    packed buffers                 refused
    rows, entries of dictionaries  at most `addresses`
    buffers that overlap           refused: each may be validated and copied once for each that refers to it
    list views                     refused, at any depth: their lists may overlap
    text and binary views          the lengths of all of them together: at most `answer_bytes`
    lists of addresses             values counted by the offsets: at most `addresses`
    texts of addresses, build-ids  LONGEST_TEXT each: rows that share one through a dictionary are parsed one by one

Run ends, unions, maps, structs, fixed-size lists, null columns and extension types are passed on as they are stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.columns.flatbuffers import BUFFERS, COMPRESSION, LENGTH, batch_of
from whence.columns.namer import ADDRESS, BUILD_ID, FILE_OFFSET, MAPPING_OFFSET, MAPPING_START, build_id_of
from whence.server.bodies import Refusal
from whence.server.deadlines import check_deadline

if TYPE_CHECKING:
    from whence.server.settings import RequestLimits

PIECE = 1 << 14  # rows that are named at once
LONGEST_TEXT = 1 << 8  # bytes of an address or a build-id
VIEW_BYTES = 16
READ = (BUILD_ID, ADDRESS, FILE_OFFSET, MAPPING_START, MAPPING_OFFSET)  # columns that are read, not only passed on


def batches_of(body: bytes, limits: RequestLimits) -> tuple[Any, Iterator[Any]]:
    """The schema of a stream, and its batches, checked, at most PIECE rows at a time. Raises Refusal, pyarrow's
    errors, OSError."""
    import pyarrow as pa

    check(body, limits)
    reader = pa.ipc.open_stream(body)
    for field in reader.schema:
        check_type(field.name, field.type)

    def pieces() -> Iterator[Any]:
        addresses = 0
        with reader:
            for batch in reader:
                check_deadline()
                batch.validate()
                check_views(batch, limits)
                addresses += elements(batch)
                if addresses > limits.addresses:
                    raise Refusal(413, f"more than {limits.addresses} addresses in lists")
                batch.validate(full=True)
                check_texts(batch)
                for start in range(0, max(batch.num_rows, 1), PIECE):
                    check_deadline()
                    yield batch.slice(start, PIECE)

    return reader.schema, pieces()


def check_type(name: str, type: Any) -> None:
    """Refuse list views at any depth. Raises Refusal."""
    import pyarrow as pa

    waiting = [type]
    while waiting:
        one = waiting.pop()
        if pa.types.is_list_view(one) or pa.types.is_large_list_view(one):
            raise Refusal(415, f"column {ascii(name)[1:-1][:80]} has list views, which may overlap: send plain lists")
        if isinstance(one, pa.BaseExtensionType):
            waiting.append(one.storage_type)
        elif pa.types.is_dictionary(one):
            waiting.append(one.value_type)
        else:
            waiting += (one.field(index).type for index in range(one.num_fields))


def arrays_in(column: Any) -> Iterator[Any]:
    """A column and every array inside it: items, members, values of dictionaries and of runs, storage of extensions."""
    import pyarrow as pa

    waiting = [column]
    while waiting:
        one = waiting.pop()
        yield one
        type = one.type
        if isinstance(type, pa.BaseExtensionType):
            waiting.append(one.storage)
        elif pa.types.is_dictionary(type):
            waiting.append(one.dictionary)
        elif pa.types.is_struct(type) or pa.types.is_union(type):
            waiting += (one.field(index) for index in range(type.num_fields))
        elif type.num_fields:  # lists, maps, run ends
            waiting.append(one.values)


def check_views(batch: Any, limits: RequestLimits) -> None:
    """Refuse text and binary views that are too long together: validating one costs its length, and they may overlap.
    Raises Refusal."""
    import pyarrow as pa

    size = 0
    for column in batch.columns:
        for one in arrays_in(column):
            if pa.types.is_string_view(one.type) or pa.types.is_binary_view(one.type):
                size += sum(view_lengths(one))
    if size > limits.answer_bytes:
        raise Refusal(413, f"text views of {size} bytes, at most {limits.answer_bytes} are allowed")


def view_lengths(views: Any) -> memoryview:
    """The length of each view of an array, also of those outside its slice."""
    buffer = memoryview(views.buffers()[1] or b"").cast("B")
    return buffer[: len(buffer) - len(buffer) % VIEW_BYTES].cast("I")[:: VIEW_BYTES // 4]


def elements(batch: Any) -> int:
    """How many values the lists of a batch's addresses have, by their offsets: nothing is flattened."""
    import pyarrow as pa

    most = 0
    for name in READ:
        if name not in batch.schema.names:
            continue
        column = plain(batch.column(name))
        if pa.types.is_fixed_size_list(column.type):
            most = max(most, len(column) * column.type.list_size)
        elif len(column) and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            most = max(most, column.offsets[-1].as_py() - column.offsets[0].as_py())
    return most


def check_texts(batch: Any) -> None:
    """Refuse long texts in the columns that are read. Raises Refusal."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in READ:
        if name not in batch.schema.names:
            continue
        for one in arrays_in(batch.column(name)):
            type = one.type
            if pa.types.is_string_view(type) or pa.types.is_binary_view(type):
                longest = max(view_lengths(one), default=0)
            elif pa.types.is_fixed_size_binary(type):
                longest = type.byte_width
            elif pa.types.is_binary(type) or pa.types.is_string(type) or is_large_text(type):
                longest = pc.max(pc.binary_length(one)).as_py() or 0
            else:
                continue
            if longest > LONGEST_TEXT:
                raise Refusal(413, f"column {name} has a text of {longest} bytes, at most {LONGEST_TEXT} are allowed")


def plain(array: Any) -> Any:
    """An array without its extension types."""
    import pyarrow as pa

    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def is_list(type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type))


def is_large_text(type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_large_binary(type) or pa.types.is_large_string(type))


def build_ids_in(batch: Any) -> set[str]:
    """The distinct build-ids of a batch of pyarrow's, in lists too; none where it has no column of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if BUILD_ID not in batch.schema.names:
        return set()
    values = plain(batch.column(BUILD_ID))
    while pa.types.is_dictionary(values.type) or is_list(values.type):
        values = plain(values.dictionary if pa.types.is_dictionary(values.type) else values.flatten())
    if pa.types.is_nested(values.type):
        return set()
    found = pc.unique(values).to_pylist()
    texts = (one.encode() if isinstance(one, str) else one for one in found)
    return {build_id_of(one) for one in texts if isinstance(one, bytes)}


def check(body: bytes, limits: RequestLimits) -> None:
    """Refuse a stream of more rows than allowed, with packed buffers or with overlapping ones. Raises Refusal and
    pyarrow's errors."""
    import pyarrow as pa

    rows = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        check_deadline()
        try:
            batch = batch_of(message.metadata.to_pybytes())
            if batch is None:
                continue
            packed, length = batch.field(COMPRESSION), batch.number(LENGTH, "<q")
            used = sum(max(size, 0) for _, size in batch.buffers(BUFFERS))
        except struct.error:
            raise Refusal(400, "no Arrow stream: the head of a message is cut off") from None
        if packed:
            raise Refusal(415, "an Arrow stream with packed buffers: send plain ones, the whole body as gzip")
        if length < 0:
            raise Refusal(400, f"no Arrow stream: a batch of {length} rows")
        if used > (message.body.size if message.body is not None else 0):
            raise Refusal(400, "no Arrow stream: the buffers of a batch overlap or extend past its end")
        rows += length
        if rows > limits.addresses:
            raise Refusal(413, f"more than {limits.addresses} rows")
