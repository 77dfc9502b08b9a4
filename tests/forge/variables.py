"""Forging frames with variables: a function of forged debug info, registers and memory; and reading its variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from tests.forge.dwarf import (
    Debug,
    Die,
    DW_AT_high_pc,
    DW_AT_language,
    DW_AT_location,
    DW_AT_low_pc,
    DW_AT_name,
    DW_AT_type,
    DW_FORM_addr,
    DW_FORM_data1,
    DW_FORM_data2,
    DW_FORM_exprloc,
    DW_FORM_ref4,
    DW_FORM_string,
    DW_FORM_udata,
    DW_TAG_base_type,
    DW_TAG_compile_unit,
    DW_TAG_formal_parameter,
    DW_TAG_subprogram,
    DW_TAG_variable,
)
from whence.dwarf import DebugInfo
from whence.objects.elf import ElfFile
from whence.ranges import StringSpace
from whence.types.decoding import Limits
from whence.types.frames import ProcessValues
from whence.types.model import Variable
from whence.unwind.memory import Unreadable
from whence.unwind.modules import CoreCode
from whence.unwind.recording import FrameState
from whence.unwind.registers import X86_64
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

LOW, SIZE = 0x1000, 0x100
STACK = 0x7000
DW_AT_byte_size, DW_AT_encoding, DW_AT_frame_base = 0x0B, 0x3E, 0x40
DW_ATE_signed, DW_ATE_unsigned = 5, 7


class Bytes:
    """Memory of some ranges."""

    def __init__(self, ranges: Mapping[int, bytes]) -> None:
        self.ranges = ranges

    def read(self, address: int, size: int) -> bytes:
        for start, data in self.ranges.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise Unreadable(address)

    def region(self, address: int) -> tuple[int, int] | None:
        return None


class Code:
    """The code of one file, loaded at its vaddrs."""

    def __init__(self) -> None:
        self.module = SimpleNamespace(elf=None, file=SimpleNamespace(path="forged"))

    def module_at(self, address: int) -> tuple[object, int]:
        return self.module, address

    def loaded(self) -> Iterator[tuple[int, int, int, object]]:
        return iter(())


def base(name: str, size: int, encoding: int = DW_ATE_signed) -> Die:
    return Die(
        DW_TAG_base_type,
        [
            (DW_AT_name, DW_FORM_string, name), (DW_AT_byte_size, DW_FORM_data1, size),
            (DW_AT_encoding, DW_FORM_data1, encoding),
        ],
    )  # fmt: skip


def variable(name: str, kind: Die, location: bytes, *, argument: bool = False) -> Die:
    tag = DW_TAG_formal_parameter if argument else DW_TAG_variable
    return Die(
        tag,
        [
            (DW_AT_name, DW_FORM_string, name), (DW_AT_type, DW_FORM_ref4, kind),
            (DW_AT_location, DW_FORM_exprloc, location),
        ],
    )  # fmt: skip


def file(types: Sequence[Die], variables: Sequence[Die], *, language: int = 0x0C) -> bytes:
    """An ELF file with a function of these variables at LOW; its frame base is rbp."""
    function = Die(
        DW_TAG_subprogram,
        [
            (DW_AT_name, DW_FORM_string, "f"), (DW_AT_low_pc, DW_FORM_addr, LOW), (DW_AT_high_pc, DW_FORM_udata, SIZE),
            (DW_AT_frame_base, DW_FORM_exprloc, b"\x56"),
        ],
        list(variables),
    )  # fmt: skip
    attributes: list[tuple[int, int, object]] = [
        (DW_AT_name, DW_FORM_string, "f.c"), (DW_AT_language, DW_FORM_data2, language),
        (DW_AT_low_pc, DW_FORM_addr, LOW), (DW_AT_high_pc, DW_FORM_udata, SIZE),
    ]  # fmt: skip
    unit = Die(DW_TAG_compile_unit, attributes, [*types, function])
    return Debug(version=4).unit(unit).elf()


def variables_of(
    data: bytes,
    memory: Mapping[int, bytes] | None = None,
    registers: Mapping[int, int] | None = None,
    *,
    pcs: Sequence[int] = (LOW + 0x10,),
    limits: Limits | None = None,
) -> list[Variable]:
    """The variables of the frames at some pcs, of all functions there."""
    values = dict(registers) if registers is not None else dict.fromkeys(X86_64.names, STACK + 128)
    elf = ElfFile.from_bytes(data)
    info = DebugInfo(elf, strings=StringSpace())
    process = ProcessValues(
        X86_64,
        "little",
        cast(CoreCode, Code()),
        Bytes(memory or {STACK: bytes(0x100)}),
        lambda module: (info, [elf]),
        limits=limits,
    )
    frames = tuple(StackFrame(pc, STACK, FoundBy.CFI, exact=index == 0) for index, pc in enumerate(pcs))
    states = [FrameState(values, STACK + 0x90) for _ in pcs]
    result = process.of(Unwound(frames, End.COMPLETE), states)
    return [each for functions in result for variables in functions for each in variables]


def texts(
    data: bytes, memory: Mapping[int, bytes] | None = None, registers: Mapping[int, int] | None = None
) -> dict[str, str]:
    """The values of the variables by name."""
    return {each.name: str(each.value) for each in variables_of(data, memory, registers)}
