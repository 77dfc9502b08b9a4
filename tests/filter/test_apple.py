"""Crash reports of macOS and iOS: text (.crash) and JSON (.ips)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge.macho import ARM64, UUID, X86_64, Symbol, fat, forge, text
from tests.helpers.macho import dsym_of, program, put_dsym
from whence.filter import LogFilter, Places
from whence.filter.apple import Image, images_of
from whence.locator.locator import Locator
from whence.objects.ids import dashed

LOADED = 0x102A4C000  # where the program is in the reports
FIRST, SECOND = 8, 0x10  # in `inner`, and after it, a return address in `inner`
OTHER_UUID = "0C2A1B4D-0000-3E5F-8A9B-001122334455"
HEAD = """\
Incident Identifier: 7A9B7C5D-0F5C-4D5A-9D59-6DA1D1E0C7E1
Process:             App [1234]
Exception Type:  EXC_BAD_ACCESS (SIGSEGV)
Triggered by Thread:  0

Thread 0 Crashed:
"""
IMAGES = f"""
Thread 0 crashed with ARM Thread State (64-bit):
    x0: 0x0000000000000001   x1: 0x0000000000000002

Binary Images:
{{first}}
       0x19e2a0000 -        0x19e2d7fff libkernel.dylib (*) <{OTHER_UUID.lower()}> /usr/lib/system/libkernel.dylib

EOF
"""
MAC = f"       {LOADED:#x} -        {LOADED + 0x3FFF:#x} com.example.app (1.0) <{dashed(UUID.hex())}> /Users/USER/*/app"
IOS = f"{LOADED:#x} - {LOADED + 0x3FFF:#x} app arm64  <{UUID.hex()}> /var/containers/Bundle/App.app/app"


def frame(number: int, offset: int, rest: str = "", *, signed: int = 0) -> str:
    rest = rest or f"{LOADED:#x} + {offset}"
    return f"{number:<3} app                           \t0x{LOADED + offset | signed:016x} {rest}"


def filtered(report: str, *binaries: Path | str, debug_dirs: list[Path] | None = None) -> str:
    with Places(Locator(binaries=binaries, debug_dirs=debug_dirs)) as places:
        log = LogFilter(places)
        return (log.feed(report.encode()) + log.finish()).decode()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    data = dsym_of()
    path.write_bytes(data)
    return path


def test_images_are_read_from_lists_of_macos_and_ios() -> None:
    expected = Image(LOADED, 0x4000, "app", UUID.hex(), "/var/containers/Bundle/App.app/app")
    assert images_of(IOS.encode()) == [expected]
    assert images_of(MAC.encode()) == [expected._replace(name="com.example.app", path="/Users/USER/*/app")]
    both = IMAGES.format(first=MAC).encode()
    assert [image.uuid for image in images_of(both)] == [UUID.hex(), OTHER_UUID.replace("-", "").lower()]
    assert images_of(b"0x0 - 0xffffffffffffffff ??? (*) <00000000-0000-0000-0000-000000000000> ???") == []


@pytest.mark.parametrize("images", [MAC, IOS])
def test_frames_of_a_text_report_get_lines_and_inlined_calls(app: Path, images: str) -> None:
    report = HEAD + frame(0, FIRST) + "\n" + frame(1, SECOND) + "\n" + IMAGES.format(first=images)
    named = filtered(report, app)
    lines = named.splitlines()[6:10]
    address, second = f"0x{LOADED + FIRST:016x}", f"0x{LOADED + SECOND:016x}"
    assert [line.split("\t")[1] for line in lines] == [
        f"{address} inner (a.c:3)", f"{address} outer (a.c:7)",
        f"{second} inner (a.c:3)", f"{second} outer (a.c:7)",
    ]  # fmt: skip
    assert filtered(named, app) == named
    assert named.replace(named[len(HEAD) :], "") == HEAD
    assert named.endswith(IMAGES.format(first=images))


def test_images_are_found_by_uuid_in_a_debug_folder(tmp_path: Path) -> None:
    both = fat((ARM64, dsym_of(b"a" * 16, ARM64)), (X86_64, dsym_of()))
    put_dsym(tmp_path / "archives" / "2026", "renamed", both)
    report = HEAD + frame(0, FIRST) + "\n" + IMAGES.format(first=MAC)
    assert filtered(report) == report
    assert "outer (a.c:7)" in filtered(report, debug_dirs=[tmp_path / "archives"])
    assert "outer (a.c:7)" in filtered(report, tmp_path / "archives")


def test_a_file_of_another_uuid_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(dsym_of(b"z" * 16))
    report = HEAD + frame(0, FIRST) + "\n" + IMAGES.format(first=MAC)
    with Places(Locator(binaries=path)) as places:
        log = LogFilter(places)
        assert (log.feed(report.encode()) + log.finish()).decode() == report
        assert [reason.word for reason, _ in places.reasons] == ["build-id-mismatch"]


def test_functions_without_lines_get_lines_and_signed_pointers_are_understood(app: Path) -> None:
    signed = frame(1, SECOND, "outer + 8", signed=0x8012 << 48)
    named = filtered(HEAD + frame(0, FIRST, "outer + 8") + "\n" + signed + "\n" + IMAGES.format(first=IOS), app)
    assert named.count("outer (a.c:7)") == 2


def ips(*frames: dict[str, object], pretty: bool = True) -> str:
    images = [
        {"source": "P", "arch": "arm64", "base": LOADED, "size": 16384, "uuid": dashed(UUID.hex()),
         "path": "/Users/USER/*/app", "name": "app"},
        {"source": "P", "arch": "arm64e", "base": 0x19E2A0000, "size": 229376, "uuid": OTHER_UUID.lower(),
         "path": "/usr/lib/system/libkernel.dylib", "name": "libkernel.dylib"},
        {"source": "A", "base": 0, "size": 0, "uuid": "00000000-0000-0000-0000-000000000000"},
    ]  # fmt: skip
    body = {"pid": 12, "threads": [{"id": 1, "frames": list(frames)}], "usedImages": images, "note": 'a {"b": "c"} "'}
    head = {"app_name": "app", "bug_type": "309", "incident_id": "x"}
    text = json.dumps(body, indent=2 if pretty else None)
    return json.dumps(head, separators=(",", ":")) + "\n" + text + "\n"


@pytest.mark.parametrize("pretty", [True, False])
def test_frames_of_a_report_in_json_get_files_and_inlined_frames(app: Path, pretty: bool) -> None:
    frames: list[dict[str, object]] = [
        {"imageOffset": FIRST, "imageIndex": 0},
        {"imageOffset": SECOND, "symbol": "outer", "symbolLocation": 8, "imageIndex": 0},
        {"imageOffset": 4096, "symbol": "__pthread_kill", "symbolLocation": 8, "imageIndex": 1},
        {"imageOffset": 4096, "imageIndex": 2},
        {"imageOffset": 4096, "imageIndex": 9},
    ]
    report = ips(*frames, pretty=pretty)
    named = filtered(report, app)
    head, _, body = named.partition("\n")
    assert head == report.partition("\n")[0]
    got = json.loads(body)["threads"][0]["frames"]
    assert got == [
        frames[0] | {"inline": True, "symbol": "inner", "sourceFile": "a.c", "sourceLine": 3},
        frames[0] | {"symbol": "outer", "sourceFile": "a.c", "sourceLine": 7},
        {"imageOffset": SECOND, "imageIndex": 0, "inline": True, "symbol": "inner", "sourceFile": "a.c",
         "sourceLine": 3},
        frames[1] | {"sourceFile": "a.c", "sourceLine": 7},
        *frames[2:],
    ]  # fmt: skip
    assert filtered(named, app) == named
    given = json.loads(report.partition("\n")[2])
    given["threads"][0]["frames"] = got
    assert json.loads(body) == given


def test_two_reports_and_the_text_after_them_are_named_one_by_one(app: Path) -> None:
    report = ips({"imageOffset": FIRST, "imageIndex": 0})
    text_report = HEAD + frame(0, FIRST) + "\n" + IMAGES.format(first=MAC)
    named = filtered(report + report + text_report + "end\n", app)
    assert named.count('"sourceFile"') == 4
    assert named.count("outer (a.c:7)") == 1
    assert named.endswith("end\n")


@pytest.mark.parametrize("body", ["", "{", "[]", '{"usedImages": 3}', '{"usedImages": [1]}', "{" * 100_000, '{"a": 1}'])
def test_malformed_reports_are_copied(app: Path, body: str) -> None:
    report = '{"app_name":"a","bug_type":"309"}\n' + body + "\n"
    assert filtered(report, app) == report
    cut = HEAD + frame(0, FIRST) + "\nBinary Images:\n"
    assert filtered(cut + "none\n").endswith("none\n")


def test_a_report_of_a_program_with_a_debug_map_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "app.c").write_text("__attribute__((noinline)) int twice(int x) { return x + x; }\n"
                                    "int main(int n, char **v) { return twice(n) - 1; }\n")  # fmt: skip
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos", "-g", "-O0"]
    subprocess.run([*zig, "-c", "app.c", "-o", "app.o"], cwd=tmp_path, check=True)
    subprocess.run([*zig, "app.o", "-o", "app"], cwd=tmp_path, check=True)
    from whence.objects.opening import open_object

    with open_object(tmp_path / "app") as file:
        uuid = dashed(file.build_id)
        symbols = file.symbols()
        index = symbols.find("main")
        assert index is not None
        offset = symbols.value[index] - file.image_base + 8
    image = f"{LOADED:#x} - {LOADED + 0x3FFF:#x} app arm64  <{uuid}> /private/app"
    report = HEAD + frame(0, offset) + "\n" + IMAGES.format(first=image)
    assert f"main ({tmp_path}/app.c:2)" in filtered(report, tmp_path / "app")


def test_a_line_with_its_base_is_named_without_a_list_of_images(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(program())
    assert "outer (" in filtered(frame(3, FIRST) + "\n", path)
    library = tmp_path / "libapp.dylib"
    library.write_bytes(forge([text(0x1000)], symbols=[Symbol("_work", 0x1000)], type=6))
    line = frame(3, 8).replace(" app ", " libapp.dylib ")
    assert "work (" in filtered(line + "\n", library)
