"""Breakpad symbol files: records read and written, unwind rules, and damage."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import whence
from tests.exchange.conftest import Runner
from tests.forge.breakpad import BUILD_ID, DEBUG_ID, TEXT, example
from tests.forge.elf import Section, Segment, build_id_note, forge
from tests.forge.mutations import mutated
from tests.forge.pe import CODE, PAGE, codeview
from tests.forge.pe import Section as PeSection
from tests.forge.pe import Symbol as PeSymbol
from tests.forge.pe import forge as forge_pe
from tests.forge.wasm import custom, module
from tests.helpers.formats import WASM_ID, wasm
from tests.helpers.programs import compiled
from whence import lidia
from whence._base.errors import BreakpadError, WhenceError
from whence._base.options import ReadOptions
from whence.cli.main import main
from whence.conversion import convert
from whence.exchange.breakpad import write_breakpad
from whence.exchange.stack_cfi import StackRules, changed
from whence.objects.breakpad import BreakpadFile
from whence.objects.ids import DebugId
from whence.objects.opening import open_object
from whence.objects.pe import layout
from whence.objects.wasm import WasmFile
from whence.producers import Producers
from whence.ranges.flatten import flatten
from whence.unwind.cfi import Cfa, How, Rule
from whence.unwind.constants import Operation


def chain(binary: whence.Binary, vaddr: int) -> list[tuple[str, str, int]]:
    return [(frame.function, frame.file, frame.line) for frame in binary.lookup(vaddr)]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_records_are_read(ends: str) -> None:
    with whence.open(TEXT.replace("\n", ends).encode()) as binary:
        assert binary.build_id == BUILD_ID
        main = "main(int, char**)"
        assert chain(binary, 0x1000) == [(main, "/src/main.c", 10)]
        assert chain(binary, 0x1010) == [
            ("inner", "inner.h", 111),
            ("outer<int, char>", "inner.h", 71),
            (main, "/src/main.c", 12),
        ]
        assert chain(binary, 0x1015) == [("outer<int, char>", "inner.h", 111), (main, "/src/main.c", 12)]
        assert chain(binary, 0x1017)[0][0] == "inner"
        assert chain(binary, 0x1028) == [(main, "", 0)]  # no row describes it
        assert chain(binary, 0x1037) == [(main, "far.h", 9)]
        assert chain(binary, 0x1040) == [("plain", "inner.h", 0)]
        assert chain(binary, 0x1048) == []
        assert chain(binary, 0x105F) == [("public one", "", 0)]  # up to the next function
        assert chain(binary, 0x1060) == [("last", "", 0)]
        assert chain(binary, 0x1FFF) == [("end", "", 0)]  # up to the end of its page
        assert chain(binary, 0x2000) == []
        assert binary.lookup(0x1000)[0].source == "breakpad"
        assert not binary.problems


def test_the_last_line_needs_no_newline() -> None:
    with whence.open(b"MODULE Linux x86_64 0 a\nFUNC 10 10 0 f") as binary:
        assert chain(binary, 0x1F) == [("f", "", 0)]


@pytest.mark.parametrize(
    ("head", "build_id"),
    [
        (f"MODULE Linux arm64 {DEBUG_ID} a.so", BUILD_ID[:32]),
        (f"MODULE Linux arm64 {DEBUG_ID} a.so\nINFO CODE_ID {BUILD_ID}", BUILD_ID),
        ("MODULE mac arm64 5D3DAC6E1C1DDC8F4C4C44205044422E0 a", "5d3dac6e1c1ddc8f4c4c44205044422e"),
        (
            "MODULE windows x86 5D3DAC6E1C1DDC8F4C4C44205044422E1 a.pdb\nINFO CODE_ID 6B04A9E25000 a.exe",
            "5d3dac6e1c1ddc8f4c4c44205044422e",
        ),
        ("MODULE Linux x86_64 000000000000000000000000000000000 a", ""),
    ],
)
def test_the_build_id_is_that_of_the_module(head: str, build_id: str) -> None:
    with BreakpadFile.from_bytes(f"{head}\nFUNC 10 10 0 f\n".encode()) as file:
        assert file.build_id == build_id


def rewritten(data: bytes) -> bytes:
    out = io.BytesIO()
    with BreakpadFile.from_bytes(data) as file, Producers(file) as producers:
        table = producers.ranges()
        write_breakpad(flatten(table), table.strings, out, file.module)
    return out.getvalue()


def test_what_is_written_is_read_again() -> None:
    first = rewritten(example())
    assert first == rewritten(first)
    with whence.open(example()) as old, whence.open(first) as new:
        assert new.build_id == old.build_id
        for vaddr in range(0xFFF, 0x1064):
            assert chain(old, vaddr) == chain(new, vaddr)


def test_records_are_written_in_the_customary_order_and_form(tmp_path: Path) -> None:
    builder = lidia.Builder(build_id=BUILD_ID, machine="x86-64")
    builder.add(vaddr=0x401000, length=0x20, function="f\nFUNC 0 1 0 evil", file="a.c", line_table=[(0, 3), (8, 4)])
    builder.add(vaddr=0x401008, length=8, function="g", depth=1, file="b\rc.c", line_table=[(0, 9)], call_line=4)
    builder.add(vaddr=0x401040, length=0x10, source="symtab", function="_ZN1a1bEv")
    archive, out = tmp_path / "app.lidia", tmp_path / "app.sym"
    builder.write(archive, extra=lidia.Extra(BUILD_ID, "x86-64", segments=((0x1000, 0x401000, 0x100),)))
    convert(archive, out)
    assert out.read_text() == (
        f"MODULE Linux x86_64 {DEBUG_ID} app\nINFO CODE_ID {BUILD_ID.upper()}\n"
        "FILE 0 ??\nFILE 1 a.c\nFILE 2 b c.c\nINLINE_ORIGIN 0 g\n"
        "FUNC 1000 20 0 f FUNC 0 1 0 evil\nINLINE 0 4 0 0 1008 8\n1000 8 3 1\n1008 8 9 2\n1010 10 4 1\n"
        "PUBLIC 1040 0 a::b()\n"
    )
    convert(archive, out, options=ReadOptions())
    assert "PUBLIC 1040 0 _ZN1a1bEv\n" in out.read_text()


def test_windows_modules_are_named_by_their_pdb(tmp_path: Path) -> None:
    record = codeview(2 * PAGE, PAGE + 0x200, b"C:\\b\\a.pdb", age=0x1B)
    sections = [PeSection(".text", bytes(0x180), CODE), PeSection(".buildid", record)]
    path, out = tmp_path / "a.exe", tmp_path / "a.sym"
    path.write_bytes(
        forge_pe(sections, symbols=[PeSymbol("main", 0x10, 1)], directories={layout.DEBUG: (2 * PAGE, 28)})
    )
    convert(path, out)
    head, code_id, *_, public = out.read_text().splitlines()
    assert head == "MODULE windows x86_64 232221202524272628292A2B2C2D2E2F1b a.pdb"
    assert code_id == "INFO CODE_ID 5F0000003000"
    assert public == "PUBLIC 1010 0 main"


# unwind rules

NAMES = {6: "$rbp", 7: "$rsp", 16: "$rip"}


def test_rules_are_postfix_expressions() -> None:
    rules = StackRules(NAMES, 64, "little")
    saved = {16: Rule(How.OFFSET, -8), 6: Rule(How.OFFSET, -16), 3: Rule(How.OFFSET, -24)}
    assert rules.rules(Cfa(7, 16), saved, 16) == {
        ".cfa": "$rsp 16 +",
        ".ra": ".cfa -8 + ^",
        "$rbp": ".cfa -16 + ^",
    }
    assert rules.rules(Cfa(7, 16), {16: Rule(How.UNDEFINED)}, 16) == {".cfa": "$rsp 16 +", ".ra": "0"}
    assert rules.rules(Cfa(9, 16), saved, 16) is None
    assert rules.rules(None, saved, 16) is None
    assert rules.value(6, Rule(How.VAL_OFFSET, 8)) == ".cfa 8 +"
    assert rules.value(6, Rule(How.REGISTER, 7)) == "$rsp"
    assert rules.value(6, Rule(How.SAME)) == "$rbp"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (bytes([Operation.BREG0 + 7, 0x78, Operation.DEREF]), "$rsp -8 + ^"),
        (bytes([Operation.BREG0 + 6, 0, Operation.LIT0 + 3, Operation.MUL]), "$rbp 0 + 3 *"),
        (bytes([Operation.BREG0 + 6, 0, Operation.PLUS_UCONST, 0x90, 1]), "$rbp 0 + 144 +"),
        (bytes([Operation.BREG0 + 6, 0, Operation.CONSTS, 0x7F, Operation.MINUS]), "$rbp 0 + -1 -"),
        (bytes([Operation.BREG0 + 6, 0, Operation.LIT0 + 15, Operation.AND]), None),
        (bytes([Operation.BREG0 + 9, 0]), None),
        (bytes([Operation.BREG0 + 6]), None),
        (b"", None),
        (b"\xff", None),
        (bytes([Operation.BREG0 + 6, 0] + [Operation.DEREF] * 100), None),
    ],
)
def test_simple_expressions_have_a_postfix_form(program: bytes, text: str | None) -> None:
    assert StackRules(NAMES, 64, "little").frame(Cfa(0, 0, program)) == text


def test_a_further_record_names_only_what_changes() -> None:
    before = {".cfa": "$rsp 8 +", ".ra": ".cfa -8 + ^", "$rbp": ".cfa -16 + ^"}
    assert changed(before, before | {".cfa": "$rsp 16 +"}) == ".cfa: $rsp 16 +"
    assert changed(before, {name: before[name] for name in (".cfa", ".ra")}) == "$rbp: $rbp"


def rows_of(text: str) -> dict[int, dict[str, str]]:
    """The rules at each address with a record, all that apply there."""
    rows: dict[int, dict[str, str]] = {}
    rules: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(" ")
        if words[:3] == ["STACK", "CFI", "INIT"]:
            address, rest, rules = words[3], words[5:], {}
        elif words[:2] == ["STACK", "CFI"]:
            address, rest = words[2], words[3:]
        else:
            continue
        result = re.findall(r"(\S+): (.*?)(?= \S+: |$)", " ".join(rest))
        rules = rules | dict(result)
        rows[int(address, 16)] = rules
    return rows


def as_breakpad(register: str, value: str) -> str:
    if value == "u":
        return f"${register}"
    match = re.fullmatch(r"c([+-]\d+)", value)
    assert match is not None, value
    return f".cfa {int(match[1])} + ^"


def readelf_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of readelf, except those of CIEs, and of functions with expressions."""
    out = subprocess.run(["readelf", "-wF", "-W", str(path)], capture_output=True, text=True, check=True).stdout
    for function in re.split(r"\n\n", out):
        head, *lines = function.splitlines() or [""]
        if " FDE" not in head or " exp " in function:
            continue
        columns = lines[0].split()[2:] if lines else []
        for line in lines[1:]:
            vaddr, frame, *values = line.split()
            register, offset = frame.split("+")
            saved = {f"${name}": as_breakpad(name, value) for name, value in zip(columns, values, strict=True)}
            saved[".ra"] = saved.pop("$ra")
            yield int(vaddr, 16), {".cfa": f"${register} {offset} +"} | saved


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
@pytest.mark.parametrize("program", ["compiled", "/bin/ls"])
def test_rows_are_those_of_readelf(program: str, tmp_path: Path) -> None:
    path = compiled() if program == "compiled" else Path(program)
    out = tmp_path / "program.sym"
    convert(path, out)
    ours = rows_of(out.read_text())
    rows = list(readelf_rows(path))
    for vaddr, rules in rows:
        before = max(start for start in ours if start <= vaddr)  # a row that changes nothing has no record
        expected = {name: rule for name, rule in rules.items() if rule not in (name, "$ra")}
        got = {name: rule for name, rule in ours[before].items() if rule not in (name, "0")}
        assert got == expected, hex(vaddr)
    assert len(rows) >= 3


def test_unwind_rules_are_kept_between_symbol_files(tmp_path: Path) -> None:
    source, out = tmp_path / "a.sym", tmp_path / "b.sym"
    source.write_bytes(example())
    convert(source, out)
    assert [line for line in out.read_text().splitlines() if line.startswith("STACK")] == TEXT.splitlines()[-3:]


# damage


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"MODULE \n", "the record has 0 fields"), (b"MODULE Linux x86_64\n", "the record has 2 fields")],
)
def test_a_malformed_module_record_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(BreakpadError, match=message):
        BreakpadFile.from_bytes(data)


@pytest.mark.parametrize(
    "record",
    [
        "FUNC",
        "FUNC 1 2",
        "FUNC 10000000000000000 1 0 f",
        "FUNC 1020 8 0",
        "FUNCTION 1 2 0 f",
        "1004 4 12",
        "1004 4 12 0 0",
        "1004 4 99999999999 0",
        "2000 4 1 0",
        "ffffffffffffffff ffffffffffffffff 1 0",
        "FILE x a.c",
        "FILE 1",
        "FILE 99999999999 a.c",
        "INLINE 0 1 0 0",
        "INLINE 0 1 0 0 1000",
        "INLINE 5 1 0 0 1000 4",
        "INLINE 0 1 0 0 2000 4",
        "INLINE_ORIGIN 1",
        "PUBLIC 1",
        "PUBLIC x 0 f",
        "nonsense",
        "\0",
        "FUNC 1000 1 0 " + "x" * (1 << 16),
    ],
)
def test_a_malformed_record_is_counted_and_left_out(record: str) -> None:
    text = f"MODULE Linux x86_64 {DEBUG_ID} a\nFILE 0 a.c\nFUNC 1000 8 0 f\n1000 4 7 0\n{record}\nFUNC 1010 4 0 g\n"
    with whence.open(text.encode()) as binary:
        assert chain(binary, 0x1001) == [("f", "a.c", 7)]
        assert chain(binary, 0x1011) == [("g", "", 0)]
        assert "1 malformed record" in binary.problems[0]


def test_numbers_of_files_do_not_decide_about_memory() -> None:
    text = "MODULE Linux x86_64 0 a\nFILE 4294967295 a.c\nFUNC 10 8 0 f\n10 8 5 4294967295\n12 1 5 4000000000\n"
    with whence.open(text.encode()) as binary:
        assert chain(binary, 0x11) == [("f", "", 0)]


@pytest.mark.parametrize("text", ["", "FILE 0 a.c\n"])
def test_a_file_without_functions_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "a.sym").write_text(f"MODULE Linux x86_64 0 a\n{text}")
    assert main(["symbols", str(tmp_path / "a.sym")]) == 1
    assert "no symbol table with functions" in capsys.readouterr().err


def test_deep_calls_are_cut() -> None:
    calls = "".join(f"INLINE {level} 1 0 0 10 8\n" for level in range(400))
    with whence.open(f"MODULE Linux x86_64 0 a\nINLINE_ORIGIN 0 g\nFUNC 10 8 0 f\n{calls}".encode()) as binary:
        assert 200 < len(binary.lookup(0x11)) <= 256


def test_every_truncation_is_an_error_or_an_answer() -> None:
    data = example()
    for size in range(len(data)):
        with suppress(WhenceError), whence.open(data[:size]) as binary:
            binary.table()


def test_mutations_are_errors_or_answers() -> None:
    dice = random.Random(36)
    for _ in range(1500):
        with suppress(WhenceError):
            rewritten(mutated(example(), dice))


# commands and other readers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.sym"
    path.write_bytes(example())
    return path


def test_commands_read_it(run: Runner, file: Path, tmp_path: Path) -> None:
    assert "outer" in run("addr", file, "0x1010").stdout
    listed = run("symbols", "--json", file).stdout.splitlines()
    assert json.loads(listed[0])["name"] == "main(int, char**)"
    assert len(listed) == 5
    assert "+ Breakpad" in run("explain", file, "0x1010").stdout
    assert BUILD_ID in run("build-id", file).stdout
    done = run("convert", file, "-o", tmp_path / "app.gsym")
    assert done.returncode == 0, done.stderr
    with whence.open(tmp_path / "app.gsym") as binary:
        assert chain(binary, 0x1010)[1][0] == "outer<int, char>"


def test_addresses_of_a_program_are_relative_to_its_start(run: Runner, file: Path, tmp_path: Path) -> None:
    program = tmp_path / "app"
    text = Section(".text", bytes(0x66), flags=6, vaddr=0x401000, align=16)
    program.write_bytes(
        forge(
            [text, build_id_note(BUILD_ID, "little")],
            [Segment(flags=4, file_offset=0, vaddr=0x400000, file_size=64, memory_size=64), Segment(of=".text")],
        )
    )
    done = run("addr", program, "0x401010", "--binary", file)
    assert "outer" in done.stdout, done.stderr


def test_addresses_of_webassembly_are_offsets_in_the_file(run: Runner, tmp_path: Path) -> None:
    program, out = tmp_path / "a.wasm", tmp_path / "a.sym"
    program.write_bytes(wasm())
    convert(program, out)
    with open_object(program) as file:
        assert isinstance(file, WasmFile)
        start = file.function_starts[1]
        with whence.open(out) as symbols, whence.open(program) as binary:
            assert symbols.build_id == binary.build_id == WASM_ID
            assert chain(symbols, start + file.code_offset) == chain(binary, start) == [("second", "", 0)]
    stripped = tmp_path / "stripped.wasm"
    stripped.write_bytes(module(custom("build_id", b"\x10" + bytes.fromhex(WASM_ID))))
    done = run("addr", stripped, f"{start:#x}", "--binary", out)
    assert done.stdout.startswith("second\n"), done.stderr


def test_names_without_demangling(run: Runner, tmp_path: Path) -> None:
    archive = tmp_path / "a.lidia"
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=8, function="_ZN1a1bEv", file="a.c", line_table=[(0, 1)])
    builder.write(archive)
    run("convert", archive, "-o", tmp_path / "a.sym", "--no-demangle")
    assert " 0 _ZN1a1bEv\n" in (tmp_path / "a.sym").read_text()


def test_output_does_not_depend_on_threads(tmp_path: Path) -> None:
    outputs = set()
    for index in range(10):
        out = tmp_path / f"{index}.sym"
        convert(compiled(), out, options=ReadOptions(jobs=1 + index % 3))
        outputs.add(out.read_bytes())
    assert len(outputs) == 1


def test_symbolic_names_each_address_alike(tmp_path: Path) -> None:
    symbolic = pytest.importorskip("symbolic")
    program, out = compiled(), tmp_path / "program.sym"
    convert(program, out)
    opened = next(symbolic.Archive.open(str(out)).iter_objects())
    with whence.open(program) as binary, whence.open(out) as ours:
        assert opened.code_id == binary.build_id
        assert opened.debug_id == DebugId.of_build_id(binary.build_id).sentry
        cache = opened.make_symcache()
        for entry in binary.functions():
            for vaddr in range(entry.vaddr, entry.end):
                theirs = [(each.symbol, each.full_path or "", each.line) for each in cache.lookup(vaddr)]
                assert theirs == chain(ours, vaddr) == chain(binary, vaddr)
