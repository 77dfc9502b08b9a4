"""Run benchmarks: each is a module with `run()`, named after the job that a user waits for.

    python -m benchmarks [--record] [NAME ...]

Peers are measured in the same run, in turns; only ratios are comparable between machines. A missing peer is reported.
`--record` merges the figures into results.json, from which `python -m benchmarks.tables` makes the tables of the docs.
`guards` runs last: it compares the bytes of archives and instruction counts with guards.json. The exit code is 1 if a
count has grown by more than 5 % or bytes have changed.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks import tables, timing

SHARED = {"__main__", "inputs", "picture", "servers", "tables", "timing"}  # used by benchmarks; the others have `run()`


def main() -> int:
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in SHARED)
    names.append(names.pop(names.index("guards")))  # last, so that its verdict ends the output
    worse = 0
    arguments = [argument for argument in sys.argv[1:] if argument != "--record"]
    for name in arguments or names:
        if name not in names:
            print(f"no benchmark named {name}; there are: {', '.join(names)}", file=sys.stderr)
            return 2
        print(f"== {name}")
        worse += importlib.import_module(f"benchmarks.{name}").run() or 0
    if "--record" in sys.argv:
        tables.record(timing.RESULTS)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
