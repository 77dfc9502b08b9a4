"""Operations of DWARF expressions in call frame information. Other numbers are in kernels/constants.pxd."""

from __future__ import annotations

import enum

from whence.unwind.kernels import constants


class Operation(enum.IntEnum):
    """DW_OP_*: operations allowed in call frame information (DWARF 5, 6.4.2: no calls, no pieces)."""

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
    AND = constants.OP_AND
    DIV = 0x1B
    MINUS = 0x1C
    MOD = 0x1D
    MUL = 0x1E
    NEG = 0x1F
    NOT = 0x20
    OR = 0x21
    PLUS = constants.OP_PLUS
    PLUS_UCONST = 0x23
    SHL = constants.OP_SHL
    SHR = 0x25
    SHRA = 0x26
    XOR = 0x27
    BRA = 0x28
    EQ = 0x29
    GE = constants.OP_GE
    GT = 0x2B
    LE = 0x2C
    LT = 0x2D
    NE = 0x2E
    SKIP = 0x2F
    LIT0 = constants.OP_LIT0
    LIT31 = constants.OP_LIT31
    REG0 = 0x50
    REG31 = 0x6F
    BREG0 = constants.OP_BREG0
    BREG31 = constants.OP_BREG31
    BREGX = 0x92
    DEREF_SIZE = 0x94
    NOP = 0x96
