"""STACK CFI records of Breakpad symbol files as call frame information.

    STACK CFI INIT 1080 30 .cfa: $rsp 8 + .ra: .cfa -8 + ^     a function: address, size, rules at its start
    STACK CFI 1081 .cfa: $rsp 16 + $rbp: .cfa -16 + ^          from an address on, these rules change

A rule is an expression in postfix form: numbers, registers, `.cfa`, + - * / % @ (alignment) and ^ (memory). Addresses
are relative to the start of the image, as are vaddrs of these files. Functions are read when they are looked up; the
records of all of them are found by one search. For STACK WIN records see frame_data.py.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from whence._base.errors import DwarfError
from whence.objects.breakpad import BreakpadFile
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule
from whence.unwind.constants import Operation
from whence.unwind.encoding import uleb
from whence.unwind.instructions import sleb
from whence.unwind.registers import MACHINES

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.unwind.registers import Machine

SECTION = "STACK CFI"
INIT = re.compile(rb"^STACK CFI INIT ([0-9a-fA-F]{1,16}) ([0-9a-fA-F]{1,16}) ([^\r\n]{1,65536})", re.MULTILINE)
DELTA = re.compile(rb"\r?\n?STACK CFI ([0-9a-fA-F]{1,16}) ([^\r\n]{1,65536})")
RULE = re.compile(r"(\S+):((?: +(?!\S+:(?: |$))\S+)*)")
LONGEST_RECORD = 1 << 16  # bytes
ROWS_LIMIT, TERMS_LIMIT = 1 << 16, 64  # of a function; of an expression
DIGITS = 19  # of a number
SUM, SAVED = 3, 4  # terms of a register or CFA plus a number, and of the memory there
CFA, RETURN, UNDEFINED = ".cfa", ".ra", "0"
OPERATORS = {
    "+": bytes((Operation.PLUS,)), "-": bytes((Operation.MINUS,)), "*": bytes((Operation.MUL,)),
    "/": bytes((Operation.DIV,)), "%": bytes((Operation.MOD,)), "^": bytes((Operation.DEREF,)),
    "@": bytes((Operation.NEG, Operation.AND)),  # a multiple of a power of two
}  # fmt: skip
RETURN_COLUMNS = {"x86-64": 16, "i386": 8, "aarch64": 30, "arm": 14}


class StackCfi:
    """The functions of STACK CFI records, found by vaddr."""

    def __init__(self, file: BreakpadFile, machine: Machine) -> None:
        """Find the records of an open file, which must stay open."""
        self._data, self._machine = file.data, machine
        rows = sorted((int(match[1], 16), int(match[2], 16), match.start()) for match in INIT.finditer(file.data))
        self._starts = array("Q", [start for start, _, _ in rows])
        self._sizes = array("Q", [size for _, size, _ in rows])
        self._offsets = array("Q", [offset for _, _, offset in rows])
        self._fdes: dict[int, Fde] = {}
        column = RETURN_COLUMNS[machine.name]
        self._cie = Cie(1, 1, column, 0, 0, False, False, machine.word, memoryview(b""))
        names = {name: number for number, name in machine.names.items()}
        aliases = {"fp": machine.fp, "sp": machine.sp, "lr": column, machine.pc_name: column}
        self._registers = {**aliases, **names}

    @classmethod
    def of_file(cls, file: ObjectFile) -> StackCfi | None:
        """Return the records of a Breakpad symbol file; None for other files and machines."""
        if not isinstance(file, BreakpadFile):
            return None
        machine = MACHINES.get((file.machine, file.bits))
        return None if machine is None or machine.name not in RETURN_COLUMNS else cls(file, machine)

    def find(self, vaddr: int) -> Fde | None:
        """Return the rows of the function that contains `vaddr`, None without one. Raises DwarfError if damaged."""
        index = bisect_right(self._starts, vaddr) - 1
        if index < 0 or vaddr - self._starts[index] >= self._sizes[index]:
            return None
        if index not in self._fdes:
            self._fdes[index] = self._fde(index)
        return self._fdes[index]

    def _fde(self, index: int) -> Fde:
        start, size, offset = self._starts[index], self._sizes[index], self._offsets[index]
        first = INIT.match(self._data, offset)
        assert first is not None
        rules = self._rules(first[3], offset)
        rows = [self._row(start, rules)]
        record = DELTA.match(self._data, first.end())
        while record is not None and len(rows) < ROWS_LIMIT:
            rules = {**rules, **self._rules(record[2], record.start())}
            vaddr = int(record[1], 16)
            if not rows[-1].start <= vaddr < start + size:
                break
            if vaddr == rows[-1].start:
                rows.pop()
            rows.append(self._row(vaddr, rules))
            record = DELTA.match(self._data, record.end())
        return Fde(start, start + size, self._cie, tuple(rows), SECTION, offset)

    def _rules(self, text: bytes, offset: int) -> dict[str, str]:
        """Return the expression of each register in a record."""
        if len(text) >= LONGEST_RECORD:
            raise DwarfError(SECTION, offset, f"a record has {len(text)} bytes or more")
        return {name: expression.strip() for name, expression in RULE.findall(text.decode("ascii", "replace"))}

    def _row(self, start: int, rules: dict[str, str]) -> CfiRow:
        registers: dict[int, Rule] = {}
        for name, expression in rules.items():
            register = self._cie.return_column if name == RETURN else self._registers.get(name.lstrip("$"))
            if name != CFA and register is not None:
                registers[register] = self.rule(register, expression)
        return CfiRow(start, self.cfa(rules.get(CFA, "")), registers)

    def cfa(self, expression: str) -> Cfa | None:
        """Return the CFA by its expression; None if it is malformed."""
        terms = expression.split()
        base = self._registers.get(terms[0].lstrip("$")) if terms else None
        if base is not None and len(terms) == SUM and terms[2] in ("+", "-") and is_number(terms[1]):
            return Cfa(base, int(terms[1]) if terms[2] == "+" else -int(terms[1]))
        program = self.program(terms)
        return Cfa(0, 0, program) if program else None

    def rule(self, register: int, expression: str) -> Rule:
        """Return the rule of a register; undefined if it is malformed."""
        terms = expression.split()
        if terms == [UNDEFINED]:
            return Rule(How.UNDEFINED)
        if len(terms) == 1 and terms[0].lstrip("$") in self._registers:
            other = self._registers[terms[0].lstrip("$")]
            return Rule(How.SAME) if other == register else Rule(How.REGISTER, other)
        if terms[:1] == [CFA] and len(terms) in (SUM, SAVED) and terms[2] in ("+", "-") and is_number(terms[1]):
            offset = int(terms[1]) if terms[2] == "+" else -int(terms[1])
            if len(terms) == SUM:
                return Rule(How.VAL_OFFSET, offset)
            if terms[3] == "^":
                return Rule(How.OFFSET, offset)
        program = self.program(terms[1:] if terms[:1] == [CFA] else terms)  # it starts with the CFA on the stack
        return Rule(How.VAL_EXPRESSION, 0, program) if program else Rule(How.UNDEFINED)

    def program(self, terms: list[str]) -> bytes:
        """Return an expression in DWARF's form; b"" if a term is unknown."""
        out = bytearray()
        for term in terms[:TERMS_LIMIT]:
            register = self._registers.get(term.lstrip("$"))
            if term in OPERATORS:
                out += OPERATORS[term]
            elif is_number(term):
                out += bytes((Operation.CONSTS,)) + sleb(int(term))
            elif register is not None:
                out += bytes((Operation.BREGX,)) + uleb(register) + b"\0"
            else:
                return b""
        return bytes(out) if len(terms) <= TERMS_LIMIT else b""


def is_number(term: str) -> bool:
    """Return True for a decimal number of up to 64 bits."""
    digits = term.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS
