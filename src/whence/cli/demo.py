"""`make demo`: the main jobs on real input, printed as they are done, at most 80 columns wide.

Compiles a small program (demo.c) that samples itself, names addresses of the running process, archives its debug info,
names its profile and draws the flame graph. All files are left in ./demo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from whence import lidia, profiles
from whence._base.errors import WhenceError
from whence._base.model import Frame
from whence.archive.create import create
from whence.procmap import AddressMapper, Mapping, Resolver
from whence.symbolize import Symbolizer

SOURCE = Path(__file__).with_name("demo.c")
COLUMNS = 80
NAMED = 4  # addresses of the living process that are shown
SHOWN = 8  # functions of the profile
BAR = 24
INTERVAL_NS = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m whence.cli.demo", description="See what whence does, on a small program.")
    parser.add_argument("folder", nargs="?", default="demo", help="where files are left (default: ./demo)")
    folder = Path(parser.parse_args(arguments).folder)
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang"))), None)
    if compiler is None:
        print("the demo compiles a small C program, and no compiler was found (set CC)", file=sys.stderr)
        return 1
    folder.mkdir(exist_ok=True)
    program = folder / "program"
    shutil.copyfile(SOURCE, folder / "program.c")
    flags = ["-g", "-O2", "-fno-omit-frame-pointer"]
    subprocess.run([compiler, *flags, "-o", program.name, "program.c"], cwd=folder, check=True)
    try:
        show(folder, program)
    except (WhenceError, OSError) as error:
        print(f"whence: {error}", file=sys.stderr)
        return 1
    return 0


def show(folder: Path, program: Path) -> None:
    print(f"1. A C program, compiled with debug info and started: {program}")
    with subprocess.Popen([program.resolve()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stacks = stacks_from(process.stdout)
        if not stacks:
            raise WhenceError("the program can't sample itself on this machine")
        print(f"   It placed queens, counted primes and sorted; {len(stacks)} times it wrote down where")
        print(f"   it was, as bare addresses. Now it waits as process {process.pid}.\n")
        mappings = Resolver().mappings(process.pid)
        busiest = show_living(process.pid, stacks)
        process.stdin.close()  # this is what it waits for
    archive = show_archive(folder, program)
    vaddr = show_lookup(archive, mappings, program, busiest)
    raw, named, page = (folder / name for name in ("raw.pb.gz", "named.pb.gz", "flamegraph.html"))
    profiles.read(perf_text(process.pid, program, mappings, stacks).encode()).write(raw)
    show_profile(raw, named, page)
    print(f"5. The flame graph, one file for any browser: {page}\n")
    print("What to try next:")
    whence = os.path.relpath(Path(sys.executable).with_name("whence"))
    whence = "whence" if whence.startswith("..") else whence
    for words, what in (
        (f"addr {program} {vaddr:#x}", "an address of a file"),
        (f"explain {program} {vaddr:#x}", "how that name was found"),
        ("pid $$", "where your shell is"),
        (f"profile {raw} --coverage", "what got names, what did not"),
        ("profile YOUR.pb.gz --flamegraph YOUR.html", "a flame graph of your profile"),
        ("help", "every command"),
    ):
        line = f"   {whence} {words}"
        print(f"{line:54}  {what}" if len(line) <= 54 and len(what) <= COLUMNS - 56 else line)


def stacks_from(output: IO[str]) -> list[list[int]]:
    """Return the stacks that the program printed before an empty line."""
    stacks = []
    for line in output:
        if not line.strip():
            break
        stacks.append([int(word, 16) for word in line.split()])
    return stacks


def show_living(pid: int, stacks: list[list[int]]) -> int:
    """Print names of some addresses of the process. Return the busiest address in an inlined call, if there is one."""
    print("2. Addresses of the living process, named:\n")
    pcs = [pc for pc, _ in Counter(stack[0] for stack in stacks).most_common()]
    shown: set[str] = set()
    with Symbolizer() as symbolizer:
        answers = symbolizer.symbolize(pid, pcs)
    for answer in answers:
        function = answer.frames[-1].function if answer.frames else ""
        if function and function not in shown and len(shown) < NAMED:
            shown.add(function)
            show_frames(f"{answer.address:#x}", answer.frames)
    print()
    return next((answer.address for answer in answers if len(answer.frames) > 1), pcs[0])


def show_frames(label: str, frames: Sequence[Frame]) -> None:
    """Print an address and its frames, one per line."""
    for frame in frames:
        inlined = " (inlined)" if frame.inlined else ""
        where = f"{os.path.basename(frame.file)}:{frame.line}" if frame.file else "??"
        print(f"   {label:18} {frame.function}{inlined} at {where}"[:COLUMNS])
        label = ""


def show_archive(folder: Path, program: Path) -> Path:
    archive = folder / "program.lidia"
    created = create(program, archive)
    before, after = program.stat().st_size, archive.stat().st_size
    print(f"3. Its debug info as an archive: {archive}")
    print(f"   {after:,} bytes, from {before:,}, in {created.seconds:.2f} s. It answers where the program is not:\n")
    return archive


def show_lookup(archive: Path, mappings: Sequence[Mapping], program: Path, runtime: int) -> int:
    """Look up a runtime address in the archive, and return its vaddr."""
    mapping = next(mapping for mapping in mappings if mapping.start <= runtime < mapping.end)
    vaddr = AddressMapper(program).file_offset_to_virtual_address(mapping.file_offset_of(runtime))
    assert vaddr is not None
    with lidia.open(archive) as table:
        show_frames(f"{vaddr:#x}", table.lookup(vaddr))
    print()
    return vaddr


def perf_text(pid: int, program: Path, mappings: Sequence[Mapping], stacks: list[list[int]]) -> str:
    """Return the samples as text of `perf script --show-mmap-events`."""
    lines = [
        f"{program.name} {pid} 0.0: PERF_RECORD_MMAP2 {pid}/{pid}: "
        f"[{mapping.start:#x}({mapping.end - mapping.start:#x}) @ {mapping.offset:#x} 00:00 0 0]: "
        f"{mapping.shown_permissions} {mapping.path}"
        for mapping in mappings
        if mapping.kind.has_file
    ]
    for number, stack in enumerate(stacks, 1):
        lines += [f"{program.name} {pid} {number / 1000:.6f}: {INTERVAL_NS} cpu-clock:"]
        lines += [f"\t{address:16x} [unknown] ({path_of(address, mappings)})" for address in stack]
        lines += [""]
    return "\n".join(lines) + "\n"


def path_of(address: int, mappings: Sequence[Mapping]) -> str:
    return next((mapping.path for mapping in mappings if mapping.start <= address < mapping.end), "") or "[unknown]"


def show_profile(raw: Path, named: Path, page: Path) -> None:
    profile = profiles.read(raw)
    report = profile.symbolize()
    profile.write(named)
    page.write_bytes(profile.to_bytes("flamegraph", name=named.name))
    named_locations, locations = sum(file.named for file in report.files), sum(file.locations for file in report.files)
    print(f"4. The samples as a pprof profile, {raw} has addresses only.")
    print(f"   Named: {named}, {named_locations} of {locations} places in the code. Time by function:\n")
    own: Counter[str] = Counter()
    for line in profile.to_bytes("folded").decode("utf-8", "surrogateescape").splitlines():
        stack, _, count = line.rpartition(" ")
        own[stack.rpartition(";")[2]] += int(count)
    total = own.total()
    for function, samples in own.most_common(SHOWN):
        share = samples / total
        print(f"   {100 * share:5.1f} %  {'#' * round(BAR * share):{BAR}}  {function}"[:COLUMNS])
    print()


if __name__ == "__main__":
    sys.exit(main())
