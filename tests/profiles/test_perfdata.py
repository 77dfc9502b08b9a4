"""perf.data without perf: every sample, frame and name as `perf script` prints them of the same file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.forge.perfdata import KERNEL, USER, Forge
from whence.cli import main
from whence.elf import ElfFile
from whence.locate.locator import Locator
from whence.procmap.vdso import own_vdso
from whence.profiles import Profile, read
from whence.profiles.kinds import GENERATED

DATA = Path(__file__).parent.parent / "data" / "perf"
KEPT = sorted(path.stem for path in DATA.glob("*.txt"))
FIELDS = "comm,pid,tid,time,event,period,ip,sym,symoff,dso"
HEADER = re.compile(
    r"\s*(?P<comm>\S.*?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?P<time>\d+\.\d+):\s+(?P<period>\d+)\s+"
    r"(?P<event>\S+):\s*(?P<rest>.*)$"
)
FRAME = re.compile(r"\s*(?P<address>[0-9a-f]+) (?P<name>.*?)(?:\+0x(?P<into>[0-9a-f]+))? \((?P<file>.*)\)$")

CLONE = re.compile(r"(\.(part|constprop|isra|cold|llvm)(\.\d+)*)+$")  # of symbols; debug info has the function's name

PAGE = 4096  # junk in call chains is mostly small: no code lies in the first page
LIBRARIES = ("/usr/lib", "/lib", "[")


class Seen(NamedTuple):
    """One frame: the address as perf script prints it, its name without linkage suffixes, its file."""

    address: int
    name: str
    into: int
    file: str


class Event(NamedTuple):
    comm: str
    pid: int
    tid: int
    time: str
    event: str
    period: int
    frames: tuple[Seen, ...]


def printed(text: str) -> list[Event]:
    """The samples of a perf script text."""
    out: list[Event] = []
    frames: list[Seen] = []
    header: re.Match[str] | None = None

    def end() -> None:
        if header is not None:
            pid, tid, period = int(header["pid"]), int(header["tid"]), int(header["period"])
            out.append(Event(header["comm"], pid, tid, header["time"], header["event"], period, tuple(frames)))

    for line in text.splitlines():
        found = FRAME.match(line) if line.startswith("\t") else HEADER.match(line)
        if line.startswith("\t"):
            assert found, line
            frames.append(seen(found))
        elif found:
            end()
            header, frames = found, []
            one = FRAME.match(found["rest"])
            if one:
                frames = [seen(one)]
    end()
    return out


def seen(found: re.Match[str]) -> Seen:
    name = "" if found["name"] == "[unknown]" else CLONE.sub("", found["name"])
    return Seen(int(found["address"], 16), name, int(found["into"] or "0", 16), found["file"])


def events(profile: Profile, alone: bool = False, unwound: bool = False) -> list[Event]:
    """The samples of a profile, addresses as perf script prints them: those of callers are return addresses, and in
    call graphs offsets in files."""
    samples = profile.samples
    out = []
    assert samples.timeline is not None
    for event, (index, time) in enumerate(zip(samples.timeline.sample, samples.timeline.time, strict=True)):
        labels = {one.key: one for one in samples.labels[index]}
        frames = []
        before = 0
        for depth, location in enumerate(samples.locations(index)):
            address = profile.address[location]
            mapping = profile.mapping_of(location)
            enters_user = before >> 63 and not address >> 63
            before = address
            if depth and not enters_user and address >= PAGE and not unwound:  # perf subtracts 1 there itself
                address += 1
            file = "[unknown]"
            if mapping is not None:
                file = re.sub(r"\]_\w+", "]", mapping.path)
                if not alone and not mapping.start >> 63 and not GENERATED.match(mapping.path):
                    address += mapping.file_offset - mapping.start
            chain = profile.frames[location]
            frames.append(Seen(address, chain[-1].function if chain else "", 0, file))
        for kind, one in enumerate(profile.sample_types[1:], 1):
            if value := samples.timeline.values[kind][event]:
                pid, tid = labels["pid"].number, labels["tid"].number
                shown = f"{time // 10**9}.{time % 10**9 // 1000:06}"
                out.append(Event(labels["comm"].text, pid, tid, shown, one.type, value, tuple(frames)))
    return out


def compare(theirs: list[Event], ours: list[Event]) -> int:
    """Every sample and frame equal; returns how many names were compared."""
    assert [one._replace(frames=()) for one in ours] == [
        one._replace(frames=(), event=one.event.partition(":")[0]) for one in theirs
    ]
    compared = 0
    other_names: set[tuple[Seen, Seen]] = set()
    for mine, other in zip(ours, theirs, strict=True):
        assert [one.address for one in mine.frames] == [one.address for one in other.frames], other
        for here, there in zip(mine.frames, other.frames, strict=True):
            if there.name and there.file != "[unknown]" and not there.file.startswith("/tmp/perf-"):
                assert here.file == there.file, (here, there)
            # of a caller perf names the return address, which may be the next function's first byte
            if there.name and there.into:
                compared += 1
                if CLONE.sub("", here.name) != there.name:
                    other_names.add((here, there))
    # one function may have several names (munmap, __GI_munmap), of which perf takes another one than debug info has
    assert not [one for one in other_names if not one[0].file.startswith(LIBRARIES) or not one[0].name]
    assert len(other_names) < max(3, compared // 20), other_names
    return compared


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_recording_has_the_samples_and_frames_that_perf_script_printed_of_it(name: str) -> None:
    profile = read(DATA / f"{name}.data")
    theirs = printed((DATA / f"{name}.txt").read_text())
    assert profile.format == "perf.data"
    with Locator(files=[DATA / "spin"], dirs=[], local=False) as locator:
        profile.symbolize(locator)
    assert compare(theirs, events(profile, alone=name == "no-stacks", unwound=name == "dwarf")) > 3


def recorded(folder: Path, *options: str, program: str | Path) -> Path:
    """A recording of a program; skips where perf may not record."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    out = folder / "perf.data"
    command = [perf, "record", "-q", "-F", "999", "-o", str(out), *options, "--", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode or not out.exists():
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:200]}")
    return out


def script(path: Path) -> list[Event]:
    """What perf script prints of a recording."""
    command = ["perf", "script", "-i", str(path), "-F", FIELDS, "--no-inline"]
    return printed(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


PROGRAM = """
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
volatile unsigned long sum;
__attribute__((noinline)) void spin(int n) { for (int i = 0; i < n; i++) sum += i; __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) int compare(const void *a, const void *b) { spin(200); return *(int *)a - *(int *)b; }
__attribute__((noinline)) void sorting(void) {
    int numbers[2000];
    for (int i = 0; i < 2000; i++) numbers[i] = (i * 7919) % 2000;
    qsort(numbers, 2000, sizeof *numbers, compare);
}
int main(int argc, char **argv) {
    if (argc > 1) { sorting(); return 0; }
    for (int i = 0; i < 6; i++) sorting();
    if (fork() == 0) { sorting(); execl(argv[0], argv[0], "again", NULL); }
    wait(NULL);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    command = ["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-o", str(folder / "p"), str(folder / "p.c")]
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run(command, check=True)
    return folder / "p"


@pytest.mark.parametrize(
    "options",
    [
        ("-e", "cpu-clock", "-g"),
        ("-e", "cpu-clock", "-g", "-z"),
        ("-e", "cpu-clock,task-clock,page-faults", "-g"),
        ("-e", "cpu-clock", "-g", "--buildid-mmap", "--namespaces", "--switch-events"),
    ],
    ids=["plain", "compressed", "several-events", "more-records"],
)
def test_a_new_recording_has_the_samples_frames_and_names_of_perf_script(
    tmp_path: Path, program: Path, options: tuple[str, ...]
) -> None:
    path = recorded(tmp_path, *options, program=program)
    profile = read(path)
    profile.symbolize()
    assert compare(script(path), events(profile)) > 100
    assert {"spin"} <= {frame.function for chain in profile.frames for frame in chain}


DWARF_PROGRAM = """
#include <stdio.h>
volatile unsigned long sum;
static inline __attribute__((always_inline)) void step(int i) { sum += i * i; }
__attribute__((noinline)) void spin(int n) { for (int i = 0; i < n; i++) step(i); }
__attribute__((noinline)) void deep(int n, int left) { if (left) deep(n, left - 1); else spin(n); sum++; }
int main(void) { for (int i = 0; i < 400; i++) deep(100000, 12); return 0; }
"""


@pytest.mark.parametrize("options", [(), ("-z",)], ids=["plain", "compressed"])
def test_stacks_of_registers_and_stack_bytes_are_those_of_perf_script(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "p.c").write_text(DWARF_PROGRAM)
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run(["gcc", "-O2", "-g", "-o", str(tmp_path / "p"), str(tmp_path / "p.c")], check=True)
    path = recorded(tmp_path, "-e", "cpu-clock:u", "--call-graph", "dwarf,4096", *options, program=tmp_path / "p")
    profile = read(path)
    assert {len(profile.samples.locations(at)) for at in range(len(profile.samples))} == {1}  # the innermost frame
    profile.symbolize()
    ours, theirs = events(profile, unwound=True), script(path)
    assert len(ours) == len(theirs)
    same = sum(
        [one.address for one in mine.frames] == [one.address for one in other.frames]
        for mine, other in zip(ours, theirs, strict=True)
    )
    assert same > 0.9 * len(theirs)
    names = [one.name for one in ours[len(ours) // 2].frames]
    assert names.count("deep") == 13
    assert "main" in names


def cache_of(folder: Path, build_id: str, name: str) -> Path:
    """The place of a file in perf's cache."""
    place = folder / "kept" / build_id
    place.mkdir(parents=True)
    link = folder / ".build-id" / build_id[:2] / build_id[2:]
    link.parent.mkdir(parents=True)
    link.symlink_to(place)
    return place / name


@pytest.mark.parametrize("name", ["elf", "debug"])
def test_perfs_cache_and_what_perf_archive_packed_are_debug_folders(tmp_path: Path, name: str) -> None:
    profile = read(DATA / "plain.data")
    build_id = next(one.build_id for one in profile.mappings if one.path == "/opt/spin/spin")
    shutil.copy(DATA / "spin", cache_of(tmp_path, build_id, name))
    with Locator(dirs=[tmp_path], local=False) as locator:
        profile.symbolize(locator)
    assert {"leaf", "middle"} & {frame.function for chain in profile.frames for frame in chain}


def test_the_kernel_is_named_by_the_kallsyms_that_perf_kept_of_its_build_id(tmp_path: Path) -> None:
    forge = Forge()
    start, build_id = 0xFFFFFFFF81000000, "ab" * 20
    path = cache_of(tmp_path, build_id, "kallsyms")
    path.write_text("ffffffff81000000 T _text\nffffffff81000100 T handle_irq\nffffffffc0000000 t probe\t[driver]\n")
    records = [
        forge.mmap(0xFFFFFFFF, start, 0x1000000, start, "[kernel.kallsyms]_text", misc=1),
        forge.mmap(0xFFFFFFFF, 0xFFFFFFFFC0000000, 0x1000, 0, "[driver]", misc=1),
        forge.sample(7, 7, 5, [KERNEL, start + 0x108, 0xFFFFFFFFC0000011], misc=1),
    ]
    profile = read(forge.file(records, features={2: forge.build_ids([("[kernel.kallsyms]", build_id)])}))
    with Locator(dirs=[tmp_path], local=False) as locator:
        profile.symbolize(locator)
    assert [chain[0].function for chain in profile.frames] == ["handle_irq", "probe [driver]"]


def test_this_machines_vdso_names_recordings_that_have_its_build_id() -> None:
    elf = ElfFile.from_bytes(own_vdso(), "[vdso]")
    symbols = elf.symbols(".dynsym")
    index = symbols.find("__vdso_clock_gettime")
    if index is None:
        pytest.skip("this machine's vDSO has no __vdso_clock_gettime")
    at = symbols.value[index]
    forge = Forge()
    for build_id, names in ((elf.build_id, ["__vdso_clock_gettime"]), ("00" * 20, [])):
        records = [
            forge.mmap2(7, 0x7FFF0000, 0x2000, 0, "[vdso]", 1, build_id=build_id),
            forge.sample(7, 7, 5, [USER, 0x7FFF0000 + at + 4]),
        ]
        profile = read(forge.file(records))
        profile.symbolize(Locator(dirs=[]))
        assert [frame.function for frame in profile.frames[0]][-1:] == names


def test_merged_recordings_have_whole_stacks(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    path = str(DATA / "dwarf.data")
    assert main(["profile", "--merge", path, path, "--binary", str(DATA / "spin"), "--no-cache", "-o", str(out)]) == 0
    assert "spin;_start;last;middle;leaf " in out.read_text()
