# Linux's calls to stop and read threads: ptrace(2), waitid(2). Elsewhere they fail with ENOSYS.

cdef extern from *:
    """
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <time.h>

    typedef struct { struct sigaction tstp, ttin, ttou; } whence_stops;

    static void whence_hold(int number, struct sigaction *saved) {
        struct sigaction ignored;
        if (sigaction(number, NULL, saved) || (saved->sa_flags & SA_SIGINFO) || saved->sa_handler != SIG_DFL)
            return;
        memset(&ignored, 0, sizeof ignored);
        ignored.sa_handler = SIG_IGN;
        sigaction(number, &ignored, NULL);
    }

    static void whence_restore(int number, const struct sigaction *saved) {
        if (!(saved->sa_flags & SA_SIGINFO) && saved->sa_handler == SIG_DFL)
            sigaction(number, saved, NULL);
    }

    /* Ignore Ctrl-Z while we keep other threads stopped. */
    static void whence_hold_stops(whence_stops *saved) {
        whence_hold(SIGTSTP, &saved->tstp);
        whence_hold(SIGTTIN, &saved->ttin);
        whence_hold(SIGTTOU, &saved->ttou);
    }

    static void whence_restore_stops(const whence_stops *saved) {
        whence_restore(SIGTSTP, &saved->tstp);
        whence_restore(SIGTTIN, &saved->ttin);
        whence_restore(SIGTTOU, &saved->ttou);
    }

    static unsigned long long whence_now(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (unsigned long long)now.tv_sec * 1000000000u + now.tv_nsec;
    }

    static void whence_pause(long nanoseconds) {
        struct timespec pause = {0, nanoseconds};
        nanosleep(&pause, NULL);
    }

    #ifdef __linux__
    #include <elf.h>
    #include <sys/prctl.h>
    #include <sys/ptrace.h>
    #include <sys/uio.h>
    #include <sys/wait.h>
    #ifndef __WALL
    #define __WALL 0x40000000
    #endif

    /* Seize without options, so that the kernel releases the thread when we end, and request a stop. 0 or an errno. */
    static int whence_seize(int tid) {
        if (ptrace(PTRACE_SEIZE, tid, 0L, 0L))
            return errno;
        if (ptrace(PTRACE_INTERRUPT, tid, 0L, 0L))
            return errno;
        return 0;
    }

    /* Return 1 if a seized thread has stopped, with the signal to deliver on release; 0 if not yet; -1 if it is gone.
       The first thread of a process may be our child: its exit status is left to the code that waits for it. */
    static int whence_stopped(int tid, int is_first, int *deliver) {
        siginfo_t info;
        int code;
        memset(&info, 0, sizeof info);
        if (waitid(P_PID, tid, &info, WSTOPPED | (is_first ? 0 : WEXITED) | WNOHANG | __WALL))
            return errno == EINTR ? 0 : -1;
        if (!info.si_pid)
            return 0;
        if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
            return -1;
        code = info.si_status;
        *deliver = code >> 8 ? 0 : code;
        return 1;
    }

    /* Read the registers as in NT_PRSTATUS. Returns their size, -1 on failure. */
    static long whence_registers(int tid, void *registers, size_t capacity) {
        struct iovec out = {registers, capacity};
        return ptrace(PTRACE_GETREGSET, tid, (long)NT_PRSTATUS, &out) ? -1 : (long)out.iov_len;
    }

    /* Let pauses of this thread end on time: by default they may take 50 us longer. */
    static void whence_end_pauses_on_time(void) { prctl(PR_SET_TIMERSLACK, 1L, 0L, 0L, 0L); }

    static void whence_detach(int tid, int deliver) { ptrace(PTRACE_DETACH, tid, 0L, (long)deliver); }
    #else
    static int whence_seize(int tid) { return ENOSYS; }
    static void whence_end_pauses_on_time(void) {}
    static int whence_stopped(int tid, int is_first, int *deliver) { return -1; }
    static long whence_registers(int tid, void *registers, size_t capacity) { return -1; }
    static void whence_detach(int tid, int deliver) {}
    #endif
    """
    ctypedef struct whence_stops:
        pass
    void whence_hold_stops(whence_stops *saved) noexcept nogil
    void whence_restore_stops(const whence_stops *saved) noexcept nogil
    unsigned long long whence_now() noexcept nogil
    void whence_pause(long nanoseconds) noexcept nogil
    void whence_end_pauses_on_time() noexcept nogil
    int whence_seize(int tid) noexcept nogil
    int whence_stopped(int tid, int is_first, int *deliver) noexcept nogil
    long whence_registers(int tid, void *registers, size_t capacity) noexcept nogil
    void whence_detach(int tid, int deliver) noexcept nogil
