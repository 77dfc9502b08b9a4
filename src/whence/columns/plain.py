"""pyarrow's tables without dictionaries, for files and engines that have none."""

from __future__ import annotations

from typing import Any


def plain_type(type: Any) -> Any:
    """A pyarrow type without dictionaries, at any depth."""
    import pyarrow as pa

    if pa.types.is_dictionary(type):
        return type.value_type
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(plain_type(type.value_type)))
    if pa.types.is_large_list(type):
        return pa.large_list(type.value_field.with_type(plain_type(type.value_type)))
    if pa.types.is_struct(type):
        return pa.struct([one.with_type(plain_type(one.type)) for one in type])
    return type


def plain_schema(schema: Any) -> Any:
    """A pyarrow Schema without dictionaries."""
    import pyarrow as pa

    return pa.schema([one.with_type(plain_type(one.type)) for one in schema])


def plain(table: Any) -> Any:
    """A pyarrow Table or RecordBatch without dictionaries, as a Table."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    columns = [_plain_column(one) for one in table.columns]
    return pa.table(columns, schema=plain_schema(table.schema))


def _plain_column(column: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([_plain_array(one) for one in column.chunks], plain_type(column.type))


def _plain_array(array: Any) -> Any:
    """Lists and structs are taken apart: a cast does not reach dictionaries inside of them."""
    import pyarrow as pa

    type = array.type
    if pa.types.is_dictionary(type):
        return array.dictionary_decode()
    if pa.types.is_struct(type):
        parts = [_plain_array(one) for one in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(plain_type(type)), mask=array.is_null())
    if pa.types.is_list(type) or pa.types.is_large_list(type):  # validity and offsets stay as they are
        return pa.Array.from_buffers(
            plain_type(type), len(array), array.buffers()[:2], array.null_count, array.offset,
            [_plain_array(array.values)],
        )  # fmt: skip
    return array
