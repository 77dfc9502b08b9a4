# What functions are called and where they are declared, remembered by the DIE that says so.

from whence.dwarf.kernels.abbrev cimport Tables
from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.shared cimport File

cdef struct Start:  # a function's declaration coordinates
    unsigned long long name
    unsigned long long file  # number in the file table of the unit that is walked; or OTHER, see below
    unsigned int line

cdef enum:  # bits of a file that counts in another table: unit's number << 32 | number there
    OTHER_FILE = 62  # of a unit of the same file
    ALT_FILE = 63  # of one of the supplementary file

cdef enum:  # the source of a name reference whose name is not qualified yet: worker.py calls it PLAIN, too
    PLAIN_SOURCE = 0xFFFF

cdef enum NameStyle:  # how functions are called; info.py has the words
    QUALIFIED = 0  # by the linkage name; without one, in C++ and Rust, by the name after what stands around it
    LINKAGE = 1  # by the linkage name, else by the name alone
    SHORT = 2  # by the name alone

cdef struct Names:
    int style
    unsigned long long* keys  # a hash table: key + 1 -> name
    unsigned long long* names
    unsigned long long count
    unsigned long long room  # a power of two, or 0
    unsigned long long* plain  # keys of DIEs whose name lacks what stands around them (C++, Rust)
    unsigned long long plain_count
    unsigned long long plain_room
    const unsigned long long* current  # the unit that is walked
    Start* starts
    unsigned long long start_count
    unsigned long long start_room
    int strangers  # were DIEs asked for that lie in no known unit?
    Budget budget

cdef unsigned long long function_name(
    Names* names, const File* file, const File* alt, Tables* tables, unsigned long long key
) noexcept nogil
cdef unsigned long long own_name(
    const File* file, const File* alt, Tables* tables, Budget* budget, unsigned long long key, int* strangers
) noexcept nogil
cdef void forget_names(Names* names) noexcept nogil
