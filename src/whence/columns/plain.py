"""pyarrow's tables without dictionaries, for files and engines that have none."""

from __future__ import annotations

from typing import Any


def plain_type(type: Any) -> Any:
    """Return a pyarrow type without dictionaries, at any depth."""
    import pyarrow as pa

    if pa.types.is_dictionary(type):
        return plain_type(type.value_type)
    if pa.types.is_map(type):
        return pa.map_(
            type.key_field.with_type(plain_type(type.key_type)), type.item_field.with_type(plain_type(type.item_type))
        )
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(plain_type(type.value_type)))
    if pa.types.is_large_list(type):
        return pa.large_list(type.value_field.with_type(plain_type(type.value_type)))
    if pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field.with_type(plain_type(type.value_type)), type.list_size)
    if pa.types.is_struct(type):
        return pa.struct([one.with_type(plain_type(one.type)) for one in type])
    return type


def plain_schema(schema: Any, *, views: bool = True) -> Any:
    """Return a pyarrow Schema without dictionaries, and unless `views` without views of texts."""
    import pyarrow as pa

    fields = [one.with_type(plain_type(one.type)) for one in schema]
    if not views:
        others = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
        fields = [one.with_type(others.get(one.type, one.type)) for one in fields]
    return pa.schema(fields, metadata=schema.metadata)


def plain(table: Any, *, views: bool = True) -> Any:
    """Return a pyarrow Table or RecordBatch without dictionaries, as a Table."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    schema = plain_schema(table.schema, views=views)
    columns = [
        column if column.type == one.type else column.cast(one.type)
        for column, one in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)
