"""Engines that people run already, a few lines each over whence.columns: each is imported only where it is wanted.

    whence.engines.duckdb      register(connection): whence(build_id, address) in SQL
    whence.engines.polars      pl.col("address").whence.name(pl.col("build_id"))
    whence.engines.datafusion  name(frame, context)
    whence.engines.pandas      frame.whence.name()
    whence.engines.ray         name(dataset), name_files(paths, folder)
    whence.engines.dask        name(frame)
    whence.engines.spark       name(frame)

Workers open archives themselves, from where `places` says, and keep them: nothing of a binary goes through an engine.

dask         partitions of a DataFrame, named by Dask's workers
datafusion   names for a DataFusion data frame
duckdb       names in DuckDB's SQL
files        files of engines, in a folder or a bucket
pandas       an accessor for pandas' frames
polars       an expression for Polars
ray          names for Ray's datasets and folders of files
spark        partitions of a Spark DataFrame, by mapInArrow
workers      the namer of a worker process
"""
