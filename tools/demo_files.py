"""Make src/whence/cli/demo.zip, the files that `whence demo` writes.

    python -m tools.demo_files

app is compiled by gcc on x86-64 Linux; the recording and the core dump are copied from tests/data. After a change,
update the output that README.md, docs/five-minutes.md and docs/howto/ show.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

import whence
from whence.cli.demo_files import ARCHIVE, FILES
from whence.gotrace import Event, Version
from whence.lidia.results import Range
from whence.objects.elf import ElfFile
from whence.profiles.formats import pprof
from whence.samples.model import Mapping, ProfileData, SampleType

DATA = Path(__file__).parent.parent / "tests" / "data"
BASE = 0x55550000  # where app is mapped in the profile and the crash report
CLONE = b"/home/user/whence"
PROGRAMS = ("app", "server", "symbols/spin")
SOURCE = r"""#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline int square(int x) { return x * x; }
static inline int twice(int x) { return square(x) + square(x + 1); }

__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++)
        total += twice(i) / (i + 1);
    return total;
}

int main(int argc, char **argv) {
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 0);
    long total = 0;
    do
        total += sum(100000 + total % 7);
    while (time(NULL) < end);
    printf("%ld\n", total);
}
"""


def profile(app: Path, values: list[int]) -> bytes:
    """Return a profile of the program: in main, and in sum and the calls inlined there, called by main."""
    with whence.open(app) as binary, ElfFile.open(app) as elf:
        code = next(segment for segment in elf.segments if segment.type == 1 and segment.executable)
        build_id = elf.build_id
        (total,), (main,) = binary.find("sum"), binary.find("main")
        chains = {vaddr: [frame.function for frame in binary.lookup(vaddr)] for vaddr in body(total)}
        square = next(vaddr for vaddr, chain in chains.items() if chain == ["square", "twice", "sum"])
        plain = [vaddr for vaddr, chain in chains.items() if chain == ["sum"]][-2]
        caller = next(vaddr for vaddr in body(main) if binary.lookup(vaddr)[0].line == call_line(SOURCE))
    start = code.vaddr & -4096
    mapping = Mapping(BASE, BASE + 0x1000, code.file_offset & -4096, "/usr/bin/app", build_id)
    made = ProfileData([SampleType("samples", "count")], [mapping])
    locations = [made.location(0, BASE + vaddr - start) for vaddr in (square, plain, caller)]
    for stack, value in zip(([0, 2], [1, 2], [2]), values, strict=True):
        made.samples.add([locations[index] for index in stack], [value])
    return pprof.write(made)


def body(function: Range) -> range:
    return range(function.vaddr, function.vaddr + function.length)


def call_line(source: str) -> int:
    """Return the line of the call of sum."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if "sum(100000" in line)


def moved_source(program: Path) -> bytes:
    """Return a program of tests/data whose debug info names CLONE as the folder of the clone it was built in."""
    data = program.read_bytes()
    with whence.open(program) as binary:
        source = next(function.file for function in binary.functions() if function.file)
    clone = source.partition("/tests/")[0].encode()
    assert len(clone) == len(CLONE), "sections keep their size"
    return data.replace(clone, CLONE)


def trace() -> bytes:
    """Return a Go execution trace with one event."""
    version = Version.GO1_26
    stop = Event(version, "ProcStop", [1]).encode()
    batch = Event(version, "EventBatch", [1, 1, 7, len(stop)]).encode() + stop
    return version.header + batch + Event(version, "EndOfGeneration", []).encode()


def contents() -> dict[str, bytes]:
    """Return every file by its name."""
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder, "app")
        Path(folder, "app.c").write_text(SOURCE)
        command = ["gcc", "-g", "-O2", f"-ffile-prefix-map={folder}=/src", "app.c", "-o", "app"]
        subprocess.run(command, cwd=folder, check=True)
        with whence.open(app) as binary:
            (function,) = binary.find("sum")
            address, build_id = function.vaddr, binary.build_id
        made = app.read_bytes()
        profiles = [profile(app, values) for values in ([21, 70, 9], [21, 50, 9], [21, 70, 9])]
    log = f"==1==ERROR: AddressSanitizer: SEGV on unknown address\n    #0 0x{BASE + address:x}  (app+0x{address:x})\n"
    return {
        "app.c": SOURCE.encode(),
        "app": made,
        **dict(zip(("cpu.pb.gz", "old.pb.gz", "new.pb.gz"), profiles, strict=True)),
        "crash.log": log.encode(),
        "samples.csv": f"address,build_id\n{address},{build_id}\n".encode(),
        "perf.data": (DATA / "perf" / "plain.data").read_bytes(),
        "symbols/spin": moved_source(DATA / "perf" / "spin"),
        "core.4711": (DATA / "cores" / "aarch64.core").read_bytes(),
        "server": (DATA / "cores" / "aarch64").read_bytes(),
        "trace.out": trace(),
        "image/": b"",
    }


def main() -> None:
    made = contents()
    assert set(made) == set(FILES)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in made.items():
            entry = zipfile.ZipInfo(name)  # of 1980, so that the same files give the same archive
            entry.external_attr = (0o755 if name in PROGRAMS or name.endswith("/") else 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
