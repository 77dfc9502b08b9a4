# Readers of forms and references.
#
# Errors are sticky: a read past `end` sets the offset to end + 1, from where every later read fails, too; so kernels
# check once for each DIE (`at > end`).

from whence.dwarf.kernels.budget cimport Budget, spend
from whence.dwarf.kernels.constants cimport (
    DWARF2,
    DWARF64, RESERVED_LENGTH,
    DW_FORM_GNU_addr_index, DW_FORM_GNU_ref_alt, DW_FORM_GNU_str_index, DW_FORM_GNU_strp_alt, DW_FORM_addr,
    DW_FORM_addrx, DW_FORM_addrx1, DW_FORM_addrx2, DW_FORM_addrx3, DW_FORM_addrx4, DW_FORM_block, DW_FORM_block1,
    DW_FORM_block2, DW_FORM_block4, DW_FORM_data1, DW_FORM_data16, DW_FORM_data2, DW_FORM_data4, DW_FORM_data8,
    DW_FORM_exprloc, DW_FORM_flag, DW_FORM_flag_present, DW_FORM_implicit_const, DW_FORM_indirect,
    DW_FORM_line_strp, DW_FORM_loclistx, DW_FORM_ref1, DW_FORM_ref2, DW_FORM_ref4, DW_FORM_ref8, DW_FORM_ref_addr,
    DW_FORM_ref_sig8, DW_FORM_ref_sup4, DW_FORM_ref_sup8, DW_FORM_ref_udata, DW_FORM_rnglistx, DW_FORM_sdata,
    DW_FORM_sec_offset, DW_FORM_string, DW_FORM_strp, DW_FORM_strp_sup, DW_FORM_strx, DW_FORM_strx1,
    DW_FORM_strx2, DW_FORM_strx3, DW_FORM_strx4, DW_FORM_udata,
)
from whence.dwarf.kernels.units cimport (
    ADDRESS_SIZE, ADDR_BASE, ALT_BIT, DIE, END, OFFSET, OFFSET_SIZE, SIGNATURE, STR_BASE, TYPES_BIT, VERSION, WIDTH, File,
    SectionBytes, bytes_at, u64,
)
from whence.kernels.bytes cimport number, sleb, uleb
from whence.kernels.hashtable cimport find_u64


cdef inline u64 fixed(bytes_at data, u64* at, u64 end, int size, int big) noexcept nogil:
    cdef u64 here = at[0]
    if here > end or end - here < <u64>size:
        at[0] = end + 1
        return 0
    at[0] = here + size
    return number(data + here, size, big)


cdef inline void skip(u64* at, u64 end, u64 size) noexcept nogil:
    if at[0] > end or end - at[0] < size:
        at[0] = end + 1
    else:
        at[0] += size


cdef inline void skip_string(bytes_at data, u64* at, u64 end) noexcept nogil:
    cdef u64 here = at[0]
    while here < end:
        if data[here] == 0:
            at[0] = here + 1
            return
        here += 1
    at[0] = end + 1


cdef inline int form_size(u64 form, int address_size, int offset_size, int version) noexcept nogil:
    """Return the size of a form; -1 if it varies, -2 if the form is unknown."""
    if form in (DW_FORM_data1, DW_FORM_flag, DW_FORM_ref1, DW_FORM_strx1, DW_FORM_addrx1):
        return 1
    elif form in (DW_FORM_data2, DW_FORM_ref2, DW_FORM_strx2, DW_FORM_addrx2):
        return 2
    elif form in (DW_FORM_strx3, DW_FORM_addrx3):
        return 3
    elif form in (DW_FORM_data4, DW_FORM_ref4, DW_FORM_ref_sup4, DW_FORM_strx4, DW_FORM_addrx4):
        return 4
    elif form in (DW_FORM_data8, DW_FORM_ref8, DW_FORM_ref_sig8, DW_FORM_ref_sup8):
        return 8
    elif form == DW_FORM_data16:
        return 16
    elif form in (DW_FORM_flag_present, DW_FORM_implicit_const):
        return 0
    elif form == DW_FORM_addr:
        return address_size
    elif form in (
        DW_FORM_strp, DW_FORM_sec_offset, DW_FORM_strp_sup, DW_FORM_line_strp, DW_FORM_GNU_ref_alt,
        DW_FORM_GNU_strp_alt,
    ):
        return offset_size
    elif form == DW_FORM_ref_addr:
        return address_size if version == DWARF2 else offset_size
    elif form in (
        DW_FORM_string, DW_FORM_block, DW_FORM_block1, DW_FORM_block2, DW_FORM_block4, DW_FORM_exprloc, DW_FORM_sdata,
        DW_FORM_udata, DW_FORM_ref_udata, DW_FORM_indirect, DW_FORM_strx, DW_FORM_addrx, DW_FORM_loclistx,
        DW_FORM_rnglistx, DW_FORM_GNU_addr_index, DW_FORM_GNU_str_index,
    ):
        return -1
    return -2


cdef inline u64 indirect(bytes_at data, u64* at, u64 end, u64 form) noexcept nogil:
    """Return the form, read from the DIE for DW_FORM_indirect; a second indirect form is an error."""
    if form == DW_FORM_indirect:
        form = uleb(data, at, end)
        if form in (DW_FORM_indirect, DW_FORM_implicit_const):
            at[0] = end + 1
    return form


cdef inline void skip_form(bytes_at data, u64* at, u64 end, u64 form, const u64* unit, int big) noexcept nogil:
    cdef int size
    form = indirect(data, at, end, form)
    size = form_size(form, <int>unit[ADDRESS_SIZE], <int>unit[OFFSET_SIZE], <int>unit[VERSION])
    if size >= 0:
        skip(at, end, size)
    elif size == -2:
        at[0] = end + 1
    elif form == DW_FORM_string:
        skip_string(data, at, end)
    elif form in (DW_FORM_exprloc, DW_FORM_block):
        skip(at, end, uleb(data, at, end))
    elif form == DW_FORM_block1:
        skip(at, end, fixed(data, at, end, 1, big))
    elif form == DW_FORM_block2:
        skip(at, end, fixed(data, at, end, 2, big))
    elif form == DW_FORM_block4:
        skip(at, end, fixed(data, at, end, 4, big))
    else:
        uleb(data, at, end)


cdef inline u64 read_form(
    bytes_at data, u64* at, u64 end, u64* form, u64 implicit, const u64* unit, int big
) noexcept nogil:
    """Return the number of a form (its offset for an inline string, 0 for a block); resolves an indirect `form`."""
    cdef int size
    cdef u64 value
    form[0] = indirect(data, at, end, form[0])
    if form[0] == DW_FORM_implicit_const:
        return implicit
    if form[0] == DW_FORM_flag_present:
        return 1
    if form[0] == DW_FORM_sdata:
        return sleb(data, at, end)
    if form[0] == DW_FORM_string:
        value = at[0]
        skip_string(data, at, end)
        return value
    size = form_size(form[0], <int>unit[ADDRESS_SIZE], <int>unit[OFFSET_SIZE], <int>unit[VERSION])
    if size > 0 and size <= 8:
        return fixed(data, at, end, size, big)
    if size == 16 or size == -2 or form[0] in (
        DW_FORM_exprloc, DW_FORM_block, DW_FORM_block1, DW_FORM_block2, DW_FORM_block4
    ):
        skip_form(data, at, end, form[0], unit, big)
        return 0
    return uleb(data, at, end)


cdef struct Attribute:  # a specification of .debug_abbrev
    u64 name
    u64 form
    u64 implicit  # the value of DW_FORM_implicit_const


cdef inline bint next_attribute(bytes_at data, u64* at, u64 end, Attribute* attribute) noexcept nogil:
    """Read the next attribute specification of an abbreviation (7.5.3). False after the last, and if it is cut off."""
    attribute.name = uleb(data, at, end)
    attribute.form = uleb(data, at, end)
    attribute.implicit = sleb(data, at, end) if attribute.form == DW_FORM_implicit_const else 0
    return at[0] <= end and (attribute.name != 0 or attribute.form != 0)


cdef inline u64 entry_of(SectionBytes part, u64 base, u64 index, int size, int big, int* ok) noexcept nogil:
    """Return entry `index` of a table of numbers at `base` (.debug_addr, .debug_str_offsets)."""
    ok[0] = 0
    if base > part.size or index >= (part.size - base) / <u64>size:
        return 0
    ok[0] = 1
    return number(part.at + base + index * size, size, big)


cdef inline int is_index(u64 form) noexcept nogil:
    """Return True for forms that are indexes of .debug_addr."""
    return form in (DW_FORM_addrx, DW_FORM_GNU_addr_index) or (form >= DW_FORM_addrx1 and form <= DW_FORM_addrx4)


cdef inline u64 address_of(const File* file, const u64* unit, u64 value, u64 form, int* ok) noexcept nogil:
    ok[0] = 1
    if is_index(form):
        return entry_of(file.addr, unit[ADDR_BASE], value, <int>unit[ADDRESS_SIZE], file.big, ok)
    return value


cdef inline u64 name_of(const File* file, const File* alt, const u64* unit, u64 value, u64 form) noexcept nogil:
    """Return the name reference of a string form's value; 0 if it is outside its section."""
    cdef int ok = 1
    if form == DW_FORM_string:
        return file.info_ref | value
    if form == DW_FORM_strp:
        return file.strings_ref | value if value < file.strings.size else 0
    if form == DW_FORM_line_strp:
        return file.line_strings_ref | value if value < file.line_strings.size else 0
    if form in (DW_FORM_strp_sup, DW_FORM_GNU_strp_alt):
        return alt.strings_ref | value if value < alt.strings.size else 0
    if form in (DW_FORM_strx, DW_FORM_GNU_str_index) or (form >= DW_FORM_strx1 and form <= DW_FORM_strx4):
        value = entry_of(file.str_offsets, unit[STR_BASE], value, <int>unit[OFFSET_SIZE], file.big, &ok)
        return file.strings_ref | value if ok and value < file.strings.size else 0
    return 0


cdef inline u64 target_of(const u64* unit, u64 value, u64 form) noexcept nogil:
    """Return the key of the DIE of a reference form: its offset in .debug_info, or in the supplementary file.

    0 for other forms, and for offsets so large that they would change the flags of a key.
    """
    if form >= DW_FORM_ref1 and form <= DW_FORM_ref_udata:
        value += unit[OFFSET]
        return value if value >> TYPES_BIT == 0 else 0
    if value >> TYPES_BIT:
        return 0
    if form == DW_FORM_ref_addr:
        return value
    if form in (DW_FORM_GNU_ref_alt, DW_FORM_ref_sup4, DW_FORM_ref_sup8):
        return value | (<u64>1 << ALT_BIT)
    return 0


cdef inline const u64* unit_at(const File* file, u64 offset) noexcept nogil:
    """Return the unit that contains this offset of .debug_info, or NULL."""
    cdef u64 low = 0
    cdef u64 high = file.unit_count
    cdef u64 middle
    while low < high:
        middle = (low + high) // 2
        if file.units[middle * WIDTH + OFFSET] <= offset:
            low = middle + 1
        else:
            high = middle
    if low == 0 or offset >= file.units[(low - 1) * WIDTH + END]:
        return NULL
    return &file.units[(low - 1) * WIDTH]


cdef inline const u64* type_unit(const File* file, u64 signature) noexcept nogil:
    """Return the type unit of a signature, the first of several, or NULL."""
    cdef Py_ssize_t row = find_u64(&file.types, file.units + SIGNATURE, WIDTH * sizeof(u64), signature, file.seed)
    return &file.units[row * WIDTH] if row >= 0 else NULL


cdef inline u64 find_abbrev(const File* file, u64 start, u64 code, u64* end, Budget* budget) noexcept nogil:
    """Return the offset of the tag of `code` in .debug_abbrev, by walking the table from `start`; size + 1 on an error.

    Spends the attributes on the way.
    """
    cdef bytes_at data = file.abbrev.at
    cdef u64 size = file.abbrev.size
    cdef u64 at = start
    cdef u64 found
    cdef Attribute attribute
    cdef bint more
    end[0] = size
    if start > size:
        return size + 1
    while at < size:
        found = uleb(data, &at, size)
        if found == 0:
            break
        if found == code:
            return at
        uleb(data, &at, size)
        skip(&at, size, 1)
        more = True
        while more:
            more = next_attribute(data, &at, size, &attribute)
            if at > size or not spend(budget, 1):
                return size + 1
    return size + 1


cdef inline u64 largest(int width) noexcept nogil:
    """Return the largest address of `width` bytes."""
    return ~<u64>0 if width >= 8 else (<u64>1 << (8 * width)) - 1


cdef inline u64 is_dwarf64(u64 length) noexcept nogil:
    """Return True if a unit length of four bytes announces one of eight bytes (64-bit DWARF)."""
    return length == <u64>DWARF64


cdef inline u64 is_reserved_length(u64 length) noexcept nogil:
    return length >= <u64>RESERVED_LENGTH
