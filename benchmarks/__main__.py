"""`python -m benchmarks [NAME ...]`: each benchmark is a module with `run()`, named by the user's moment.

Peers are measured in the same run, turn by turn; what counts is the ratio. A peer that is not on this machine is named.
`guards` comes last: the bytes of archives and the instruction counts of the main cases beside what guards.json records.
The exit code is 1 where a count has grown by more than 5 %, or bytes have changed.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

SHARED = {"__main__", "inputs", "picture", "timing"}  # what benchmarks use; the others have `run()`


def main() -> int:
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in SHARED)
    names.append(names.pop(names.index("guards")))  # what has grown is said at the end
    worse = 0
    for name in sys.argv[1:] or names:
        if name not in names:
            print(f"no benchmark named {name}; there are: {', '.join(names)}", file=sys.stderr)
            return 2
        print(f"== {name}")
        worse += importlib.import_module(f"benchmarks.{name}").run() or 0
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
