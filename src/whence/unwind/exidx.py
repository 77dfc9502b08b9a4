"""ARM's exception tables as call frame information: `.ARM.exidx` and `.ARM.extab`.

    .ARM.exidx   pairs of words in order of address: the start of a function (31 bits, relative to the word) and how to
                 unwind it: three bytes of instructions in the word, instructions in .ARM.extab, or not at all
    .ARM.extab   a personality routine, then instructions that add to the stack pointer and pop registers

The instructions of an entry apply to all calls in the function, so that an entry makes one row. An entry covers the
code up to the next entry. Reference: "Exception Handling ABI for the Arm Architecture", sections 6 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.errors import DwarfError, ObjectError
from whence._base.window import Cursor
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence._base.window import ByteOrder
    from whence.objects.interface import ObjectFile

SECTION = ".ARM.exidx"
ENTRY_SIZE = 8
CANTUNWIND = 1
COMPACT = 1 << 31  # the word has instructions, or the number of the standard form that follows
SP, LINK, PC = 13, 14, 15
WORD = 4
# Instructions (section 10.3) by their first byte; *_END is the end of a range that starts where the previous one ends
ADD_TO_SP_END, SUBTRACT_FROM_SP_END, POP_MASK_END, SET_SP_END, POP_RANGE_END = 0x40, 0x80, 0x90, 0xA0, 0xB0
FINISH, POP_LOW_MASK, ADD_ULEB, POP_VFP_SINGLE = 0xB0, 0xB1, 0xB2, 0xB3
POP_AUTH_CODE, USE_AUTH_CODE, POP_VFP_FIXED, POP_VFP_FIXED_END = 0xB4, 0xB5, 0xB8, 0xC0
POP_WMMX, POP_WMMX_MASK, POP_VFP_HIGH, POP_VFP = 0xC6, 0xC7, 0xC8, 0xC9
POP_VFP_RANGE, POP_VFP_RANGE_END = 0xD0, 0xD8
LOW_MASK_END = 0x10
_CIE = Cie(1, 1, LINK, 0, 0xFF, False, False, 4, memoryview(b""))


class ExceptionIndex:
    """The `.ARM.exidx` section of a file."""

    def __init__(self, elf: ObjectFile, data: memoryview | bytes, vaddr: int) -> None:
        self.elf, self.data, self.vaddr = elf, memoryview(data), vaddr
        self.count = len(self.data) // ENTRY_SIZE

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> ExceptionIndex | None:
        """Return the table of a file, None if it has none."""
        section = elf.section(SECTION)
        if section is not None and section.in_file:
            try:
                return cls(elf, elf.content(section), section.vaddr)
            except ObjectError:
                return None
        located = elf.located(SECTION)
        return None if located is None else cls(elf, located[1], located[0])

    def find(self, vaddr: int) -> Fde | None:
        """Return how to unwind at `vaddr`, None if the table does not say. Raises DwarfError for a malformed entry.

        "Can't unwind" counts as no answer: linkers also write it for code that was built without tables.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._start(middle) <= vaddr:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        index = low - 1
        start = self._start(index)
        end = self._start(index + 1) if low < self.count else self._code_end(start)
        if not start <= vaddr < end:
            return None
        offset = index * ENTRY_SIZE
        if self._word(offset + WORD) == CANTUNWIND:
            return None
        cfa, rules = self._rules(offset)
        return Fde(start, end, _CIE, (CfiRow(start, cfa, rules),), SECTION, offset)

    def _word(self, offset: int) -> int:
        return int.from_bytes(self.data[offset : offset + WORD], self.elf.order)

    def _start(self, index: int) -> int:
        return _relative(self._word(index * ENTRY_SIZE), self.vaddr + index * ENTRY_SIZE) & ~1

    def _code_end(self, start: int) -> int:
        """Return the end of the code range that holds `start`."""
        return next((end for first, end in self.elf.code_ranges(or_loaded=True) if first <= start < end), start)

    def _rules(self, offset: int) -> tuple[Cfa, dict[int, Rule]]:
        word = self._word(offset + WORD)
        if word & COMPACT:
            return unwound(_instructions([word], 1, "big"), offset)
        table = _relative(word, self.vaddr + offset + WORD)
        try:
            first = int.from_bytes(self.elf.read_vaddr(table, WORD), self.elf.order)
            vaddr = table
            if not first & COMPACT:  # a personality routine, then words as in the second standard form
                vaddr = table + WORD
                first = int.from_bytes(self.elf.read_vaddr(vaddr, WORD), self.elf.order)
                skipped, more = 1, first >> 24
            elif first >> 24 & 0x0F == 0:
                skipped, more = 1, 0
            else:
                skipped, more = 2, first >> 16 & 0xFF
            rest = self.elf.read_vaddr(vaddr + WORD, WORD * more) if more else b""
        except (ObjectError, LookupError):
            rest, more = b"", 1
        if len(rest) < WORD * more:
            raise DwarfError(SECTION, offset, f"the entry's instructions at vaddr {table:#x} are not in the file")
        words = [first, *(int.from_bytes(rest[i : i + WORD], self.elf.order) for i in range(0, len(rest), WORD))]
        return unwound(_instructions(words, skipped, "big"), offset)


def _relative(word: int, address: int) -> int:
    """Decode a 31-bit offset relative to the address of its word."""
    return address + (word & 0x7FFFFFFF) - (word << 1 & 0x80000000) & 0xFFFFFFFF


def _instructions(words: list[int], skipped: int, order: ByteOrder) -> bytes:
    """Return the bytes of words, most significant first, without the first `skipped`."""
    return b"".join(word.to_bytes(WORD, order) for word in words)[skipped:]


def unwound(code: bytes, offset: int = 0) -> tuple[Cfa, dict[int, Rule]]:
    """Return the CFA and the saved registers that instructions describe (section 10.3). Raises DwarfError.

    >>> cfa, rules = unwound(bytes.fromhex("02a9b0"))  # 12 bytes; pop r4, r5, lr
    >>> cfa.offset, {register: rule.number for register, rule in rules.items()}
    (24, {4: -12, 5: -8, 14: -4})
    """
    base, depth = SP, 0
    saved: dict[int, int] = {}
    cursor = Cursor(code, SECTION)

    def pop(registers: list[int]) -> None:
        nonlocal depth
        for register in registers:
            saved[register] = depth
            depth += WORD

    def operand(read: Callable[[], int] = cursor.u8) -> int:
        try:
            return read()
        except DwarfError:  # its offset is relative to the instructions
            raise DwarfError(SECTION, offset, "an instruction extends past the end of the entry") from None

    def invalid(byte: int) -> DwarfError:
        return DwarfError(SECTION, offset, f"invalid unwind instruction {byte:#x}")

    while cursor.offset < len(code):
        byte = operand()
        if byte < ADD_TO_SP_END:
            depth += (byte << 2) + 4
        elif byte < SUBTRACT_FROM_SP_END:
            depth -= ((byte & 0x3F) << 2) + 4
        elif byte < POP_MASK_END:
            mask = (byte & 0x0F) << 8 | operand()
            if not mask:
                raise DwarfError(SECTION, offset, "the entry refuses to be unwound")
            pop([4 + bit for bit in range(12) if mask >> bit & 1])
        elif byte < SET_SP_END:
            register = byte & 0x0F
            if register in (SP, PC) or saved:
                raise invalid(byte)
            base, depth = register, 0
        elif byte < POP_RANGE_END:
            pop([*range(4, 5 + (byte & 7)), *([LINK] if byte & 8 else [])])
        elif byte == FINISH:
            break
        elif byte == POP_LOW_MASK:
            mask = operand()
            if not 0 < mask < LOW_MASK_END:
                raise invalid(mask)
            pop([bit for bit in range(4) if mask >> bit & 1])
        elif byte == ADD_ULEB:
            depth += 0x204 + (operand(cursor.uleb) << 2)
        elif byte == POP_VFP_SINGLE:
            depth += 8 * ((operand() & 0x0F) + 1) + 4
        elif byte == POP_AUTH_CODE:  # pops the return address's authentication code
            depth += WORD
        elif byte == USE_AUTH_CODE:  # the modifier of that code
            continue
        elif POP_VFP_FIXED <= byte < POP_VFP_FIXED_END:
            depth += 8 * ((byte & 7) + 1) + 4
        elif byte in (POP_WMMX, POP_VFP_HIGH, POP_VFP):
            depth += 8 * ((operand() & 0x0F) + 1)
        elif byte == POP_WMMX_MASK:
            depth += WORD * (operand() & 0x0F).bit_count()
        elif POP_VFP_FIXED_END <= byte < POP_WMMX or POP_VFP_RANGE <= byte < POP_VFP_RANGE_END:
            depth += 8 * ((byte & 7) + 1)
        else:
            raise invalid(byte)
    rules = {register: Rule(How.OFFSET, offset_from_sp - depth) for register, offset_from_sp in saved.items()}
    if PC in rules:
        rules[LINK] = rules.pop(PC)
    return Cfa(base, depth), rules
