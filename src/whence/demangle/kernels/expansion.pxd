# Parts of a mangled name.

cdef inline bint is_digit(unsigned char letter) noexcept nogil:
    return c"0" <= letter <= c"9"

cdef inline bint is_capital(unsigned char letter) noexcept nogil:
    return c"A" <= letter <= c"Z"

cdef inline Py_ssize_t count_references(const unsigned char *name, Py_ssize_t size) noexcept nogil:
    """Return an upper bound of the references in a name of C++ or Rust: each ends in "_", or is a pack."""
    cdef Py_ssize_t index, count = 0
    for index in range(size):
        if name[index] == c"_":
            count += 1
        elif name[index] == c"p" and index and (name[index - 1] == c"D" or name[index - 1] == c"s"):
            count += 1
    return count

cdef struct Group:  # an open bracket
    long long start  # its offset in the text
    long long repeated  # how often a pack repeats it
    long long members  # so far
    int kind  # its letter; 0 if it has two

cdef struct Walk:  # an estimate in progress; the arrays have an entry for each byte of the name
    Group* groups  # open brackets
    long long* scopes  # starts of open nested names
    long long* ends  # of each part that can be referred to: the longest part when it ended
    Py_ssize_t open_groups
    Py_ssize_t open_scopes
    Py_ssize_t parts
    Py_ssize_t uncounted  # open groups whose parts cannot be referred to
    Py_ssize_t lists  # open groups that are lists of arguments
    long long size  # of the text so far
    long long item  # start of the last item
    long long longest  # part
    long long argument  # longest argument
    long long members  # of the longest pack

cdef Py_ssize_t digits_end(unsigned char* name, Py_ssize_t offset, Py_ssize_t size) noexcept nogil
cdef Py_ssize_t number_end(unsigned char* name, Py_ssize_t offset, Py_ssize_t size, unsigned char end) noexcept nogil
cdef int token_at(unsigned char* name, Py_ssize_t offset, Py_ssize_t size, Py_ssize_t* end) noexcept nogil
cdef long long number_of(unsigned char* name, Py_ssize_t start, Py_ssize_t end, long long base) noexcept nogil
cdef bint is_counted(int kind) noexcept nogil
cdef void add_part(Walk* walk, long long longest) noexcept nogil
cdef void add_name(Walk* walk, long long length, bint ends_part) noexcept nogil
cdef void add_reference(Walk* walk, long long length) noexcept nogil
cdef void repeat(Walk* walk) noexcept nogil
cdef void open_group(Walk* walk, int letter, bint after_name) noexcept nogil
cdef void close_group(Walk* walk) noexcept nogil
cdef long long estimate(unsigned char* name, Py_ssize_t size, Walk* walk, long long limit) noexcept nogil
