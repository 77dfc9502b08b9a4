"""Object files inside zip files: stored and compressed, in paths of commands and logs; damaged ones, bombs."""

from __future__ import annotations

import struct
import zipfile
import zlib
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import whence
from tests.forge import macho
from tests.forge.elf import Section, Symbol, build_id_note, forge
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from tests.hostile.bounds import bounded
from whence._base.errors import ElfError, ObjectError, Unsupported
from whence.cli.dispatch import command_for
from whence.filter import LogFilter, Places
from whence.locate.search import FileQuery
from whence.locator.locator import Locator
from whence.objects import zipped
from whence.objects.macho import MachoFile
from whence.objects.opening import open_object
from whence.objects.zipped import ALLOWANCE, entry_at
from whence.procmap.mapping import Mapping
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.profiles.naming import name
from whence.symbolize import Snapshot, Symbolizer

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
ARM, X86 = "lib/arm64-v8a/libx.so", "lib/x86_64/libx.so"
IDS = {ARM: "aa" * 20, X86: "bb" * 20}


def library(build_id: str, name: str = "work") -> bytes:
    text = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)
    return forge([build_id_note(build_id), text], symbols=[Symbol(name, 0x1000, 0x40)])


@pytest.fixture(params=[STORED, DEFLATED], ids=["stored", "deflated"])
def apk(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "base.apk"
    with zipfile.ZipFile(path, "w", request.param) as archive:
        archive.writestr("classes.dex", b"dex\n035\0" * 100)
        for name, build_id in IDS.items():
            archive.writestr(name, library(build_id))
        archive.writestr("lib/x86_64/libonly.so", library("cc" * 20, "main_loop"))
    return path


def names_at(path: str, vaddr: int) -> list[str]:
    with whence.open(path) as binary:
        return [frame.function for frame in binary.lookup(vaddr)]


def test_an_entry_is_opened_by_its_name_or_by_its_file_name_alone(apk: Path) -> None:
    for entry, build_id in IDS.items():
        for path in (f"{apk}!/{entry}", f"{apk}!{entry}"):
            with open_object(path) as file:
                assert (file.build_id, file.path) == (build_id, f"{apk}!/{entry}")
            assert names_at(path, 0x1004) == ["work"]
    assert names_at(f"{apk}!libonly.so", 0x1004) == ["main_loop"]


def test_a_name_of_several_entries_and_a_missing_one_are_errors_that_help(apk: Path) -> None:
    with pytest.raises(ObjectError, match=rf"2 entries are named libx.so: {ARM}, {X86}"):
        open_object(f"{apk}!libx.so")
    with pytest.raises(FileNotFoundError, match=r"no entry 'lib/none.so' in the zip file"):
        open_object(f"{apk}!/lib/none.so")
    with pytest.raises(ObjectError, match="not an ELF file"):
        open_object(f"{apk}!/classes.dex")


def test_a_file_with_such_a_name_is_opened_itself(apk: Path) -> None:
    path = apk.parent / "odd!name.so"
    path.write_bytes(library("dd" * 20))
    with open_object(path) as file:
        assert file.build_id == "dd" * 20


def test_paths_of_mappings_and_given_zip_files_are_searched_by_build_id(apk: Path) -> None:
    elsewhere = "/data/app/base.apk!/lib/arm64-v8a/libx.so"
    with Locator() as locator:
        result = locator.find(path=f"{apk}!/{ARM}", build_id=IDS[ARM])
        assert result.path == f"{apk}!/{ARM}"
        assert not locator.find(path=f"{apk}!/{ARM}", build_id=IDS[X86])
        assert not locator.find(path=elsewhere)
    with Locator(binaries=apk) as locator:
        assert locator.find(path=elsewhere, build_id=IDS[X86]).path == f"{apk}!/{X86}"
        search = locator.search(FileQuery(path="/data/app/base.apk!libonly.so"))
        assert search.opened is not None
        with search.opened as opened:
            assert [frame.function for frame in opened.binary.lookup(0x1004)] == ["main_loop"]
    with Locator(sysroot=str(apk.parent)) as locator:
        assert locator.find(path=f"/base.apk!/{ARM}").build_id == IDS[ARM]


def test_lines_of_tombstones_are_named(apk: Path) -> None:
    text = (
        f"    #00 pc 0000000000001004  {apk}!/{ARM} (offset 0x2000)\n    #01 pc 0000000000001008  base.apk!libonly.so\n"
    )
    with Places(Locator(binaries=apk)) as places:
        log = LogFilter(places)
        named = (log.feed(text.encode()) + log.finish()).decode()
    assert [line.rpartition(" in ")[2] for line in named.splitlines()] == ["work", "main_loop"]


def padded(folder: Path, programs: dict[str, bytes]) -> tuple[Path, dict[str, int]]:
    """A zip file with stored programs at starts of pages, as Android needs them, and where they start."""
    path = folder / "base.apk"
    starts = {}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in programs.items():
            info = zipfile.ZipInfo(name)
            archive.fp.seek(0, 2)  # type: ignore[union-attr]
            head = archive.fp.tell() + 30 + len(name)  # type: ignore[union-attr]
            info.extra = bytes(-head % 4096)
            archive.writestr(info, data)
            starts[name] = info.header_offset + 30 + len(name) + len(info.extra)
    return path, starts


@pytest.mark.parametrize("given", [False, True])
def test_a_mapping_of_a_zip_file_is_the_library_at_its_offset(tmp_path: Path, given: bool) -> None:
    program = compiled()
    path, starts = padded(tmp_path, {"lib/a/libother.so": library("dd" * 20), "lib/a/libx.so": program.read_bytes()})
    profile = program_profile(program, build_id="")
    mapping = profile.mappings[0]
    assert starts["lib/a/libx.so"] % 4096 == 0
    recorded = "/data/app/base.apk" if given else str(path)
    profile.mappings[0] = mapping._replace(path=recorded, offset=mapping.offset + starts["lib/a/libx.so"])
    with Locator(binaries=path if given else ()) as locator:
        name(profile, locator)
    assert profile.mappings[0].path == f"{recorded}!/lib/a/libx.so"
    assert [frames[-1].function for frames in profile.frames[:2]] == ["main", "sum"]


def test_a_core_s_mapping_of_a_zip_file_is_the_library_at_its_offset(tmp_path: Path) -> None:
    path, starts = padded(tmp_path, {"lib/a/libother.so": library("dd" * 20, "other"), ARM: compiled().read_bytes()})
    with open_object(f"{path}!/{ARM}") as file:
        symbols = file.symbols()
        offset = file.file_offset_of(symbols.value[symbols.find("main") or 0])
        code = next(segment for segment in file.segments if segment.is_loaded and segment.executable)
    assert offset
    page = code.file_offset & -4096
    mapping = Mapping("/data/app/base.apk", 0x70000, 0x80000, starts[ARM] + page)
    record = SnapshotMappings(1, "app", 0, 0.0, [mapping], [SnapshotFile(mapping.path, "", None)])
    with Symbolizer(binaries=[str(path)]) as symbolizer:
        (answer,) = symbolizer.symbolize(Snapshot.of(record), [0x70000 + offset - page])
    assert [frame.function for frame in answer.frames] == ["main"]
    assert answer.mapping is not None
    assert answer.mapping.path == f"/data/app/base.apk!/{ARM}"


def test_offsets_outside_of_stored_libraries_are_of_no_library(tmp_path: Path) -> None:
    path, starts = padded(tmp_path, {"classes.dex": bytes(9000), "lib/a/libx.so": library(IDS[ARM])})
    start = starts["lib/a/libx.so"]
    size = len(library(IDS[ARM]))
    assert entry_at(str(path), start + size - 1) == (f"{path}!/lib/a/libx.so", size - 1)
    for offset in (0, 100, start - 1, start + size, 1 << 63):
        assert entry_at(str(path), offset) == ("", 0)
    assert entry_at(str(tmp_path / "missing.apk"), 0) == ("", 0)
    path.write_bytes(b"PK\3\4 cut off")
    assert entry_at(str(path), start) == ("", 0)


def test_a_tombstone_of_a_zip_file_is_named_by_the_offset_of_the_library(tmp_path: Path) -> None:
    path, starts = padded(tmp_path, {"lib/a/libother.so": library("dd" * 20, "other"), ARM: library(IDS[ARM])})
    with Places(Locator(binaries=path)) as places:
        log = LogFilter(places)
        line = f"    #00 pc 0000000000001004  /data/app/x/base.apk (offset {starts[ARM]:#x})\n"
        assert (log.feed(line.encode()) + log.finish()).decode().rpartition(" in ")[2] == "work\n"


def test_the_command_of_an_entry_is_that_of_object_files(apk: Path) -> None:
    assert command_for([f"{apk}!/{ARM}", "10"]) == ["addr", f"{apk}!/{ARM}", "10"]


def test_files_of_other_formats_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("app", macho.forge([macho.text()]))
    with open_object(f"{path}!/app") as file:
        assert isinstance(file, MachoFile)


def shared_bomb(path: Path) -> None:
    """A zip file with 1,000 libraries of 40 MiB, which are all the same compressed bytes."""
    content = zlib.compress(library("ee" * 20) + bytes(40 << 20), 9)[2:-4]
    crc = zlib.crc32(library("ee" * 20) + bytes(40 << 20))
    size = len(library("ee" * 20)) + (40 << 20)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, crc, len(content), size, 4, 0) + b"a.so" + content
    rows = b""
    for number in range(1000):
        name = f"lib/{number}.so".encode()
        rows += struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, crc, len(content), size, len(name), 0, 0, 0, 0, 0, 0
        ) + name  # fmt: skip
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1000, 1000, len(rows), len(local), 0)
    path.write_bytes(local + rows + end)


def given_build_ids(path: str) -> list[str]:
    with Locator(binaries=path) as locator:
        return locator.build_ids_with("ee")


def test_the_libraries_of_a_given_zip_file_share_one_bound(tmp_path: Path) -> None:
    path = tmp_path / "bomb.apk"
    shared_bomb(path)
    outcome = bounded(given_build_ids, str(path), stored=path.stat().st_size, seconds=3, megabytes=200)
    assert outcome.answer == ["ee" * 20]


def test_an_entry_larger_than_the_zip_file_justifies_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.apk"
    with zipfile.ZipFile(path, "w", DEFLATED) as archive, archive.open("lib/bomb.so", "w") as file:
        for _ in range(ALLOWANCE // (1 << 20) + 2):
            file.write(bytes(1 << 20))

    outcome = bounded(error_of, f"{path}!/lib/bomb.so", stored=path.stat().st_size, seconds=2, megabytes=80)
    assert "its bytes take more than 16 times its" in outcome.answer


def error_of(name: str) -> str:
    try:
        open_object(name).close()
    except ObjectError as error:
        return str(error)
    return ""


def test_a_size_that_lies_is_damage_and_not_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    with zipfile.ZipFile(path, "w", DEFLATED) as archive:
        archive.writestr("a.so", library("aa" * 20) + bytes(1 << 20))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2")
    for size in (100, (1 << 21), ALLOWANCE):
        struct.pack_into("<I", data, entry + 24, size)
        path.write_bytes(data)
        with pytest.raises(ObjectError, match=rf"bytes or another CRC, expected {size} bytes"):
            open_object(f"{path}!/a.so")


def test_encrypted_and_unknown_methods_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    for method, fault in ((zipfile.ZIP_LZMA, "compressed by method 14"), (zipfile.ZIP_BZIP2, "by method 12")):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("a.so", library("aa" * 20))
        with pytest.raises(Unsupported, match=fault):
            open_object(f"{path}!/a.so")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(Unsupported, match="is encrypted"):
        open_object(f"{path}!/a.so")


def test_every_truncation_is_an_error(apk: Path) -> None:
    data = apk.read_bytes()
    for size in range(0, len(data), 41):
        apk.write_bytes(data[:size])
        with pytest.raises((ObjectError, OSError)):
            open_object(f"{apk}!/{ARM}")
    end = data.index(ARM.encode())
    for offset in range(end - 30, end):  # the local header
        damaged = bytearray(data)
        damaged[offset] ^= 0xFF
        apk.write_bytes(damaged)
        try:
            open_object(f"{apk}!/{ARM}").close()
        except (ObjectError, OSError):
            continue


def test_the_entries_of_a_zip_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "base.apk"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(9):
            archive.writestr(f"lib/{number}.so", Path(compiled()).read_bytes())
    calls: list[int] = []
    opened = zipped.opened

    def counted(descriptor: int) -> AbstractContextManager[zipfile.ZipFile]:
        calls.append(descriptor)
        return opened(descriptor)

    monkeypatch.setattr(zipped, "opened", counted)
    for number in range(9):
        zipped.read_entry(str(path), f"lib/{number}.so")
    assert len(calls) == 1
    path.write_bytes(b"PK\3\4")
    with pytest.raises(ElfError, match="not a zip file"):
        zipped.read_entry(str(path), "lib/1.so")


@pytest.mark.parametrize("content", [b"text", b""])
def test_a_given_zip_file_may_have_libraries_that_are_not_object_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "base.apk"
    with zipfile.ZipFile(path, "w", DEFLATED) as archive:
        archive.writestr("lib/other.so", content)
        archive.writestr("lib/program.so", Path(compiled()).read_bytes())
    with Locator(binaries=str(path)) as locator, whence.open(compiled()) as binary:
        assert locator.find(build_id=binary.build_id).path == f"{path}!/lib/program.so"
    with pytest.raises(ElfError, match=r"other\.so: (not an ELF file|the file is empty)"):
        Locator(binaries=f"{path}!/lib/other.so")
