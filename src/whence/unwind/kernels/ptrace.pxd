# Linux's way to stop threads and read them: ptrace(2), waitid(2), process_vm_readv(2). Elsewhere all of it fails with ENOSYS.

cdef extern from *:
    """
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <time.h>

    typedef struct { struct sigaction tstp, ttin, ttou; } whence_stops;

    static void whence_hold(int number, struct sigaction *kept) {
        struct sigaction ignored;
        if (sigaction(number, NULL, kept) || (kept->sa_flags & SA_SIGINFO) || kept->sa_handler != SIG_DFL)
            return;
        memset(&ignored, 0, sizeof ignored);
        ignored.sa_handler = SIG_IGN;
        sigaction(number, &ignored, NULL);
    }

    static void whence_let(int number, const struct sigaction *kept) {
        if (!(kept->sa_flags & SA_SIGINFO) && kept->sa_handler == SIG_DFL)
            sigaction(number, kept, NULL);
    }

    /* While we hold others stopped, nobody at a terminal may stop us: Ctrl-Z is ignored for as long. */
    static void whence_hold_stops(whence_stops *kept) {
        whence_hold(SIGTSTP, &kept->tstp);
        whence_hold(SIGTTIN, &kept->ttin);
        whence_hold(SIGTTOU, &kept->ttou);
    }

    static void whence_let_stops(const whence_stops *kept) {
        whence_let(SIGTSTP, &kept->tstp);
        whence_let(SIGTTIN, &kept->ttin);
        whence_let(SIGTTOU, &kept->ttou);
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
    #include <sys/ptrace.h>
    #include <sys/uio.h>
    #include <sys/wait.h>
    #ifndef __WALL
    #define __WALL 0x40000000
    #endif

    /* Seize without options (so that our end, however it comes, lets go) and ask for a stop. 0, or an errno. */
    static int whence_seize(int tid) {
        if (ptrace(PTRACE_SEIZE, tid, 0L, 0L))
            return errno;
        if (ptrace(PTRACE_INTERRUPT, tid, 0L, 0L))
            return errno;
        return 0;
    }

    /* Whether a seized thread has stopped: 1 with the signal that it is to get when it is let go, 0 not yet, -1 it is
       gone. The first thread of a process may be a child of ours: its end is not taken away from who waits for it. */
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

    /* The registers as NT_PRSTATUS has them: how many bytes; -1 where there are none. */
    static long whence_registers(int tid, void *registers, size_t room) {
        struct iovec out = {registers, room};
        return ptrace(PTRACE_GETREGSET, tid, (long)NT_PRSTATUS, &out) ? -1 : (long)out.iov_len;
    }

    static void whence_detach(int tid, int deliver) { ptrace(PTRACE_DETACH, tid, 0L, (long)deliver); }

    /* Bytes of another process from an address on, up to the first that can't be read: how many. */
    static long whence_read(int pid, unsigned long long address, void *into, size_t size) {
        struct iovec here = {into, size}, there = {(void *)(size_t)address, size};
        long found = process_vm_readv(pid, &here, 1, &there, 1, 0);
        return found < 0 ? -errno : found;
    }
    #else
    static int whence_seize(int tid) { return ENOSYS; }
    static int whence_stopped(int tid, int is_first, int *deliver) { return -1; }
    static long whence_registers(int tid, void *registers, size_t room) { return -1; }
    static void whence_detach(int tid, int deliver) {}
    static long whence_read(int pid, unsigned long long address, void *into, size_t size) { return -ENOSYS; }
    #endif
    """
    ctypedef struct whence_stops:
        pass
    void whence_hold_stops(whence_stops *kept) noexcept nogil
    void whence_let_stops(const whence_stops *kept) noexcept nogil
    unsigned long long whence_now() noexcept nogil
    void whence_pause(long nanoseconds) noexcept nogil
    int whence_seize(int tid) noexcept nogil
    int whence_stopped(int tid, int is_first, int *deliver) noexcept nogil
    long whence_registers(int tid, void *registers, size_t room) noexcept nogil
    void whence_detach(int tid, int deliver) noexcept nogil
    long whence_read(int pid, unsigned long long address, void *into, size_t size) noexcept nogil
