"""Adapters that name addresses inside data engines: a few lines for each over whence.columns.

    whence.engines.duckdb      register(connection): whence(build_id, address) in SQL
    whence.engines.polars      pl.col("address").whence.name(pl.col("build_id"))
    whence.engines.datafusion  name(frame, context)
    whence.engines.pandas      frame.whence.name()
    whence.engines.ray         name(dataset), name_files(paths, folder)
    whence.engines.dask        name(frame)
    whence.engines.spark       name(frame)

Each module imports its engine; import the module of the engine that you use. Worker processes open the archives
themselves, from the sources in `places`, and keep them open: no binary is sent through an engine.

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
