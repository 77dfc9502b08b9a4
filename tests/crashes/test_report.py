"""Crash reports: what they have of real and forged cores, what they keep out, and their three forms."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.chromium import DESK, needs_chromium, run
from tests.forge.core import Mapped, core, status
from tests.forge.minidump import everything
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence.cli.main import main
from whence.crashes import CrashReport, ReportOptions, crash_report, report_page, report_text
from whence.crashes.fault import FaultKind
from whence.crashes.text import hex_lines
from whence.listing import SourceOptions
from whence.symbolize import Core, Symbolizer

SECRET = "d-correct-horse"  # an argument, which is on the stack, too
OVERFLOW = """
#include <string.h>
static volatile int sink;
__attribute__((noinline)) static int grow(int n) {
    char place[65536];
    memset(place, n, sizeof place);
    sink = place[n];
    return grow(n + 1) + place[0];
}
int main(void) { return grow(0); }
"""


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = compiled(tmp_path_factory.mktemp("crash"), "-pthread", source=PROGRAM)
    return core_of(program, SECRET)


def report_of(path: Path, options: ReportOptions | None = None) -> CrashReport:
    with Symbolizer() as symbolizer:
        return crash_report(Core(path), symbolizer, options)


def written(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = main(["core", *map(str, words), "--report"])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_report_tells_signal_fault_and_signature(crash: Path) -> None:
    report = report_of(crash)
    assert report.signal is not None
    assert (report.signal.name, report.signal.address) == ("SIGSEGV", 8)
    assert report.fault is not None
    assert (report.fault.kind, report.fault.address) == (FaultKind.NULL, 8)
    assert report.signature.functions == ("boom", "inlined", "deep", "mode", "main")
    assert report.signature.program == "program"


def test_threads_with_equal_stacks_are_one_group(crash: Path) -> None:
    groups = report_of(crash).groups
    assert [len(group.tids) for group in groups] == [1, 2]
    assert [entry.name for entry in groups[0].functions[:3]] == ["boom", "inlined", "deep"]
    assert "wait_here" in [entry.name for entry in groups[1].functions]
    assert len({tid for group in groups for tid in group.tids}) == 3


def test_the_code_has_the_instruction_of_the_crash(crash: Path) -> None:
    pytest.importorskip("capstone")
    code = report_of(crash).code
    assert code.function == "boom"
    (current,) = [each for each in code.instructions if each.vaddr <= code.vaddr < each.end]
    assert current.mnemonic == "mov"
    assert all(a.end == b.vaddr for a, b in zip(code.instructions, code.instructions[1:], strict=False))


def test_without_capstone_the_report_says_what_is_missing(crash: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "capstone", None)
    code = report_of(crash).code
    assert not code.instructions
    assert "pip install 'whence[asm]'" in code.note
    assert "not listed: disassembly needs capstone" in report_text(report_of(crash))


def test_modules_have_build_ids_and_what_is_missing(crash: Path, tmp_path: Path) -> None:
    modules = {Path(module.path).name: module for module in report_of(crash).modules}
    assert re.fullmatch("[0-9a-f]{40}", modules["program"].build_id)
    assert (modules["program"].frames > 40, modules["program"].missing) == (True, "")
    with Symbolizer(sysroot=tmp_path) as symbolizer:  # where no file is
        report = crash_report(Core(crash, sysroot=tmp_path), symbolizer)
    (program,) = [module for module in report.modules if module.path.endswith("/program")]
    assert program.missing == "the mapped file is not on this machine"
    assert "--binary" in program.remedy


def test_nothing_secret_is_in_a_report_by_default(crash: Path) -> None:
    report = report_of(crash)
    for text in (report_text(report), report_page(report), json.dumps(report.as_json())):
        assert SECRET not in text
        assert SECRET.encode().hex() not in text
        assert "has no memory, values of variables, environment or command line" in text


def test_memory_and_command_line_are_added_on_request_and_announced(
    crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = written(capsys, crash, "--include-memory", "--json")
    report = json.loads(out)
    assert report["arguments"].endswith(SECRET)
    stack = report["memory"][0]
    assert (stack["title"], len(stack["bytes"])) == ("the stack", 1024)
    assert stack["address"] == report["registers"]["rsp"]
    assert re.search(r"the report has [\d,]+ bytes of memory .*, the command line: read it before", err)


def test_values_of_variables_are_added_on_request(crash: Path) -> None:
    assert all(entry.variables is None for group in report_of(crash).groups for entry in group.functions)
    report = report_of(crash, ReportOptions(variables=True))
    argc = [v for entry in report.groups[0].functions for v in entry.variables or () if v.name == "argc"]
    assert argc[0].value.text == "2"
    assert "argc: int = 2" in report_text(report)
    assert "argc: int = 2" in report_page(report)


def test_sources_are_read_only_from_folders_that_are_given(crash: Path) -> None:
    assert all(entry.source is None for group in report_of(crash).groups for entry in group.functions)
    folder = str(crash.parent.parent)  # with program.c, whose path the debug info has, too
    report = report_of(crash, ReportOptions(sources=SourceOptions(folders=(folder,))))
    excerpt = report.groups[0].functions[0].source
    assert excerpt is not None
    assert "boom(volatile int *p)" in excerpt.lines[2]
    assert "boom(volatile int *p)" in report_page(report)


def test_the_ending_of_the_file_decides_the_form(
    crash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ending, start in (("html", "<!doctype html>"), ("json", "{"), ("txt", "program ")):
        out = tmp_path / f"report.{ending}"
        assert written(capsys, crash, "-o", out)[0] == 0
        assert out.read_text().startswith(start)
    assert written(capsys, crash, "-o", tmp_path / "report.pdf")[0] == 2
    assert not (tmp_path / "report.pdf").exists()
    assert written(capsys, crash, "--maps")[2].startswith("whence: --report cannot be used with --maps")
    assert main(["core", str(crash), "--include-memory"]) == 2


def test_an_overflow_of_the_stack_is_recognized(tmp_path: Path) -> None:
    report = report_of(core_of(compiled(tmp_path, "-O0", source=OVERFLOW)))
    assert report.fault is not None
    assert report.fault.kind is FaultKind.STACK_OVERFLOW
    assert report.fault.text.endswith("probably a stack overflow")
    assert report.signature.functions[-2:] == ("grow", "main")
    assert len(report.signature.functions) <= 3  # memset is the runtime's


def test_names_from_the_dump_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "core"
    name = "/opt/<script>alert(1)</script>\x1b[2J\udca5"
    path.write_bytes(core([Mapped(0x10000, 0x11000, name)], [status(78, 0x10010)]))
    report = report_of(path)
    assert [module.path for module in report.modules] == [name]
    page = report_page(report)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "\x1b" not in page + report_text(report)
    json.dumps(report.as_json())


def test_a_core_without_threads_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(core([Mapped(0x10000, 0x11000, "/opt/app")]))
    report = report_of(path)
    assert (report.groups, report.signal, report.fault) == ((), None, None)
    assert "The dump has no threads." in report_page(report)
    assert report_text(report)
    assert report.as_json()["threads"] == []


def test_minidumps_have_reports(tmp_path: Path, crash: Path) -> None:
    path = tmp_path / "crash.dmp"
    path.write_bytes(everything())
    report = report_of(path)
    assert report.kind == "minidump"
    assert report.groups
    assert [module.path for module in report.modules]
    Core(crash).save_minidump(tmp_path / "own.dmp")
    own, full = report_of(tmp_path / "own.dmp"), report_of(crash)
    assert own.signature == full.signature
    assert own.fault == full.fault
    assert [group.tids for group in own.groups] == [group.tids for group in full.groups]


@pytest.mark.parametrize("machine", ["aarch64", "arm", "i386", "riscv64", "s390x", "ppc64le"])
def test_cores_of_every_machine_have_reports(machine: str) -> None:
    folder = Path(__file__).parent.parent / "data" / "cores"
    core = Core(folder / f"{machine}.core", programs=[str(folder / machine)])
    with Symbolizer(binaries=[folder / machine]) as symbolizer:
        report = crash_report(core, symbolizer)
    assert report.groups[0].functions
    assert report_text(report)
    assert report_page(report)


def test_bytes_are_printed_with_addresses_and_text() -> None:
    (line,) = hex_lines(b"abc\0", 0x10)
    assert line.split() == ["0x10", "61", "62", "63", "00", "abc."]


@needs_chromium
def test_keys_move_between_stacks_and_expand_all(crash: Path, tmp_path: Path) -> None:
    script = """
      const press = (key) => document.dispatchEvent(new page.KeyboardEvent("keydown", {key, bubbles: true}));
      const open = () => [...document.querySelectorAll("details")].map((one) => one.open);
      out.first = open();
      press("e"); out.all = open();
      press("c"); out.none = open();
      press("j"); press("j"); out.focused = document.activeElement.textContent;
    """
    seen = run(report_page(report_of(crash)), script, tmp_path, DESK)
    assert seen.console == []
    assert (seen.out["first"], seen.out["all"], seen.out["none"]) == ([True, False], [True, True], [False, False])
    assert seen.out["focused"].startswith("2 threads with this stack")
