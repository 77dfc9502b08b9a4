"""Forging minidumps from streams, modules, threads and memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from whence._base.window import ByteOrder
from whence.dumps import minidump_layout as layout
from whence.dumps.contexts import FORMS
from whence.objects.machines import EM_X86_64

NUMBERS = {"x86": 0, "arm": 5, "amd64": 9, "arm64": 12, "arm64-old": 0x8003}
GUID = bytes(range(1, 17))
ID = "0123456789abcdef" * 2
MAPS = b"""10000-11000 r--p 00000000 fe:00 5 /opt/app
11000-13000 r-xp 00001000 fe:00 5 /opt/app
20000-22000 r-xp 00100000 fe:00 6 /opt/base.apk
30000-31000 r-xp 00000000 00:00 0 [vdso]
40000-41000 rwxp 00000000 00:00 0
"""


def rsds(file: str = "app.pdb", guid: bytes = GUID, age: int = 1, order: ByteOrder = "little") -> bytes:
    """An RSDS record; the fields of the GUID are in the byte order of the file."""
    first, second, third, rest = struct.unpack("<IHH8s", guid)
    return (
        struct.pack(mark(order) + "IIHH8sI", layout.CODEVIEW_RSDS, first, second, third, rest, age)
        + file.encode()
        + b"\0"
    )


def elf_id(build_id: str, order: ByteOrder = "little") -> bytes:
    return struct.pack(mark(order) + "I", layout.CODEVIEW_ELF) + bytes.fromhex(build_id)


def mark(order: ByteOrder) -> str:
    return "<" if order == "little" else ">"


def context(registers: dict[str, int], machine: int = EM_X86_64, order: ByteOrder = "little", size: int = 0) -> bytes:
    """A CONTEXT with these registers, cut to `size` bytes."""
    form = FORMS[machine]
    data = bytearray(form.full_size)
    struct.pack_into(mark(order) + "I", data, form.flags_offset, form.flag | 3)
    for name, value in registers.items():
        struct.pack_into(mark(order) + ("Q" if form.word == 8 else "I"), data, form.offsets[name], value)
    return bytes(data[: size or None])


@dataclass(frozen=True, slots=True)
class Module:
    base: int
    size: int
    name: str
    codeview: bytes = b""
    time: int = 0x5F000000
    version: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    tid: int
    context: bytes = b""
    stack_start: int = 0
    stack: bytes = b""
    teb: int = 0


@dataclass
class Dump:
    """The parts of a minidump. `padded`: lists have four bytes after their count."""

    modules: Sequence[Module] = ()
    threads: Sequence[Thread] = ()
    memory: Sequence[tuple[int, bytes]] = ()
    memory_64: Sequence[tuple[int, bytes]] = ()
    names: Sequence[tuple[int, str]] = ()
    unloaded: Sequence[tuple[int, int, str]] = ()
    regions: Sequence[tuple[int, int, int, int]] = ()  # start size protection state
    exception: tuple[int, int, int, int, tuple[int, ...], bytes] | None = None  # tid code flags address info context
    misc: bytes = b""
    texts: dict[int, bytes] = field(default_factory=dict)
    cpu: int | None = 9
    platform: int = layout.LINUX
    order: ByteOrder = "little"
    padded: bool = False
    extended: bool = False  # a thread list with the backing stores of IA-64
    time: int = 0x60000000
    service_pack: str = ""

    def build(self) -> bytes:
        self.data = bytearray(32)
        self.streams: list[tuple[int, int, int]] = []
        if self.cpu is not None:
            pack = self.text(self.service_pack) if self.service_pack else 0
            about = (self.cpu, 6, 0x0D08, 4, 1, 10, 0, 19045, self.platform, pack, 0, 0)
            self.add(layout.SYSTEM, self.pack(layout.SYSTEM_INFO, *about) + bytes(24))
        rows = []
        for module in self.modules:
            name, record = self.text(module.name), self.put(module.codeview)
            sizes = len(module.codeview), record, 0, 0, 0, 0
            row = bytearray(self.pack(layout.MODULE, module.base, module.size, 0, module.time, name, *sizes))
            if module.version:
                struct.pack_into(mark(self.order) + "IIII", row, 24, layout.FIXED_FILE_SIGNATURE, 0, *module.version)
            rows.append(bytes(row))
        self.add_list(layout.MODULES, rows)
        rows = []
        for thread in self.threads:
            row_ = self.pack(
                layout.THREAD, thread.tid, 0, 0, 0, thread.teb, thread.stack_start, len(thread.stack),
                self.put(thread.stack), len(thread.context), self.put(thread.context),
            )  # fmt: skip
            rows.append(row_ + bytes(16 if self.extended else 0))
        self.add_list(layout.THREADS_EX if self.extended else layout.THREADS, rows)
        self.add_list(
            layout.MEMORY, [self.pack("QII", start, len(data), self.put(data)) for start, data in self.memory]
        )
        if self.memory_64:
            start = self.put(b"".join(data for _, data in self.memory_64))
            rows = [self.pack("QQ", address, len(data)) for address, data in self.memory_64]
            self.add(layout.MEMORY_64, self.pack("QQ", len(rows), start) + b"".join(rows))
        self.add_list(layout.THREAD_NAMES, [self.pack("IQ", tid, self.text(name)) for tid, name in self.names])
        if self.unloaded:
            rows = [
                self.pack(layout.UNLOADED_MODULE, base, size, 0, 7, self.text(name))
                for base, size, name in self.unloaded
            ]
            self.add(layout.UNLOADED, self.pack("III", 12, 24, len(rows)) + b"".join(rows))
        if self.regions:
            rows = [
                self.pack(layout.MEMORY_REGION, start, start, 0, 0, size, state, protection, 0) + bytes(4)
                for start, size, protection, state in self.regions
            ]
            self.add(layout.MEMORY_INFO, self.pack("IIQ", 16, 48, len(rows)) + b"".join(rows))
        if self.exception is not None:
            tid, code, flags, address, information, registers = self.exception
            numbers = [*information, *[0] * (15 - len(information))]
            exception = self.pack(layout.EXCEPTION_RECORD, code, flags, 0, address, len(information), 0, *numbers)
            self.add(
                layout.EXCEPTION,
                self.pack("II", tid, 0) + exception + self.pack("II", len(registers), self.put(registers)),
            )
        if self.misc:
            self.add(layout.MISC, self.misc)
        for number, content in self.texts.items():
            self.add(number, content)
        directory = self.put(b"".join(self.pack("III", *stream) for stream in self.streams))
        head = (layout.SIGNATURE, layout.VERSION, len(self.streams), directory, 0, self.time, 0)
        struct.pack_into(mark(self.order) + layout.HEADER, self.data, 0, *head)
        return bytes(self.data)

    def pack(self, form: str, *fields: int) -> bytes:
        return struct.pack(mark(self.order) + form, *fields)

    def put(self, data: bytes) -> int:
        """Append bytes, and return their offset."""
        self.data += bytes(-len(self.data) % 4)
        self.data += data
        return len(self.data) - len(data)

    def text(self, text: str) -> int:
        raw = text.encode("utf-16-le" if self.order == "little" else "utf-16-be", "surrogatepass")
        return self.put(self.pack("I", len(raw)) + raw + b"\0\0")

    def add(self, type_: int, data: bytes) -> None:
        self.streams.append((type_, len(data), self.put(data)))

    def add_list(self, type_: int, rows: Sequence[bytes]) -> None:
        if rows:
            self.add(type_, self.pack("I", len(rows)) + bytes(4 if self.padded else 0) + b"".join(rows))


def misc(version: int, pid: int = 77, order: ByteOrder = "little") -> bytes:
    """A misc info stream of version 1 to 5."""
    size = (24, 44, 232, 832, 1364)[version - 1]
    return struct.pack(mark(order) + layout.MISC_INFO, size, 3, pid, 0x5F000001, 1, 2).ljust(size, b"\0")


def crashpad(dump_offset: int = 0) -> bytes:
    """A Crashpad stream whose lists follow it; `dump_offset` is where the stream is in the file."""

    def text(value: str) -> bytes:
        raw = value.encode()
        return struct.pack("<I", len(raw)) + raw + b"\0" * (4 - len(raw) % 4)

    parts, start = bytearray(), dump_offset + 52

    def put(data: bytes) -> int:
        parts.extend(data)
        return start + len(parts) - len(data)

    key, value, listed, kind = put(text("prod")), put(text("Chrome")), put(text("abort() called")), put(text("type"))
    body = put(text("renderer"))
    pairs = put(struct.pack("<III", 1, key, value))
    texts = put(struct.pack("<II", 1, listed))
    objects = put(struct.pack("<IIHHI", 1, kind, layout.CRASHPAD_TEXT, 0, body))
    module = put(struct.pack("<7I", 1, 8, texts, 12, pairs, 16, objects))
    modules = put(struct.pack("<IIII", 1, 0, 28, module))
    return struct.pack("<I16s16sIIII", 1, GUID, bytes(16), 12, pairs, 16, modules) + bytes(parts)


def everything() -> bytes:
    """A minidump with every stream that is read."""
    modules = [
        Module(0x10000, 0x3000, "/opt/app", elf_id(ID), version=(1, 2)),
        Module(0x20000, 0x1000, "b.dll", rsds()),
    ]
    threads = [
        Thread(n, context({"rip": 0x11000 + n, "rsp": 0x70000, "rbp": 0x70020}), 0x70000, bytes(range(256)))
        for n in (1, 2)
    ]
    texts = {layout.MAPS: MAPS, layout.STATUS: b"Pid:\t7\n", layout.ASSERTION: bytes(776), layout.COMMENT: b"a\0b\0"}
    base = Dump(
        modules, threads, memory=[(0x80000, bytes(64))], memory_64=[(0x90000, bytes(64))], names=[(1, "one")],
        unloaded=[(1, 2, "x")], regions=[(0x60000, 0x1000, 0x40, 0x1000)], misc=misc(5), texts=texts,
        exception=(2, 11, 1, 0, (1, 2), context({"rip": 0x11000})),
    )  # fmt: skip
    end = len(base.build())
    base.texts[layout.CRASHPAD] = crashpad(end - 12 * len(base.streams))
    return base.build()
