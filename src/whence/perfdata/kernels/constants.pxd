# Numbers of perf.data (include/uapi/linux/perf_event.h and tools/perf/util/event.h of Linux), and constants that kernels
# and Python share. Python imports them from whence.perfdata.kernels.constants.

cpdef enum:  # types of records of the kernel
    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    THROTTLE = 5
    UNTHROTTLE = 6
    FORK = 7
    READ = 8
    SAMPLE = 9
    MMAP2 = 10
    AUX = 11
    ITRACE_START = 12
    LOST_SAMPLES = 13
    SWITCH = 14
    SWITCH_CPU_WIDE = 15
    NAMESPACES = 16
    KSYMBOL = 17
    BPF_EVENT = 18
    CGROUP = 19
    TEXT_POKE = 20
    AUX_OUTPUT_HW_ID = 21
    CALLCHAIN_DEFERRED = 22

cpdef enum:  # types of records of perf itself, which have no sample_id
    HEADER_ATTR = 64
    EVENT_TYPE = 65
    TRACING_DATA = 66
    BUILD_ID = 67
    FINISHED_ROUND = 68
    ID_INDEX = 69
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    AUXTRACE_ERROR = 72
    THREAD_MAP = 73
    CPU_MAP = 74
    STAT_CONFIG = 75
    STAT = 76
    STAT_ROUND = 77
    EVENT_UPDATE = 78
    TIME_CONV = 79
    HEADER_FEATURE = 80
    COMPRESSED = 81
    FINISHED_INIT = 82
    COMPRESSED2 = 83
    USER_TYPES = 64  # PERF_RECORD_USER_TYPE_START: the first type of perf itself
    TYPES = 128  # types that are counted

cpdef enum:  # bits of misc
    MODE = 7
    IN_KERNEL = 1
    IN_USER = 2
    IN_HYPERVISOR = 3
    IN_GUEST_KERNEL = 4
    IN_GUEST_USER = 5
    MAP_IS_DATA = 0x2000
    COMM_IS_EXEC = 0x2000
    FORK_IS_MADE_UP = 0x2000  # of a process that ran already: its maps are in records
    MAP_HAS_BUILD_ID = 0x4000

cpdef enum:  # bits of sample_type
    HAS_IP = 1 << 0
    HAS_TID = 1 << 1
    HAS_TIME = 1 << 2
    HAS_ADDR = 1 << 3
    HAS_READ = 1 << 4
    HAS_CALLCHAIN = 1 << 5
    HAS_ID = 1 << 6
    HAS_CPU = 1 << 7
    HAS_PERIOD = 1 << 8
    HAS_STREAM_ID = 1 << 9
    HAS_RAW = 1 << 10
    HAS_BRANCH_STACK = 1 << 11
    HAS_REGS_USER = 1 << 12
    HAS_STACK_USER = 1 << 13
    HAS_WEIGHT = 1 << 14
    HAS_DATA_SRC = 1 << 15
    HAS_IDENTIFIER = 1 << 16
    HAS_TRANSACTION = 1 << 17
    HAS_REGS_INTR = 1 << 18
    HAS_PHYS_ADDR = 1 << 19
    HAS_AUX = 1 << 20
    HAS_CGROUP = 1 << 21
    HAS_DATA_PAGE_SIZE = 1 << 22
    HAS_CODE_PAGE_SIZE = 1 << 23
    HAS_WEIGHT_STRUCT = 1 << 24

cpdef enum:  # bits of read_format
    READ_ENABLED = 1
    READ_RUNNING = 2
    READ_ID = 4
    READ_GROUP = 8
    READ_LOST = 16

cpdef enum:  # bits of branch_sample_type
    BRANCH_CALL_STACK = 1 << 11
    BRANCH_HW_INDEX = 1 << 17
    BRANCH_COUNTERS = 1 << 19

cpdef enum:  # entries of call chains that are not addresses, as distances below 2^64
    CONTEXT_HYPERVISOR = 32
    CONTEXT_KERNEL = 128
    CONTEXT_USER = 512
    CONTEXT_USER_DEFERRED = 640
    CONTEXT_GUEST = 2048
    CONTEXT_GUEST_KERNEL = 2176
    CONTEXT_GUEST_USER = 2560
    CONTEXT_MOST = 4095

cpdef enum:
    RECORD_HEADER = 8  # u32 type, u16 misc, u16 size
    RECORD_MOST = 0xFFFF
    MMAP2_ABOUT = 24  # device, inode and generation, or a build-id
    PROT_EXECUTE = 4

cpdef enum:  # why `Records.feed` stopped
    FINE = 0  # the end of the data
    CUT = 1  # a record extends past the end of the data
    OWN = 2  # a record of perf itself, which Python reads
    BROKEN = 3  # a record is smaller than its header: the rest can't be read
    NO_MEMORY = 4

cpdef enum:  # kinds of steps, which change the meaning of later samples
    STEP_MAP = 1  # a: pid << 32 | tid; b: the number of a map
    STEP_UNMAP = 2
    STEP_COMM = 3  # b: the number of a text
    STEP_EXEC = 4
    STEP_FORK = 5  # b: the parent's pid << 32 | tid
    STEP_FORK_EMPTY = 6
    STEP_KIND = 0xFF

cpdef enum:  # flags of a map
    MAP_DATA = 1
    MAP_KERNEL = 2  # of the kernel, for every process
    MAP_BUILD_ID = 4
    MAP_CODE = 8  # one function of generated code, named by the map
    MAP_GENERATED = 16  # memory without a file: perf maps name its code, and each process has its own
    MAP_GUEST = 32

cpdef enum:
    NO_NUMBER = 0x7FFFFFFF  # no map, no text, no event

cpdef enum:
    SOURCE_SHIFT = 48  # position of a sample's registers: number of the stream << SOURCE_SHIFT | offset
    SOURCE_BITS = 16
    SETTING_SHIFT = 32  # key of a gathered sample: setting, stream, the lowest 16 bits of its event's number

cpdef enum:  # why `gather` stopped
    END = -1
    FULL = -2

cpdef enum:  # ABI of a sample's registers
    ABI_NONE = 0
    ABI_32 = 1
    ABI_64 = 2
