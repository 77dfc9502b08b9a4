"""Addresses in columns in, names out: record batches of Arrow, by its C data interface.

    from whence.columns import Namer

    with Namer(locator=whence.Locator(archive_dirs=["archives"])) as namer:
        named = namer(batch)  # a pyarrow RecordBatch or Table with columns build_id and address

`namer` looks up and adds the columns; `tables` names whole files (`whence columns`), which `pages` (Parquet), `ipc`
(Arrow) and `lines` (CSV, JSON lines) check before pyarrow allocates what they claim, and `checks` batch by batch;
`writing` writes them, `plain` without dictionaries where a format has none.

Anything that speaks the interface goes in (`__arrow_c_array__`, `__arrow_c_stream__`): tables of pyarrow, Polars,
pandas, DuckDB, nanoarrow. No Arrow library is needed but the caller's own.
"""

from whence.columns.namer import Coverage, Namer

__all__ = ["Coverage", "Namer"]
