"""Ray: name datasets, and folders or buckets of files, on one machine or many.

`name` is for tables that Ray Data has read. `name_files` is for files, and survives killed workers and nodes: each file
is one task, which skips an existing result, writes to a temporary name, and renames. Files are paths, or addresses in
buckets ("s3://bucket/folder/samples.parquet") as in `whence.store`.

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

from whence._base.errors import WhenceError
from whence.columns.plain import plain
from whence.columns.tables import TableKind, TableReader, name_table
from whence.engines.files import exists, is_address, joined, to_read, to_write
from whence.engines.workers import Places, namer_of, split_places
from whence.profiles.binaries import Binaries
from whence.profiles.formats import registry as formats
from whence.profiles.naming import name as name_profile

RETRIES = 5  # of a task whose worker or node died
CPUS = 0.5  # of an actor: a pool that takes all CPUs of the cluster would wait forever for the stages that feed it


class NameBatches:
    """A callable class for Ray Data: `dataset.map_batches(NameBatches, batch_format="pyarrow", ...)`."""

    def __init__(self, places: Places | None = None, options: dict[str, Any] | None = None) -> None:
        self._namer = namer_of(places, **(options or {}))

    def __call__(self, batch: Any) -> Any:
        return plain(self._namer(batch))


def name(dataset: Any, places: Places | None = None, *, concurrency: int = 1, **options: Any) -> Any:
    """Return a Ray Dataset with columns of names added. Nothing is computed yet.

    Args:
        dataset: a ray.data.Dataset with columns of build-ids and addresses.
        places: where names come from, see `whence.engines.workers.Places`.
        concurrency: the number of actors; each requests half a CPU.
        options: those of `whence.columns.Namer`, and keywords of whence.Locator.
    """
    from ray.data import ActorPoolStrategy

    places, options = split_places(places, options)
    return dataset.map_batches(
        NameBatches,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=concurrency),
        num_cpus=CPUS,
        fn_constructor_kwargs={"places": places, "options": options},
    )


def _report(source: str, target: str) -> dict[str, Any]:
    return {"source": source, "target": target, "rows": 0, "addresses": 0, "named": 0, "error": ""}


def name_file(source: str, target: str, places: Places | None, options: dict[str, Any]) -> dict[str, Any]:
    """Name one table file unless `target` exists, and return a report: counts, or the text of an error.

    `target` is written completely or not at all; tasks that name the same file at the same time write equal bytes.
    """
    report = _report(source, target)
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
    report["addresses"] = sum(coverage.rows for coverage in namer.coverage)
    report["named"] = sum(coverage.named for coverage in namer.coverage)
    return report


def name_profile_file(source: str, target: str, places: Places | None, options: dict[str, Any]) -> dict[str, Any]:
    """Name one profile unless `target` exists, and return a report as `name_file` does; rows are its locations."""
    report = _report(source, target)
    try:
        if exists(target):
            return {**report, "skipped": True}
        with (
            to_write(target) as written,
            to_read(source) as read,
            Binaries(places, once=True) as binaries,
        ):
            profile = formats.open_profile(read)
            reports = name_profile(profile, binaries, demangle=options.get("demangle", True))
            formats.write(profile, written, formats.format_for(profile, written))
    except (WhenceError, OSError) as error:
        return {**report, "error": str(error)}
    report["rows"] = report["addresses"] = sum(each.locations for each in reports)
    report["named"] = sum(each.named for each in reports)
    return report


def name_files(
    paths: Iterable[str], folder: str, places: Places | None = None, *, at_once: int = 0, **options: Any
) -> Iterator[dict[str, Any]]:
    """Name table files in Ray tasks, one for each file, and yield a report as each task ends.

    Ray must be initialized. Files whose result exists are skipped.

    Args:
        paths: paths or addresses of table files.
        folder: the folder or bucket of the results, which keep the names of the files.
        places: where names come from, see `whence.engines.workers.Places`.
        at_once: the number of tasks that wait or run at a time; 0 is four for each CPU.
        options: those of `whence.columns.Namer`, and keywords of whence.Locator.

    Yields:
        A dict for each file, in the order in which tasks end: source, target, rows, addresses, named, error (a text,
        or ""), and skipped (True) if the result existed.
    """
    return _each(name_file, paths, folder, places, at_once, options)


def name_profile_files(
    paths: Iterable[str], folder: str, places: Places | None = None, *, at_once: int = 0, **options: Any
) -> Iterator[dict[str, Any]]:
    """Name profiles in Ray tasks; the arguments and reports are those of `name_files`."""
    return _each(name_profile_file, paths, folder, places, at_once, options)


def _each(
    work: Any, paths: Iterable[str], folder: str, places: Places | None, at_once: int, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Run a task for each file; Ray retries tasks whose worker or node died."""
    import ray

    task = ray.remote(max_retries=RETRIES)(work)
    if not is_address(folder):
        os.makedirs(folder, exist_ok=True)
    places, options = split_places(places, options)
    limit = at_once or 4 * int(ray.cluster_resources().get("CPU", 1))
    waiting: list[Any] = []
    for path in paths:
        waiting.append(task.remote(path, joined(folder, os.path.basename(path)), places, options))
        if len(waiting) >= limit:
            done, waiting = ray.wait(waiting, num_returns=1)
            yield from ray.get(done)
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        yield from ray.get(done)
