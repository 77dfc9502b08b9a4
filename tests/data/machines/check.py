"""check.py CORE PROGRAM: fail if a stack of ways.c ends "complete" before its thread's start."""

from __future__ import annotations

import sys
from collections import Counter

import whence
from whence.locator.locator import Locator
from whence.symbolize.symbolizer import Symbolizer

OUTERMOST = {
    "start_thread",
    "_start",
    "__startcontext",
    "__makecontext_ret",
    "__libc_start_main",
    "__libc_start_main_impl",
}


def main(core: str, program: str) -> int:
    with Symbolizer(locator=Locator(files=[program])) as symbolizer:
        stacks = whence.Core(core, programs=[program]).stacks(symbolizer)
    wrong = 0
    for stack in stacks:
        outer = [each.function for frame in stack.frames[-2:] for each in frame.place.frames]
        if str(stack.end) == "complete" and not {*outer} & OUTERMOST and "context" not in " ".join(outer):
            print(f"thread {stack.tid} ends complete after {outer}")
            wrong += 1
    print(len(stacks), "stacks:", ", ".join(f"{count} {end}" for end, count in Counter(s.end for s in stacks).items()))
    return 1 if wrong or len(stacks) < 21 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
