"""Addresses in columns in, names out: record batches of Arrow, by its C data interface.

    from whence.columns import Namer

    with Namer(locator=whence.Locator(archive_dirs=["archives"])) as namer:
        named = namer(batch)  # a pyarrow RecordBatch or Table with columns build_id and address

`namer` looks up and adds the columns; `tables` names whole files (`whence columns`), which `pages` (Parquet), `ipc`
(Arrow) and `lines` (CSV, JSON lines) check before pyarrow allocates what they claim, and `checks` batch by batch;
`writing` writes them, `plain` without dictionaries where a format has none.

Anything that speaks the interface goes in (`__arrow_c_array__`, `__arrow_c_stream__`): tables of pyarrow, Polars,
pandas, DuckDB, nanoarrow. No Arrow library is needed but the caller's own.

checks    validates batches and cuts them into pieces of bounded size
ipc       messages of Arrow IPC, checked before they are decompressed
lines     CSV and JSON lines, checked before they are parsed
namer     adds columns of names to batches with build-ids and addresses
pages     headers of Parquet's pages: how large a row group decodes to
plain     tables without dictionaries, for files and engines that have none
tables    files of tables, read and named batch by batch
writing   tables written batch by batch
"""

from whence.columns.namer import Coverage, Namer

__all__ = ["Coverage", "Namer"]
