"""The seeds of every fuzz target as files, and the dictionary of each.

    python -m tools.corpus FOLDER            writes FOLDER/TARGET/SHA1, as libFuzzer names inputs
    python -m tools.corpus --names           prints the names of the targets
    python -m tools.corpus --dictionary NAME prints the path of a target's dictionary, if it has one

fuzz/oss-fuzz/build.sh packs them for OSS-Fuzz.
"""

from __future__ import annotations

import argparse
import hashlib
import pkgutil
from importlib import import_module
from pathlib import Path

import fuzz

DICTIONARIES = Path(__file__).parent.parent / "fuzz" / "oss-fuzz" / "dictionaries"
# The dictionary of each target whose format has words that mutations seldom make.
WORDS = {
    "elf": "elf", "core": "elf", "crashes": "elf", "dwarf": "dwarf", "dwarf_lines": "dwarf", "variables": "dwarf",
    "cfi": "cfi", "cfi_expressions": "cfi", "sframe": "cfi", "pe": "pe", "pdb": "pe", "pdata": "pe", "minidump": "pe",
    "macho": "macho", "compact": "macho", "wasm": "wasm", "lidia": "lidia", "gsym": "gsym", "breakpad": "breakpad",
    "filter": "logs", "trace_text": "gotrace", "trace_wire": "gotrace", "perfdata": "perf", "perf": "perf",
    "json_profiles": "json", "heap": "heap", "maps": "maps", "gopclntab": "gopclntab",
}  # fmt: skip


def names() -> list[str]:
    """Return the names of the targets."""
    return sorted(module.name for module in pkgutil.iter_modules(fuzz.__path__) if module.name != "__main__")


def dictionary(name: str) -> Path | None:
    """Return the path of a target's dictionary; None if it has none."""
    return DICTIONARIES / f"{WORDS[name]}.dict" if name in WORDS else None


def write(folder: Path) -> dict[str, int]:
    """Write the seeds of every target; return their number by target."""
    counts = {}
    for name in names():
        seeds = {hashlib.sha1(seed).hexdigest(): seed for seed in import_module(f"fuzz.{name}").seeds()}
        (folder / name).mkdir(parents=True, exist_ok=True)
        for digest, seed in seeds.items():
            (folder / name / digest).write_bytes(seed)
        counts[name] = len(seeds)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.corpus", description="Write the seeds of every fuzz target.")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--dictionary", metavar="NAME")
    options = parser.parse_args()
    if options.names:
        print("\n".join(names()))
    elif options.dictionary:
        print(dictionary(options.dictionary) or "")
    elif options.folder:
        print(f"{sum(write(options.folder).values())} seeds of {len(names())} targets")
    else:
        parser.error("give a folder")


if __name__ == "__main__":
    main()
