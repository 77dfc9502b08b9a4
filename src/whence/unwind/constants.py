"""Numbers of call frame information: DWARF 5 sections 6.4 and 7, the LSB's exception frames, and aarch64's DWARF."""

from __future__ import annotations

import enum

PT_GNU_EH_FRAME = 0x6474E550  # a segment: .eh_frame_hdr
NT_SIGINFO = 0x53494749  # a note of a core: struct siginfo of the signal


class Instruction(enum.IntEnum):
    """DW_CFA_*: table 7.29 of DWARF 5. Of the first three the low six bits are an operand."""

    ADVANCE_LOC = 0x40
    OFFSET = 0x80
    RESTORE = 0xC0
    NOP = 0x00
    SET_LOC = 0x01
    ADVANCE_LOC1 = 0x02
    ADVANCE_LOC2 = 0x03
    ADVANCE_LOC4 = 0x04
    OFFSET_EXTENDED = 0x05
    RESTORE_EXTENDED = 0x06
    UNDEFINED = 0x07
    SAME_VALUE = 0x08
    REGISTER = 0x09
    REMEMBER_STATE = 0x0A
    RESTORE_STATE = 0x0B
    DEF_CFA = 0x0C
    DEF_CFA_REGISTER = 0x0D
    DEF_CFA_OFFSET = 0x0E
    DEF_CFA_EXPRESSION = 0x0F
    EXPRESSION = 0x10
    OFFSET_EXTENDED_SF = 0x11
    DEF_CFA_SF = 0x12
    DEF_CFA_OFFSET_SF = 0x13
    VAL_OFFSET = 0x14
    VAL_OFFSET_SF = 0x15
    VAL_EXPRESSION = 0x16
    MIPS_ADVANCE_LOC8 = 0x1D
    AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2C
    AARCH64_NEGATE_RA_STATE = 0x2D  # GNU_window_save on SPARC, which is not unwound
    GNU_ARGS_SIZE = 0x2E
    GNU_NEGATIVE_OFFSET_EXTENDED = 0x2F


HIGH_BITS, LOW_BITS = 0xC0, 0x3F  # of an instruction with its operand inside


class Encoding(enum.IntEnum):
    """DW_EH_PE_*: how a pointer of .eh_frame is written (LSB Core, "DWARF Exception Header Encoding")."""

    ABSPTR = 0x00
    ULEB128 = 0x01
    UDATA2 = 0x02
    UDATA4 = 0x03
    UDATA8 = 0x04
    SLEB128 = 0x09
    SDATA2 = 0x0A
    SDATA4 = 0x0B
    SDATA8 = 0x0C
    PCREL = 0x10
    TEXTREL = 0x20
    DATAREL = 0x30
    FUNCREL = 0x40
    ALIGNED = 0x50
    INDIRECT = 0x80
    OMIT = 0xFF


FORMAT_BITS, BASE_BITS = 0x0F, 0x70


class Operation(enum.IntEnum):
    """DW_OP_*: those that an expression of call frame information may have (DWARF 5, 6.4.2: no calls, no pieces)."""

    ADDR = 0x03
    DEREF = 0x06
    CONST1U = 0x08
    CONST1S = 0x09
    CONST2U = 0x0A
    CONST2S = 0x0B
    CONST4U = 0x0C
    CONST4S = 0x0D
    CONST8U = 0x0E
    CONST8S = 0x0F
    CONSTU = 0x10
    CONSTS = 0x11
    DUP = 0x12
    DROP = 0x13
    OVER = 0x14
    PICK = 0x15
    SWAP = 0x16
    ROT = 0x17
    ABS = 0x19
    AND = 0x1A
    DIV = 0x1B
    MINUS = 0x1C
    MOD = 0x1D
    MUL = 0x1E
    NEG = 0x1F
    NOT = 0x20
    OR = 0x21
    PLUS = 0x22
    PLUS_UCONST = 0x23
    SHL = 0x24
    SHR = 0x25
    SHRA = 0x26
    XOR = 0x27
    BRA = 0x28
    EQ = 0x29
    GE = 0x2A
    GT = 0x2B
    LE = 0x2C
    LT = 0x2D
    NE = 0x2E
    SKIP = 0x2F
    LIT0 = 0x30
    LIT31 = 0x4F
    REG0 = 0x50
    REG31 = 0x6F
    BREG0 = 0x70
    BREG31 = 0x8F
    BREGX = 0x92
    DEREF_SIZE = 0x94
    NOP = 0x96
