"""Run a simulation of a fleet: `python -m benchmarks.fleet NAME [OPTION ...]`."""

from __future__ import annotations

import importlib
import sys

NAMES = ("caches", "storm", "naming", "catalog", "batch")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(f"usage: python -m benchmarks.fleet {'|'.join(NAMES)} [OPTION ...]", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"benchmarks.fleet.{sys.argv[1]}").main(sys.argv[2:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
