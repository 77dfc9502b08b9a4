"""Validate batches read from files, and cut them into slices of bounded size.

pyarrow trusts the offsets, indices and lengths of a file, and its compute functions read wherever these point. So each
batch is validated in full before it is used. A small valid batch can still represent a lot of data, as many rows may
refer to one text of a dictionary. `size_of` counts the bytes of the rows with every text and list written out, and
`pieces` cuts a batch that has too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence._base.errors import FormatError, plain
from whence.columns.arrow import pa, pc, types

PIECE_BYTES = 1 << 26  # of a slice of a batch, with texts and lists written out
PIECE_ADDRESSES = 1 << 19
ROW_BYTES = 1 << 24  # of a row
ROW_ADDRESSES = 1 << 20
EXPLODED_BYTES = 1 << 28  # of a row that is repeated for each of its addresses
MAX_COLUMNS = 10_000
UNSUPPORTED_TYPES = {
    "is_list_view": "list views", "is_large_list_view": "list views", "is_run_end_encoded": "run-end encoded values",
    "is_union": "unions",
}  # fmt: skip


class BrokenTable(FormatError):
    """A damaged table, or one with values that are not supported."""


def broken(fault: str) -> BrokenTable:
    """Return an error about a table. The caller adds the path of the file."""
    return BrokenTable("", None, fault)


def check_schema(schema: Any) -> None:
    """Raise BrokenTable unless every name is UTF-8 and `size_of` supports every type."""
    if len(schema) > MAX_COLUMNS:
        raise broken(f"the table has {len(schema):,} columns, more than {MAX_COLUMNS:,}")
    for number in range(len(schema)):
        field = schema.field(number)
        _check_type(field.type, _name_of(field, f"column {number}"))


def _name_of(field: Any, what: str) -> str:
    try:
        return str(field.name)
    except UnicodeDecodeError:
        raise broken(f"the name of {what} is not UTF-8: rename the column at its source") from None


def _check_type(type: Any, column: str) -> None:
    if hasattr(type, "storage_type"):
        type = type.storage_type
    for test, what in UNSUPPORTED_TYPES.items():
        if getattr(types, test, lambda _: False)(type):
            raise broken(f"column {plain(column)} has {what}, which are not supported: cast the column at its source")
    if types.is_dictionary(type):
        _check_type(type.value_type, column)
    for number in range(type.num_fields):
        field = type.field(number)
        _name_of(field, f"a field of column {plain(column)}")
        _check_type(field.type, column)


def check_batch(batch: Any) -> None:
    """Raise BrokenTable for a column with inconsistent buffers, or with texts that are not UTF-8."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
            reason = str(error).splitlines()[0]
            if "utf8" in reason.lower().replace("-", ""):
                reason = "text that is not UTF-8: convert the text, or store it as binary"
            raise broken(f"column {plain(name)}: {plain(reason)}") from None
    batch.validate()


def size_of(array: Any, *, expanded: bool = True) -> int:
    """Return the bytes of the values of a valid array, at least one for each value.

    With `expanded` a dictionary's values count once for each row that refers to them; without, only the indices count.
    """
    count = len(array)
    type = array.type
    if not count:
        return 0
    if hasattr(type, "storage_type"):
        return size_of(array.storage, expanded=expanded)
    if types.is_dictionary(type):
        return _size_of_dictionary(array) if expanded else 4 * count
    if _is_text(type) or _is_view(type):
        return 4 * count + _sum(_lengths(array))
    if types.is_struct(type):
        return count + sum(size_of(array.field(number), expanded=expanded) for number in range(type.num_fields))
    if types.is_fixed_size_list(type):
        values = array.values.slice(array.offset * type.list_size, count * type.list_size)
        return count + size_of(values, expanded=expanded)
    if types.is_nested(type):  # lists and maps
        first, end = array.offsets[0].as_py(), array.offsets[count].as_py()
        return 4 * count + size_of(array.values.slice(first, end - first), expanded=expanded)
    if types.is_null(type):
        return count
    return count * max(int(type.bit_width) // 8, 1)


def _size_of_dictionary(array: Any) -> int:
    count, values = len(array), array.dictionary
    if _is_text(values.type) or _is_view(values.type):
        return 4 * count + _sum(_lengths(values).take(array.indices))
    if types.is_primitive(values.type) or types.is_decimal(values.type) or not len(values):
        return count * max(values.type.bit_width // 8, 1) if len(values) else count
    return count * size_of(values)


def _is_text(type: Any) -> bool:
    tests = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary, types.is_fixed_size_binary)
    return any(test(type) for test in tests)


def _is_view(type: Any) -> bool:
    return any(getattr(types, test, lambda _: False)(type) for test in ("is_string_view", "is_binary_view"))


def _lengths(texts: Any) -> Any:
    """Return the lengths of texts in bytes, 0 for nulls."""
    if not _is_view(texts.type):
        return pc.fill_null(pc.binary_length(texts), 0)
    end = texts.offset + len(texts)  # a view is four integers; the first is the length
    numbers = pa.Array.from_buffers(pa.int32(), 4 * end, [None, texts.buffers()[1]])
    views = pa.FixedSizeListArray.from_arrays(numbers, 4).slice(texts.offset)
    return pc.if_else(texts.is_valid(), pc.list_element(views, 0), 0)


def _sum(numbers: Any) -> int:
    return int(pc.sum(numbers).as_py() or 0)


def addresses_of(batch: Any, address: str) -> int:
    """Return the number of addresses of a batch, counting each address of a list."""
    if address not in batch.schema.names or not len(batch):
        return len(batch)
    column = batch.column(address)
    if types.is_fixed_size_list(column.type):
        return len(batch) * int(column.type.list_size)
    if types.is_list(column.type) or types.is_large_list(column.type):
        return int(column.offsets[len(column)].as_py() - column.offsets[0].as_py())
    return len(batch)


def pieces(batch: Any, address: str, *, exploded: bool = False) -> Iterator[Any]:
    """Yield a valid batch in slices of bounded size.

    With `exploded` the caller will repeat each row for each of its addresses. Raises BrokenTable if a single row is too
    large.
    """
    rows = len(batch)
    size = sum(map(size_of, batch.columns))
    addresses = addresses_of(batch, address)
    if exploded and rows:
        size *= max(addresses // rows, 1)
    parts = max(-(-size // PIECE_BYTES), -(-addresses // PIECE_ADDRESSES) if addresses > rows else 1)
    if rows == 1:
        limit = EXPLODED_BYTES if exploded and addresses > 1 else ROW_BYTES
        if size > limit:
            raise broken(f"a row has {size:,} bytes with its texts and lists written out, more than {limit:,}")
        if addresses > ROW_ADDRESSES:
            raise broken(f"a list has {addresses:,} addresses, more than {ROW_ADDRESSES:,}")
    if parts <= 1 or rows <= 1:
        yield compacted(batch)
        return
    step = -(-rows // min(parts, rows))
    for start in range(0, rows, step):
        yield from pieces(batch.slice(start, step), address, exploded=exploded)


def compacted(batch: Any) -> Any:
    """Return a batch with new dictionaries if they have nulls or are much larger than the rows.

    pyarrow does not write nulls of dictionaries to Parquet, and a slice keeps the complete dictionary.
    """
    for number, column in enumerate(batch.columns):
        if not types.is_dictionary(column.type):
            continue
        values = column.dictionary
        if values.null_count or (values.nbytes > 1 << 20 and size_of(values) > size_of(column)):
            column = column.dictionary_decode().dictionary_encode().cast(column.type)
            batch = batch.set_column(number, batch.schema.field(number), column)
    return batch
