"""Reading all of a minidump."""

from __future__ import annotations

from whence.dumps.minidump import Minidump
from whence.dumps.minidump_process import minidump_dump, read_minidump
from whence.unwind import End
from whence.unwind.core import dump_stacks


def exercised(data: bytes) -> None:
    """Read everything of a minidump; raises only WhenceError."""
    dump = Minidump.from_bytes(data)
    process = read_minidump(dump)
    process.snapshot.to_json()
    for stack in dump_stacks(minidump_dump(dump, process), scan=True):
        assert stack.unwound.end in End
    assert dump.comment is not None
    assert dump.assertion is not None
    assert dump.crashpad is not None
    assert isinstance(dump.requesting_thread, int | None)
    assert isinstance(dump.unloaded, list)
