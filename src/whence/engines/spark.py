"""Spark: name the partitions of a DataFrame in Spark's workers, with mapInArrow.

Spark has no unsigned integers: an address of 2^63 or more is a negative long, which is read as 64 bits.

    >>> from pyspark.sql import SparkSession
    >>> from whence.engines.spark import name
    >>> session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    >>> frame = session.createDataFrame([("00ff", 4096)], "build_id string, address long")
    >>> [row.reason for row in name(frame, leaf=True).collect()]
    ['no-file']
    >>> session.stop()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from whence.columns.plain import plain, plain_schema
from whence.engines.workers import Places, namer_of, split_places


def name(frame: Any, places: Places | None = None, **options: Any) -> Any:
    """Return a Spark DataFrame with columns of names added. Nothing is computed yet.

    Args:
        frame: a pyspark.sql.DataFrame with columns of build-ids and addresses.
        places: where names come from, see `whence.engines.workers.Places`.
        options: those of `whence.columns.Namer`, and keywords of whence.Locator.

    Raises:
        WrongUse: a column is missing, or has values that can't be addresses or build-ids.
    """
    places, options = split_places(places, options)
    schema = _signed(plain_schema(namer_of(None, **options).schema(to_arrow_schema(frame.schema))))

    def name_batches(batches: Iterator[Any]) -> Iterator[Any]:
        namer = namer_of(places, **options)
        for batch in batches:
            yield from plain(namer(batch)).cast(_signed(plain_schema(namer.schema(batch.schema)))).to_batches()

    return frame.mapInArrow(name_batches, from_arrow_schema(schema))


def _signed(schema: Any) -> Any:
    """Return a schema with signed integers in place of unsigned ones, at any depth."""

    def signed(type: Any) -> Any:
        if pa.types.is_uint32(type):
            return pa.int32()
        if pa.types.is_uint64(type):
            return pa.int64()
        if pa.types.is_list(type):
            return pa.list_(type.value_field.with_type(signed(type.value_type)))
        if pa.types.is_struct(type):
            return pa.struct([field.with_type(signed(field.type)) for field in type])
        return type

    return pa.schema([field.with_type(signed(field.type)) for field in schema])
