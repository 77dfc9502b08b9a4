# The permissions of a mapping, as bits: those of PROCMAP_QUERY's vma_flags (include/uapi/linux/fs.h).

cpdef enum:
    READ = 1
    WRITE = 2
    EXECUTE = 4
    SHARED = 8
    PERMISSIONS = 15  # all
