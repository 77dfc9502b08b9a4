# Numbers of the trace format (Go's internal/trace/tracev2), and what kernels and the modules beside them tell each other.
# Python imports them from whence.gotrace.kernels.constants.

cpdef enum:  # numbers of events
    EVENT_BATCH = 1
    STACKS = 2
    STRINGS = 4
    CPU_SAMPLES = 6
    FREQUENCY = 8
    EXPERIMENTAL_BATCH = 49
    SYNC = 50
    END_OF_GENERATION = 52

cpdef enum:  # of goroutines, as GoStatus has them
    GO_RUNNING = 2
    GO_SYSCALL = 3

cpdef enum:  # faults
    FINE = 0
    CUT = 1  # the bytes end inside an event
    FULL = 2  # no room left in the output
    BAD_TYPE = 3  # no event of this version has this number
    BAD_UVARINT = 4  # more than 64 bits
    BAD_NAME = 5  # no event of this version has this name
    NO_ARGUMENT = 6  # an argument is missing
    NO_EQUALS = 7  # an argument has no value
    WRONG_ARGUMENT = 8  # an argument is not the one whose turn it is
    BAD_NUMBER = 9  # a value is not an unsigned decimal of 64 bits
    EXTRA = 10  # something after the last argument
    NO_DATA = 11  # the line of data is something else
    BAD_QUOTE = 12  # the data is not quoted as Go quotes
    BAD_PADDING = 13  # a padded number does not fit in ten bytes
    NOT_TIMED = 14  # an event in a batch has no time
    OUT_OF_BATCH = 15  # an event does not end with its batch

cpdef enum:  # the layout of events (layout.py)
    KINDS = 256  # type numbers are bytes
    NO_EVENT = 255  # the count of arguments of a type that the version lacks
    IS_STACK = 1  # flags
    HAS_DATA = 2
    IS_TIMED = 4
    PIECE = 32  # bytes kept for the words before a number
    PIECES = 6  # for each type
    TYPES = 137  # that have pieces
    SLOTS = 512  # of the hash table of names
    DATA_PIECE = 4  # of type 0: the words before data; those before are of a frame
    FRAME_NUMBERS = 4

cpdef enum:  # what becomes of a type (rules of a filter)
    KEEP = 0
    DROP = 1
    BY_GOROUTINE = 2  # kept if the goroutine running is wanted
    BY_TIME = 4  # kept if its time is in [since, until)

cpdef enum:  # which goroutine runs on the thread behind an event: its argument after dt (0 to 3), or one of these
    STAYS = 255
    LEAVES = 254
    IF_HERE = 253  # GoStatus (g, m, status): g, if m is this thread
