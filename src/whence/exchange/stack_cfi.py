"""Unwind rules as STACK CFI records of Breakpad.

A record INIT gives all rules from the start of a function, and each further record the rules that change there. A
rule is an expression in postfix form: `.cfa: $rsp 16 +`, `$rbp: .cfa -16 + ^`, where ^ reads memory. The return address
is `.ra`.

What has no such form is left out, with the whole function if it is the CFA or the return address: expressions of DWARF
with other operations than sums, products and memory accesses, such as the CFA of PLT stubs.

Frame data of 32-bit x86 programs of Windows is written as STACK WIN records, after the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from whence._base.errors import WhenceError
from whence._base.window import Cursor
from whence.objects.machines import EM_386, EM_MIPS, EM_X86_64
from whence.unwind.cfi import CallFrames, Cfa, FrameSection, How, Rule, Target
from whence.unwind.constants import Operation
from whence.unwind.encoding import converted
from whence.unwind.frame_data import FrameTable
from whence.unwind.registers import MACHINES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.objects.interface import ObjectFile

DOLLARS = (EM_X86_64, EM_386, EM_MIPS)  # machines whose registers are written with a dollar sign
MOST_TERMS = 64  # of an expression
BINARY = {Operation.PLUS: "+", Operation.MINUS: "-", Operation.MUL: "*", Operation.DIV: "/", Operation.MOD: "%"}
CFA, RETURN = ".cfa", ".ra"
END_OF_STACK = "0"  # an undefined return address


class StackRules:
    """The rules of one machine as text.

    Args:
        names: Breakpad's name of each register, by DWARF number.
        bits, order: those of the file.
    """

    def __init__(self, names: dict[int, str], bits: int, order: ByteOrder) -> None:
        self._names, self._bits, self._order = names, bits, order

    def rules(self, cfa: Cfa | None, rules: dict[int, Rule], return_column: int) -> dict[str, str] | None:
        """Return the expression of each register, `.cfa` and `.ra` first; None if one of these has no form."""
        frame = None if cfa is None else self.frame(cfa)
        returned = rules.get(return_column)
        if returned is None:
            address = self._names.get(return_column)
        elif returned.how is How.UNDEFINED:
            address = END_OF_STACK
        else:
            address = self.value(return_column, returned)
        if frame is None or address is None:
            return None
        out = {CFA: frame, RETURN: address}
        for register, rule in rules.items():
            name, text = self._names.get(register), self.value(register, rule)
            if register != return_column and name is not None and text is not None:
                out[name] = text
        return out

    def frame(self, cfa: Cfa) -> str | None:
        """Return the CFA as text."""
        if cfa.expression is not None:
            return self.expression(cfa.expression)
        name = self._names.get(cfa.register)
        return None if name is None else f"{name} {cfa.offset} +"

    def value(self, register: int, rule: Rule) -> str | None:
        """Return the caller's value of a register as text; None without a form."""
        match rule.how:
            case How.OFFSET:
                return f"{CFA} {rule.number} + ^"
            case How.VAL_OFFSET:
                return f"{CFA} {rule.number} +"
            case How.REGISTER:
                return self._names.get(rule.number)
            case How.SAME:
                return self._names.get(register)
            case How.EXPRESSION:
                address = self.expression(rule.expression, CFA)
                return None if address is None else f"{address} ^"
            case How.VAL_EXPRESSION:
                return self.expression(rule.expression, CFA)
        return None

    def expression(self, program: bytes, *stack: str) -> str | None:
        """Return an expression of DWARF in postfix form, which is its own form; None if an operation has no sign."""
        cursor = Cursor(program, "CFI expression", order=self._order)
        terms = list(stack)
        try:
            while cursor.offset < len(program) and len(terms) < MOST_TERMS:
                term = self._term(cursor)
                if term is None:
                    return None
                terms.append(term)
        except WhenceError:
            return None
        return " ".join(terms) if terms and cursor.offset == len(program) else None

    def _term(self, cursor: Cursor) -> str | None:
        code = cursor.u8()
        if Operation.LIT0 <= code <= Operation.LIT31:
            return str(code - Operation.LIT0)
        if Operation.BREG0 <= code <= Operation.BREG31:
            name = self._names.get(code - Operation.BREG0)
            return None if name is None else f"{name} {cursor.sleb()} +"
        if code == Operation.DEREF:
            return "^"
        if code == Operation.PLUS_UCONST:
            return f"{cursor.uleb()} +"
        if code == Operation.CONSTU:
            return str(cursor.uleb())
        if code == Operation.CONSTS:
            return str(cursor.sleb())
        return BINARY.get(Operation(code)) if code in Operation.__members__.values() else None


def stack_records(elf: ObjectFile, debug_elf: ObjectFile, base: int) -> tuple[list[bytes], int]:
    """Return the STACK CFI and STACK WIN records of a file, and the number of functions whose rules have no form.

    Addresses are relative to `base`. Functions are those of .eh_frame, and those of .debug_frame, possibly of the debug
    file, that .eh_frame lacks; then those of a PE file's function table or of compact unwind information. There are no
    records for machines that are not unwound.
    """
    machine = MACHINES.get((elf.machine, elf.bits))
    if machine is None:
        return [], 0
    sign = "$" if elf.machine in DOLLARS else ""
    names = {number: sign + name for number, name in machine.names.items()}
    if elf.machine in DOLLARS:
        names.setdefault(len(names), f"${machine.pc_name}")
    rules = StackRules(names, elf.bits, elf.order)
    sections = [*CallFrames.of_elf(elf).sections]
    rows = converted(elf)
    if rows:
        sections.append(FrameSection(rows, 0, target=Target(elf.bits, elf.order)))
    if debug_elf is not elf:
        sections += [each for each in CallFrames.of_elf(debug_elf).sections if each.name == ".debug_frame"]
    records: list[tuple[int, bytes]] = []
    starts: set[int] = set()
    formless = 0
    for section in sections:
        own: set[int] = set()
        for start, record in section_records(section, rules, base, starts):
            own.add(start)
            if record:
                records.append((start, record))
            else:
                formless += 1
        starts |= own
    records.sort()
    frame_data = FrameTable.of_file(elf) or FrameTable.of_file(debug_elf)
    windows = (
        [] if frame_data is None else [f"{record}\n".encode("ascii", "replace") for record in frame_data.records()]
    )
    return [record for _, record in records] + windows, formless


def section_records(
    section: FrameSection, rules: StackRules, base: int, known: Iterable[int]
) -> Iterator[tuple[int, bytes]]:
    """Yield the start and the records of each function of a section; b"" if its rules have no form.

    Functions that start at `known` vaddrs are left out, and so are those with malformed instructions.
    """
    texts: dict[tuple[int, int], dict[str, str] | None] = {}
    changes: dict[tuple[int, int, int], str] = {}
    for start, end, column, rows in section.programs():
        if start in known or end <= start:
            continue
        lines: list[str] = []
        previous = -1
        for vaddr, state in rows:
            if (state, column) not in texts:
                texts[state, column] = rules.rules(*section.state(state), column)
            current = texts[state, column]
            if current is None:
                lines.clear()
                break
            key = previous, state, column
            if key not in changes:
                before = texts[previous, column] if previous >= 0 else {}
                changes[key] = changed(before or {}, current)
            if previous < 0:
                lines.append(f"STACK CFI INIT {vaddr - base:x} {end - start:x} {changes[key]}\n")
            elif changes[key]:
                lines.append(f"STACK CFI {vaddr - base:x} {changes[key]}\n")
            previous = state
        yield start, "".join(lines).encode()


def changed(before: dict[str, str], after: dict[str, str]) -> str:
    """Return the rules that differ; a register that has no rule any more has its own value."""
    rules = [f"{name}: {text}" for name, text in after.items() if before.get(name) != text]
    rules += [f"{name}: {name}" for name in before if name not in after]
    return " ".join(rules)
