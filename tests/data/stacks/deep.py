"""Python that C called, which Python called: "crash" ends it, else it waits for ever."""

import ctypes
import os
import sys
import threading
import time


def deep(n: int) -> None:
    if n:
        return deep(n - 1)
    if sys.argv[1] == "crash":
        os.abort()
    time.sleep(1000)


class Compared:
    def __lt__(self, other: object) -> bool:
        deep(3)
        return True


def compare(a: object, b: object) -> int:
    return len(sorted([Compared(), Compared()]))


if __name__ == "__main__":
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    pointer = ctypes.POINTER(ctypes.c_int)
    ctypes.CDLL(None).qsort(numbers, 3, 4, ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(compare))
