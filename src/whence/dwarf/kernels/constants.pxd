# The numbers of the DWARF standards, as they name them: DWARF 5, chapter 7, and what GNU, LLVM and dwz add. The only
# place that has them. Kernels cimport them as constants of C; Python imports them from the module of the same name,
# which a `cpdef enum` without a name fills with plain integers. What this package never asks for is left out.

cpdef enum:  # values of unit_length (7.4)
    DWARF64 = 0xFFFFFFFF  # the length follows, in 8 bytes
    RESERVED_LENGTH = 0xFFFFFFF0  # from here on

cpdef enum:  # versions of a unit and of its line table; an index of GNU's packages counts its own
    DWARF2 = 2
    DWARF3 = 3
    DWARF4 = 4
    DWARF5 = 5
    GNU_INDEX = 2

cpdef enum:  # tags (7.5.3, table 7.3)
    DW_TAG_array_type = 0x01
    DW_TAG_class_type = 0x02
    DW_TAG_enumeration_type = 0x04
    DW_TAG_formal_parameter = 0x05
    DW_TAG_lexical_block = 0x0B
    DW_TAG_member = 0x0D
    DW_TAG_pointer_type = 0x0F
    DW_TAG_structure_type = 0x13
    DW_TAG_subroutine_type = 0x15
    DW_TAG_typedef = 0x16
    DW_TAG_union_type = 0x17
    DW_TAG_unspecified_parameters = 0x18
    DW_TAG_variant = 0x19
    DW_TAG_inheritance = 0x1C
    DW_TAG_inlined_subroutine = 0x1D
    DW_TAG_module = 0x1E
    DW_TAG_subrange_type = 0x21
    DW_TAG_base_type = 0x24
    DW_TAG_const_type = 0x26
    DW_TAG_enumerator = 0x28
    DW_TAG_subprogram = 0x2E
    DW_TAG_template_type_parameter = 0x2F
    DW_TAG_template_value_parameter = 0x30
    DW_TAG_variant_part = 0x33
    DW_TAG_variable = 0x34
    DW_TAG_interface_type = 0x38
    DW_TAG_namespace = 0x39
    DW_TAG_partial_unit = 0x3C
    DW_TAG_reference_type = 0x10
    DW_TAG_ptr_to_member_type = 0x1F
    DW_TAG_unspecified_type = 0x3B
    DW_TAG_volatile_type = 0x35
    DW_TAG_restrict_type = 0x37
    DW_TAG_rvalue_reference_type = 0x42
    DW_TAG_generic_subrange = 0x45
    DW_TAG_atomic_type = 0x47
    DW_TAG_call_site = 0x48
    DW_TAG_call_site_parameter = 0x49
    DW_TAG_GNU_template_template_param = 0x4106
    DW_TAG_GNU_template_parameter_pack = 0x4107
    DW_TAG_GNU_formal_parameter_pack = 0x4108
    DW_TAG_GNU_call_site = 0x4109
    DW_TAG_GNU_call_site_parameter = 0x410A

cpdef enum:  # attributes (7.5.4, table 7.5)
    DW_AT_sibling = 0x01
    DW_AT_location = 0x02
    DW_AT_name = 0x03
    DW_AT_byte_size = 0x0B
    DW_AT_bit_offset = 0x0C
    DW_AT_bit_size = 0x0D
    DW_AT_stmt_list = 0x10
    DW_AT_low_pc = 0x11
    DW_AT_high_pc = 0x12
    DW_AT_language = 0x13
    DW_AT_discr = 0x15
    DW_AT_discr_value = 0x16
    DW_AT_const_value = 0x1C
    DW_AT_containing_type = 0x1D
    DW_AT_prototyped = 0x27
    DW_AT_bit_stride = 0x2E
    DW_AT_lower_bound = 0x22
    DW_AT_upper_bound = 0x2F
    DW_AT_count = 0x37
    DW_AT_data_member_location = 0x38
    DW_AT_comp_dir = 0x1B
    DW_AT_abstract_origin = 0x31
    DW_AT_artificial = 0x34
    DW_AT_decl_file = 0x3A
    DW_AT_decl_line = 0x3B
    DW_AT_declaration = 0x3C
    DW_AT_encoding = 0x3E
    DW_AT_external = 0x3F
    DW_AT_frame_base = 0x40
    DW_AT_specification = 0x47
    DW_AT_type = 0x49
    DW_AT_byte_stride = 0x51
    DW_AT_data_location = 0x50
    DW_AT_ranges = 0x55
    DW_AT_call_column = 0x57
    DW_AT_call_file = 0x58
    DW_AT_call_line = 0x59
    DW_AT_signature = 0x69
    DW_AT_data_bit_offset = 0x6B
    DW_AT_enum_class = 0x6D
    DW_AT_linkage_name = 0x6E
    DW_AT_str_offsets_base = 0x72
    DW_AT_addr_base = 0x73
    DW_AT_rnglists_base = 0x74
    DW_AT_dwo_name = 0x76
    DW_AT_call_return_pc = 0x7D
    DW_AT_call_parameter = 0x80
    DW_AT_call_target = 0x83
    DW_AT_call_value = 0x7E
    DW_AT_call_origin = 0x7F
    DW_AT_call_tail_call = 0x82
    DW_AT_call_pc = 0x81
    DW_AT_loclists_base = 0x8C
    DW_AT_MIPS_linkage_name = 0x2007
    DW_AT_GNU_vector = 0x2107
    DW_AT_GNU_call_site_value = 0x2111
    DW_AT_GNU_call_site_target = 0x2113
    DW_AT_GNU_tail_call = 0x2115
    DW_AT_GNU_dwo_name = 0x2130
    DW_AT_GNU_dwo_id = 0x2131
    DW_AT_GNU_ranges_base = 0x2132
    DW_AT_GNU_addr_base = 0x2133
    DW_AT_GNU_discriminator = 0x2136
    DW_AT_go_runtime_type = 0x2904
    DW_AT_LLVM_tag_offset = 0x3E03

cpdef enum:  # forms (7.5.6, table 7.6)
    DW_FORM_addr = 0x01
    DW_FORM_block2 = 0x03
    DW_FORM_block4 = 0x04
    DW_FORM_data2 = 0x05
    DW_FORM_data4 = 0x06
    DW_FORM_data8 = 0x07
    DW_FORM_string = 0x08
    DW_FORM_block = 0x09
    DW_FORM_block1 = 0x0A
    DW_FORM_data1 = 0x0B
    DW_FORM_flag = 0x0C
    DW_FORM_sdata = 0x0D
    DW_FORM_strp = 0x0E
    DW_FORM_udata = 0x0F
    DW_FORM_ref_addr = 0x10
    DW_FORM_ref1 = 0x11
    DW_FORM_ref2 = 0x12
    DW_FORM_ref4 = 0x13
    DW_FORM_ref8 = 0x14
    DW_FORM_ref_udata = 0x15
    DW_FORM_indirect = 0x16
    DW_FORM_sec_offset = 0x17
    DW_FORM_exprloc = 0x18
    DW_FORM_flag_present = 0x19
    DW_FORM_strx = 0x1A
    DW_FORM_addrx = 0x1B
    DW_FORM_ref_sup4 = 0x1C
    DW_FORM_strp_sup = 0x1D
    DW_FORM_data16 = 0x1E
    DW_FORM_line_strp = 0x1F
    DW_FORM_ref_sig8 = 0x20
    DW_FORM_implicit_const = 0x21
    DW_FORM_loclistx = 0x22
    DW_FORM_rnglistx = 0x23
    DW_FORM_ref_sup8 = 0x24
    DW_FORM_strx1 = 0x25
    DW_FORM_strx2 = 0x26
    DW_FORM_strx3 = 0x27
    DW_FORM_strx4 = 0x28
    DW_FORM_addrx1 = 0x29
    DW_FORM_addrx2 = 0x2A
    DW_FORM_addrx3 = 0x2B
    DW_FORM_addrx4 = 0x2C
    DW_FORM_GNU_addr_index = 0x1F01
    DW_FORM_GNU_str_index = 0x1F02
    DW_FORM_GNU_ref_alt = 0x1F20
    DW_FORM_GNU_strp_alt = 0x1F21

cpdef enum:  # types of units (7.5.1, table 7.2)
    DW_UT_compile = 0x01
    DW_UT_type = 0x02
    DW_UT_partial = 0x03
    DW_UT_skeleton = 0x04
    DW_UT_split_compile = 0x05
    DW_UT_split_type = 0x06

cpdef enum:  # languages (7.12, table 7.17, and dwarfstd.org's list of those named later)
    DW_LANG_C89 = 0x01
    DW_LANG_C = 0x02
    DW_LANG_C_plus_plus = 0x04
    DW_LANG_Cobol74 = 0x05
    DW_LANG_Cobol85 = 0x06
    DW_LANG_Fortran77 = 0x07
    DW_LANG_Pascal83 = 0x09
    DW_LANG_Go = 0x16
    DW_LANG_C99 = 0x0C
    DW_LANG_PLI = 0x0F
    DW_LANG_UPC = 0x12
    DW_LANG_C_plus_plus_11 = 0x1A
    DW_LANG_Rust = 0x1C
    DW_LANG_C11 = 0x1D
    DW_LANG_C_plus_plus_14 = 0x21
    DW_LANG_C_plus_plus_17 = 0x2A
    DW_LANG_C_plus_plus_20 = 0x2B
    DW_LANG_C17 = 0x2C
    DW_LANG_C_plus_plus_23 = 0x3A
    DW_LANG_Mips_Assembler = 0x8001

cpdef enum:  # entries of range lists (7.25, table 7.30)
    DW_RLE_end_of_list = 0x00
    DW_RLE_base_addressx = 0x01
    DW_RLE_startx_endx = 0x02
    DW_RLE_startx_length = 0x03
    DW_RLE_offset_pair = 0x04
    DW_RLE_base_address = 0x05
    DW_RLE_start_end = 0x06
    DW_RLE_start_length = 0x07

cpdef enum:  # standard opcodes of line programs (7.22, table 7.25)
    DW_LNS_copy = 0x01
    DW_LNS_advance_pc = 0x02
    DW_LNS_advance_line = 0x03
    DW_LNS_set_file = 0x04
    DW_LNS_set_column = 0x05
    DW_LNS_negate_stmt = 0x06
    DW_LNS_set_basic_block = 0x07
    DW_LNS_const_add_pc = 0x08
    DW_LNS_fixed_advance_pc = 0x09
    DW_LNS_set_prologue_end = 0x0A
    DW_LNS_set_epilogue_begin = 0x0B
    DW_LNS_set_isa = 0x0C

cpdef enum:  # extended opcodes of line programs (7.22, table 7.26)
    DW_LNE_end_sequence = 0x01
    DW_LNE_set_address = 0x02
    DW_LNE_define_file = 0x03
    DW_LNE_set_discriminator = 0x04

cpdef enum:  # what an entry of a line program's file tables says (7.22, table 7.27)
    DW_LNCT_path = 0x1
    DW_LNCT_directory_index = 0x2

cpdef enum:  # operations of location expressions (7.7.1); those of call frame information are in unwind/constants.py
    DW_OP_addr = 0x03
    DW_OP_deref = 0x06
    DW_OP_plus_uconst = 0x23
    DW_OP_reg0 = 0x50
    DW_OP_reg31 = 0x6F
    DW_OP_breg0 = 0x70
    DW_OP_regx = 0x90
    DW_OP_fbreg = 0x91
    DW_OP_piece = 0x93
    DW_OP_push_object_address = 0x97
    DW_OP_form_tls_address = 0x9B
    DW_OP_call_frame_cfa = 0x9C
    DW_OP_bit_piece = 0x9D
    DW_OP_implicit_value = 0x9E
    DW_OP_stack_value = 0x9F
    DW_OP_implicit_pointer = 0xA0
    DW_OP_addrx = 0xA1
    DW_OP_constx = 0xA2
    DW_OP_entry_value = 0xA3
    DW_OP_const_type = 0xA4
    DW_OP_regval_type = 0xA5
    DW_OP_deref_type = 0xA6
    DW_OP_convert = 0xA8
    DW_OP_reinterpret = 0xA9
    DW_OP_GNU_push_tls_address = 0xE0
    DW_OP_GNU_uninit = 0xF0
    DW_OP_GNU_implicit_pointer = 0xF2
    DW_OP_GNU_entry_value = 0xF3
    DW_OP_GNU_const_type = 0xF4
    DW_OP_GNU_regval_type = 0xF5
    DW_OP_GNU_deref_type = 0xF6
    DW_OP_GNU_convert = 0xF7
    DW_OP_GNU_reinterpret = 0xF9
    DW_OP_GNU_parameter_ref = 0xFA
    DW_OP_GNU_addr_index = 0xFB
    DW_OP_GNU_const_index = 0xFC

cpdef enum:  # encodings of base types (7.8, table 7.11)
    DW_ATE_address = 0x01
    DW_ATE_boolean = 0x02
    DW_ATE_complex_float = 0x03
    DW_ATE_float = 0x04
    DW_ATE_signed = 0x05
    DW_ATE_signed_char = 0x06
    DW_ATE_unsigned = 0x07
    DW_ATE_unsigned_char = 0x08
    DW_ATE_UTF = 0x10

cpdef enum:  # kinds of entries of location lists (7.7.3, table 7.10)
    DW_LLE_end_of_list = 0x00
    DW_LLE_base_addressx = 0x01
    DW_LLE_startx_endx = 0x02
    DW_LLE_startx_length = 0x03
    DW_LLE_offset_pair = 0x04
    DW_LLE_default_location = 0x05
    DW_LLE_base_address = 0x06
    DW_LLE_start_end = 0x07
    DW_LLE_start_length = 0x08

cpdef enum:  # sections that the index of a package names (7.3.5.3, table 7.1)
    DW_SECT_INFO = 0x1
    DW_SECT_TYPES = 0x2
    DW_SECT_ABBREV = 0x3
    DW_SECT_STR_OFFSETS = 0x6
    DW_SECT_RNGLISTS = 0x8
