"""Small cores: the same stacks as the full core by gdb, elfutils and whence, from a file and from a pipe."""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge.core import Mapped, core, status
from tests.forge.elf import Segment as ForgedSegment
from tests.forge.elf import forge
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence._base.errors import FormatError, MapsError
from whence.cli.main import main
from whence.dumps.core import read_core
from whence.dumps.core_stream import copy_core
from whence.dumps.core_writer import KeptRange, write_core
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.shrink import shrink_core
from whence.symbolize.symbolizer import Symbolizer

CORES = Path(__file__).parent.parent / "data" / "cores"
SECRET = b"correct horse battery staple"
# crashes with a string argument and 64 MB of other memory that has a secret
SECRETIVE = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t barrier;
__attribute__((noinline)) static int boom(const char *name, int n) {
    if (n) return boom(name, n - 1) + 1;
    pthread_barrier_wait(&barrier);
    pause();
    return name[0];
}
static void *run(void *name) { return (void *)(long)boom(name, 5); }
int main(void) {
    char *heap = malloc(64 << 20), *name = malloc(64);
    volatile char *nothing = 0;
    pthread_t thread;
    memset(heap, 7, 64 << 20);
    for (size_t i = 0; i < 64; i++) sprintf(heap + (i << 20), "%s %s %s", "correct horse", "battery", "staple");
    sprintf(name, "called by %s", "main");
    dlopen("libm.so.6", RTLD_NOW);
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, run, name);
    pthread_barrier_wait(&barrier);
    usleep(100000);
    *nothing = 1;
    return 0;
}
"""


GDB = ("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off")


def shrunk(path: Path, *words: str) -> Path:
    small = path.with_name("small")
    assert main(["core", str(path), "--shrink", "-o", str(small), *words]) == 0
    return small


def backtraces(tool: str, program: Path, path: Path) -> str:
    """The stacks by a debugger, without the name of the core."""
    if tool != "whence" and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this machine")
    commands: dict[str, list[str | Path]] = {
        "gdb": [*GDB, "-ex", "thread apply all bt", "-ex", "info sharedlibrary", program, path],
        "eu-stack": ["eu-stack", "--core", path, "-e", program],
        "whence": [sys.executable, "-m", "whence", "core", path],
    }
    done = subprocess.run(commands[tool], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("\n") > 10, done.stderr
    return done.stdout.replace(str(path), "CORE")


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    program = compiled(tmp_path_factory.mktemp("secretive"), "-pthread", source=SECRETIVE)
    return program, core_of(program)


@pytest.mark.parametrize("tool", ["gdb", "eu-stack", "whence"])
def test_debuggers_print_the_same_for_a_small_core(tool: str, crash: tuple[Path, Path]) -> None:
    program, path = crash
    small = shrunk(path)
    assert small.stat().st_size < 400_000 < 64 << 20 < path.stat().st_size
    assert backtraces(tool, program, small) == backtraces(tool, program, path)


def test_the_lists_of_threads_of_a_static_program_are_kept(tmp_path: Path) -> None:
    source = SECRETIVE.replace('    dlopen("libm.so.6", RTLD_NOW);\n', "")
    program = compiled(tmp_path, "-pthread", "-static", source=source)
    path = core_of(program)
    with ElfFile.open(program) as elf:
        index = elf.symbols().find("_dl_stack_user")
        if index is None:
            pytest.skip("this C library has no list of threads in static programs")
        head = elf.symbols().value[index]
    for options in ([], ["--redact"]):
        full, small = whence.Core(path), whence.Core(shrunk(path, *options))
        entry, seen = head, []
        while entry not in seen:
            seen.append(entry)
            assert small.read(entry, 16) == full.read(entry, 16)
            entry = int.from_bytes(small.read(entry, 8), sys.byteorder)
        assert (entry, len(seen)) == (head, 2)  # the list, and the main thread


PYTHON = """
import os
def inner(n):
    return inner(n - 1) if n else os.abort()
sorted([1, 2], key=lambda item: inner(3))
"""


@pytest.mark.parametrize("options", [[], ["--redact"]])
def test_frames_of_python_are_kept(options: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    (tmp_path / "python").symlink_to(sys.executable)
    path = core_of(tmp_path / "python", "../script.py")
    functions = []
    for each in (path, shrunk(path, *options)):
        (stack,) = whence.Core(each).stacks()
        frames = [frame.place.frames for frame in stack.frames]
        functions.append([frame.function for chain in frames for frame in chain if frame.source == "python"])
    assert functions[0] == ["inner"] * 4 + ["<lambda>", "<module>"]
    assert functions[1] == functions[0]


@pytest.mark.parametrize("mode", ["h", "s", "S", "n", "q", "w", "d"])
def test_stacks_across_signals_and_callbacks_are_the_same(mode: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, "-O2", "-pthread", source=PROGRAM)
    path = core_of(program, mode)
    small = shrunk(path)
    for tool in ("eu-stack", "whence"):
        assert backtraces(tool, program, small) == backtraces(tool, program, path)


def test_a_core_from_a_pipe_is_the_same_as_from_a_file(crash: tuple[Path, Path], tmp_path: Path) -> None:
    program, path = crash
    small = tmp_path / "piped"
    command: list[str | Path] = [sys.executable, "-m", "whence", "core", "-", "--shrink", "-o", small]
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        done = subprocess.run(command, stdin=cat.stdout, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    expected = backtraces("whence", program, path).split("\n", 1)[1]  # without the time of the core
    assert backtraces("whence", program, small).split("\n", 1)[1] == expected


def test_memory_that_is_left_out_has_no_program_header(crash: tuple[Path, Path]) -> None:
    with ElfFile.open(shrunk(crash[1])) as small:
        loads = [segment for segment in small.segments if segment.is_loaded]
        assert loads
        assert all(segment.file_size == segment.memory_size for segment in loads)


def test_arguments_are_kept_unless_redacted(crash: tuple[Path, Path]) -> None:
    _, path = crash
    with_values, without = shrunk(path).read_bytes(), shrunk(path, "--redact").read_bytes()
    assert b"called by main" in with_values
    assert b"called by main" not in without
    assert SECRET not in with_values


def test_redacted_stacks_are_the_same(crash: tuple[Path, Path]) -> None:
    program, path = crash
    redacted = shrunk(path, "--redact")
    for tool in ("eu-stack", "whence"):
        expected = backtraces(tool, program, path)
        if tool == "whence":  # the command line is among the values
            expected = re.sub(r"(process \d+, ).*?, ", r"\1", expected, count=1)
        assert re.sub(r"(process \d+, ).*?, ", r"\1", backtraces(tool, program, redacted), count=1) == expected


def test_a_truncated_pipe_keeps_what_arrived(crash: tuple[Path, Path]) -> None:
    content = crash[1].read_bytes()
    with ElfFile.from_bytes(content) as full:
        middle = max(segment.file_offset for segment in full.segments if segment.is_loaded)
    copy = io.BytesIO()
    streamed = copy_core(io.BytesIO(content[: middle - 1]), copy)
    assert streamed.missing == len(content) - middle + 1
    with ElfFile.from_bytes(copy.getvalue()) as elf:
        for segment in elf.segments:
            if segment.is_loaded and segment.memory_size:
                begin = segment.file_offset
                stored = full_memory(content, segment.vaddr, segment.file_size)
                assert elf.data[begin : begin + segment.file_size] == stored


def full_memory(content: bytes, start: int, size: int) -> bytes:
    with ElfFile.from_bytes(content) as elf:
        return elf.read_vaddr(start, size)


@pytest.mark.parametrize("machine", ["aarch64", "arm", "i386", "ppc64le", "riscv64", "s390x"])
def test_cores_of_every_machine_keep_their_stacks(machine: str, tmp_path: Path) -> None:
    small, program = tmp_path / "small", str(CORES / machine)
    assert main(["core", str(CORES / f"{machine}.core"), "--shrink", "-o", str(small), "--binary", program]) == 0
    stacks = []
    for path in (CORES / f"{machine}.core", small):
        with Symbolizer(locator=Locator(files=[program])) as symbolizer:
            stacks.append(whence.Core(path, programs=[program]).stacks(symbolizer))
    assert stacks[0] == stacks[1]
    assert len(stacks[0][0].frames) == 7


def test_a_mapping_of_which_some_pages_are_kept_is_whole() -> None:
    page = forge([], [ForgedSegment(constants.PT_LOAD, 5, file_offset=0, vaddr=0x400000, file_size=0x9000)])
    mapped = [
        Mapped(0x400000, 0x401000, "/app", 0, 5, page),
        Mapped(0x401000, 0x409000, load=False),
        Mapped(0x500000, 0x501000, flags=6, memory=b"x" * 64),
    ]
    content = bytearray(core(mapped, [status(1, 0x408000, 0x500000)]))
    number = content.index(struct.pack("<QQQ", 0x400000, 0x401000, 0))  # in NT_FILE
    content[number + 8 : number + 16] = struct.pack("<Q", 0x409000)
    with ElfFile.from_bytes(bytes(content)) as elf:
        (mapping,) = (each for each in read_core(elf).snapshot.mappings if each.path == "/app")
    assert (mapping.start, mapping.end) == (0x400000, 0x409000)


def test_large_segments_share_a_limit() -> None:
    mapped = [Mapped(start, start + 0x400000, flags=6, memory=b"x" * 0x400000) for start in (0x1000000, 0x2000000)]
    content = core(mapped, [status(1, 0x1000, 0x1000)])
    copy = io.BytesIO()
    streamed = copy_core(io.BytesIO(content), copy, limit=0x500000)
    with ElfFile.from_bytes(copy.getvalue()) as elf:
        assert [(s.vaddr, s.file_size) for s in elf.segments if s.is_loaded] == [
            (0x1000000, 0x400000),
            (0x2000000, 0x100000),
        ]
    assert streamed.dropped == 0x300000
    assert streamed.size == len(content)


def test_notes_after_the_memory_are_refused_on_a_pipe() -> None:
    content = bytearray(core([Mapped(0x1000, 0x2000, memory=b"x" * 16)], [status(1, 0x1000)]))
    with ElfFile.from_bytes(bytes(content)) as elf:
        table = elf.header.segments
        numbers = [segment.type for segment in elf.segments]
    notes, load = numbers.index(constants.PT_NOTE), numbers.index(constants.PT_LOAD)
    first, second = (table.file_offset + table.stride * index + 8 for index in (notes, load))
    content[second : second + 8] = struct.pack("<Q", struct.unpack_from("<Q", content, first)[0] - 16)
    with pytest.raises(MapsError, match="the notes follow the memory"):
        copy_core(io.BytesIO(bytes(content)), io.BytesIO())


def test_more_program_headers_than_16_bits_count(tmp_path: Path) -> None:
    like = ElfFile.from_bytes(core([Mapped(0x1000, 0x2000, memory=b"x")], [status(1, 0x1000)]))
    ranges = [KeptRange(0x10000 * i, 0x10000 * i + 8, 6) for i in range(1, 70_001)]
    written = tmp_path / "large"
    with written.open("wb") as file:
        size = write_core(file, like, [b""], ranges, lambda address, count: address.to_bytes(count, "little"))
    assert written.stat().st_size == size
    with ElfFile.open(written) as elf:
        assert len(elf.segments) == 70_001
        assert elf.read_vaddr(0x10000 * 70_000, 8) == (0x10000 * 70_000).to_bytes(8, "little")


def test_damaged_cores_are_errors_or_small_cores(crash: tuple[Path, Path]) -> None:
    small = shrunk(crash[1]).read_bytes()
    step = max(1, len(small) // 150)
    for offset in range(0, len(small), step):
        damaged = bytearray(small)
        damaged[offset] ^= 0xFF
        for content in (bytes(damaged), small[:offset]):
            try:
                with ElfFile.from_bytes(content) as elf:
                    result = io.BytesIO()
                    kept = shrink_core(elf, result)
                    assert kept.size == len(result.getvalue())
                    assert kept.memory <= kept.stored + (4096 * len(elf.segments))
                copy = io.BytesIO()
                copy_core(io.BytesIO(content), copy)
            except FormatError:
                pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shrink"], "--shrink needs -o"),
        (["-o", "x"], "-o: only with --shrink"),
        (["--shrink", "-o", "x", "--maps"], "--shrink cannot be used with"),
        (["--shrink", "-o", "x", "--near", "-1"], "expected a number of bytes"),
        (["--shrink", "-o", "x", "--redact", "--near", "9"], "--near cannot be used with --redact"),
    ],
)
def test_wrong_use_is_an_error(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "core"
    path.write_bytes(core([Mapped(0x1000, 0x2000, memory=b"x")], [status(1, 0x1000)]))
    assert main(["core", str(path), *words]) == 2
    assert message in capsys.readouterr().err


def test_the_core_itself_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "core"
    path.write_bytes(core([Mapped(0x1000, 0x2000, memory=b"x")], [status(1, 0x1000)]))
    before = path.read_bytes()
    assert main(["core", str(path), "--shrink", "-o", str(path)]) == 2
    assert "is the core itself" in capsys.readouterr().err
    assert path.read_bytes() == before
