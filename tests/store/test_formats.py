"""Files of other formats than ELF in a store: by UUID, debug id and build-id, and files that only name code."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.forge import breakpad, gsym, macho
from tests.forge.dwarf import Debug, Die, function
from tests.forge.elf import Section, Segment, build_id_note, forge
from tests.forge.pe import CODE
from tests.forge.pe import Section as PeSection
from tests.forge.pe import Symbol as PeSymbol
from tests.forge.pe import forge as forge_pe
from tests.helpers.formats import GUID, UUID, WASM_ID, program, wasm, windows
from whence.cli import main
from whence.store import Store
from whence.store.archiving import Supplements
from whence.store.verify import verify


@pytest.mark.parametrize(
    ("data", "build_id", "debug_id", "function"),
    [
        (program(), UUID, f"{UUID.upper()}0", "main"),
        (windows(), GUID, f"{GUID.upper()}1b", "main"),
        (wasm(), WASM_ID, f"{WASM_ID.upper()}0", "second"),
        (gsym.example().pack(), gsym.IDENTITY.hex(), "0403020106050807090A0B0C0D0E0F100", "main"),
        (breakpad.example(), breakpad.BUILD_ID, breakpad.DEBUG_ID, "plain"),
    ],
    ids=["Mach-O", "PE", "WebAssembly", "GSYM", "Breakpad"],
)
def test_a_file_is_kept_and_archived_under_its_id(
    tmp_path: Path, data: bytes, build_id: str, debug_id: str, function: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with Store(tmp_path / "store") as store:
        outcomes = store.add(path)
        assert [outcome.outcome for outcome in outcomes] == ["added"]
        assert {outcome.build_id for outcome in outcomes} == {build_id}
        assert store.build_id_of(debug_id) == build_id
        with store.open(build_id) as binary:
            assert binary.find(function)
        assert not list(verify(store))
        assert [outcome.outcome for outcome in store.add(path)] == ["same"]


def test_a_dsym_names_its_program(tmp_path: Path) -> None:
    debug = Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], [function("main", 0x100001000, 0x80)]))
    inside = tmp_path / "app.dSYM" / "Contents" / "Resources" / "DWARF"
    inside.mkdir(parents=True)
    (inside / "app").write_bytes(macho.forge(macho.dwarf_sections(debug.contents()), type=10))
    (inside.parents[1] / "Info.plist").write_text("<plist/>")
    (tmp_path / "app").write_bytes(program())
    with Store(tmp_path / "store") as store:
        outcomes = store.add(tmp_path / "app", tmp_path / "app.dSYM")
        assert {(outcome.kind, outcome.outcome) for outcome in outcomes} == {
            ("executable", "added"),
            ("debuginfo", "added"),
        }
        with store.open(UUID) as binary:
            assert binary.lookup(0x100001004)[0].source == "dwarf"
            assert binary.lookup(0x100001084)[0].source == "symtab"


def test_each_architecture_of_a_fat_file_is_a_file(tmp_path: Path) -> None:
    other = bytes(range(0x40, 0x50))
    path = tmp_path / "fat"
    path.write_bytes(macho.fat((macho.X86_64, program(macho.X86_64, other)), (macho.ARM64, program())))
    with Store(tmp_path / "store", also=("sym",)) as store:
        outcomes = store.add(path)
        assert {(outcome.build_id, outcome.origin.rpartition(":")[2]) for outcome in outcomes} == {
            (other.hex(), "x86_64"),
            (UUID, "arm64"),
        }
        with store.file(UUID, "sym") as symbols:
            assert symbols is not None
            assert symbols.read_text().startswith(f"MODULE mac arm64 {UUID.upper()}0 fat\n")


def test_members_of_packages_may_have_any_format(tmp_path: Path) -> None:
    path = tmp_path / "symbols.zip"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr(f"app/{breakpad.DEBUG_ID}/app.sym", breakpad.example())
        package.writestr("lib/app.dll", windows())
        package.writestr("README", "text")
    with Store(tmp_path / "store") as store:
        assert {outcome.build_id for outcome in store.add(path)} == {breakpad.BUILD_ID, GUID}


def test_debug_info_is_better_than_a_symbol_file(tmp_path: Path) -> None:
    debug = Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], [function("main", 0x1000, 0x80)]))
    text = Section(".text", bytes(0x100), flags=6, vaddr=0x1000, align=16)
    sections = [Section(f".debug_{name}", data) for name, data in debug.contents().items()]
    note = build_id_note(breakpad.BUILD_ID, "little")
    (tmp_path / "app").write_bytes(forge([text, note, *sections], [Segment(of=".text")]))
    (tmp_path / "app.sym").write_bytes(breakpad.example())
    with Store(tmp_path / "store") as store:
        assert [outcome.outcome for outcome in store.add(tmp_path / "app.sym")] == ["added"]
        outcomes = store.add(tmp_path / "app")
        assert {outcome.outcome for outcome in outcomes} == {"better", "added"}
        assert [outcome.outcome for outcome in store.add(tmp_path / "app.sym")] == ["poorer"]


def test_files_without_an_id_are_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.exe").write_bytes(forge_pe([PeSection(".text", bytes(64), CODE)], symbols=[PeSymbol("f", 0, 1)]))
    with Store(tmp_path / "store") as store:
        (outcome,) = store.add(tmp_path / "a.exe")
        assert (outcome.outcome, outcome.why) == (
            "refused",
            "the file has no build-id (--by-hash keeps it under its SHA-256)",
        )
        assert {outcome.outcome for outcome in store.add(tmp_path / "a.exe", by_hash=True)} == {"added"}


def test_paths_in_a_file_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "secret.o"
    path.write_bytes(program())
    from whence.objects.macho import MachoFile

    mapped = macho.forge(
        [macho.text()], symbols=macho.debug_map(str(path), ("_main", 0x100001000, 0x80)), cpu=macho.ARM64
    )
    with MachoFile.from_bytes(mapped) as file:
        (entry,) = file.linked_objects
        search = Supplements().linked_object(file, entry)
        assert search.elf is None
        assert search.tried[0].outcome.code == "absent"


@pytest.mark.parametrize("word", [UUID, "10111213-1415-1617-1819-1A1B1C1D1E1F", f"{UUID.upper()}0", UUID.upper()])
def test_show_export_and_rm_take_every_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    (tmp_path / "app").write_bytes(program())
    location = str(tmp_path / "store")
    assert main(["store", "add", location, str(tmp_path / "app"), "--json"]) == 0
    capsys.readouterr()
    assert main(["store", "show", location, word, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["build_id"] == UUID
    assert main(["store", "show", location, UUID[:8].upper(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["build_id"] == UUID
    assert main(["store", "show", location, UUID[1:9], UUID[:5]]) == 1
    assert capsys.readouterr().err.count("not in the store") == 2
    assert main(["store", "export", location, word, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "buildid" / UUID / "executable").read_bytes() == program()
    assert main(["store", "rm", location, word]) == 0
