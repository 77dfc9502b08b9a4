"""ARM's exception tables as call frame information: .ARM.exidx and .ARM.extab.

    .ARM.exidx   pairs of words in order of address: where a function begins (31 bits, counted from the word), and how
                 it is unwound: by three bytes in the word itself, by bytes in .ARM.extab, or not by this table
    .ARM.extab   a personality routine, then instructions: bytes that add to the stack pointer and pop registers

The instructions of an entry say how a function is unwound at any of its calls: one row for all of it. An entry reaches
to the next one. Document: "Exception Handling ABI for the Arm Architecture", sections 6 and 10.
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
COMPACT = 1 << 31  # the word holds instructions, or which of the three standard forms follow
INSTRUCTIONS_LIMIT = 4 + 4 * 255  # bytes of an entry
SP, LINK, PC = 13, 14, 15
WORD = 4
# Instructions (section 10.3), by the bytes they begin with: each is of those below its number, from the one before on
ADD_TO_SP_END, SUBTRACT_FROM_SP_END, POP_MASK_END, SET_SP_END, POP_RANGE_END = 0x40, 0x80, 0x90, 0xA0, 0xB0
FINISH, POP_LOW_MASK, ADD_ULEB, POP_VFP_SINGLE = 0xB0, 0xB1, 0xB2, 0xB3
POP_AUTH_CODE, USE_AUTH_CODE, POP_VFP_FIXED, POP_VFP_FIXED_END = 0xB4, 0xB5, 0xB8, 0xC0
POP_WMMX, POP_WMMX_MASK, POP_VFP_HIGH, POP_VFP = 0xC6, 0xC7, 0xC8, 0xC9
POP_VFP_RANGE, POP_VFP_RANGE_END = 0xD0, 0xD8
LOW_MASK_END = 0x10
_CIE = Cie(1, 1, LINK, 0, 0xFF, False, False, 4, memoryview(b""))


class ExceptionIndex:
    """.ARM.exidx of a file."""

    def __init__(self, elf: ObjectFile, data: memoryview | bytes, vaddr: int) -> None:
        self.elf, self.data, self.vaddr = elf, memoryview(data), vaddr
        self.count = len(self.data) // ENTRY_SIZE

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> ExceptionIndex | None:
        """None where there is none."""
        section = elf.section(SECTION)
        if section is not None and section.in_file:
            try:
                return cls(elf, elf.content(section), section.vaddr)
            except ObjectError:
                return None
        located = elf.located(SECTION)
        return None if located is None else cls(elf, located[1], located[0])

    def find(self, vaddr: int) -> Fde | None:
        """How to unwind at a vaddr; None where nothing says so. Raises DwarfError where the entry breaks a rule.

        "Can't unwind" says nothing: linkers write it for code that was built without tables, too, not only for code
        without a caller.
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
        return _place(self._word(index * ENTRY_SIZE), self.vaddr + index * ENTRY_SIZE) & ~1

    def _code_end(self, start: int) -> int:
        """Where code ends that begins before a vaddr."""
        return next((end for first, end in self.elf.code_ranges(or_loaded=True) if first <= start < end), start)

    def _rules(self, offset: int) -> tuple[Cfa, dict[int, Rule]]:
        word = self._word(offset + WORD)
        if word & COMPACT:
            return unwound(_bytes([word], 1, "big"), offset)
        place = _place(word, self.vaddr + offset + WORD)
        try:
            first = int.from_bytes(self.elf.read_vaddr(place, WORD), self.elf.order)
            at = place
            if not first & COMPACT:  # a personality routine, then words like those of the second standard form
                at = place + WORD
                first = int.from_bytes(self.elf.read_vaddr(at, WORD), self.elf.order)
                skipped, more = 1, first >> 24
            elif first >> 24 & 0x0F == 0:
                skipped, more = 1, 0
            else:
                skipped, more = 2, first >> 16 & 0xFF
            rest = self.elf.read_vaddr(at + WORD, WORD * more) if more else b""
        except (ObjectError, LookupError):
            raise DwarfError(SECTION, offset, "an entry's instructions are in the file", f"{place:#x}") from None
        if len(rest) < WORD * more:
            raise DwarfError(SECTION, offset, "an entry's instructions are in the file", f"{place:#x}")
        words = [first, *(int.from_bytes(rest[i : i + WORD], self.elf.order) for i in range(0, len(rest), WORD))]
        return unwound(_bytes(words, skipped, "big"), offset)


def _place(word: int, at: int) -> int:
    """What 31 bits that count from their own place mean."""
    return at + (word & 0x7FFFFFFF) - (word << 1 & 0x80000000) & 0xFFFFFFFF


def _bytes(words: list[int], skipped: int, order: ByteOrder) -> bytes:
    """The bytes of words from the highest down, without the first ones."""
    return b"".join(word.to_bytes(WORD, order) for word in words)[skipped:]


def unwound(code: bytes, offset: int = 0) -> tuple[Cfa, dict[int, Rule]]:
    """What instructions say (section 10.3): the CFA, and where registers were saved. Raises DwarfError.

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
        except DwarfError:  # which names a place among the instructions
            raise DwarfError(SECTION, offset, "instructions end inside an entry", "more") from None

    def refused(byte: int) -> DwarfError:
        return DwarfError(SECTION, offset, "its instructions are those of the ABI", f"{byte:#x}")

    while cursor.at < len(code):
        byte = operand()
        if byte < ADD_TO_SP_END:
            depth += (byte << 2) + 4
        elif byte < SUBTRACT_FROM_SP_END:
            depth -= ((byte & 0x3F) << 2) + 4
        elif byte < POP_MASK_END:
            mask = (byte & 0x0F) << 8 | operand()
            if not mask:
                raise DwarfError(SECTION, offset, "a function may be unwound", "a refusal")
            pop([4 + bit for bit in range(12) if mask >> bit & 1])
        elif byte < SET_SP_END:
            register = byte & 0x0F
            if register in (SP, PC) or saved:
                raise refused(byte)
            base, depth = register, 0
        elif byte < POP_RANGE_END:
            pop([*range(4, 5 + (byte & 7)), *([LINK] if byte & 8 else [])])
        elif byte == FINISH:
            break
        elif byte == POP_LOW_MASK:
            mask = operand()
            if not 0 < mask < LOW_MASK_END:
                raise refused(mask)
            pop([bit for bit in range(4) if mask >> bit & 1])
        elif byte == ADD_ULEB:
            depth += 0x204 + (operand(cursor.uleb) << 2)
        elif byte == POP_VFP_SINGLE:
            depth += 8 * ((operand() & 0x0F) + 1) + 4
        elif byte == POP_AUTH_CODE:  # the return address's authentication code
            depth += WORD
        elif byte == USE_AUTH_CODE:  # what it was made with
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
            raise refused(byte)
    rules = {register: Rule(How.OFFSET, place - depth) for register, place in saved.items()}
    if PC in rules:
        rules[LINK] = rules.pop(PC)
    return Cfa(base, depth), rules
