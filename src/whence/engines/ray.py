"""Ray: names for datasets and for folders or buckets of files, on one machine or many.

`name` is for tables that Ray Data reads already. `name_files` is for files, and is what held when workers and nodes
were killed: one plain task a file, which skips what exists, writes beside under a name of its own, and renames. Files
are paths or addresses in buckets ("s3://bucket/folder/samples.parquet"), as places of `whence.store` are.

    >>> import ray.data
    >>> from whence.engines.ray import name
    >>> dataset = ray.data.from_items([{"build_id": "00ff", "address": 4096}])
    >>> [row["reason"] for row in name(dataset, leaf=True).take_all()]
    ['no-file']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from whence.columns.plain import plain
from whence.engines.files import exists, is_address, joined, to_read, to_write
from whence.engines.workers import Places, namer_of

RETRIES = 5  # of a task whose worker or node died
CPUS = 0.5  # of an actor: pools as large as the cluster wait for ever for the stages that feed them


class NameBatches:
    """What Ray Data's `map_batches` runs: `dataset.map_batches(NameBatches, batch_format="pyarrow", ...)`."""

    def __init__(self, places: Places | None = None, options: dict[str, Any] | None = None) -> None:
        self._namer = namer_of(places, **(options or {}))

    def __call__(self, batch: Any) -> Any:
        return plain(self._namer(batch))


def name(dataset: Any, places: Places | None = None, *, concurrency: int = 1, **options: Any) -> Any:
    """A Ray Dataset with names added, lazily; `options` are those of `whence.columns.Namer`.

    `concurrency` is the number of actors. Each asks for half a CPU.
    """
    return dataset.map_batches(
        NameBatches,
        batch_format="pyarrow",
        concurrency=concurrency,
        num_cpus=CPUS,
        fn_constructor_kwargs={"places": dict(places or {}), "options": options},
    )


def name_file(source: str, target: str, places: Places | None, options: dict[str, Any]) -> dict[str, Any]:
    """Name one table file, unless that is done already; what became of it: source, target, rows, named, or an error.

    `target` appears whole or not at all: whoever else names the file at the same time writes the same.
    """
    from whence._base.errors import WhenceError
    from whence.columns.tables import TableKind, TableReader, name_table

    report: dict[str, Any] = {"source": source, "target": target, "rows": 0, "addresses": 0, "named": 0, "error": ""}
    namer = namer_of(places, **options)
    namer.count_coverage()
    build_id, address = str(options.get("build_id", "build_id")), str(options.get("address", "address"))
    try:
        if exists(target):
            return {**report, "skipped": True}
        with (
            to_write(target) as written,
            to_read(source) as read,
            TableReader(read, None, build_id=build_id, address=address) as reader,
        ):
            kind = TableKind.of_name(target) or reader.kind
            report["rows"] = name_table(reader, namer, written, kind, threads=False)  # a task has one CPU
    except (WhenceError, OSError) as error:
        return {**report, "error": str(error)}
    report["addresses"] = sum(one.rows for one in namer.coverage)
    report["named"] = sum(one.named for one in namer.coverage)
    return report


def name_profile_file(source: str, target: str, places: Places | None, options: dict[str, Any]) -> dict[str, Any]:
    """Name one profile, unless that is done already; what became of it, as of a table: rows are its locations."""
    from whence._base.errors import WhenceError
    from whence.engines.workers import locator_of
    from whence.profiles.binaries import Binaries
    from whence.profiles.formats import registry as formats
    from whence.profiles.naming import name as name_profile

    report: dict[str, Any] = {"source": source, "target": target, "rows": 0, "addresses": 0, "named": 0, "error": ""}
    try:
        if exists(target):
            return {**report, "skipped": True}
        with (
            to_write(target) as written,
            to_read(source) as read,
            Binaries(locator_of(**(places or {})), once=True) as binaries,
        ):
            profile = formats.open_profile(read)
            reports = name_profile(profile, binaries, demangle=options.get("demangle", True))
            formats.write(profile, written, formats.format_for(profile, written))
    except (WhenceError, OSError) as error:
        return {**report, "error": str(error)}
    report["rows"] = report["addresses"] = sum(one.locations for one in reports)
    report["named"] = sum(one.named for one in reports)
    return report


def name_files(
    paths: Iterable[str], folder: str, places: Places | None = None, *, at_once: int = 0, **options: Any
) -> Iterator[dict[str, Any]]:
    """Name table files into a folder or bucket, a Ray task each; yields what became of each as it ends, in no order.

    Files that are there already are not named again. `at_once` bounds the tasks that wait or run (default: four
    a CPU). Ray must be initialized.
    """
    return _each(name_file, paths, folder, places, at_once, options)


def name_profile_files(
    paths: Iterable[str], folder: str, places: Places | None = None, *, at_once: int = 0, **options: Any
) -> Iterator[dict[str, Any]]:
    """Name profiles into a folder, as `name_files` does tables."""
    return _each(name_profile_file, paths, folder, places, at_once, options)


def _each(
    work: Any, paths: Iterable[str], folder: str, places: Places | None, at_once: int, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A task for each file; those whose worker or node died are started again by Ray."""
    import ray

    task = ray.remote(max_retries=RETRIES)(work)
    if not is_address(folder):
        os.makedirs(folder, exist_ok=True)
    most = at_once or 4 * int(ray.cluster_resources().get("CPU", 1))
    waiting: list[Any] = []
    for path in paths:
        waiting.append(task.remote(path, joined(folder, os.path.basename(path)), dict(places or {}), options))
        if len(waiting) >= most:
            done, waiting = ray.wait(waiting, num_returns=1)
            yield from ray.get(done)
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        yield from ray.get(done)
