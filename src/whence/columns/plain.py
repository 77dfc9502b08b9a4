"""pyarrow tables without dictionaries, for files and engines that do not support them."""

from __future__ import annotations

from typing import Any

from whence.columns.arrow import pa


def plain_type(type: Any) -> Any:
    """Return a pyarrow type without dictionaries, at any depth."""
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
        return pa.struct([field.with_type(plain_type(field.type)) for field in type])
    return type


def plain_schema(schema: Any, *, views: bool = True) -> Any:
    """Return a pyarrow Schema without dictionaries and, unless `views`, without views of texts."""
    fields = [field.with_type(plain_type(field.type)) for field in schema]
    if not views:
        others = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
        fields = [field.with_type(others.get(field.type, field.type)) for field in fields]
    return pa.schema(fields, metadata=schema.metadata)


def plain(table: Any, *, views: bool = True) -> Any:
    """Return a pyarrow Table or RecordBatch without dictionaries, as a Table."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    schema = plain_schema(table.schema, views=views)
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)
