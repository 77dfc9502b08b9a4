"""The user's moment: which functions a binary has, by its symbol tables. Peers: nm (binutils and LLVM), pyelftools."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.inputs import debug_files, tool
from benchmarks.timing import calls, processes, report
from whence.objects.elf import ElfFile, functions

PYELFTOOLS = """
import sys
from elftools.elf.elffile import ELFFile
table = ELFFile(open(sys.argv[1], "rb")).get_section_by_name(".symtab")
for symbol in table.iter_symbols() if table else ():
    if symbol["st_info"]["type"] == "STT_FUNC":
        print(hex(symbol["st_value"]), symbol["st_size"], symbol.name)
"""


def run() -> None:
    for path in debug_files():
        with ElfFile.open(path) as elf:
            cost = calls({"whence": partial(functions, elf)})["whence"]
            print(f"{path.name}: {len(functions(elf))} functions as columns in {cost}")
        commands = {
            "whence": [str(Path(sys.executable).parent / "whence"), "symbols", "--no-demangle", str(path)],
            "pyelftools": [sys.executable, "-c", PYELFTOOLS, str(path)],
        }
        for name in ("nm", "llvm-nm"):
            result = tool(name)
            if result is None:
                print(f"{name} is not on this machine")
            else:
                commands[name] = [result, "-n", "-S", "--defined-only", str(path)]
        report(f"list symbols: {path.name} ({path.stat().st_size / 1e6:.0f} MB)", processes(commands, runs=3))
