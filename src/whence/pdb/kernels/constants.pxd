# Numbers of CodeView, by the names in Microsoft's cvinfo.h. Kernels cimport them as C constants.

cpdef enum:  # kinds of symbol records
    S_END = 0x0006
    S_THUNK32 = 0x1102
    S_BLOCK32 = 0x1103
    S_WITH32 = 0x1104
    S_LPROC32 = 0x110F
    S_GPROC32 = 0x1110
    S_GMANPROC = 0x112A
    S_LMANPROC = 0x112B
    S_SEPCODE = 0x1132
    S_LPROC32_ID = 0x1146
    S_GPROC32_ID = 0x1147
    S_INLINESITE = 0x114D
    S_INLINESITE_END = 0x114E
    S_PROC_ID_END = 0x114F
    S_LPROC32_DPC = 0x1155
    S_LPROC32_DPC_ID = 0x1156
    S_INLINESITE2 = 0x115D

cpdef enum:  # kinds of subsections of lines; the highest bit: ignore it
    DEBUG_S_LINES = 0xF2
    DEBUG_S_FILECHKSMS = 0xF4
    DEBUG_S_INLINEELINES = 0xF6
    DEBUG_S_CROSSSCOPEIMPORTS = 0xF7
    DEBUG_S_CROSSSCOPEEXPORTS = 0xF8

cpdef enum:  # ids of other modules: an entry of the module's imports, and an id in it
    CROSSING = 0x80000000
    CROSSING_SHIFT = 20
    CROSSING_ENTRY = 0x7FF
    CROSSING_ITEM = 0xFFFFF

cpdef enum:
    CV_LINES_HAVE_COLUMNS = 1
    CV_INLINEE_SOURCE_LINE_SIGNATURE_EX = 1  # each entry lists further files

cpdef enum:  # lines of code that has no line: debuggers step over it, or into it
    NEVER_STEP_INTO = 0xF00F00
    ALWAYS_STEP_INTO = 0xFEEFEE
    LINE_MASK = 0xFFFFFF

cpdef enum:  # binary annotations
    BA_OP_Invalid = 0
    BA_OP_CodeOffset = 1
    BA_OP_ChangeCodeOffsetBase = 2
    BA_OP_ChangeCodeOffset = 3
    BA_OP_ChangeCodeLength = 4
    BA_OP_ChangeFile = 5
    BA_OP_ChangeLineOffset = 6
    BA_OP_ChangeLineEndDelta = 7
    BA_OP_ChangeRangeKind = 8
    BA_OP_ChangeColumnStart = 9
    BA_OP_ChangeColumnEndDelta = 10
    BA_OP_ChangeCodeOffsetAndLineOffset = 11
    BA_OP_ChangeCodeLengthAndCodeOffset = 12
    BA_OP_ChangeColumnEnd = 13

cpdef enum:  # kinds of type and id records
    LF_CLASS = 0x1504
    LF_STRUCTURE = 0x1505
    LF_UNION = 0x1506
    LF_ENUM = 0x1507
    LF_INTERFACE = 0x1519
    LF_FUNC_ID = 0x1601
    LF_MFUNC_ID = 0x1602
    LF_STRING_ID = 0x1605
    LF_CLASS2 = 0x1608
    LF_STRUCTURE2 = 0x1609
    LF_UNION2 = 0x160A
    LF_INTERFACE2 = 0x160B

cpdef enum:  # numbers in records: below LF_NUMERIC the value itself
    LF_NUMERIC = 0x8000
    LF_CHAR = 0x8000
    LF_SHORT = 0x8001
    LF_USHORT = 0x8002
    LF_LONG = 0x8003
    LF_ULONG = 0x8004
    LF_QUADWORD = 0x8009
    LF_UQUADWORD = 0x800A

cpdef enum:
    FIRST_TYPE = 0x1000  # lower numbers are simple types
    MAX_DEPTH = 256  # scopes and inlined calls inside each other
