"""What a thread waits for, by the functions on its stack.

A thread waits if a waiting function, of the C library or of CPython, is among its innermost frames. The functions of
CPython between it and the first Python frame say what for; otherwise the waiting function does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

INNERMOST = 6  # frames among which a waiting function is
WAITS = {  # functions of the C library
    "epoll_wait": "epoll", "epoll_pwait": "epoll", "epoll_pwait2": "epoll", "poll": "poll", "ppoll": "poll",
    "select": "select", "pselect": "select", "read": "a read", "pread": "a read", "readv": "a read", "recv": "a socket",
    "recvfrom": "a socket", "recvmsg": "a socket", "send": "a socket", "sendto": "a socket", "sendmsg": "a socket",
    "accept": "a connection", "accept4": "a connection", "connect": "a connection", "write": "a write",
    "nanosleep": "a time", "clock_nanosleep": "a time", "sleep": "a time", "usleep": "a time", "pause": "a signal",
    "sigsuspend": "a signal", "sigwait": "a signal", "sigwaitinfo": "a signal", "sigtimedwait": "a signal",
    "wait4": "a child process", "waitpid": "a child process", "waitid": "a child process", "wait": "a child process",
    "sem_wait": "a semaphore", "sem_timedwait": "a semaphore", "sem_clockwait": "a semaphore",
    "new_sem_wait_slow": "a semaphore", "new_sem_wait": "a semaphore", "do_futex_wait": "a semaphore",
    "pthread_cond_wait": "a condition", "pthread_cond_timedwait": "a condition",
    "pthread_cond_clockwait": "a condition", "pthread_mutex_lock": "a mutex", "lll_lock_wait": "a mutex",
    "pthread_join": "a thread", "pthread_clockjoin_ex": "a thread", "pthread_timedjoin_ex": "a thread",
    "futex_abstimed_wait_common": "a futex", "futex_abstimed_wait_cancelable": "a futex", "syscall": "a system call",
    "flock": "a file lock", "fcntl": "a file lock", "msgrcv": "a message", "mq_timedreceive": "a message",
}  # fmt: skip
REASONS = {  # functions of CPython
    "take_gil": "the GIL", "PyEval_RestoreThread": "the GIL", "PyEval_AcquireThread": "the GIL",
    "PyGILState_Ensure": "the GIL", "_Py_HandlePending": "the GIL", "_PyThreadState_Attach": "the GIL",
    "PyThread_acquire_lock_timed": "a lock", "PyThread_acquire_lock": "a lock", "acquire_timed": "a lock",
    "_PySemaphore_Wait": "a lock", "PyMutex_Lock": "a lock", "_PyMutex_LockTimed": "a lock",
    "_PyMutex_LockSlow": "a lock",
    "PyThread_acquire_lock_timed_with_retries": "a lock", "lock_PyThread_acquire_lock": "a lock",
    "rlock_acquire": "a lock", "_PyRecursiveMutex_LockTimed": "a lock", "ThreadHandle_join": "a thread",
    "PyEvent_WaitTimed": "an event", "time_sleep": "time.sleep", "pysleep": "time.sleep",
    "select_epoll_poll": "epoll", "select_poll_poll": "poll", "select_select": "select",
    "os_waitpid": "a child process", "os_wait4": "a child process", "os_read": "os.read", "sock_recv": "a socket",
    "sock_accept": "a connection", "sock_connect": "a connection", "sock_send": "a socket",
    "_multiprocessing_SemLock_acquire": "a multiprocessing lock", "sem_lock_acquire": "a multiprocessing lock",
    "simplequeue_get": "an item of a queue", "_queue_SimpleQueue_get": "an item of a queue",
}  # fmt: skip
# prefixes and suffixes that libraries and compilers add
PREFIX = re.compile(r"^(?:__GI_)?_*(?:libc_|internal_|GI_|pthread_(?=pthread))?_*")
SUFFIX = re.compile(r"(?:@.*|\.(?:isra|constprop|part|lto_priv|cold)\b.*|_impl|_guts)+$")
SIZES = re.compile(r"(?:_time64|64)$")


def waits_for(functions: Iterable[str]) -> str:
    """Return what a thread waits for by its functions, innermost first, up to its first Python frame; "" if nothing.

    >>> waits_for(["__futex_abstimed_wait_common64", "pthread_cond_timedwait@@GLIBC_2.3.2", "take_gil", "time_sleep"])
    'the GIL'
    >>> waits_for(["epoll_wait", "select_epoll_poll_impl"]), waits_for(["list_sort_impl"])
    ('epoll', '')
    """
    wait = ""
    for index, function in enumerate(functions):
        name = SUFFIX.sub("", function)
        reason = REASONS.get(name, "")
        if reason and (wait or index < INNERMOST):
            return reason
        if index < INNERMOST:
            wait = wait or WAITS.get(SIZES.sub("", PREFIX.sub("", name)), "")
    return wait
