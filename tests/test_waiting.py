"""Threads that wait for one another, without threading."""

import subprocess
import sys
import threading
from weakref import ref

import pytest

from whence.waiting import Condition, Started


def test_a_thread_waits_until_what_it_waits_for_is_so() -> None:
    condition, steps = Condition(), list[int]()

    def is_my_turn(mine: int) -> bool:
        return len(steps) % 2 == mine

    def take_turns(mine: int) -> None:
        for _ in range(100):
            with condition:
                condition.wait_for(lambda: is_my_turn(mine))
                steps.append(mine)
                condition.notify_all()

    other = Started(take_turns, 1)
    take_turns(0)
    other.join()
    assert steps == [0, 1] * 100


def test_all_that_wait_look_again() -> None:
    condition, there, seen = Condition(), list[int](), list[int]()

    def wait(number: int) -> None:
        with condition:
            condition.wait_for(lambda: number in there)
            seen.append(number)

    waiting = [Started(wait, number) for number in range(4)]
    for number in (2, 0, 3, 1):
        with condition:
            there.append(number)
            condition.notify_all()
        waiting[number].join()
    assert seen == [2, 0, 3, 1]


def test_the_lock_is_free_after_a_wait_that_was_interrupted() -> None:
    condition = Condition()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), condition:
        condition.wait_for(interrupted)
    with condition:
        condition.wait_for(lambda: True)


def test_join_waits_for_the_end_and_may_be_called_again() -> None:
    gate, done = threading.Event(), list[str]()

    def work(word: str) -> None:
        gate.wait()
        done.append(word)

    started = Started(work, "done")
    gate.set()
    started.join()
    started.join()
    assert done == ["done"]


def test_a_thread_that_was_waited_for_holds_nothing_of_its_work() -> None:
    class Used:
        pass

    for _ in range(200):
        used = Used()
        gone = ref(used)
        started = Started(lambda held: None, used)
        started.join()
        del used
        assert gone() is None


def test_nothing_that_threading_imports_is_imported() -> None:
    program = "import sys; before = {*sys.modules}; import whence.waiting; print({*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert not {"threading", "functools", "collections"} & eval(done.stdout)
