# Threads of another process while they are stopped, for readers of more than registers and stacks.

cdef extern from *:
    """
    #include <stddef.h>
    typedef struct { unsigned long long address; unsigned char *into; size_t size; } whence_part;

    #ifdef __linux__
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <sys/uio.h>

    /* Read memory of another process up to the first unreadable byte. Returns the size, or -errno. */
    static long whence_read(int pid, unsigned long long address, void *into, size_t size) {
        struct iovec local = {into, size}, remote = {(void *)(size_t)address, size};
        long copied = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        return copied < 0 ? -errno : copied;
    }

    /* Read several parts, at most 1024. Returns how many were read, up to the first unreadable one. */
    static int whence_read_parts(int pid, const whence_part *parts, int count) {
        struct iovec local[1024], remote[1024];
        int index;
        long copied;
        for (index = 0; index < count; index++) {
            local[index] = (struct iovec){parts[index].into, parts[index].size};
            remote[index] = (struct iovec){(void *)(size_t)parts[index].address, parts[index].size};
        }
        copied = count ? process_vm_readv(pid, local, count, remote, count, 0) : 0;
        for (index = 0; index < count && copied >= (long)parts[index].size; index++)
            copied -= (long)parts[index].size;
        return index;
    }
    #else
    static long whence_read(int pid, unsigned long long address, void *into, size_t size) { return -1; }
    static int whence_read_parts(int pid, const whence_part *parts, int count) { return 0; }
    #endif
    """
    ctypedef struct whence_part:  # a part of memory, and where it is copied
        unsigned long long address
        unsigned char *into
        size_t size
    int whence_read_parts(int pid, const whence_part *parts, int count) noexcept nogil
    long whence_read(int pid, unsigned long long address, void *into, size_t size) noexcept nogil

cdef struct StoppedThreads:  # of process `pid`: rows with states[i] == `stopped` are stopped now
    int pid
    Py_ssize_t count
    const unsigned int* tids
    const unsigned char* states
    unsigned char stopped
    const unsigned char* registers  # as in NT_PRSTATUS: sizes[i] bytes from stride * i
    const unsigned int* sizes
    Py_ssize_t stride

cdef class StoppedReader:
    cdef public StoppedReader following  # reads next

    cdef void prepare(self, const StoppedThreads* threads) noexcept nogil
    cdef void read_stopped(self, const StoppedThreads* threads) noexcept nogil

cdef class CallingReader(StoppedReader):
    cdef object function
    cdef readonly object error

    cdef void call(self) noexcept
