"""jitdump: code of JIT compilers in recordings, by its time, with lines and moves."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.jitdump import Dump
from tests.forge.mutations import mutated
from tests.forge.perfdata import USER, Forge
from tests.helpers.survive import survives
from whence._base.errors import ProfileError
from whence.perfdata import jitdump
from whence.profiles import Profile, read

AT = 0x7F0000001000


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("size", [40, 48])
def test_loads_moves_and_lines_are_read_in_both_byte_orders(big: bool, size: int) -> None:
    dump = Dump(big=big, size=size)
    dump.lines(AT, [(AT, 3, "a.js"), (AT + 8, 5, "a.js"), (AT + 16, 1, "b.js")])
    dump.load(10, AT, 32, "first function", index=4).move(20, AT, AT + 0x1000, 32, index=4).load(30, AT, 16, "second")
    result = jitdump.read(dump.data)
    assert (result.pid, result.counter) == (7, False)
    assert [(each.time, each.address, each.size, each.name) for each in result.code] == [
        (10, AT, 32, "first function"), (20, AT + 0x1000, 32, "first function"), (30, AT, 16, "second"),
    ]  # fmt: skip
    frames = [result.code[0].frames(AT + offset)[0] for offset in (0, 7, 8, 31)]
    assert [(each.line, each.file) for each in frames] == [(3, "a.js"), (3, "a.js"), (5, "a.js"), (1, "b.js")]
    assert result.code[1].frames(AT + 0x1008)[0].line == 5


def test_lines_of_v8_begin_after_an_elf_header_and_invalid_ones_are_left_out() -> None:
    dump = Dump(padding=0xDEADBEEF).lines(AT, [(AT + 64, 3, "a.js"), (AT + 72, 5, "a.js")]).load(1, AT, 32, "one")
    dump.lines(AT + 64, [(AT + 128, 3, "U6\x04")]).load(2, AT + 64, 32, "two")
    item, two = jitdump.read(dump.data).code
    assert item.lines == ((0, 3, "a.js"), (8, 5, "a.js"))
    assert two.lines == ()


def sampled(folder: Path, *, clock: int | None = 1, dump: Dump, name: str = "jit-7.dump") -> Profile:
    """Record a process with generated code, and its dump."""
    forge = Forge()
    (folder / "jit-7.dump").write_bytes(dump.data)
    records = [
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 2),
        forge.mmap2(7, 0x10000, 0x1000, 0, f"/not/here/{name}", 1),
        *(forge.sample(7, 7, time, [USER, AT + 4, AT + 0x1005]) for time in (5, 15, 25, 35)),
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 30),  # made executable once more: its code is still there
        forge.sample(7, 7, 45, [USER, AT + 4, AT + 0x2005]),
    ]
    path = folder / "perf.data"
    path.write_bytes(forge.file(records, [(forge.attribute(clock=clock), [1])]))
    return read(path)


def names(profile: Profile) -> list[list[str]]:
    timeline = profile.samples.timeline
    assert timeline is not None
    stacks = [profile.samples.locations(each) for each in timeline.sample]
    return [[frame.function for offset in stack for frame in profile.frames[offset] or ()] for stack in stacks]


DUMP = Dump().load(10, AT, 32, "one", 1).load(12, AT + 0x1000, 64, "caller", 2).move(20, AT, AT + 0x2000, 32, 1)
DUMP.load(20, AT, 32, "two", 3)


def test_generated_code_has_the_name_of_its_time(tmp_path: Path) -> None:
    profile = sampled(tmp_path, dump=DUMP)
    assert names(profile) == [[], ["one", "caller"], ["two", "caller"], ["two", "caller"], ["two", "one"]]
    assert profile.notes == []
    report = profile.symbolize()
    assert names(profile)[1] == ["one", "caller"]
    assert report.named_percent > 50


def test_a_dump_with_times_of_another_clock_gives_its_latest_names(tmp_path: Path) -> None:
    profile = sampled(tmp_path, dump=DUMP, clock=None)
    assert names(profile)[0] == ["two", "caller"]
    assert any("-k mono" in note for note in profile.notes)


def test_a_dump_of_another_process_and_a_missing_dump_are_reported(tmp_path: Path) -> None:
    assert any("of another process (8)" in note for note in sampled(tmp_path, dump=Dump(8)).notes)
    assert any("is not found" in note for note in sampled(tmp_path, dump=DUMP, name="jit-9.dump").notes)


def test_code_past_64_bit_addresses_is_left_out_and_reported() -> None:
    last = (1 << 64) - 32
    result = jitdump.read(Dump().load(1, AT, 32, "one", 1).load(2, last, 32, "two", 2).move(3, AT, last, 32, 1).data)
    assert [each.name for each in result.code] == ["one"]
    assert [problem.partition(" at ")[0] for problem in result.problems] == ["the code of the record"] * 2


def test_a_truncated_or_changed_dump_is_an_error_or_gives_the_code_before() -> None:
    dice = random.Random(1)
    full = jitdump.read(DUMP.data).code
    assert full
    for size in range(len(DUMP.data)):
        try:
            result = jitdump.read(DUMP.data[:size]).code
        except ProfileError:
            assert size < 40
            continue
        assert result == full[: len(result)]
    for _ in range(3000):
        survives(jitdump.read, mutated(DUMP.data, dice), refused=ProfileError)


SCRIPT = """
function spin(n) { let s = 0; for (let i = 0; i < n; i++) s = (s + i * i) % 1000003; return s; }
function outer() { let s = 0; for (let i = 0; i < 400; i++) s += spin(200000); return s; }
console.log(outer());
"""


def test_functions_of_node_are_named_from_its_dump(tmp_path: Path) -> None:
    perf, node = shutil.which("perf"), shutil.which("node")
    if perf is None or node is None:
        pytest.skip("perf and node are not both installed")
    (tmp_path / "s.js").write_text(SCRIPT)
    out = tmp_path / "perf.data"
    command = [perf, "record", "-q", "-F", "999", "-k", "mono", "-e", "cpu-clock:u", "-g", "-o", str(out), "--"]
    done = subprocess.run([*command, node, "--perf-prof", "s.js"], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode or not out.exists():
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:200]}")
    frames = [frame for chain in read(out).frames for frame in chain]
    assert any("spin" in frame.function and "s.js" in frame.function for frame in frames)
    data = next(tmp_path.glob("jit-*.dump")).read_bytes()
    dumped = jitdump.read(data).code
    # The file names that V8 writes are random bytes in some runs, so lines are checked with a forged dump above.
    assert any(code.name.startswith("JS:*spin") for code in dumped)
