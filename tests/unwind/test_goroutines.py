"""Goroutines: those of Go's own traceback, of live programs and cores, with and without symbols."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import CORE_PATTERN
from tests.helpers.golang import BY_HAND, VERSIONS, build
from tests.helpers.live import states, until
from whence.cli.goroutines import printed, state_words
from whence.cli.main import main
from whence.symbolize.goroutines import NamedGoroutines, is_shown
from whence.unwind import End, Unwound
from whence.unwind.goroutines import BAD_LIMIT, LAYOUTS, WAIT_REASONS, _Reader
from whence.unwind.memory import Unreadable
from whence.unwind.registers import X86_64
from whence.unwind.unwinder import Unwinder

# Every release with WHENCE_GO_VERSIONS=1 (make go-versions); else the newest, which the tests have anyway
RELEASES = (BY_HAND, *VERSIONS) if os.environ.get("WHENCE_GO_VERSIONS") else ("",)
HEADER = re.compile(r"goroutine (\d+) (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[(.*)\]:")
PLACE = re.compile(r"\t(.*:\d+)(?: \+0x[0-9a-f]+)?(?: fp=.*)?$")

Told = dict[int, tuple[str, list[str]]]


def by_go(text: str) -> Told:
    """State and lines of each goroutine of a traceback, functions without arguments."""
    found: Told = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        head = HEADER.match(lines[0]) if lines else None
        if head is None:
            continue
        rest: list[str] = []
        for line in lines[1:]:
            place = PLACE.match(line)
            if place is None and not line.startswith(("\t", "created by ")):
                line = line[: line.rindex("(")]
            rest.append(place[1] if place else line)
        found[int(head[1])] = head[2], rest
    return found


def by_whence(found: NamedGoroutines, *, system: bool = False) -> Told:
    told: Told = {}
    for one in found.shown(system=system):
        lines = []
        for call in one.calls:
            lines += [printed(call), f"{call.file}:{call.line}"]
        if one.created_by is not None:
            parent = f" in goroutine {one.parent}" if one.parent else ""
            lines += [
                f"created by {printed(one.created_by)}{parent}",
                f"{one.created_by.file}:{one.created_by.line}",
            ]
        told[one.goid] = state_words(one, 0), lines
    return told


@pytest.fixture(scope="module", params=[(v, k) for v in RELEASES for k in ("plain", "stripped")], ids=str)
def parked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    version, kind = request.param
    flags = "-s -w" if kind == "stripped" else ""
    return build("parked", tmp_path_factory.mktemp("go") / f"{kind}{version}", version=version, ldflags=flags)


def test_goroutines_of_a_live_program_are_those_that_go_prints(
    parked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {**os.environ, "GOTRACEBACK": "all"}
    child = subprocess.Popen([parked], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert until(lambda: {*states(child.pid)} == {"S"})
    try:
        found = whence.Process(child.pid).goroutines(system=True)
        main(["pid", str(child.pid), "--stop", "--goroutines"])
        child.send_signal(signal.SIGQUIT)
        _, text = child.communicate(timeout=60)
    finally:
        child.kill()
    expected = by_go(text)
    expected.pop(0, None)  # the thread's own stack, on which the signal came
    assert len(expected) > 205
    assert by_whence(found, system=True) == expected  # a signal shows the runtime's own, too
    assert found.problems == []
    assert {one.end for one in found.goroutines} == {End.COMPLETE}
    printed_lines = capsys.readouterr().out
    assert re.search(r"^200 goroutines \[.*\]: \d+, ", printed_lines, re.MULTILINE)


def test_goroutines_of_a_core_are_those_of_the_program(parked: Path, tmp_path: Path) -> None:
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    env = {**os.environ, "GOTRACEBACK": "crash"}
    child = subprocess.Popen(
        [parked], cwd=tmp_path, env=env, preexec_fn=allow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert until(lambda: {*states(child.pid)} == {"S"})
    before = by_whence(whence.Process(child.pid).goroutines())
    child.send_signal(signal.SIGQUIT)
    child.communicate(timeout=60)
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip("no core was left")
    assert by_whence(whence.Core(cores[0]).goroutines()) == before


def test_exported_functions_of_the_runtime_are_shown() -> None:
    assert is_shown("main.main", 27)
    assert not is_shown("runtime.gopark", 27)
    assert is_shown("runtime.GC", 27)
    assert not is_shown("_cgo_sleep", 27)
    assert is_shown("runtime.(*Func).Entry", 27)
    assert not is_shown("runtime.(*Func).Entry", 22)
    assert not is_shown("runtime.(*mheap).Alloc", 27)


def test_every_release_has_offsets_and_reasons() -> None:
    assert LAYOUTS.keys() == WAIT_REASONS.keys() == {*range(17, 28)}
    lengths = {release: len(reasons) for release, reasons in WAIT_REASONS.items()}
    assert lengths == {
        17: 27, 18: 27, 19: 27, 20: 32, 21: 32, 22: 37, 23: 38, 24: 44, 25: 47, 26: 47, 27: 47,
    }  # fmt: skip
    assert (WAIT_REASONS[27][19], WAIT_REASONS[25][14], WAIT_REASONS[19][14]) == ("chan receive",) * 3


class Forged:
    """Memory of one range, and code that is none."""

    def __init__(self, start: int, data: bytes) -> None:
        self.start, self.data = start, data

    def read(self, address: int, size: int) -> bytes:
        if not self.start <= address or address + size > self.start + len(self.data):
            raise Unreadable(address)
        return self.data[address - self.start : address - self.start + size]

    def region(self, address: int) -> tuple[int, int] | None:
        end = self.start + len(self.data)
        return (self.start, end) if self.start <= address < end else None


BASE = 0xC000000000


def read_forged(words: list[int], length: int) -> tuple[int, list[str]]:
    memory = Forged(BASE, b"".join(word.to_bytes(8, "little") for word in words))
    unwinder = Unwinder(X86_64, object(), memory)  # type: ignore[arg-type]
    reader = _Reader(memory, unwinder, LAYOUTS[27], WAIT_REASONS[27], [Unwound((), End.COMPLETE)])
    return len(reader.all_of(BASE, length)), reader.problems


def test_wild_pointers_and_a_vast_length_cost_what_memory_holds() -> None:
    count, problems = read_forged([0xDEAD0] * 100, 1 << 60)
    assert count == 0
    assert problems == [
        f"runtime.allgs has {1 << 60:,} entries, of which 100 can be in memory",
        "100 entries of runtime.allgs are not goroutines",
    ]
    _, problems = read_forged([1] * 3 * BAD_LIMIT, 3 * BAD_LIMIT)
    assert problems[-1] == f"{BAD_LIMIT:,} entries of runtime.allgs are not goroutines"


def test_a_goroutine_that_is_listed_twice_counts_once_and_its_lying_registers_end_its_stack() -> None:
    g = BASE + 0x100
    words = [g, g, g] + [0] * 29 + [0] * 64
    at = 0x100 // 8
    words[at], words[at + 1] = BASE + 0x200, BASE + 0x300  # its stack
    words[at + 7], words[at + 8], words[at + 9] = 1 << 62, 0xBAD, g  # sched: sp, pc, g
    words[at + LAYOUTS[27].status // 8] = 4
    count, problems = read_forged(words, 3)
    assert (count, problems) == (1, ["2 entries of runtime.allgs are not goroutines"])
