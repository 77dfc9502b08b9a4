"""The tables of a trace's generations one after the other: strings, stacks and CPU samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence.gotrace.batches import BatchReader
from whence.gotrace.tables import Tables

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


def tables_of(source: Source) -> Iterator[Tables]:
    """The tables of each generation, complete, in file order. Only one generation's are held at a time."""
    with BatchReader(source) as reader:
        tables: Tables | None = None
        for run in reader:
            if tables is None or tables.generation != run.generation:
                if tables is not None:
                    yield tables
                tables = Tables(reader.version, run.generation)
            for batch in run.batches:
                tables.add(run, batch)
        if tables is not None:
            yield tables
