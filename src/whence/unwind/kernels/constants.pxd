# Numbers of call frame information, by the standards' names: DWARF 5, sections 6.4 and 7.24, the LSB's exception frames,
# DWARF for the Arm 64-bit architecture. Kernels cimport them as C constants; Python imports them from the module of the
# same name.

cpdef enum:  # versions of a CIE: .eh_frame and DWARF 2, DWARF 3, DWARF 4 and 5
    CIE_GNU = 1
    CIE_DWARF3 = 3
    CIE_DWARF4 = 4

cpdef enum:  # instructions (DWARF 5, table 7.29)
    # the low six bits of the first three are an operand
    DW_CFA_advance_loc = 0x40
    DW_CFA_offset = 0x80
    DW_CFA_restore = 0xC0
    DW_CFA_nop = 0x00
    DW_CFA_set_loc = 0x01
    DW_CFA_advance_loc1 = 0x02
    DW_CFA_advance_loc2 = 0x03
    DW_CFA_advance_loc4 = 0x04
    DW_CFA_offset_extended = 0x05
    DW_CFA_restore_extended = 0x06
    DW_CFA_undefined = 0x07
    DW_CFA_same_value = 0x08
    DW_CFA_register = 0x09
    DW_CFA_remember_state = 0x0A
    DW_CFA_restore_state = 0x0B
    DW_CFA_def_cfa = 0x0C
    DW_CFA_def_cfa_register = 0x0D
    DW_CFA_def_cfa_offset = 0x0E
    DW_CFA_def_cfa_expression = 0x0F
    DW_CFA_expression = 0x10
    DW_CFA_offset_extended_sf = 0x11
    DW_CFA_def_cfa_sf = 0x12
    DW_CFA_def_cfa_offset_sf = 0x13
    DW_CFA_val_offset = 0x14
    DW_CFA_val_offset_sf = 0x15
    DW_CFA_val_expression = 0x16
    DW_CFA_MIPS_advance_loc8 = 0x1D
    DW_CFA_AARCH64_negate_ra_state_with_pc = 0x2C
    DW_CFA_AARCH64_negate_ra_state = 0x2D  # GNU_window_save on SPARC
    DW_CFA_GNU_args_size = 0x2E
    DW_CFA_GNU_negative_offset_extended = 0x2F

cpdef enum:  # of an instruction with an operand in its low bits
    CFA_HIGH_BITS = 0xC0
    CFA_LOW_BITS = 0x3F

cpdef enum:  # encodings of pointers in .eh_frame (LSB Core, "DWARF Exception Header Encoding")
    DW_EH_PE_absptr = 0x00
    DW_EH_PE_uleb128 = 0x01
    DW_EH_PE_udata2 = 0x02
    DW_EH_PE_udata4 = 0x03
    DW_EH_PE_udata8 = 0x04
    DW_EH_PE_sleb128 = 0x09
    DW_EH_PE_sdata2 = 0x0A
    DW_EH_PE_sdata4 = 0x0B
    DW_EH_PE_sdata8 = 0x0C
    DW_EH_PE_pcrel = 0x10
    DW_EH_PE_textrel = 0x20
    DW_EH_PE_datarel = 0x30
    DW_EH_PE_funcrel = 0x40
    DW_EH_PE_aligned = 0x50
    DW_EH_PE_indirect = 0x80
    DW_EH_PE_omit = 0xFF
    EH_PE_FORMAT_BITS = 0x0F
    EH_PE_BASE_BITS = 0x70

cpdef enum:  # .eh_frame_hdr in the form that linkers write
    EH_FRAME_HDR_VERSION = 1
    EH_FRAME_HDR_SIZE = 12  # up to the table
    EH_FRAME_HDR_ENTRY = 8
    EH_FRAME_HDR_POINTER = 0x1B  # pcrel, sdata4
    EH_FRAME_HDR_COUNT = 0x03  # udata4
    EH_FRAME_HDR_TABLE = 0x3B  # datarel, sdata4

cpdef enum:
    LENGTH_ESCAPE = 0xFFFFFFFF  # a 64-bit length follows

cpdef enum:  # rules of a register (DWARF 5, 6.4.1)
    HOW_UNDEFINED = 0
    HOW_SAME = 1
    HOW_OFFSET = 2  # in memory at CFA + number
    HOW_VAL_OFFSET = 3  # CFA + number
    HOW_REGISTER = 4  # in another register
    HOW_EXPRESSION = 5  # in memory at an expression's value
    HOW_VAL_EXPRESSION = 6  # an expression's value

cpdef enum:  # rules of the CFA
    CFA_NONE = 0
    CFA_REGISTER = 1  # a register plus an offset
    CFA_EXPRESSION = 2

cpdef enum:  # DW_OP_* of PLTs' expressions; unwind/constants.py has the others
    OP_AND = 0x1A
    OP_PLUS = 0x22
    OP_SHL = 0x24
    OP_GE = 0x2A
    OP_LIT0 = 0x30
    OP_LIT31 = 0x4F
    OP_BREG0 = 0x70
    OP_BREG31 = 0x8F

cpdef enum:  # faults; cfi.py has the messages
    FAULT_NONE = 0
    FAULT_NO_MEMORY = 1
    FAULT_CUT_OFF = 2
    FAULT_RECORD_END = 3
    FAULT_RECORD_OUTSIDE = 4
    FAULT_LEB = 5
    FAULT_ENCODING = 6
    FAULT_BASE = 7
    FAULT_OMITTED = 8
    FAULT_RANGE = 9
    FAULT_LONG_RANGE = 10
    FAULT_CIE_OUTSIDE = 11
    FAULT_NOT_CIE = 12
    FAULT_VERSION = 13
    FAULT_SIZES = 14
    FAULT_AUGMENTATION = 15
    FAULT_AUGMENTATION_END = 16
    FAULT_LONG_CIE = 17
    FAULT_LONG_FDE = 18
    FAULT_ORDER = 19
    FAULT_MANY_STATES = 20
    FAULT_NO_STATE = 21
    FAULT_INSTRUCTION = 22
    FAULT_CFA_PART = 23
    FAULT_MANY_RULES = 24
    FAULT_REGISTER = 25
    FAULT_COSTLY_RULES = 26
    FAULT_COSTLY_RUN = 27
