"""Tables without dictionaries have the same values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from whence.columns.plain import plain

TEXTS = pa.array(["a", "b", None, "a"]).dictionary_encode()
FRAMES = pa.StructArray.from_arrays(
    [TEXTS, pa.array([1, 2, 3, None])], names=["text", "line"], mask=pa.array([False, True, False, False])
)


@pytest.mark.parametrize("values", [pa.array(range(4)), TEXTS, FRAMES], ids=["numbers", "texts", "structs"])
@pytest.mark.parametrize("kind", [pa.ListArray, pa.LargeListArray])
def test_lists_keep_their_values_and_nulls(kind: type[pa.ListArray], values: pa.Array) -> None:
    index = pa.int64() if kind is pa.LargeListArray else pa.int32()
    starts = pa.array([0, 1, 1, 3, 4], index)
    lists = kind.from_arrays(starts, values, mask=pa.array([False, False, True, False]))  # the null one has two values
    nested = kind.from_arrays(pa.array([0, 2, 2, 4], index), lists, mask=pa.array([False, True, False]))
    for array in (lists, nested):
        for start in range(len(array)):
            table = pa.table({"lists": array.slice(start)})
            made = plain(table)
            made.validate(full=True)
            assert made.to_pylist() == table.to_pylist()
            assert "dictionary" not in str(made.schema)
