"""ctypes: callbacks of qsort in Python's threads, and a thread that C started, which calls Python."""

import ctypes
import threading

import common

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Sorter:
    def compare(self, a, b):
        return a[0] - b[0]

    def sort(self, count):
        items = (ctypes.c_int * count)(*range(count, 0, -1))
        libc.qsort(items, count, ctypes.sizeof(ctypes.c_int), COMPARE(self.compare))


def work():
    sorter = Sorter()
    while True:
        sorter.sort(40)


@START
def started_by_c(argument):
    threading.current_thread()
    for _ in range(200):
        Sorter().sort(20)
    return None


def starting():
    while True:
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, started_by_c, None)
        libc.pthread_join(thread, None)


def main():
    for target in work, work, starting:
        threading.Thread(target=target, daemon=True).start()
    common.ready()
    threading.Event().wait()


main()
