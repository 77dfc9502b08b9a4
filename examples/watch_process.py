"""Watch where a process spends its time: python examples/watch_process.py PID [ROUNDS]

Asks every half second where each thread is, and prints the functions seen most. Linux only.
"""

import sys
import time
from collections import Counter

import whence


def watch(pid: int, rounds: int, pause: float = 0.5) -> Counter[str]:
    """How often each function was seen at the top of a thread's stack; a reason where there is no name."""
    seen: Counter[str] = Counter()
    process = whence.Process(pid)
    with whence.Symbolizer(demangle=True) as symbolizer:
        for _ in range(rounds):
            addresses = [thread.pc for thread in process.threads() if thread.pc]
            for answer in symbolizer.symbolize(process, addresses):
                seen[answer.frames[0].function if answer else str(answer.reason)] += 1
            time.sleep(pause)
    return seen


if __name__ == "__main__":
    found = watch(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
    for function, count in found.most_common(10):
        print(f"{count:6}  {function}")
