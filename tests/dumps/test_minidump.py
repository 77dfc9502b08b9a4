"""Minidumps: streams, threads, modules and memory; forged in both byte orders, and written by LLDB."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest

from tests.forge import pdata
from tests.forge.minidump import (
    GUID,
    ID,
    MAPS,
    NUMBERS,
    Dump,
    Module,
    Thread,
    context,
    crashpad,
    elf_id,
    everything,
    misc,
    rsds,
)  # fmt: skip
from tests.forge.mutations import mutated
from tests.forge.pe import BASE
from tests.helpers.minidumps import exercised
from whence._base.errors import MinidumpError, WhenceError
from whence._base.window import ByteOrder
from whence.cli.main import main
from whence.dumps import minidump_layout as layout
from whence.dumps.contexts import FORMS
from whence.dumps.minidump import Minidump
from whence.dumps.minidump_process import minidump_dump, read_minidump
from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_X86_64
from whence.objects.pe import PeFile
from whence.symbolize import Core, Symbolizer
from whence.unwind import End
from whence.unwind.core import dump_stacks

MACHINES = [("x86", EM_386), ("amd64", EM_X86_64), ("arm", EM_ARM), ("arm64", EM_AARCH64), ("arm64-old", EM_AARCH64)]


def opened(dump: Dump) -> Minidump:
    return Minidump.from_bytes(dump.build())


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("padded", [False, True])
def test_lists_are_read_in_both_byte_orders_with_and_without_padding(order: ByteOrder, padded: bool) -> None:
    registers = {"rip": 0x401234, "rsp": 0x7000}
    dump = opened(
        Dump(
            modules=[Module(0x400000, 0x2000, "C:\\app\\Größe.exe", rsds(order=order), version=(0x10002, 0x30004))],
            threads=[Thread(7, context(registers, order=order), 0x7000, b"stack!", teb=0x9000)],
            memory=[(0x8000, b"memory")],
            memory_64=[(0x9000, b"sixty"), (0xA000, b"four")],
            names=[(7, "worker")],
            unloaded=[(0x500000, 0x1000, "gone.dll")],
            regions=[(0x1000, 0x1000, 0x20, layout.MEM_COMMIT)],
            exception=(7, 0xC0000005, 0, 0x401234, (1, 0x10), b""),
            misc=misc(1, order=order), platform=2, order=order, padded=padded, service_pack="SP 1",
        )
    )  # fmt: skip
    (module,) = dump.modules
    assert (module.name, module.version) == ("C:\\app\\Größe.exe", "1.2.3.4")
    assert module.codeview == ("04030201060508070" + "90a0b0c0d0e0f10", "0403020106050807090A0B0C0D0E0F101", "app.pdb")
    assert module.code_id == "5F0000002000"
    (thread,) = dump.threads
    assert (thread.tid, thread.name, thread.thread_pointer) == (7, "worker", 0x9000)
    assert (thread.registers["rip"], thread.registers["rsp"]) == (0x401234, 0x7000)
    assert [(piece.start, bytes(piece.data)) for piece in dump.memory] == [
        (0x7000, b"stack!"), (0x8000, b"memory"), (0x9000, b"sixty"), (0xA000, b"four"),
    ]  # fmt: skip
    assert dump.unloaded[0][:] == (0x500000, 0x1000, 7, "gone.dll")
    assert dump.regions[0].is_executable
    assert dump.exception is not None
    assert dump.exception.information == (1, 0x10)
    assert str(dump.system) == "Windows 10.0.19045 SP 1"
    assert (dump.pid, dump.started, dump.order, dump.missing, dump.problems) == (77, 0x5F000001, order, 0, [])


@pytest.mark.parametrize("version", range(1, 6))
def test_misc_info_of_every_version_is_read(version: int) -> None:
    assert opened(Dump(misc=misc(version))).pid == 77


@pytest.mark.parametrize(("cpu", "machine"), MACHINES)
def test_registers_of_each_machine_are_read(cpu: str, machine: int) -> None:
    form = FORMS[machine]
    registers = {name: 0x1000 + index for index, name in enumerate(form.offsets)}
    dump = Dump(threads=[Thread(1, context(registers, machine))], cpu=NUMBERS[cpu])
    assert opened(dump).threads[0].registers == registers
    del dump.threads
    needed = max(form.offsets.values()) + form.word
    dump.threads = [
        Thread(1, context(registers, machine, size=needed)),
        Thread(2, context(registers, machine)[: needed - 1]),
    ]
    assert [thread.registers for thread in opened(dump).threads] == [registers, {}]


def test_the_machine_of_a_dump_without_system_info_is_that_of_its_contexts() -> None:
    dump = opened(Dump(threads=[Thread(1, context({"pc": 8}, EM_AARCH64))], cpu=None))
    assert dump.system.processor.name == "arm64"
    assert dump.threads[0].registers["pc"] == 8


def test_an_extended_list_of_threads_is_read() -> None:
    dump = opened(Dump(threads=[Thread(1, context({"rip": 5})), Thread(2, context({"rip": 6}))], extended=True))
    assert [thread.registers["rip"] for thread in dump.threads] == [5, 6]


def test_a_module_is_identified_by_each_kind_of_codeview_record() -> None:
    records = [
        rsds(),
        elf_id(ID),
        struct.pack("<IIII", layout.CODEVIEW_NB10, 0, 0x5E000001, 3) + b"old.pdb\0",
        b"",
        b"??",
    ]
    modules = [Module(0x10000 * n, 0x1000, f"m{n}", record) for n, record in enumerate(records, 1)]
    on_windows, on_linux = (opened(Dump(modules, platform=platform)) for platform in (2, layout.LINUX))
    ids = [module.codeview.build_id for module in on_windows.modules]
    assert ids == ["0403020106050807090a0b0c0d0e0f10", ID, "5e0000013", "", ""]
    assert on_windows.modules[2].codeview.debug_id == "5E0000013"
    assert on_linux.modules[0].codeview.build_id == GUID.hex()  # the start of the build-id, as Breakpad writes it


def test_annotations_of_crashpad_are_read() -> None:
    offset = len(Dump(cpu=None).build())
    dump = opened(Dump(cpu=None, texts={layout.CRASHPAD: crashpad(offset)}))
    info = dump.crashpad
    assert (info.report_id, info.client_id, info.pairs) == (
        "04030201-0605-0807-090a-0b0c0d0e0f10",
        "",
        {"prod": "Chrome"},
    )
    (module,) = info.modules
    assert (module.index, module.texts, module.pairs) == (0, ["abort() called"], {"prod": "Chrome", "type": "renderer"})


def test_texts_of_linux_are_read() -> None:
    texts = {
        layout.COMMAND_LINE: b"/opt/app\0-v\0",
        layout.ENVIRONMENT: b"HOME=/root\0LANG=C\0",
        layout.AUXILIARY: struct.pack("<QQQQ", 33, 0x7000, 0, 0),
        layout.STATUS: b"Name:\tapp\nPid:\t42\n",
        layout.RELEASE: b'PRETTY_NAME="Debian 12"\n',
    }
    dump = opened(Dump(texts=texts))
    assert (dump.arguments, dump.environment, dump.auxiliary) == (
        "/opt/app -v",
        {"HOME": "/root", "LANG": "C"},
        {33: 0x7000, 0: 0},
    )
    assert (dump.pid, dump.release) == (42, "Debian 12")


def test_mappings_of_linux_have_the_build_ids_of_modules() -> None:
    modules = [Module(0x10000, 24, "/opt/app", elf_id(ID)), Module(0x20000, 0x2000, "libx.so", elf_id("ab" * 20))]
    process = read_minidump(opened(Dump(modules, texts={layout.MAPS: MAPS})))
    rows = [(mapping.start, mapping.offset, mapping.path, mapping.build_id) for mapping in process.snapshot.mappings]
    assert rows == [
        (0x11000, 0x1000, "/opt/app", ID), (0x20000, 0, "libx.so", "ab" * 20), (0x30000, 0, "[vdso]", ""),
        (0x40000, 0, "", ""),
    ]  # fmt: skip
    in_file, in_archive = process.snapshot.file_of[:2]
    assert in_file is not None
    assert in_file.is_image
    assert in_archive is not None
    assert in_archive.is_image


def test_modules_are_mappings_that_end_at_the_next_module() -> None:
    modules = [Module(0x20000, 0x9000, "b.dll", rsds()), Module(0x10000, 0x20000, "a.exe"), Module(0x10000, 1, "again")]
    regions = [(0x10000, 0x1000, 0x20, 0x1000), (0x40000, 0x1000, 0x40, 0x1000), (0x50000, 0x1000, 0x04, 0x1000)]
    process = read_minidump(opened(Dump(modules, regions=regions, platform=2)))
    rows = [(mapping.start, mapping.end, mapping.path, str(mapping.kind)) for mapping in process.snapshot.mappings]
    assert rows == [
        (0x10000, 0x20000, "a.exe", "file"), (0x20000, 0x29000, "b.dll", "file"), (0x40000, 0x41000, "", "anonymous"),
    ]  # fmt: skip


def test_the_thread_with_the_exception_is_first_and_has_its_registers() -> None:
    handler, crash = context({"rip": 1, "rsp": 2}), context({"rip": 3, "rsp": 4})
    dump = Dump(threads=[Thread(1, handler), Thread(2, handler)], exception=(2, 11, 1, 0x30, (), crash))
    first, second = read_minidump(opened(dump)).threads
    assert (first, second) == ((2, 11, 3, 4), (1, 0, 1, 2))
    process = opened(dump)
    stack = dump_stacks(minidump_dump(process, read_minidump(process)))[0]
    assert str(stack.signal) == "SIGSEGV, address 0x30 not mapped"


@pytest.mark.parametrize(
    ("platform", "code", "flags", "information", "text"),
    [
        (2, 0xC0000005, 0, (0, 0x10), "EXCEPTION_ACCESS_VIOLATION, reading address 0x10"),
        (2, 0xC0000005, 0, (8, 0x10), "EXCEPTION_ACCESS_VIOLATION, executing address 0x10"),
        (2, 0xC0000409, 0, (7,), "STATUS_STACK_BUFFER_OVERRUN, fail-fast code 7"),
        (2, 0x80000003, 0, (), "EXCEPTION_BREAKPOINT, at 0x500"),
        (2, 0x12345678, 0, (), "exception 0x12345678, at 0x500"),
        (layout.LINUX, 11, 1, (), "SIGSEGV, address 0x500 not mapped"),
        (layout.ANDROID, 6, 0xFFFFFFFA, (), "SIGABRT"),
        (layout.LINUX, 0xFFFFFFFF, 0, (), "None"),
        (layout.MACOS, 1, 1, (), "EXC_BAD_ACCESS, code 0x1 at 0x500"),
        (layout.MACOS, 0x43507378, 0, (), "dump without a crash"),
    ],
)
def test_exceptions_of_each_system_have_a_name_and_a_cause(
    platform: int, code: int, flags: int, information: tuple[int, ...], text: str
) -> None:
    dump = opened(Dump(threads=[Thread(1)], exception=(1, code, flags, 0x500, information, b""), platform=platform))
    (stack,) = dump_stacks(minidump_dump(dump, read_minidump(dump)))
    assert str(stack.signal) == text
    assert (stack.unwound.end, stack.unwound.detail) == (
        End.NO_REGISTERS, "the context of a thread on amd64 has 0 bytes",
    )  # fmt: skip


def test_stacks_of_unknown_machines_have_a_reason() -> None:
    dump = opened(Dump(threads=[Thread(1, bytes(600))], cpu=1))
    (stack,) = dump_stacks(minidump_dump(dump, read_minidump(dump)))
    assert stack.unwound.end is End.NO_REGISTERS


def test_of_several_streams_of_a_type_the_first_counts() -> None:
    data = bytearray(Dump(texts={layout.COMMENT_ASCII: b"first", layout.ENVIRONMENT: b"A=1"}, cpu=None).build())
    directory = struct.unpack_from("<I", data, 12)[0]
    struct.pack_into("<I", data, directory + 12, layout.COMMENT_ASCII)
    dump = Minidump.from_bytes(bytes(data))
    assert dump.comment == "first"
    assert "minidump directory+0xc: a second stream of comment (ASCII), which is ignored" in str(dump.problems[0])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"MDMP", "minidump header+0x0: truncated: needs 32 bytes, 4 left"),
        (b"not a dump", "not a minidump: the magic at 0x0 is 6e 6f 74 20"),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(MinidumpError, match=message.replace("+", r"\+")):
        Minidump.from_bytes(data)


def test_counts_beyond_the_stream_are_reported_and_bounded() -> None:
    data = bytearray(Dump(threads=[Thread(1, context({"rip": 9}))], cpu=9).build())
    dump = Minidump.from_bytes(bytes(data))
    struct.pack_into("<I", data, dump.streams[layout.THREADS].offset, 0xFFFFFFFF)
    dump = Minidump.from_bytes(bytes(data))
    assert len(dump.threads) == 1
    assert "minidump threads+0x0: 4294967295 entries, of which the stream has 1" in str(dump.problems[0])


def test_names_that_share_a_long_text_are_bounded() -> None:
    data = bytearray(Dump([Module(n << 12, 1, "x" * 30000) for n in range(2)], platform=2).build())
    offset = Minidump.from_bytes(bytes(data)).streams[layout.MODULES].offset
    row = data[offset + 4 : offset + 112]
    name = struct.unpack_from("<I", row, 20)[0]
    many = b"".join(struct.pack("<Q", n << 12) + row[8:20] + struct.pack("<I", name) + row[24:] for n in range(2000))
    directory = struct.pack("<III", layout.MODULES, 4 + len(many), len(data))
    data += struct.pack("<I", 2000) + many
    struct.pack_into("<II", data, 8, 1, len(data))
    dump = Minidump.from_bytes(bytes(data + directory))
    assert len({module.name for module in dump.modules}) == 2  # the others have none
    assert "names of modules and threads take more than 4 times" in str(dump.problems[-1])


def test_ranges_that_overlap_are_read_once() -> None:
    dump = opened(Dump(memory=[(0x1000, b"abcdef"), (0x1000, b"zz"), (0x1004, b"ZZgh"), (0xFFFFFFFFFFFFFFFF, b"ab")]))
    assert [(piece.start, bytes(piece.data)) for piece in dump.memory] == [(0x1000, b"abcdef"), (0x1006, b"gh")]


def test_a_stack_at_offset_0_was_not_written() -> None:
    """A dump by Wine that was interrupted has such rows; the header is at offset 0."""
    data = bytearray(Dump(threads=[Thread(1, b"", 0x1000, bytes(64))], memory_64=[(0x1010, b"abcd")]).build())
    struct.pack_into("<I", data, Minidump.from_bytes(bytes(data)).streams[layout.THREADS].offset + 4 + 36, 0)
    (piece,) = Minidump.from_bytes(bytes(data)).memory
    assert (piece.start, bytes(piece.data)) == (0x1010, b"abcd")


def test_truncated_memory_is_counted_as_missing() -> None:
    data = Dump(memory_64=[(0x1000, bytes(5000))]).build()
    dump = Minidump.from_bytes(data)
    end = bytes(data).rindex(bytes(5000)) + 5000
    assert dump.missing == 0
    moved = bytearray(data)
    stream = dump.streams[layout.MEMORY_64]
    struct.pack_into("<Q", moved, stream.offset + 24, end + 100000)
    assert Minidump.from_bytes(bytes(moved)).missing > 90000


def test_damaged_minidumps_give_errors_and_never_anything_else() -> None:
    dice, data = random.Random(1), everything()
    exercised(data)
    for _ in range(300):
        try:
            exercised(mutated(data, dice))
        except WhenceError:
            continue


def test_core_opens_minidumps_and_the_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.dmp"
    path.write_bytes(everything())
    core = Core(path)
    assert [thread.tid for thread in core.threads] == [2, 1]
    assert core.minidump is not None
    assert core.minidump.annotations == {"prod": "Chrome"}
    assert core.stacks()[1].name == "one"
    assert main(["core", str(path), "--info"]) == 0
    text = capsys.readouterr().out
    assert "  prod = Chrome" in text
    assert "unloaded modules:\n  0x1-0x3 x" in text
    assert main(["core", str(path), "--info", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["modules"][0]["build_id"] == ID
    assert fields["annotations"] == {"prod": "Chrome"}
    assert main([str(path), "--maps"]) == 0
    assert ID in capsys.readouterr().out
    assert main(["core", str(path), "--json", "--registers"]) == 1
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["tid"], first["signal_name"], first["registers"]["rip"]) == (2, "SIGSEGV", "0x11000")


def windows_program(*, has_id: bool) -> bytes:
    """A PE file of x64 with three functions of 0x40 bytes, whose frames have 40, 56 and 24 bytes."""
    codes = [
        [pdata.code(4, 2, 3)],
        [pdata.code(6, 2, 4), pdata.code(2, 0, 5), pdata.code(1, 0, 3)],
        [pdata.code(4, 2, 1)],
    ]
    infos = [pdata.info(each) for each in codes]
    offsets = [sum(map(len, infos[:index])) for index in range(3)]
    text = bytes.fromhex("90" * 0x3B + "e8fbffffff") * 4  # each part ends with a call
    functions = [(0x40 * index, 0x40 * (index + 1), offset) for index, offset in enumerate(offsets)]
    return pdata.x64(functions, b"".join(infos), text, codeview=GUID if has_id else b"")


@pytest.mark.parametrize("has_id", [True, False])
def test_stacks_of_windows_follow_the_function_table(has_id: bool, tmp_path: Path) -> None:
    program, base = tmp_path / "App.exe", 0x7FF700000000
    program.write_bytes(windows_program(has_id=has_id))
    with PeFile.open(program) as file:
        module = Module(base, file.header.image_size, "C:\\app\\app.exe", rsds() if has_id else b"", file.header.time)
    callers = [base + pdata.TEXT + 0x80, base + pdata.TEXT + 0xC0, 0]
    frames = [bytes(32), bytes(40) + struct.pack("<QQ", 0xB5, 0xB3), bytes(16)]
    stack = b"".join(frame + struct.pack("<Q", caller) for frame, caller in zip(frames, callers, strict=True))
    registers = {"rip": base + pdata.TEXT + 0x20, "rsp": 0x70000}
    threads = [Thread(5, context(registers), 0x70000, stack)]
    path = tmp_path / "app.dmp"
    path.write_bytes(Dump([module], threads, platform=2).build())
    core = Core(path, programs=[tmp_path])
    with Symbolizer(binaries=[str(program)]) as symbolizer:
        (result,) = core.stacks(symbolizer)
    assert [frame.pc for frame in result.frames] == [registers["rip"], *callers[:2]]
    assert [str(frame.found_by) for frame in result.frames] == ["registers", "pdata", "pdata"]
    assert result.end is End.COMPLETE
    assert result.frames[0].place.vaddr == BASE + pdata.TEXT + 0x20


def test_windows_functions_left_out_of_the_function_table_have_no_frame(tmp_path: Path) -> None:
    program, base = tmp_path / "App.exe", 0x7FF700000000
    content = windows_program(has_id=True)
    last = content.rindex(b"\x90" * 0x3B)
    program.write_bytes(content[:last] + b"\xeb\xfe" * 0x20 + content[last + 0x40 :])  # a loop without a return
    with PeFile.open(program) as file:
        module = Module(base, file.header.image_size, "C:\\app\\app.exe", rsds(), file.header.time)
    callers = [base + pdata.TEXT + 0x80, base + pdata.TEXT + 0xC0, 0]
    frames = [b"", bytes(40) + struct.pack("<QQ", 0xB5, 0xB3), bytes(16)]
    stack = b"".join(frame + struct.pack("<Q", caller) for frame, caller in zip(frames, callers, strict=True))
    registers = {"rip": base + pdata.TEXT + 0xD0, "rsp": 0x70000}
    path = tmp_path / "app.dmp"
    path.write_bytes(Dump([module], [Thread(5, context(registers), 0x70000, stack)], platform=2).build())
    with Symbolizer(binaries=[str(program)]) as symbolizer:
        (result,) = Core(path, programs=[tmp_path]).stacks(symbolizer)
    assert [frame.pc for frame in result.frames] == [registers["rip"], *callers[:2]]
    assert [str(frame.found_by) for frame in result.frames] == ["registers", "leaf", "pdata"]
    assert result.end is End.COMPLETE


def test_a_full_dump_has_the_function_tables_of_its_modules(tmp_path: Path) -> None:
    program, base = windows_program(has_id=True), 0x7FF700000000
    with PeFile.from_bytes(program) as file:
        image = bytearray(file.header.image_size)
        image[:0x1000] = program[:0x1000]
        for section in file.sections[1:]:
            start = section.vaddr - file.image_base
            image[start : start + section.size] = file.data[section.file_offset : section.file_offset + section.size]
        module = Module(base, len(image), "C:\\app\\app.exe", rsds(), file.header.time)
    callers = [base + pdata.TEXT + 0x80, base + pdata.TEXT + 0xC0, 0]
    frames = [bytes(32), bytes(56), bytes(16)]
    stack = b"".join(frame + struct.pack("<Q", caller) for frame, caller in zip(frames, callers, strict=True))
    threads = [Thread(5, context({"rip": base + pdata.TEXT + 0x20, "rsp": 0x70000}), 0x70000, stack)]
    path = tmp_path / "full.dmp"
    path.write_bytes(Dump([module], threads, platform=2, memory_64=[(base, bytes(image))]).build())
    (result,) = Core(path).stacks()
    assert [frame.pc for frame in result.frames] == [base + pdata.TEXT + 0x20, *callers[:2]]
    assert [str(frame.found_by) for frame in result.frames] == ["registers", "pdata", "pdata"]
    assert result.end is End.COMPLETE


def test_info_of_a_core_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.forge.core import Mapped, core, status

    path = tmp_path / "core"
    path.write_bytes(core([Mapped(0x1000, 0x2000, memory=bytes(8))], [status(1, 0x1000)]))
    assert main(["core", str(path), "--info"]) == 2
    assert "--info is for minidumps" in capsys.readouterr().err
