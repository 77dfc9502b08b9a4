"""perf.data: recordings of `perf record` in file, pipe and directory form, read without perf.

    magic        the first bytes of a recording
    header       the file header: attributes, data, feature sections
    attributes   perf_event_attr: an event and the layout of its records
    features     feature sections: host, build-ids, event names, clocks
    bpf          source lines of BPF programs
    reading      streams of records to a profile
    recording    a recording that was read, as the columns of a profile
    jitdump      code recorded by JIT compilers
    stacks       unwinding of registers and stack copies
    source       the bytes of a recording: memory, mapped file, temporary file
    compressed   records compressed by perf record -z
    kernels/     records to columns; samples in order of time with the mappings of that time

The input is a recording of either byte order; the output a profile whose locations are runtime addresses in the
mappings of their time. Each event is a sample type; threads, CPUs and times are labels. Documents: Linux'
include/uapi/linux/perf_event.h and tools/perf/Documentation/perf.data-file-format.txt; docs/formats/perfdata.md.

Version 1 (before Linux 3.2) is refused. AUX data is skipped with a note.
"""

from __future__ import annotations

import io
import os
import re
import stat
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from whence._base.errors import ProfileError
from whence._base.files import open_input
from whence.perfdata.magic import MAGIC, MAGIC_BIG
from whence.perfdata.reading import read
from whence.perfdata.source import ByteSource, RecordingFile
from whence.samples import bounds

if TYPE_CHECKING:
    from whence._base.budget import Budget
    from whence.samples.model import ProfileData

FORMAT = "perf.data"
MAGIC_BYTES = len(MAGIC)
MAIN = "data"  # of the directory form
PART = re.compile(r"data\.\d{1,6}")
KALLSYMS = "kcore_dir", "kallsyms"
COPIED = 1 << 20  # bytes at a time


def is_recording(data: bytes) -> bool:
    """Return True if the bytes begin like a recording of perf."""
    return data.startswith((MAGIC, MAGIC_BIG))


def from_bytes(data: bytes, budget: Budget | None = None, *, local: bool = True) -> ProfileData:
    """Read the profile in the bytes of a perf.data.

    Args:
        data: the file's bytes.
        budget: limits the memory of the result (default: in proportion to `data`).
        local: False to open no other file, such as jitdumps.

    Raises:
        ProfileError: `data` is not a recording, or is damaged.
    """
    return read(ByteSource(data), budget or bounds.reading(len(data)), local=local)


def from_file(file: io.BufferedReader, head: bytes = b"", folder: str = "") -> ProfileData:
    """Read the profile in an open file or pipe.

    A pipe is copied to a temporary file to save memory.

    Args:
        file: the recording.
        head: bytes that were already read from `file`.
        folder: the folder of the file, searched for jitdumps.

    Raises:
        OSError: reading failed.
        ProfileError: the file is not a recording, or is damaged.
    """
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        source = RecordingFile(file, file.tell() - len(head))
        return read(source, bounds.reading(source.size), folder=folder)
    with TemporaryFile() as copy:
        copy.write(head)
        while data := file.read(COPIED):
            copy.write(data)
        copy.flush()
        source = RecordingFile(copy)
        return read(source, bounds.reading(source.size))


def from_folder(path: str) -> ProfileData:
    """Read the profile in the directory form of a recording.

    The folder has a file `data` and, from perf record --threads, `data.0`, `data.1` ... with records only; from perf
    record --kcore also the kernel's symbols.

    Args:
        path: the folder.

    Raises:
        OSError: reading failed.
        ProfileError: a file is not a recording, or is damaged.
    """
    names = [name for name in os.listdir(path) if PART.fullmatch(name)]
    with ExitStack() as stack:
        sources = [
            RecordingFile(stack.enter_context(open_input(os.path.join(path, name), ProfileError)))
            for name in (MAIN, *sorted(names, key=lambda name: int(name.rpartition(".")[2])))
        ]
        profile = read(sources[0], bounds.reading(sum(source.size for source in sources)), sources[1:])
    kallsyms = os.path.join(path, *KALLSYMS)
    profile.kernel_names = kallsyms if os.path.isfile(kallsyms) else ""
    return profile
