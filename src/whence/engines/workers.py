"""What the adapters share: the namer of this process, and tables without dictionaries for engines that have none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from whence.columns import Namer
from whence.locate.locator import Locator

Places = Mapping[str, Any]
"""Where names come from: the parameters of whence.Locator as plain values, for processes that make their own, for
instance {"archive_dirs": ["/mnt/archives"], "cache": "/var/cache/whence"}; and `store`, as whence.columns.Namer has
it."""

_lock = threading.Lock()
_namers: dict[str, Namer] = {}


def namer_of(places: Places | Locator | None, **options: Any) -> Namer:
    """A namer with these options; the same for the same places within a process, so that what is open stays open."""
    if isinstance(places, Locator):
        return Namer(locator=places, **options)
    key = repr((sorted((places or {}).items()), sorted(options.items())))
    with _lock:
        found = _namers.get(key)
        if found is None:
            found = _namers[key] = Namer(locator=locator_of(**(places or {})), **options)
        return found


def locator_of(store: str | None = None, cache: str | None = None, **places: Any) -> Locator:
    """The Locator of these places."""
    if store is None:
        return Locator(cache=cache, **places)
    from whence.store import Store

    return Locator(cache=cache, sources=[Store(store, cache=cache).source("engine")], **places)


def plain_type(type: Any) -> Any:
    """A pyarrow type without dictionaries, at any depth."""
    import pyarrow as pa

    if pa.types.is_dictionary(type):
        return type.value_type
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(plain_type(type.value_type)))
    if pa.types.is_struct(type):
        return pa.struct([one.with_type(plain_type(one.type)) for one in type])
    return type


def plain_schema(schema: Any) -> Any:
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
    if pa.types.is_list(type):
        if array.offset or array.null_count:
            array = pa.concat_arrays([array])
        return pa.ListArray.from_arrays(array.offsets, _plain_array(array.values), type=plain_type(type))
    return array
