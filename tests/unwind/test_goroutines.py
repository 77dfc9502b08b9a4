"""Goroutines: those of Go's own traceback, of live programs and cores, with and without symbols."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import whence
from tests.helpers.cores import CORE_PATTERN
from tests.helpers.golang import BY_HAND, VERSIONS, build
from tests.helpers.live import states, until
from tests.helpers.schemas import conforms
from whence._base.errors import ElfError
from whence.cli.goroutines import printed, state_words
from whence.cli.main import main
from whence.gopclntab.buildinfo import MAGIC, go_release, go_version
from whence.gopclntab.find import symbol_value
from whence.objects.elf import ElfFile
from whence.procmap.mapping import Kind
from whence.symbolize.goroutines import NamedGoroutines, is_shown
from whence.unwind import End, Unwound
from whence.unwind.goroutines import (
    BAD_LIMIT,
    LAYOUTS,
    READINGS,
    SMALLEST_STACK,
    WAIT_REASONS,
    GoroutineStack,
    _Reader,
    layout_of_debug_info,
    read_goroutines,
    reasons_of_symbol,
)
from whence.unwind.memory import Unreadable
from whence.unwind.registers import I386, X86_64
from whence.unwind.unwinder import Unwinder

# Every release with WHENCE_GO_VERSIONS=1 (make go-versions); else the newest, which the tests have anyway
RELEASES = (BY_HAND, *VERSIONS) if os.environ.get("WHENCE_GO_VERSIONS") else ("",)
HEADER = re.compile(r"goroutine (\d+) (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[(.*)\]:")
PLACE = re.compile(r"\t(.*:\d+)(?: \+0x[0-9a-f]+)?(?: fp=.*)?$")

Told = dict[int, tuple[str, list[str]]]


def by_go(text: str) -> Told:
    """State and lines of each goroutine of a traceback, functions without arguments."""
    result: Told = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        head = HEADER.match(lines[0]) if lines else None
        if head is None:
            continue
        rest: list[str] = []
        for line in lines[1:]:
            location = PLACE.match(line)
            if location is None and not line.startswith(("\t", "created by ")):
                line = line[: line.rindex("(")]
            rest.append(location[1] if location else line)
        result[int(head[1])] = head[2], rest
    return result


def by_whence(found: NamedGoroutines, *, system: bool = False) -> Told:
    told: Told = {}
    for each in found.shown(system=system):
        lines = []
        for call in each.calls:
            lines += [printed(call), f"{call.file}:{call.line}"]
        if each.created_by is not None:
            parent = f" in goroutine {each.parent}" if each.parent else ""
            lines += [
                f"created by {printed(each.created_by)}{parent}",
                f"{each.created_by.file}:{each.created_by.line}",
            ]
        told[each.goid] = state_words(each, 0), lines
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
        result = whence.Process(child.pid).goroutines(system=True)
        main(["pid", str(child.pid), "--stop", "--goroutines"])
        printed_lines = capsys.readouterr().out
        main(["pid", str(child.pid), "--stop", "--goroutines", "--json"])
        child.send_signal(signal.SIGQUIT)
        _, text = child.communicate(timeout=60)
    finally:
        child.kill()
    expected = by_go(text)
    expected.pop(0, None)  # the thread's own stack, which received the signal
    assert len(expected) > 205
    assert by_whence(result, system=True) == expected  # a signal shows the runtime's own, too
    assert result.problems == []
    assert {each.end for each in result.goroutines} == {End.COMPLETE}
    for line in capsys.readouterr().out.splitlines():
        conforms("goroutine", json.loads(line))
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


def test_without_the_runtimes_own_they_are_those_that_go_prints_at_a_panic(parked: Path) -> None:
    env = {**os.environ, "GOTRACEBACK": "all"}
    pipe = subprocess.PIPE
    child = subprocess.Popen([parked, "panic"], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert until(lambda: {*states(child.pid)} == {"S"})
    try:
        result = by_whence(whence.Process(child.pid).goroutines())
        _, text = child.communicate("\n", timeout=60)
    finally:
        child.kill()
    expected = by_go(text)
    (panicked,) = [goid for goid, (state, _) in expected.items() if state == "running"]
    del expected[panicked], result[panicked]
    assert len(expected) > 205
    assert result == expected


def minor(path: Path) -> int:
    with ElfFile.open(path) as elf:
        return go_release(go_version(elf)) or 0


def test_debug_info_has_the_offsets_of_the_table(parked: Path) -> None:
    with ElfFile.open(parked) as elf:
        allgs = symbol_value(elf, "runtime.allgs")
        result = None if allgs is None else layout_of_debug_info(elf, allgs)
    assert result == (None if parked.name.startswith("stripped") else LAYOUTS[minor(parked)])


class OfFile:
    """Memory as a program's file has it."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf

    def read(self, address: int, size: int) -> bytes:
        try:
            return bytes(self._elf.read_vaddr(address, size))
        except ElfError:
            raise Unreadable(address) from None

    def region(self, address: int) -> tuple[int, int] | None:
        return None


def test_the_runtimes_own_texts_are_those_of_the_table(parked: Path) -> None:
    with ElfFile.open(parked) as elf:
        result = reasons_of_symbol(elf, OfFile(elf), 0)
    assert result == (() if parked.name.startswith("stripped") else WAIT_REASONS[minor(parked)])


def test_texts_that_can_not_be_read_are_left_to_the_table(parked: Path) -> None:
    with ElfFile.open(parked) as elf:
        assert reasons_of_symbol(elf, OfFile(elf), 1) == ()
        assert reasons_of_symbol(elf, OfFile(elf), 1 << 40) == ()


def of_version(parked: Path, out: Path, version: bytes) -> Path:
    """Write a copy of the program whose build info has another release of two digits."""
    data = parked.read_bytes()
    claimed, count = re.subn(rb"(%s.{19}go1\.)\d\d" % re.escape(MAGIC), rb"\g<1>" + version, data, flags=re.DOTALL)
    assert count == 1
    out.write_bytes(claimed)
    out.chmod(0o755)
    return out


def goroutines_of(program: Path) -> NamedGoroutines:
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            assert until(lambda: {*states(child.pid)} == {"S"})
            return whence.Process(child.pid).goroutines()
        finally:
            child.kill()


def test_a_later_release_needs_debug_info_and_an_earlier_one_is_refused(parked: Path, tmp_path: Path) -> None:
    later = goroutines_of(of_version(parked, tmp_path / "later", b"99"))
    earlier = goroutines_of(of_version(parked, tmp_path / "earlier", b"16"))
    assert earlier.goroutines == []
    (problem,) = earlier.problems
    assert re.fullmatch(
        r"the layout of struct g is unknown for Go version 'go1\.16[.\d]*' \(known: 1\.17 to 1\.27\)", problem
    )
    if parked.name.startswith("stripped"):
        assert later.goroutines == []
        assert [problem.replace("go1.16", "go1.99")] == later.problems
    else:
        assert later.problems == []
        assert len(later.shown()) > 205
        assert {each.end for each in later.goroutines} == {End.COMPLETE}


def test_goroutines_of_a_32_bit_program_are_refused(tmp_path: Path) -> None:
    with ElfFile.open(build("parked", tmp_path / "parked", arch="386")) as elf:
        mapping = SimpleNamespace(kind=Kind.FILE, start=0x8048000)
        module = SimpleNamespace(elf=elf, go=object(), mapper=SimpleNamespace(vaddr=lambda _, address: address))
        snapshot = SimpleNamespace(mappings=[mapping], file_of=[object()])
        modules = SimpleNamespace(snapshot=snapshot, of_file=lambda *_: module)
        memory = Forged(BASE, b"")
        unwinder = Unwinder(I386, NoCode(), memory)
        result = read_goroutines(modules, memory, unwinder, [])  # type: ignore[arg-type]
    assert result.version.startswith("go1.")
    assert result.stacks == []
    assert result.problems == ["goroutines of 32-bit programs are not supported"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--style", "gdb"], "--style"),
        (["--registers"], "--registers"),
        (["--thread", "1"], "--thread"),
        (["--scan"], "--scan"),
        (["--scan", "--registers"], "--registers, --scan"),
        (["0x1000"], "addresses"),
    ],
)
@pytest.mark.parametrize("command", [["core", "no-such-core"], ["pid", "1", "--stop"]], ids=str)
def test_options_for_threads_are_refused_with_goroutines(
    command: list[str], wrong: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--goroutines", *wrong]) == 2
    said = f"--goroutines can't be used with {named}: it lists goroutines, not threads"
    assert capsys.readouterr() == ("", f"whence: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["core", "no-such-core", "--system"], "--system needs --goroutines"),
        (
            ["pid", "1", "--stop", "--goroutines", "--every", "1"],
            "--goroutines can't be used with --every or --for: a profile samples threads",
        ),
    ],
    ids=str,
)
def test_options_that_have_no_meaning_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"whence: {said}\n")


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
    """Memory of one range."""

    def __init__(self, start: int, data: bytes) -> None:
        self.start, self.data = start, data

    def read(self, address: int, size: int) -> bytes:
        if not self.start <= address or address + size > self.start + len(self.data):
            raise Unreadable(address)
        return self.data[address - self.start : address - self.start + size]

    def region(self, address: int) -> tuple[int, int] | None:
        end = self.start + len(self.data)
        return (self.start, end) if self.start <= address < end else None


class NoCode:
    """A process without executable memory."""

    def fde(self, address: int) -> None:
        return None

    def is_code(self, address: int) -> bool:
        return False

    def is_generated(self, address: int) -> bool:
        return False

    def function(self, address: int) -> None:
        return None

    def go(self, pc: int, lookup: int) -> None:
        return None

    def entry_before(self, address: int) -> None:
        return None

    def frame_data(self, address: int) -> None:
        return None

    def needs_no_table(self, address: int) -> bool:
        return False

    def calls_main(self, address: int) -> bool:
        return False

    def why_not(self, address: int) -> str:
        return f"no file is mapped at {address:#x}"


BASE = 0xC000000000


def read_forged(words: list[int], length: int) -> tuple[int, list[str]]:
    memory = Forged(BASE, b"".join(word.to_bytes(8, "little") for word in words))
    unwinder = Unwinder(X86_64, NoCode(), memory)
    reader = _Reader(memory, unwinder, LAYOUTS[27], WAIT_REASONS[27], [Unwound((), End.COMPLETE)])
    return len(reader.read_all(BASE, length)), reader.problems


def test_wild_pointers_and_a_vast_length_cost_what_memory_holds() -> None:
    count, problems = read_forged([0xDEAD0] * 100, 1 << 60)
    assert count == 0
    assert problems == [
        f"runtime.allgs has {1 << 60:,} entries, of which 100 can be in memory",
        "100 entries of runtime.allgs are not goroutines",
    ]
    _, problems = read_forged([1] * 3 * BAD_LIMIT, 3 * BAD_LIMIT)
    assert problems[-1] == f"{BAD_LIMIT:,} entries of runtime.allgs are not goroutines"


def forged_g(sp: int) -> bytes:
    """Goroutine 7, which waits, at BASE after three pointers to it."""
    words = [0] * 96
    offset = 0x100 // 8
    g = BASE + 0x100
    words[:3] = g, g, g
    words[offset], words[offset + 1] = BASE + 0x200, BASE + 0x300  # its stack
    words[offset + 7], words[offset + 8], words[offset + 9] = sp, 0xBAD, g  # sched: sp, pc, g
    words[offset + LAYOUTS[27].status // 8], words[offset + LAYOUTS[27].goid // 8] = 4, 7
    return b"".join(word.to_bytes(8, "little") for word in words)


def test_a_goroutine_that_is_listed_twice_counts_once() -> None:
    data = forged_g(BASE + 0x280)
    count, problems = read_forged(
        [int.from_bytes(data[offset : offset + 8], "little") for offset in range(0, len(data), 8)], 3
    )
    assert (count, problems) == (1, ["2 entries of runtime.allgs are not goroutines"])


def reader_of(memory: Forged, changes: int = 0) -> _Reader:
    """Make a reader of memory in which the goroutine moves after each of the first `changes` readings."""
    changed = 0

    def forget() -> None:
        nonlocal changed
        if changed < changes:
            changed += 1
            memory.data = forged_g(BASE + 0x280 + 8 * changed)

    unwinder = Unwinder(X86_64, NoCode(), memory)
    return _Reader(memory, unwinder, LAYOUTS[27], WAIT_REASONS[27], [], forget if changes else None)


def the_only(reader: _Reader) -> GoroutineStack:
    (item,) = reader.read_all(BASE, 1)
    assert reader.problems == []
    assert item.goid == 7
    return item


@pytest.mark.parametrize("sp", [0, BASE + 0x1F8, BASE + 0x300, 1 << 62])
def test_a_saved_stack_pointer_outside_the_stack_ends_the_goroutine(sp: int) -> None:
    item = the_only(reader_of(Forged(BASE, forged_g(sp))))
    assert item.unwound == Unwound((), End.UNREADABLE, f"the stack pointer {sp:#x} is not on the goroutine's stack")


def test_a_goroutine_that_moved_while_it_was_read_is_read_again() -> None:
    item = the_only(reader_of(Forged(BASE, forged_g(BASE + 0x280)), changes=READINGS - 2))
    assert [frame.sp for frame in item.unwound.frames] == [BASE + 0x280 + 8 * (READINGS - 2)]


def test_a_goroutine_that_never_settles_has_no_frames_but_a_reason() -> None:
    item = the_only(reader_of(Forged(BASE, forged_g(BASE + 0x280)), changes=READINGS))
    assert item.unwound == Unwound((), End.NO_REGISTERS, "the goroutine ran while it was read")


def test_every_goroutine_adds_to_what_stacks_may_cost() -> None:
    reader = reader_of(Forged(BASE, forged_g(0)))
    before = reader._unwinder.steps_left
    the_only(reader)
    assert reader._unwinder.steps_left - before == SMALLEST_STACK // 16
