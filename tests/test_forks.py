"""A child forked while other threads work is as usable as any process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whence._base.forks import Lock, cached_property

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks on this system")


def test_a_lock_that_another_thread_holds_is_free_in_the_child_and_says_so() -> None:
    script = """if True:
        import os, threading, warnings
        warnings.simplefilter("ignore")
        from whence._base.forks import Lock
        held, free, entered, leave = Lock(), Lock(), threading.Event(), threading.Event()
        def hold():
            with held:
                entered.set()
                leave.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        entered.wait()
        child = os.fork()
        if not child:
            with held, free:
                os._exit(0 if held.abandoned and not free.abandoned else 3)
        leave.set()
        thread.join()
        assert not held.abandoned
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_a_lock_whose_holder_forks_is_left_well_in_the_child() -> None:
    lock = Lock()
    with lock:
        pass
    with lock:
        lock._in_child()
    with lock:
        assert lock.abandoned


def test_a_cached_property_is_computed_once() -> None:
    class Thing:
        computed = 0

        @cached_property
        def value(self) -> int:
            """Something."""
            self.computed += 1
            return 7

    thing = Thing()
    assert (thing.value, thing.value, thing.computed) == (7, 7, 1)
    assert Thing.value.__doc__ == "Something."


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
@pytest.mark.parametrize("packed", ["none", "zlib"])
def test_a_child_forked_while_a_table_is_built_answers(tmp_path: Path, packed: str) -> None:
    source = tmp_path / "a.c"
    lines = [f"int f{i}(int x) {{ return x * {i} + 1; }}" for i in range(2_000)]
    source.write_text("\n".join([*lines, "int main(void) { return f7(1); }"]))
    program = tmp_path / "a"
    subprocess.run(["gcc", "-g", f"-gz={packed}", "-o", program, source], check=True)
    script = """if True:
        import os, signal, sys, threading, warnings
        warnings.simplefilter("ignore")
        import whence
        from whence.objects.elf import ElfFile
        with ElfFile.open(sys.argv[1]) as elf:
            symbols = elf.symbols()
            at = {name: value for name, value in zip(
                (bytes(symbols.names[o:o + 6]).split(b"\\0")[0] for o in symbols.name_offset), symbols.value)}[b"f77"]
        held = 0
        for attempt in range(5):
            binary = whence.open(sys.argv[1])
            thread = threading.Thread(target=binary.table)
            thread.start()
            while thread.is_alive() and not binary._lock._lock.locked():
                pass
            child = os.fork()
            if not child:
                signal.alarm(30)
                held = binary._lock.abandoned
                assert binary.lookup(at)[0].function == "f77"
                assert binary.table().lookup(at)[0].function == "f77"
                os._exit(10 + held)
            thread.join()
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert ended in (10, 11), ended
            held += ended == 11
        sys.exit(0 if held else 4)
    """
    done = subprocess.run([sys.executable, "-c", script, program], timeout=120, check=False)
    assert done.returncode == 0
