# The parts of file states and faults that differ between systems.

cdef extern from *:
    """
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <unistd.h>
    #ifdef __APPLE__
    #define WHENCE_MTIME st_mtimespec
    #else
    #define WHENCE_MTIME st_mtim
    #endif
    #ifndef MAP_ANONYMOUS
    #define MAP_ANONYMOUS MAP_ANON
    #endif

    /* Get the size of an open file and the time of its last change; not 0 on an error. */
    static int whence_state(int descriptor, long long *size, long long *seconds, long long *nanoseconds) {
        struct stat status;
        if (fstat(descriptor, &status))
            return -1;
        *size = status.st_size;
        *seconds = status.WHENCE_MTIME.tv_sec;
        *nanoseconds = status.WHENCE_MTIME.tv_nsec;
        return 0;
    }

    typedef void (*whence_on_fault)(int, siginfo_t *, void *);

    static struct sigaction whence_before; /* the previous handler of SIGBUS */
    static void *volatile whence_passed_on; /* the address of the fault that is being passed on */

    /* Install `handler` for SIGBUS and keep the previous one; 0 on success, and if it was installed already. */
    static int whence_install(whence_on_fault handler) {
        struct sigaction now, ours;
        if (sigaction(SIGBUS, NULL, &now))
            return -1;
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler)
            return 0;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = handler;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&ours.sa_mask);
        whence_before = now;
        return sigaction(SIGBUS, &ours, NULL);
    }

    /* Pass on a fault that is not ours. A handler that was installed after ours once, and before it now, may return the
       same fault to us: then the default action is taken. */
    static void whence_pass_on(int number, siginfo_t *info, void *context) {
        struct sigaction none;
        void *at = info->si_code <= 0 ? (void *)1 : info->si_addr ? info->si_addr : (void *)2;
        int special = whence_before.sa_flags & SA_SIGINFO ? 0
            : whence_before.sa_handler == SIG_DFL || whence_before.sa_handler == SIG_IGN;
        if (special || whence_passed_on == at) {
            memset(&none, 0, sizeof none);
            none.sa_handler = special && whence_before.sa_handler == SIG_IGN && info->si_code <= 0 ? SIG_IGN : SIG_DFL;
            if (none.sa_handler == SIG_IGN)
                return;
            sigaction(number, &none, NULL);
            if (info->si_code <= 0) /* sent, not caused by an instruction that would fault once more */
                raise(number);
            return;
        }
        whence_passed_on = at;
        if (whence_before.sa_flags & SA_SIGINFO)
            whence_before.sa_sigaction(number, info, context);
        else
            whence_before.sa_handler(number);
        whence_passed_on = NULL;
    }

    /* Replace pages of a file that are gone by zeros. */
    static int whence_put_zeros(void *at, size_t size) {
        int before = errno;
        void *found = mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
        errno = before;
        return found == MAP_FAILED ? -1 : 0;
    }

    static void *whence_fault_at(siginfo_t *info) { return info->si_addr; }
    static int whence_is_sent(siginfo_t *info) { return info->si_code <= 0; }
    """
    ctypedef struct siginfo_t:
        pass
    ctypedef void (*whence_on_fault)(int, siginfo_t *, void *) noexcept nogil
    int whence_state(int descriptor, long long *size, long long *seconds, long long *nanoseconds) noexcept nogil
    int whence_install(whence_on_fault handler) noexcept nogil
    void whence_pass_on(int number, siginfo_t *info, void *context) noexcept nogil
    int whence_put_zeros(void *at, size_t size) noexcept nogil
    void *whence_fault_at(siginfo_t *info) noexcept nogil
    int whence_is_sent(siginfo_t *info) noexcept nogil

cdef enum:
    WHOLE = 0      # the file is unchanged
    CUT = 1        # it is shorter now
    REWRITTEN = 2  # its bytes were written to
    LOST = 3       # bytes could not be read, though the file has them

cdef struct Live:
    # A mapping, for the handler. Rows are reused after unmapping, and never freed.
    size_t start  # 0: free
    size_t end    # at a page's boundary
    int lost      # pages of it are zeros now
    Live *next
