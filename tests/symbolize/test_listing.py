"""Listings of code by runtime address: generated code, files, the vDSO, and what a core has of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import whence
from tests.helpers.cores import core_of
from tests.helpers.live import compiled, running
from whence.cli import main
from whence.objects.elf import ElfFile
from whence.procmap.mapping import Kind
from whence.profiles import Mapping, Profile, SampleType
from whence.samples.model import Label

pytest.importorskip("capstone")

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int helper(int x) { return x * 3; }

static const unsigned char code[] = {  /* mov eax, edi; add eax, 7; jne over the nop; ret */
    0x89, 0xf8, 0x83, 0xc0, 0x07, 0x75, 0x01, 0x90, 0xc3,
};

int main(int argc, char **argv) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page + 64, code, sizeof code);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %lx jit:add(int)\\n", (long)(page + 64), (long)sizeof code);
    fclose(map);
    printf("%p %p %s\\n", (void *)(page + 64), (void *)helper, name);
    fflush(stdout);
    if (argc > 1) {
        remove(name);
        abort();
    }
    getchar();
}
"""
TEXTS = ["mov eax, edi", "add eax, 7", "jne {end}", "nop", "ret"]


class Running(NamedTuple):
    """A process with generated code."""

    pid: int
    generated: int
    helper: int
    program: Path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("jit"), source=PROGRAM, name="jit")


@pytest.fixture(scope="module")
def process(program: Path) -> Iterator[Running]:
    with running([program]) as (pid, (generated, helper, perf_map)):
        try:
            yield Running(pid, int(generated, 16), int(helper, 16), program)
        finally:
            Path(perf_map).unlink(missing_ok=True)


def test_generated_code_is_listed_by_the_perf_map(process: Running) -> None:
    with whence.Symbolizer() as symbolizer:
        listing = symbolizer.listing(process.pid, process.generated + 2)
        again = symbolizer.listing(process.pid, process.generated, process.generated + 2)
    assert listing.function == "jit:add(int)"
    assert listing.spans == [(process.generated, process.generated + 9)]
    end = hex(process.generated + 8)
    texts = [f"{each.mnemonic} {each.operands}".rstrip() for each in listing.instructions]
    assert texts == [text.format(end=end) for text in TEXTS]
    assert listing.notes == [f"the code is from the memory of process {process.pid}"]
    assert [each.mnemonic for each in again.instructions] == ["mov"]


def test_code_of_a_file_is_listed_by_its_vaddrs(process: Running) -> None:
    with whence.Symbolizer() as symbolizer, whence.open(process.program) as binary:
        listing = symbolizer.listing(process.pid, process.helper)
        assert listing.instructions == binary.listing("helper").instructions
    bias = process.helper - listing.spans[0][0]
    assert listing.notes[-1].endswith(f"runtime addresses are {bias:#x} higher")


def test_the_vdso_is_listed_from_memory(process: Running) -> None:
    with whence.Process(process.pid) as live, whence.Symbolizer() as symbolizer:
        vdso = next((each for each in live.mappings() if each.kind is Kind.VDSO), None)
        if vdso is None:
            pytest.skip("there is no vDSO here")
        image = ElfFile.from_bytes(live.read(vdso.start, vdso.size), "[vdso]")
        symbols = image.symbols(".dynsym")
        row = next(row for row in range(len(symbols.value)) if symbols.name(row).endswith("clock_gettime"))
        listing = symbolizer.listing(live, vdso.start + symbols.value[row])
    assert listing.function.endswith("clock_gettime")
    assert sum(len(each.code) for each in listing.instructions) == symbols.size[row]


def test_a_removed_program_with_an_archive_is_listed_from_memory(program: Path, tmp_path: Path) -> None:
    archive, copy = tmp_path / "jit.lidia", tmp_path / "copy"
    assert main(["lidia", "create", str(program), "-o", str(archive)]) == 0
    shutil.copy(program, copy)
    with running([copy]) as (pid, (_, helper, perf_map)), whence.open(program) as binary:
        copy.unlink()
        with whence.Symbolizer(binaries=[str(archive)]) as symbolizer:
            listing = symbolizer.listing(pid, int(helper, 16))
        Path(perf_map).unlink()
        own = binary.listing("helper")
    assert [(each.vaddr, each.code) for each in listing.instructions] == [
        (each.vaddr, each.code) for each in own.instructions
    ]


def test_unknown_functions_say_what_to_give(process: Running, capsys: pytest.CaptureFixture[str]) -> None:
    with whence.Symbolizer() as symbolizer, pytest.raises(LookupError, match="no mapping of the process"):
        symbolizer.listing(process.pid, 0x10)
    assert main(["listing", "--pid", str(process.pid), hex(process.generated + 200)]) == 2
    assert "give START,END" in capsys.readouterr().err
    assert main(["listing", "--pid", str(process.pid), "helper"]) == 2
    assert "helper is not an address" in capsys.readouterr().err
    assert main(["listing", "main"]) == 2
    assert "give a file and a function" in capsys.readouterr().err


def test_the_command_lists_a_process(process: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["listing", "--pid", str(process.pid), hex(process.generated), hex(process.helper), "--json"]) == 0
    result = [json.loads(line)["function"] for line in capsys.readouterr().out.splitlines()]
    assert result == ["jit:add(int)", "helper"]


def test_a_core_has_generated_code_and_no_code_of_files(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core = core_of(program, "abort")
    with whence.Symbolizer() as symbolizer, whence.Core(core) as dump:
        page = next(each.start for each in dump.mappings() if not each.kind.has_file and each.kind is not Kind.VDSO)
        listing = symbolizer.listing(dump, page + 64, page + 73)
        assert [each.mnemonic for each in listing.instructions] == [text.split()[0] for text in TEXTS]
        with pytest.raises(LookupError, match="give START,END"):
            symbolizer.listing(dump, page + 64)
    assert main(["listing", "--core", str(core), f"{page + 64:#x},{page + 73:#x}"]) == 0
    assert f"the code is from the memory of the core {core}" in capsys.readouterr().out
    with ElfFile.open(program) as elf, whence.Core(core) as dump, whence.open(program) as binary:
        text = next(each for each in dump.mappings() if each.path == str(program))
        (part,) = binary.find("helper")
        segment = next(each for each in elf.segments if each.executable and each.is_loaded)
        runtime = part.vaddr - segment.vaddr + segment.file_offset - text.file_offset_of(text.start) + text.start
    debug = program.parent / "jit.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    moved = program.rename(program.parent / "moved")
    try:
        assert main(["listing", "--core", str(core), "--binary", str(debug), "--no-cache", hex(runtime)]) == 0
    finally:
        moved.rename(program)
    out = capsys.readouterr().out
    assert "jit.c:8 | int helper(int x) { return x * 3; }" in out
    assert "note: no instructions: " in out


def test_generated_code_of_a_profile_is_listed_while_its_process_runs(process: Running) -> None:
    profile = Profile(sample_types=[SampleType("cpu", "nanoseconds")])
    profile.mappings.append(Mapping(process.generated - 64, process.generated + 4032, 0, "//anon"))
    hot = profile.location(0, process.generated + 2)
    pid = Label("pid", number=process.pid)
    profile.samples.add([hot], [30], (pid,))
    profile.samples.add([profile.location(0, process.generated + 8)], [10], (pid,))
    profile.symbolize()
    (listing,) = profile.annotate("jit:add")
    assert [each.self for each in listing.instructions] == [0, 30, 0, 0, 10]
    assert (listing.self_cost, listing.cost, listing.total) == (40, 40, 40)
    profile.samples.labels = [()] * 2
    (listing,) = profile.annotate("jit:add")
    assert not listing.instructions
    assert listing.notes[0].endswith("the profile does not say which process has it")
