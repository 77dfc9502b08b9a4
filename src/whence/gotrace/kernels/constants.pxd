# Numbers of the trace format (Go's internal/trace/tracev2), and codes that kernels and Python modules share.
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

cpdef enum:  # states of goroutines, in GoStatus
    GO_RUNNING = 2
    GO_SYSCALL = 3

cpdef enum:  # faults
    FINE = 0
    CUT = 1  # the bytes end inside an event
    FULL = 2  # the output is full
    BAD_TYPE = 3  # no event of this version has this number
    BAD_UVARINT = 4  # more than 64 bits
    BAD_NAME = 5  # no event of this version has this name
    NO_ARGUMENT = 6  # an argument is missing
    NO_EQUALS = 7  # an argument has no value
    WRONG_ARGUMENT = 8  # an argument has another name than expected
    BAD_NUMBER = 9  # a value is not an unsigned decimal of 64 bits
    EXTRA = 10  # text after the last argument
    NO_DATA = 11  # the line after an event with data is not data
    BAD_QUOTE = 12  # the data is not quoted as Go quotes
    BAD_PADDING = 13  # a padded number does not fit in ten bytes
    NOT_TIMED = 14  # an event in a batch has no time
    OUT_OF_BATCH = 15  # an event extends past the end of its batch

cpdef enum:  # the layout of events (layout.py)
    KINDS = 256  # type numbers are bytes
    NO_EVENT = 255  # the count of arguments of a type that the version lacks
    IS_STACK = 1  # flags
    HAS_DATA = 2
    IS_TIMED = 4
    PIECE = 32  # bytes for the text before a number
    PIECES = 6  # for each type
    TYPES = 137  # with pieces
    SLOTS = 512  # of the hash table of names
    DATA_PIECE = 4  # of type 0: the text before data; pieces 0 to 3 are those of a frame
    FRAME_NUMBERS = 4

cpdef enum:  # rules of a filter, per event type
    KEEP = 0
    DROP = 1
    BY_GOROUTINE = 2  # kept if the running goroutine is selected
    BY_TIME = 4  # kept if its time is in [since, until)

cpdef enum:  # the goroutine that runs on the thread after an event: the index of its argument after dt (0 to 3), or:
    STAYS = 255  # the same as before
    LEAVES = 254  # none
    IF_HERE = 253  # GoStatus (g, m, status): g, if m is this thread
