"""perf.data without perf: every sample, frame and name like the output of `perf script`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.perfdata import KERNEL, USER, Forge
from tests.helpers.perf_script import compare, events, printed, recorded, script
from whence._base.errors import WhenceError
from whence.cli import main
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.procmap.vdso import own_vdso
from whence.profiles import Profile, merge, read

DATA = Path(__file__).parent.parent / "data" / "perf"
KEPT = sorted(path.stem for path in DATA.glob("*.txt"))


@pytest.mark.parametrize("name", KEPT)
def test_a_stored_recording_matches_its_output_of_perf_script(name: str) -> None:
    profile = read(DATA / f"{name}.data")
    theirs = printed((DATA / f"{name}.txt").read_text())
    assert profile.format == "perf.data"
    with Locator(files=[DATA / "spin"], dirs=[], local=False) as locator:
        profile.symbolize(locator)
    assert compare(theirs, events(profile, alone=name == "no-stacks", unwound=name == "dwarf")) > 3


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
def test_a_new_recording_matches_perf_script(tmp_path: Path, program: Path, options: tuple[str, ...]) -> None:
    path = recorded(tmp_path, *options, program=program)
    profile = read(path)
    profile.symbolize()
    assert compare(script(path), events(profile)) > 10
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
def test_unwound_stacks_match_perf_script(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "p.c").write_text(DWARF_PROGRAM)
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run(["gcc", "-O2", "-g", "-o", str(tmp_path / "p"), str(tmp_path / "p.c")], check=True)
    path = recorded(tmp_path, "-e", "cpu-clock:u", "--call-graph", "dwarf,4096", *options, program=tmp_path / "p")
    profile = read(path)
    assert {len(profile.samples.locations(index)) for index in range(len(profile.samples))} == {
        1
    }  # the innermost frame
    profile.symbolize()
    ours, theirs = events(profile, unwound=True), script(path)
    assert len(ours) == len(theirs)
    same = sum(
        [each.address for each in mine.frames] == [each.address for each in other.frames]
        for mine, other in zip(ours, theirs, strict=True)
    )
    assert same > 0.9 * len(theirs)
    names = [[frame.name for frame in each.frames] for each in ours]
    assert (
        sum(each.count("deep") == 13 and "main" in each for each in names) > len(names) / 2
    )  # most are in the innermost


def cache_of(folder: Path, build_id: str, name: str) -> Path:
    """Return the path of a file in perf's cache."""
    location = folder / "kept" / build_id
    location.mkdir(parents=True)
    link = folder / ".build-id" / build_id[:2] / build_id[2:]
    link.parent.mkdir(parents=True)
    link.symlink_to(location)
    return location / name


@pytest.mark.parametrize("name", ["elf", "debug"])
def test_the_cache_and_archives_of_perf_are_debug_folders(tmp_path: Path, name: str) -> None:
    profile = read(DATA / "plain.data")
    build_id = next(each.build_id for each in profile.mappings if each.path == "/opt/spin/spin")
    shutil.copy(DATA / "spin", cache_of(tmp_path, build_id, name))
    with Locator(dirs=[tmp_path], local=False) as locator:
        profile.symbolize(locator)
    assert {"leaf", "middle"} & {frame.function for chain in profile.frames for frame in chain}


TEXT, KERNEL_ID = 0xFFFFFFFF81000000, "ab" * 20
KALLSYMS = "ffffffff81000000 T _text\nffffffff81000100 T handle_irq\nffffffffc0000000 t probe\t[driver]\n"


def of_kernel(text: int = TEXT) -> bytes:
    """Return a recording of a kernel at an address, and of a module."""
    forge = Forge()
    records = [
        forge.mmap(0xFFFFFFFF, text, 0x1000000, text, "[kernel.kallsyms]_text", misc=1),
        forge.mmap(0xFFFFFFFF, 0xFFFFFFFFC0000000, 0x1000, 0, "[driver]", misc=1),
        forge.sample(7, 7, 5, [KERNEL, text + 0x108, 0xFFFFFFFFC0000011], misc=1),
    ]
    return forge.file(records, features={2: forge.build_ids([("[kernel.kallsyms]", KERNEL_ID)])})


def kernel_frames(profile: Profile, *folders: Path) -> list[str]:
    with Locator(dirs=folders, local=False) as locator:
        profile.symbolize(locator)
    return [chain[0].function if chain else "" for chain in profile.frames]


@pytest.mark.parametrize(
    "place", [f"[kernel.kallsyms]/{KERNEL_ID}/kallsyms", f"[kernel.kcore]/{KERNEL_ID}/2026112211000000/kallsyms", ""]
)
def test_the_kernel_is_named_by_kallsyms_in_the_cache_of_perf(tmp_path: Path, place: str) -> None:
    path = tmp_path / place if place else cache_of(tmp_path, KERNEL_ID, "kallsyms")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(KALLSYMS)
    assert kernel_frames(read(of_kernel()), tmp_path) == ["handle_irq", "probe [driver]"]
    # a reboot moves the kernel and its modules
    assert kernel_frames(read(of_kernel(TEXT + 0x2400000)), tmp_path) == ["handle_irq", ""]
    assert kernel_frames(read(of_kernel(TEXT + 0x24)), tmp_path) == ["", ""]


def test_kallsyms_recorded_with_kcore_take_precedence(tmp_path: Path) -> None:
    cache_of(tmp_path, KERNEL_ID, "kallsyms").write_text(KALLSYMS.replace("handle_irq", "of_another_boot"))
    folder = tmp_path / "perf.data"
    (folder / "kcore_dir").mkdir(parents=True)
    (folder / "data").write_bytes(of_kernel())
    (folder / "kcore_dir" / "kallsyms").write_text(KALLSYMS)
    assert kernel_frames(read(folder), tmp_path) == ["handle_irq", "probe [driver]"]
    (folder / "kcore_dir" / "kallsyms").unlink()
    assert kernel_frames(read(folder), tmp_path) == ["of_another_boot", "probe [driver]"]


def test_an_archive_of_perf_is_read_without_unpacking_it(tmp_path: Path) -> None:
    cache, packed = tmp_path / "cache", tmp_path / "perf.data.tar.bz2"
    build_id = next(each.build_id for each in read(DATA / "plain.data").mappings if each.path == "/opt/spin/spin")
    shutil.copy(DATA / "spin", cache_of(cache, build_id, "elf"))
    cache_of(cache, KERNEL_ID, "kallsyms").write_text(KALLSYMS)
    subprocess.run(["tar", "cfj", packed, "-C", cache, ".build-id", "kept"], check=True)
    assert {"leaf", "last"} <= set(kernel_frames(read(DATA / "plain.data"), packed))
    assert kernel_frames(read(of_kernel()), packed) == ["handle_irq", "probe [driver]"]
    out = tmp_path / "out.folded"
    command = ["profile", str(DATA / "plain.data"), "--debug-dir", str(packed), "--no-cache", "-o", str(out)]
    assert main(command) == 0
    assert "leaf" in out.read_text()


@pytest.mark.parametrize("fault", ["cut", "empty", "no package", "bomb"])
def test_a_damaged_archive_of_perf_is_an_error_with_its_path(tmp_path: Path, fault: str) -> None:
    packed = tmp_path / "perf.data.tar.bz2"
    (tmp_path / "zeros").write_bytes(bytes(80 << 20 if fault == "bomb" else 100))
    if fault == "bomb":
        (tmp_path / KERNEL_ID).mkdir()
        (tmp_path / "zeros").rename(tmp_path / KERNEL_ID / "elf")
    name = KERNEL_ID if fault == "bomb" else "zeros"
    subprocess.run(["tar", "cfj", packed, "-C", tmp_path, name], check=True)
    data = packed.read_bytes()
    packed.write_bytes({"cut": data[: len(data) // 2], "no package": b"x" * 100}.get(fault, data))
    with pytest.raises(WhenceError, match=r"perf\.data\.tar\.bz2"):
        Locator(dirs=[packed])


def test_a_recording_with_the_vdso_of_this_machine_is_named_by_it() -> None:
    elf = ElfFile.from_bytes(own_vdso(), "[vdso]")
    symbols = elf.symbols(".dynsym")
    index = symbols.find("__vdso_clock_gettime")
    if index is None:
        pytest.skip("this machine's vDSO has no __vdso_clock_gettime")
    offset = symbols.value[index]
    forge = Forge()
    for build_id, names in ((elf.build_id, ["__vdso_clock_gettime"]), ("00" * 20, [])):
        records = [
            forge.mmap2(7, 0x7FFF0000, 0x2000, 0, "[vdso]", 1, build_id=build_id),
            forge.sample(7, 7, 5, [USER, 0x7FFF0000 + offset + 4]),
        ]
        profile = read(forge.file(records))
        profile.symbolize(Locator(dirs=[]))
        assert [frame.function for frame in profile.frames[0]][-1:] == names


def test_merged_recordings_have_complete_stacks(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    path = str(DATA / "dwarf.data")
    assert main(["profile", "--merge", path, path, "--binary", str(DATA / "spin"), "--no-cache", "-o", str(out)]) == 0
    assert "spin;_start;last;middle;leaf " in out.read_text()


def folded(profile: Profile) -> str:
    with Locator(files=[DATA / "spin"], dirs=[], local=False) as locator:
        profile.symbolize(locator)
    return profile.to_bytes("folded").decode()


def test_profiles_filtered_timed_or_merged_before_naming_have_complete_stacks() -> None:
    path = DATA / "dwarf.data"
    full = folded(read(path))
    assert "_start;last;middle;leaf " in full
    recording = read(path)
    line = recording.samples.timeline
    assert line is not None
    half = sorted(line.time)[len(line) // 2]
    every, none = recording.filter(lambda sample: True), recording.filter(lambda sample: False)
    assert folded(every) == full
    assert folded(none) == ""
    assert folded(read(path).timed().filter(lambda sample: int(sample.labels["time"]) >= 0)) == full
    late = recording.timed().filter(lambda sample: int(sample.labels["time"]) >= half)
    early = recording.timed().filter(lambda sample: int(sample.labels["time"]) < half)
    assert folded(late) != full
    assert folded(late.merge(early)) == full
    assert folded(recording) == full  # and the recording that they were made from
    assert folded(merge([read(DATA / "plain.data"), read(path)])) == folded(
        merge([read(path), read(DATA / "plain.data")])
    )
    assert "_start;last;middle;leaf " in folded(merge([read(DATA / "plain.data"), read(path)]))
