"""The user's moment: unwinding many stacks. All rows of large files' .eh_frame, then frames of many samples.

The peer for rows is readelf's interpretation (text and all), since libraries that unwind make one row at a time.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from array import array
from functools import partial
from pathlib import Path

from benchmarks.inputs import tool
from benchmarks.timing import calls, process
from whence.objects.elf import ElfFile
from whence.procmap.snapshot import SnapshotMappings
from whence.unwind.cfi import CallFrames, FrameSection
from whence.unwind.kernels.cfi import CfiTable
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.registers import X86_64
from whence.unwind.samples import StackSamples, stacks

FOLDERS = ("/usr/lib", "/usr/bin", str(Path(sys.base_prefix, "lib")), str(Path("~/.rustup").expanduser()))
FILES = 4
SAMPLES, DEPTH, STACK = 20_000, 30, 8192
CODE, BASE = 0x400000, 0x7F0000000000


def large_files() -> list[Path]:
    """The files of this machine with the most .eh_frame."""
    result: dict[tuple[int, str], Path] = {}
    for folder in FOLDERS:
        for root, _, names in os.walk(folder):
            for name in names:
                path = Path(root, name)
                if path.is_symlink() or not path.is_file() or path.stat().st_size < 10_000_000:
                    continue
                try:
                    with ElfFile.open(path) as elf:
                        section = elf.section(".eh_frame")
                        if section is not None and section.in_file:
                            result[section.size, name] = path
                except Exception:  # no ELF file
                    continue
    return [result[key] for key in sorted(result, reverse=True)[:FILES]]


def compiled(data: bytes, vaddr: int) -> int:
    rows: int = FrameSection(data, vaddr).table.compile_all()[0]
    return rows


class OneFunction(CoreCode):
    """Code of a function that calls itself: sub rsp, and the row that says so."""

    def __init__(self) -> None:
        super().__init__(Modules(SnapshotMappings(0, "", 0, 0.0, [], []), None))
        cie = bytes(4) + b"\1zR\0\1\x78\x10\1\x03" + b"\x0c\x07\x08\x90\x01"
        first = struct.pack("<I", len(cie)) + cie
        fde = struct.pack("<IIIB", len(first) + 4, CODE, 0x10000, 0) + b"\x44\x0e\x40\x86\x02"
        self.frames = FrameSection(first + struct.pack("<I", len(fde)) + fde, 0x1000)

    def ranges(self) -> list[tuple[int, int]]:
        return [(CODE, CODE + 0x10000)]

    def tables(self, index: int) -> tuple[int, list[CfiTable]]:
        return 0, [self.frames.table]


def many_samples() -> StackSamples:
    words = STACK // 8
    stack = array("Q", [0] * words)
    for frame in range(DEPTH - 1):
        stack[8 * frame + 7] = CODE + 0x100 + 37 * (frame * 7919 % 1700)
    pc = array("Q", [CODE + 0x20 + index % 4096 for index in range(SAMPLES)])
    base, offset, size = (array("Q", [value]) * SAMPLES for value in (BASE, 0, STACK))
    return StackSamples(pc, array("Q", [BASE]) * (2 * SAMPLES), array("I", [7, 6]), base, offset, size, stack.tobytes())


def run() -> None:
    readelf = tool("readelf")
    for path in large_files():
        with ElfFile.open(path) as elf:
            section = CallFrames.of_elf(elf).sections[0]
            data, vaddr = bytes(section.data), int(section.table.vaddr)
        rows = compiled(data, vaddr)
        seconds = calls({"whence": partial(compiled, data, vaddr)})["whence"].seconds
        size = len(data) / 1e6
        print(f"{path.name}: {rows:,} rows of {size:.1f} MB in {seconds * 1e3:.1f} ms: {size / seconds:.0f} MB/s, "
              f"{rows / seconds / 1e6:.1f} million rows/s")  # fmt: skip
        if readelf is not None:
            cost = process([readelf, "--debug-dump=frames-interp", "-W", str(path)])
            print(f"  readelf --debug-dump=frames-interp: {cost}, {cost.seconds / seconds:.0f} times as long")
    samples, code = many_samples(), OneFunction()
    began = time.process_time()
    result = stacks(code, X86_64, samples)
    took = time.process_time() - began
    print(f"{SAMPLES:,} samples of {DEPTH} frames: {len(result.pc) / took / 1e6:.1f} million frames/s and core")
