# The line number machine, as the kernel that runs many programs at once shares it.

cdef struct Machine:
    const unsigned char* data  # of .debug_line
    unsigned long long at  # registers: offset, address, op_index, file, line
    unsigned long long end
    unsigned long long address
    unsigned long long op_index
    unsigned long long current
    unsigned int where
    Py_ssize_t rows  # so far; sequences so far; first row of the open sequence and its flags
    Py_ssize_t sequences
    Py_ssize_t first
    unsigned long long unsorted
    unsigned long long step  # the header: minimum_instruction_length, maximum_operations_per_instruction, ...
    unsigned long long slots
    long long base
    long long span
    int special  # opcode_base
    int big
    int width  # bytes of an address
    const unsigned char* lengths  # operands of standard opcodes 1, 2, ...
    Py_ssize_t operands
    unsigned long long lowest  # the first vaddr that can be code
    unsigned long long* va  # columns, and their room
    unsigned int* file
    unsigned int* line
    Py_ssize_t room
    unsigned long long* sequence
    Py_ssize_t sequence_room
    unsigned char* used  # set to 1 at the numbers of files that rows name
    Py_ssize_t known
    unsigned long long start  # where what it stopped at begins

cdef int execute(Machine* machine) noexcept nogil
cdef Py_ssize_t settled(
    unsigned long long* sequences, Py_ssize_t count,
    const unsigned long long* va, const unsigned int* file, const unsigned int* line,
    const unsigned int* renumbered, Py_ssize_t known,
    unsigned long long* out_va, unsigned int* out_file, unsigned int* out_line,
) noexcept nogil
