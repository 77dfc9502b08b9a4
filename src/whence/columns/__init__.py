"""Name addresses in columns: Arrow's record batches in, the same batches with columns of names out.

    from whence.columns import Namer

    with Namer(locator=whence.Locator(archive_dirs=["archives"])) as namer:
        named = namer(batch)  # a pyarrow RecordBatch or Table with columns build_id and address

Every object with Arrow's C data interface is accepted (`__arrow_c_array__`, `__arrow_c_stream__`): tables of pyarrow,
Polars, pandas, DuckDB, nanoarrow. No Arrow library is needed except the caller's own.

Files (`whence columns`) are read and written by pyarrow. `pages`, `ipc` and `lines` check what a file claims before
pyarrow allocates memory for it, and `checks` validates each batch; docs/decisions/table-checks.md says why.

arrow     pyarrow, or an error that says how to install it
checks    validation of batches, and slices of bounded size
flatbuffers  heads of Arrow IPC messages
ipc       messages of Arrow IPC, checked before they are decompressed
lines     CSV and JSON lines, checked before they are parsed
namer     columns of names for batches with build-ids and addresses
pages     headers of Parquet's pages: how large a row group decodes to
plain     tables without dictionaries, for files and engines that have none
tables    files of tables, read and named batch by batch
writing   tables written batch by batch
"""

from whence.columns.namer import Coverage, Namer

__all__ = ["Coverage", "Namer"]
