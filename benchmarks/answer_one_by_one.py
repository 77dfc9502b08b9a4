"""The moment of a sanitizer's report, or of perf's: a question, its answer, the next question.

`whence-llvm-symbolizer` beside llvm-symbolizer (19, then 14), each a child with pipes, in turns: seconds to the first
answer, start-up included; answers per second after that, over new random addresses; and over the same addresses again.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.inputs import addresses, debug_files, tool

QUESTIONS = 20_000
ROUNDS = 3
ALL = int(os.environ.get("BENCH_QUESTIONS", QUESTIONS))


def run() -> None:
    programs = {"whence-llvm-symbolizer": str(Path(sys.executable).parent / "whence-llvm-symbolizer")}
    for version in ("19", "14"):
        if result := tool(f"llvm-symbolizer-{version}"):
            programs[f"llvm-symbolizer-{version}"] = result
        else:
            print(f"llvm-symbolizer-{version} is not on this machine")
    for path in debug_files():
        questions = [f"{vaddr:#x}\n".encode() for vaddr in addresses(path, ALL)]
        seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in programs}
        for _ in range(ROUNDS):
            for name, program in programs.items():
                seen[name].append(conversation([program, f"--obj={path}"], questions))
        print(f"{path.name}: {ALL:,} questions, one at a time (medians of {ROUNDS})")
        for name, rounds in seen.items():
            first, fresh, again = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"  {name:24} first {first * 1e3:6.0f} ms, then {fresh:7,.0f}/s, again {again:7,.0f}/s")
        sys.stdout.flush()


def conversation(command: list[str], questions: list[bytes]) -> tuple[float, float, float]:
    """Seconds to the first answer, answers a second to the rest, and to the first quarter once more."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        write, to, read = os.write, child.stdin.fileno(), child.stdout.readline

        def ask(some: list[bytes]) -> float:
            start = time.perf_counter()
            for question in some:
                write(to, question)
                while read() != b"\n":
                    pass
            return time.perf_counter() - start

        ask(questions[:1])
        first = time.perf_counter() - began
        fresh = (len(questions) - 1) / ask(questions[1:])
        some = questions[: len(questions) // 4]
        again = len(some) / ask(some)
        child.stdin.close()
    return first, fresh, again
