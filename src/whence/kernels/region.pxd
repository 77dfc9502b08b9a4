# Pages of the system, and how Linux moves them.

cdef extern from *:
    """
    #include <stddef.h>
    #ifdef _WIN32
    #include <windows.h>

    static size_t whence_page_size(void) {
        SYSTEM_INFO about;
        GetSystemInfo(&about);
        return about.dwPageSize;
    }

    static void *whence_new_pages(size_t size, size_t huge) {
        (void)huge;
        return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    }

    static void whence_free_pages(void *at, size_t size) {
        (void)size;
        VirtualFree(at, 0, MEM_RELEASE);
    }

    static int whence_empty_pages(void *at, size_t size) {
        return !size || (VirtualFree(at, size, MEM_DECOMMIT) && VirtualAlloc(at, size, MEM_COMMIT, PAGE_READWRITE));
    }

    static int whence_move_pages(void *from, void *to, size_t size) {
        (void)from;
        (void)to;
        (void)size;
        return 0;
    }
    #else
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    #ifndef MAP_ANONYMOUS
    #define MAP_ANONYMOUS MAP_ANON
    #endif
    #if defined(__linux__) && !defined(MREMAP_DONTUNMAP)
    #define MREMAP_DONTUNMAP 4 /* Linux 5.7; older ones refuse it */
    #endif

    static size_t whence_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

    /* So many bytes, whole pages; in huge ones where the system has them and there are as many. */
    static void *whence_new_pages(size_t size, size_t huge) {
        size_t more = size < huge ? 0 : huge, before = 0;
        char *found;
        if (size > (size_t)-1 - more)
            return NULL;
        found = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED)
            return NULL;
        if (more) {
            before = (huge - (size_t)found % huge) % huge;
            if (before)
                munmap(found, before);
            found += before;
            if (before < huge)
                munmap(found + size, huge - before);
    #ifdef MADV_HUGEPAGE
            madvise(found, size, MADV_HUGEPAGE);
    #endif
        }
        return found;
    }

    static void whence_free_pages(void *at, size_t size) { munmap(at, size); }

    /* Give pages back: they read as 0. 1 when they are there, as they are everywhere but on Windows out of memory. */
    static int whence_empty_pages(void *at, size_t size) {
    #ifdef __linux__
        if (madvise(at, size, MADV_DONTNEED))
            memset(at, 0, size); /* who locks memory (mlockall) keeps its pages */
        return 1;
    #else /* others may leave what the pages held */
        return !size || mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
    #endif
    }

    /* Let the pages at `from` be those at `to`; in their place are empty ones. 1 when that was done, 0 when the system
       can't, -1 when there is nothing at `to` any more. */
    static int whence_move_pages(void *from, void *to, size_t size) {
    #ifdef __linux__
        if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to)
            return 1;
        /* Whoever refuses late has unmapped what was there. */
        return mmap(to, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == to ? 0 : -1;
    #else
        (void)from;
        (void)to;
        (void)size;
        return 0;
    #endif
    }
    #endif
    """
    size_t whence_page_size() noexcept nogil
    void *whence_new_pages(size_t size, size_t huge) noexcept nogil
    void whence_free_pages(void *at, size_t size) noexcept nogil
    int whence_empty_pages(void *at, size_t size) noexcept nogil
    int whence_move_pages(void *source, void *target, size_t size) noexcept nogil

cdef enum:
    HUGE = 1 << 21  # bytes of a huge page
