# Settings of glibc's allocator.

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    #endif

    /* Share `heaps` heaps among threads, map blocks of `mapped` bytes separately, and return `trimmed` free bytes at the
       end of a heap to the system. 0 if the C library has no such settings. */
    static int whence_set_heaps(int heaps, int mapped, int trimmed) {
    #ifdef __GLIBC__
        return mallopt(M_ARENA_MAX, heaps) && mallopt(M_MMAP_THRESHOLD, mapped) && mallopt(M_TRIM_THRESHOLD, trimmed);
    #else
        (void)heaps;
        (void)mapped;
        (void)trimmed;
        return 0;
    #endif
    }
    """
    int whence_set_heaps(int heaps, int mapped, int trimmed)

cdef enum:
    HEAPS_OF_COMMAND = 1
    HEAPS_OF_SERVER = 4

    # bytes
    MAPPED_BY_COMMAND = 1 << 22
    TRIMMED_BY_COMMAND = 1 << 23
    GIVEN_BACK_BY_SERVER = 1 << 20  # both
