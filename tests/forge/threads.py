"""Threads to unwind, forged: a page of code and a page of stack, with call frame information by hand."""

from __future__ import annotations

import struct

from whence._base.errors import DwarfError
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule
from whence.unwind.memory import Unreadable
from whence.unwind.registers import X86_64, Machine
from whence.unwind.steps import Unwound
from whence.unwind.unwinder import Unwinder

CODE, STACK = 0x400000, 0x7000
SP_X86, FP_X86, RA_X86 = 7, 6, 16
LINK = 30
CALL = b"\xe8\0\0\0\0"


class Process:
    """A page of code and a page of stack, with FDEs by hand."""

    def __init__(self, machine: Machine = X86_64) -> None:
        self.machine = machine
        self.code = bytearray(0x1000)
        self.stack = bytearray(0x1000)
        self.fdes: list[Fde] = []
        self.broken: set[int] = set()
        self.generated = range(0)  # addresses of code that belongs to no file

    def read(self, address: int, size: int) -> bytes:
        for start, data in ((CODE, self.code), (STACK, self.stack)):
            if start <= address and address + size <= start + len(data):
                return bytes(data[address - start : address - start + size])
        raise Unreadable(address)

    def region(self, address: int) -> tuple[int, int] | None:
        return (STACK, STACK + len(self.stack)) if STACK <= address < STACK + len(self.stack) else None

    def is_code(self, address: int) -> bool:
        return CODE <= address < CODE + len(self.code)

    def is_generated(self, address: int) -> bool:
        return address in self.generated

    def entry_before(self, address: int) -> None:
        return None

    def function(self, address: int) -> None:
        return None

    def frame_data(self, address: int) -> None:
        return None

    def needs_no_table(self, address: int) -> bool:
        return False

    def calls_main(self, address: int) -> bool:
        return False

    def go(self, pc: int, lookup: int) -> None:
        return None

    def why_not(self, address: int) -> str:
        return f"nothing for {address:#x}"

    def fde(self, address: int) -> tuple[Fde, int] | None:
        if address in self.broken:
            raise DwarfError(".eh_frame", 0, "nonsense")
        return next(((each, 0) for each in self.fdes if each.start <= address < each.end), None)

    def words(self, at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}Q", self.stack, at - STACK, *values)

    def describe(self, start: int, end: int, cfa: Cfa, signal: bool = False, /, **rules: Rule) -> None:
        """CFI of [CODE + start, CODE + end); rules by register, as r6=..."""
        column = RA_X86 if self.machine is X86_64 else LINK
        cie = Cie(1, -8, column, 0, 0xFF, True, signal, 8, memoryview(b""))
        row = CfiRow(CODE + start, cfa, {int(name[1:]): rule for name, rule in rules.items()})
        self.fdes.append(Fde(CODE + start, CODE + end, cie, (row,), ".eh_frame", 0))

    def unwind(self, pc: int, sp: int = STACK, **registers: int) -> Unwound:
        values = {int(name[1:]): value for name, value in registers.items()}
        return Unwinder(self.machine, self, self).unwind(pc, {self.machine.sp: sp, **values})


PUSHED = Rule(How.OFFSET, -8)
OUTERMOST = Rule(How.UNDEFINED)
