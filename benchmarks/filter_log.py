"""The user's moment: `whence filter` in a pipe, over logs with nothing to name and with a frame every third line.

There is no peer that reads every form; `sed -n p` copies the same lines.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import process
from tests.helpers.programs import compiled
from whence.elf import ElfFile, functions
from whence.filter import LogFilter, Places

BLOCK = 1 << 20
LINES = 1000
QUIET = b"Nov 22 04:56:14 host prog[1]: connection %d from 10.0.0.7 closed after 12 ms\n"
FRAME = b"Nov 22 04:56:14 host prog[1]: started\nNov 22 04:56:14 host prog[1]: ended\n    #%d 0x55%05x  (%s+0x%x)\n"


def logs() -> dict[str, bytes]:
    program = compiled()
    with ElfFile.open(program) as elf:
        starts = list(functions(elf).vaddr)
    frames = (FRAME % (i % 9, i, bytes(program), starts[i % len(starts)]) for i in range(LINES))
    return {
        "nothing to name": b"".join(QUIET % i for i in range(LINES)) * 1200,
        "a frame every third line": b"".join(frames) * 100,
    }


def run() -> None:
    with TemporaryDirectory() as folder:
        for name, log in logs().items():
            with Places() as places:
                engine = LogFilter(places)
                began = time.perf_counter()
                for at in range(0, len(log), BLOCK):
                    engine.feed(log[at : at + BLOCK])
                engine.finish()
                seconds = time.perf_counter() - began
            path = Path(folder, "log")
            path.write_bytes(log)
            peer = process(["sed", "-n", "p", str(path)]).seconds
            size = len(log) / 1e6
            print(f"{name}: {size:.0f} MB, {size / seconds:.0f} MB/s; sed copies at {size / peer:.0f} MB/s")
