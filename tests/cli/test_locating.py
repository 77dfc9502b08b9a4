"""Each option that says where names come from does so in each command, for a program that was stripped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forge.core import Mapped, core
from tests.forge.server import serving, whole
from tests.helpers.live import compiled, running
from whence.archive.create import create
from whence.cli import main
from whence.locate.cache import Cache
from whence.objects.elf import ElfFile
from whence.procmap import maps
from whence.profiles.formats import pprof
from whence.samples.model import Mapping, ProfileData, SampleType
from whence.store import Store
from whence.symbolize import Process

PLACE = "program.c:3"


@dataclass
class World:
    """A stripped program that runs, what completes it, and an address in `marker`: runtime and vaddr."""

    folder: Path
    pid: int
    runtime: int
    vaddr: int
    options: dict[str, list[str]]

    @property
    def stripped(self) -> Path:
        return self.folder / "stripped" / "program"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("locating")
    program = compiled(folder, "-Wl,--build-id")
    with ElfFile.open(program) as elf:
        build_id = elf.build_id
        symbols = elf.symbols(".symtab")
        index = symbols.find("marker")
        assert index is not None
        vaddr = symbols.value[index]
    for name in ("stripped", "given", "archives", f"debug/.build-id/{build_id[:2]}"):
        (folder / name).mkdir(parents=True)
    debug = folder / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    inside = folder / "sysroot" / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(debug.read_bytes())
    given = folder / "given" / "any.debug"
    given.write_bytes(debug.read_bytes())
    create(program, folder / "archives" / "any.lidia")
    with Store(folder / "store") as store:
        assert [each.outcome for each in store.add(debug)] == ["added"]
    Cache(folder / "filled").put(
        f"{build_id}.lidia", lambda file: file.write((folder / "archives/any.lidia").read_bytes())
    )
    subprocess.run(["objcopy", "--strip-all", program, folder / "stripped" / "program"], check=True)
    there = folder / "sysroot" / str(folder / "stripped").lstrip("/")
    there.mkdir(parents=True)
    (there / "program").write_bytes((folder / "stripped" / "program").read_bytes())
    program.unlink()
    with serving(whole(debug.read_bytes())) as server, running([folder / "stripped" / "program"]) as (pid, words):
        options = {
            "--binary": ["--binary", str(given)],
            "--binary archive": ["--binary", str(folder / "archives" / "any.lidia")],
            "--archive-dir": ["--archive-dir", str(folder / "archives")],
            "--store": ["--store", str(folder / "store")],
            "--debug-dir": ["--debug-dir", str(folder / "debug")],
            "--sysroot": ["--sysroot", str(folder / "sysroot")],
            "--debuginfod": ["--debuginfod", server.url],
            "--cache-dir": ["--cache-dir", str(folder / "filled")],
            "none of them": [],
        }
        yield World(folder, pid, int(words[0], 16), vaddr, options)


def asked(world: World, command: str, tmp_path: Path) -> list[str]:
    """A command line that asks for the address."""
    process = Process(world.pid)
    if command == "addr":
        return ["addr", str(world.stripped), hex(world.vaddr)]
    if command == "pid":
        return ["pid", str(world.pid), hex(world.runtime)]
    if command == "addr --snapshot":
        process.snapshot().save(tmp_path / "snapshot")
        return ["addr", "--snapshot", str(tmp_path / "snapshot"), hex(world.runtime)]
    if command == "core":
        mapped = []
        for item in maps.parse(maps.read(process.directory), permissions=0).mappings:
            if item.path == str(world.stripped):
                memory = b"" if item.offset else world.stripped.read_bytes()[:4096]
                mapped.append(Mapped(item.start, item.limit, item.path, item.offset, 5 if item.is_exec else 4, memory))
        (tmp_path / "core").write_bytes(core(mapped))
        return ["core", str(tmp_path / "core"), hex(world.runtime)]
    if command == "explain":
        return ["explain", str(world.stripped), hex(world.vaddr)]
    if command == "filter":
        (tmp_path / "log").write_text(f"#0 {world.runtime:#x}  ({world.stripped}+{world.vaddr:#x})\n")
        return ["filter", str(tmp_path / "log")]
    if command == "profile":
        item = next(item for item in process.mappings() if item.start <= world.runtime < item.limit)
        mapping = Mapping(item.start, item.limit, item.offset, item.path, item.build_id)
        profile = ProfileData([SampleType("samples", "count")], [mapping])
        profile.samples.add([profile.location(0, world.runtime)], [1])
        (tmp_path / "cpu.pb").write_bytes(pprof.write(profile))
        return ["profile", str(tmp_path / "cpu.pb"), "-o", str(tmp_path / "named.pb")]
    assert command == "lidia create"
    return ["lidia", "create", str(world.stripped), "-o", str(tmp_path / "made.lidia")]


def answered(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What the command said, or wrote, of the address."""
    if command == "profile":
        return " ".join(
            f"{frame.file}:{frame.line}"
            for frames in pprof.read((tmp_path / "named.pb").read_bytes()).frames
            for frame in frames
        )
    if command == "lidia create":
        capfd.readouterr()
        assert main(["lidia", "dump", str(tmp_path / "made.lidia"), "--json"]) == 0
        ranges = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        return " ".join(f"{each['file']}:{line}" for each in ranges for _, line in each["lines"])
    return capfd.readouterr().out


COMMANDS = ["addr", "pid", "core", "addr --snapshot", "explain", "filter", "profile", "lidia create"]
OPTIONS = [
    "--binary",
    "--binary archive",
    "--archive-dir",
    "--store",
    "--debug-dir",
    "--sysroot",
    "--debuginfod",
    "--cache-dir",
    "none of them",
]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_stripped_program_is_named_from_where_the_option_says(
    command: str, option: str, world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cache = [] if option == "--cache-dir" else ["--cache-dir", str(tmp_path / "cache")]
    words = asked(world, command, tmp_path)
    capfd.readouterr()
    main([*words, *world.options[option], *cache])
    archives = option in ("--binary archive", "--archive-dir", "--cache-dir")
    expected = option != "none of them" and not (command == "lidia create" and archives)  # it reads ELF files
    assert (PLACE in answered(command, tmp_path, capfd)) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_verbose_reports_what_was_tried_in_each_command(
    command: str, world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = asked(world, command, tmp_path)
    (tmp_path / "nothing").mkdir()
    main([*words, "-v", "--cache-dir", str(tmp_path / "cache"), "--debug-dir", str(tmp_path / "nothing")])
    assert f"{tmp_path}/nothing/.build-id/" in capfd.readouterr().err
