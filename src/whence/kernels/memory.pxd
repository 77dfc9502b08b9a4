# How the C library hands out memory: what glibc can be asked to do about it.

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    #endif

    /* 1 when all threads share one heap from now on; 0 where the C library has no such setting. */
    static int whence_share_heap(int mapped, int trimmed) {
    #ifdef __GLIBC__
        return mallopt(M_ARENA_MAX, 1) && mallopt(M_MMAP_THRESHOLD, mapped) && mallopt(M_TRIM_THRESHOLD, trimmed);
    #else
        (void)mapped;
        (void)trimmed;
        return 0;
    #endif
    }
    """
    int whence_share_heap(int mapped, int trimmed)

cdef enum:  # bytes
    MAPPED_FROM = 1 << 22  # blocks of so many go back to the system when they are freed
    TRIMMED_FROM = 1 << 23  # so do as many free bytes at the end of the heap
