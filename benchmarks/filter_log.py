"""The user's moment: `whence filter` in a pipe, over logs with nothing to name, with much that looks like frames, and
with a frame every third line.

There is no peer that reads every form; `sed -n p` copies the same lines. Ours is processor time, sed's the clock's.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import process
from tests.helpers.programs import compiled
from whence.filter import LogFilter, Places
from whence.objects.elf import ElfFile, functions

BLOCK = 1 << 20
LINES = 1000
NEAR = {  # lines that look like frames, and nothing that could name them
    "heap addresses without maps": b"   1: %d [1: 4] @ 0x5590d2e0b4c1 0x5590d2e0b502 0x7f1a2c04524a 0x7f1a2c045305\n",
    "a kernel's call traces without vmlinux": b"[ 1234.5678]  ? do_sys_open_%d+0x1d/0x2f0\n",
    "frames that are named": b"    #3 0x5590d2e0b4c1 in app::run(int, char const*) /src/app/run.cpp:%d:12\n",
    "backtraces of gdb": b"#3  0x00005590d2e0b4c1 in app::run (at=0x7ffd1c) at /src/app/run.cpp:%d\n",
    "hex dumps": b"0x7ffe1000: 0xdeadbeef 0x%08x 0x00000001 0x12345678\n",
    "colours and headings": b"## %d. Section #12 {color: #ff8800}, see #13 and (0x12)\n",
}
QUIET = b"Nov 22 04:56:14 host prog[1]: connection %d from 10.0.0.7 closed after 12 ms\n"
LOST = b"    #%d 0x5590d2e0b4c1  (/gone/lib%d.so+0x%x)\n"
FRAME = b"Nov 22 04:56:14 host prog[1]: started\nNov 22 04:56:14 host prog[1]: ended\n    #%d 0x55%05x  (%s+0x%x)\n"


def logs() -> dict[str, bytes]:
    program = compiled()
    with ElfFile.open(program) as elf:
        starts = list(functions(elf).vaddr)
    frames = (FRAME % (i % 9, i, bytes(program), starts[i % len(starts)]) for i in range(LINES))
    return {
        "nothing to name": b"".join(QUIET % i for i in range(LINES)) * 1200,
        **{name: b"".join(line % i for i in range(LINES)) * 500 for name, line in NEAR.items()},
        "frames of files that are not there": b"".join(LOST % (i % 9, i % 7, i) for i in range(LINES)) * 200,
        "a frame every third line": b"".join(frames) * 100,
    }


def run() -> None:
    with TemporaryDirectory() as folder:
        for name, log in logs().items():
            with Places() as places:
                engine = LogFilter(places)
                began = time.process_time()
                for offset in range(0, len(log), BLOCK):
                    engine.feed(log[offset : offset + BLOCK])
                engine.finish()
                seconds = time.process_time() - began
            path = Path(folder, "log")
            path.write_bytes(log)
            peer = process(["sed", "-n", "p", str(path)]).seconds
            size = len(log) / 1e6
            print(f"{name}: {size:.0f} MB, {size / seconds:.0f} MB/s; sed copies at {size / peer:.0f} MB/s")
