"""perf.data, without perf: the recording of `perf record`, in its file form, pipe form and directory form.

    magic        how a recording begins
    header       the file header, its attributes, where its parts are
    attributes   perf_event_attr: what an event is, and how its records lie
    features     the sections behind the data: host, build-ids, names of events, clocks
    reading      the streams of records in, the profile out
    jitdump      what JIT compilers record about their code
    stacks       registers and stack bytes, to be unwound when the files are known
    source       where the bytes come from
    compressed   records compressed by perf record -z
    kernels/     records to columns; samples in order of time, with what was mapped then

In: a recording of either byte order. Out: a profile whose locations are runtime addresses in the mappings of their
time; each event is a sample type of its own, threads, CPUs and times are labels. Documents: Linux'
include/uapi/linux/perf_event.h and tools/perf/Documentation/perf.data-file-format.txt; docs/formats/perfdata.md.

Refused: version 1 (before Linux 3.2). Passed over and said: AUX data.
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
from whence.perfdata.source import BytesSource, FileSource
from whence.samples import bounds

if TYPE_CHECKING:
    from whence._base.budget import Budget
    from whence.samples.model import ProfileData

FORMAT = "perf.data"
MAGIC_BYTES = len(MAGIC)


def is_recording(data: bytes) -> bool:
    """Whether some bytes begin as a recording of perf's does."""
    return data.startswith((MAGIC, MAGIC_BIG))


def from_bytes(data: bytes, budget: Budget | None = None, *, local: bool = True) -> ProfileData:
    """Return the profile in the bytes of a perf.data; with `local` false no other file is opened. ProfileError."""
    return read(BytesSource(data), budget or bounds.reading(len(data)), local=local)


def from_file(file: io.BufferedReader, head: bytes = b"", folder: str = "") -> ProfileData:
    """The profile in an open file or pipe, of which `head` was read already; `folder` is the one that it lies in. What
    comes through a pipe is put into a temporary file, so that little of it is in memory. OSError, ProfileError."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        source = FileSource(file, file.tell() - len(head))
        return read(source, bounds.reading(source.size), folder=folder)
    with TemporaryFile() as copy:
        copy.write(head)
        while data := file.read(COPIED):
            copy.write(data)
        copy.flush()
        source = FileSource(copy)
        return read(source, bounds.reading(source.size))


def from_folder(path: str) -> ProfileData:
    """The profile in the directory form: `data`, and `data.0`, `data.1` ... with bare records (perf record --threads),
    and the kernel's names as they were (perf record --kcore). OSError, ProfileError."""
    names = [name for name in os.listdir(path) if PART.fullmatch(name)]
    with ExitStack() as stack:
        sources = [
            FileSource(stack.enter_context(open_input(os.path.join(path, name), ProfileError)))
            for name in (MAIN, *sorted(names, key=lambda name: int(name.rpartition(".")[2])))
        ]
        found = read(sources[0], bounds.reading(sum(one.size for one in sources)), sources[1:])
    kallsyms = os.path.join(path, *KALLSYMS)
    found.kernel_names = kallsyms if os.path.isfile(kallsyms) else ""
    return found


MAIN = "data"  # of the directory form
PART = re.compile(r"data\.\d{1,6}")
KALLSYMS = "kcore_dir", "kallsyms"
COPIED = 1 << 20  # bytes at a time
