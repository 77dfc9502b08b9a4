"""Breakpad symbol files: text with the functions, lines and unwind rules of a module.

    MODULE Linux x86_64 38C16FE171949824DD9ED272A0C8C0F90 libc.so.6
    INFO CODE_ID E16FC13894712498DD9ED272A0C8C0F9850A94DA
    FILE 0 malloc.c
    INLINE_ORIGIN 0 checked_request2size
    FUNC 96ab0 2f5 0 malloc
    INLINE 0 3294 0 0 96ac8 12
    96ab0 8 3288 0
    PUBLIC 26380 0 _init
    STACK CFI INIT 96ab0 2f5 .cfa: $rsp 8 + .ra: .cfa -8 + ^

Addresses are relative to the start of the image. This module reads the first records; `whence.exchange.breakpad` the
others.
"""

from __future__ import annotations

from itertools import islice

from whence._base.errors import BreakpadError, naming, wrong_magic
from whence._base.records import Record
from whence.objects.elf.kernels.constants import PF_R, PF_X, PT_LOAD
from whence.objects.elf.segments import Segment
from whence.objects.ids import NO_DEBUG_ID, DebugId, is_hex
from whence.objects.machines import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_MIPS,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_WASM,
    EM_X86_64,
)
from whence.objects.names_only import NamesFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile

MAGIC: Final = b"MODULE "
LONGEST_LINE: Final = 1 << 16
HEADER_LINES: Final = 64  # that MODULE and INFO records are looked for in
IMAGE_SIZE = 1 << 32  # addresses have 32 bits, as they are relative
CPUS = {
    EM_386: "x86",
    EM_X86_64: "x86_64",
    EM_ARM: "arm",
    EM_AARCH64: "arm64",
    EM_MIPS: "mips",
    EM_PPC: "ppc",
    EM_PPC64: "ppc64",
    EM_RISCV: "riscv64",
    EM_S390: "s390x",
    EM_WASM: "wasm32",
}
"""Breakpad's names of machines."""
MACHINES = {name: machine for machine, name in CPUS.items()} | {
    "arm64e": EM_AARCH64, "x86_64h": EM_X86_64, "i386": EM_386, "i686": EM_386, "amd64": EM_X86_64, "riscv": EM_RISCV,
}  # fmt: skip
NARROW = ("x86", "arm", "mips", "ppc", "wasm32", "i386", "i686", "riscv")
LINUX, WINDOWS, MAC, WASM = "Linux", "windows", "mac", "wasm"
SYSTEMS = {"ELF": LINUX, "PE": WINDOWS, "PDB": WINDOWS, "Mach-O": MAC, "WebAssembly": WASM}
"""Breakpad's name of the system of each format of object files."""
GUID_SYSTEMS = (WINDOWS, MAC, "ios", "macos")  # where the build-id is the debug id's GUID


class BreakpadModule(Record, frozen=True):
    """The records MODULE and INFO CODE_ID."""

    system: str
    cpu: str
    debug_id: DebugId
    name: str
    code_id: str = ""


class BreakpadFile(NamesFile):
    """A Breakpad symbol file, mapped. Vaddrs are relative to the start of the image.

    A file that does not begin with a MODULE record raises BreakpadError.
    """

    error = BreakpadError
    format = "Breakpad"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.module = read_module(self.data)
            self.machine = MACHINES.get(self.module.cpu, 0)
            self.bits = 32 if self.module.cpu in NARROW else 64
            self.check()

    @property
    def build_id(self) -> str:
        """The build-id of the module: its code id, or what the debug id has of it; "" if it has neither."""
        module = self.module
        if module.system in GUID_SYSTEMS:
            return module.debug_id.guid if module.debug_id else ""
        if len(module.code_id) % 2 == 0 and is_hex(module.code_id):
            return module.code_id.lower()
        if module.system == WASM:
            return module.debug_id.guid if module.debug_id else ""
        return module.debug_id.start_of_build_id

    @property
    def debug_id(self) -> DebugId:
        return self.module.debug_id

    @property
    def code_id(self) -> str:
        return self.module.code_id

    @property
    def details(self) -> dict[str, str]:
        module = self.module
        facts = {
            "module": f"{module.name}, {module.system} {module.cpu}",
            "debug id": module.debug_id.breakpad,
            "code id": module.code_id,
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Return all addresses that the format has, without bytes."""
        return (Segment(PT_LOAD, PF_R | PF_X, 0, 0, 0, IMAGE_SIZE, 1),)


def read_module(data: memoryview) -> BreakpadModule:
    """Return the first records. Raises BreakpadError if the first one is not MODULE."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise wrong_magic(BreakpadError, "a Breakpad symbol file", data[: len(MAGIC)], MAGIC)
    lines = header_lines(data)
    fields = next(lines).split(None, 4)
    if len(fields) < 4:
        raise BreakpadError("MODULE", 0, f"the record has {len(fields) - 1} fields, expected system, machine, id, name")
    _, system, cpu, identity, *name = fields
    code_id = ""
    for line in lines:
        words = line.split(None, 3)
        if words[:2] == ["INFO", "CODE_ID"] and len(words) > 2:
            code_id = words[2].lower()
        elif words[:1] != ["INFO"]:
            break
    parsed = DebugId.parse(identity)
    return BreakpadModule(system, cpu, parsed or NO_DEBUG_ID, name[0].strip() if name else "", code_id)


def header_lines(data: memoryview) -> Iterator[str]:
    """Yield the first lines as text."""
    head = bytes(data[: HEADER_LINES * 1024])
    for line in islice(head.split(b"\n"), HEADER_LINES):
        yield line.decode("utf-8", "replace").rstrip("\r")
