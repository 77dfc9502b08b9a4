"""Name a folder or bucket of profiles and tables on a Ray cluster, or on this machine alone.

    python examples/fleet_ray.py STORE INPUTS OUT [--address RAY] [--leaf]

INPUTS is a folder or an address (s3://bucket/samples, gs://, az://) of profiles (pprof, perf.data, ...) and of tables
(Parquet, Arrow, CSV, JSON lines) with columns build_id and address; OUT, a folder or an address, too, gets the same
files with names. Each file is one task: files in OUT are not made again, so a killed run can be
continued, and a task whose worker or node died is restarted. Without a cluster Ray runs in this process's
machine. At the end it says how much got names over everything.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from whence.engines.files import listed
from whence.engines.ray import name_files, name_profile_files

TABLES = (".parquet", ".pq", ".arrow", ".arrows", ".csv", ".jsonl", ".ndjson")


def main() -> int:
    parser = argparse.ArgumentParser(description="Name profiles and tables of addresses on a Ray cluster.")
    parser.add_argument("store", help="a store: a folder, s3://, gs:// or az://")
    parser.add_argument("inputs", help="a folder or bucket of profiles and tables")
    parser.add_argument("out", help="a folder or bucket for the same files with names")
    parser.add_argument("--address", help="a Ray cluster to use (default: one of its own)")
    parser.add_argument("--cache", default="", help="a folder on every node for what is fetched from the store")
    parser.add_argument("--leaf", action="store_true", help="tables get the innermost frame alone")
    options = parser.parse_args()

    import ray

    ray.init(address=options.address, include_dashboard=False, log_to_driver=False)
    places = {"store": options.store, "cache": options.cache or None}
    paths = listed(options.inputs)
    tables = [path for path in paths if path.endswith(TABLES)]
    profiles = [path for path in paths if not path.endswith(TABLES)]
    done: list[dict[str, Any]] = [
        *name_files(tables, options.out, places, leaf=options.leaf),
        *name_profile_files(profiles, options.out, places),
    ]
    for each in done:
        if each["error"]:
            print(f"{each['source']}: {each['error']}", file=sys.stderr)
    skipped = sum(bool(each.get("skipped")) for each in done)
    failed = sum(bool(each["error"]) for each in done)
    addresses, named = sum(each["addresses"] for each in done), sum(each["named"] for each in done)
    share = 100 * named / addresses if addresses else 0.0
    print(f"{len(done)} files, {skipped} done before, {failed} failed")
    print(f"{named:,} of {addresses:,} addresses named ({share:.1f} %)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
