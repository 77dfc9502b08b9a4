"""`python -m benchmarks [NAME ...]`: each benchmark is a module with `run()`, named by the user's moment.

Peers are measured in the same run, turn by turn; what counts is the ratio. A peer that is not on this machine is named.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    hidden = {"__main__", "timing"}
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in hidden)
    for name in sys.argv[1:] or names:
        if name not in names:
            print(f"no benchmark named {name}; there are: {', '.join(names)}", file=sys.stderr)
            return 2
        print(f"== {name}")
        importlib.import_module(f"benchmarks.{name}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
