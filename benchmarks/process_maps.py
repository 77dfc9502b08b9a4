"""A process of 10,000 mappings, 2,000 of them executable files: what a symbolizer asks of it, first and all the time.

The peer is what one would write in Python without this package: read the text, split the lines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Cost, calls, report
from whence.procmap import Mapping, Resolver, maps
from whence.procmap.query import MapsQuery

FILES, LINES = 2000, 10_000

# Maps each file executable, then single pages of changing permissions until there are LINES mappings.
CHILD = """
import ctypes, sys, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
folder, lines = sys.argv[1], int(sys.argv[2])
names = os.listdir(folder)
for name in names:
    fd = os.open(os.path.join(folder, name), os.O_RDONLY)
    assert libc.mmap(None, 4096, 5, 2, fd, 0) != ctypes.c_void_p(-1).value
    os.close(fd)
have = sum(1 for _ in open("/proc/self/maps"))
for i in range(lines - have):
    libc.mmap(None, 4096, 1 + 2 * (i & 1), 0x22, -1, 0)
print("ready", flush=True)
sys.stdin.read()
"""


def tiny_elf(build_id: bytes) -> bytes:
    """An ELF file of one page with one executable segment and a build-id."""
    import struct

    note = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id
    offset = 64 + 2 * 56
    header = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    )
    code = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x1000, 0x1000, 4096, 4096, 4096)
    notes = struct.pack("<IIQQQQQQ", 4, 4, offset, 0x1000 + offset, offset, len(note), len(note), 4)
    return (header + code + notes + note).ljust(4096, b"\x90")


def split_in_python(pid: int) -> list[list[bytes]]:
    with open(f"/proc/{pid}/maps", "rb") as file:
        return [line.split(None, 5) for line in file.read().splitlines()]


def cold(pid: int, query: bool) -> list[Mapping]:
    with Resolver(query=query) as resolver:
        return resolver.mappings(pid)


def first_pages(files: list[str]) -> list[bytes]:
    """What one would read of each file for its build-id, at the least."""
    pages = []
    for path in files:
        with open(path, "rb") as file:
            pages.append(file.read(4096))
    return pages


def one_fresh(pid: int, address: int) -> Mapping | None:
    with Resolver() as resolver:
        return resolver.lookup(pid, address)


def warm(pid: int, times: int = 200_000) -> float:
    """Seconds for a lookup among all executable mappings, one after the other."""
    with Resolver(recheck=60) as resolver:
        addresses = [mapping.start + 5 for mapping in resolver.mappings(pid)]
        asked = (addresses * (times // len(addresses) + 1))[:times]
        began = time.perf_counter()
        for address in asked:
            resolver.lookup(pid, address)
        return (time.perf_counter() - began) / times


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for n in range(FILES):
            (Path(folder) / f"lib{n:04}.so").write_bytes(tiny_elf(n.to_bytes(20, "big")))
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, folder, str(LINES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdout.readline()
            measure(child.pid)
        finally:
            child.kill()
            child.stdin.close()
            child.stdout.close()
            child.wait()


def measure(pid: int) -> None:
    process = f"/proc/{pid}"
    text = maps.read(process)
    executable = cold(pid, query=False)
    print(f"{text.count(bytes([10]))} lines, {sum(m.kind.has_file for m in executable)} executable file mappings")
    with MapsQuery(process) as query:
        queried = query.supported()
    report(
        "the text of maps",
        calls(
            {
                "whence": lambda: maps.parse(maps.read(process), process),
                "reading alone": lambda: maps.read(process),
                "Python read and split": lambda: split_in_python(pid),
            }
        ),
    )
    files = sorted({mapping.path for mapping in executable if mapping.kind.has_file})
    costs = {
        "whence": lambda: cold(pid, True),
        "whence, by the text": lambda: cold(pid, False),
        "open and read each file": lambda: first_pages(files),
    }
    report("all executable mappings with build-ids, cold", calls(costs))
    middle = executable[len(executable) // 2].start
    fresh = calls({"whence": lambda: one_fresh(pid, middle)}, runs=50)
    report(f"one address of a fresh process ({'PROCMAP_QUERY' if queried else 'no PROCMAP_QUERY here'})", fresh)
    report("a warm lookup, 1,000,000 of them", {"whence": Cost(warm(pid) * 1e6)})
    if os.environ.get("WHENCE_BENCH_CHECK") and cold(pid, True) != executable:
        raise AssertionError("the kernel's answers and the text differ")


if __name__ == "__main__":
    run()
