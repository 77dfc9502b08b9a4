"""Profiles in, names out: perf.data, pprof, OTLP and text, read into one model, named, written.

    profile             Profile and read: what users hold
    model               mappings, locations, samples; what every reader fills and every writer reads
    wire                protocol buffers as columns, and the splice that changes nothing but names
    schema              the fields of pprof's and OTLP's messages
    pprof               perftools.profiles.Profile, gzip or plain
    otlp                OTLP profiles v1development (dictionary form), binary and JSON
    perfdata/           perf's own recordings, without perf
    perf, folded        the text of `perf script`; folded stacks
    speedscope          speedscope's JSON, to write
    firefox             Firefox Profiler's processed format, to write; breakpad: its form of build-ids
    top                 the functions that have most, as a table
    plain_json, arrow   the model as JSON and as an Arrow table, to write
    merging, difference  several profiles as one; what changed from one to another, by function
    threads             which thread of which process a sample is of
    sampling            a live process's stacks, taken again and again
    legacy              gperftools', jemalloc's and Go's old forms, to read; memory_maps: what lay where
    firefox_read        the same format to read, and to add names to; speedscope_read, v8: the others' JSON
    stack_texts         what DTrace, bpftrace and macOS's sample print
    go_trace            the CPU samples of a Go execution trace
    text                lines of text of any size
    others              what is no profile: its name, and what to do
    bounds              how much memory a profile may take for its stored bytes
    flamegraph/         one HTML page that needs nothing else
    identity            build-ids in the one form in which they are compared
    binaries            which file answers for a mapping, and what was tried
    kernel              the kernel's files: which belongs to a mapping, and where it was loaded
    symbol_lists        names that are in no ELF file: perf maps, kallsyms; non_elf_names asks them
    chains              the chains of frames that locations share, for pprof's and OTLP's writers
    fallback_names      names of other tools that are a file and an address in it
    naming              each location to its frames or its reason
    coverage            how much got named, by what, and what would name the rest

A profile that breaks a rule of its format is a ProfileError; an address that has no name is a reason, never an error.

    from whence import profiles

    profile = profiles.read("cpu.pb.gz")
    with whence.Locator(files=["app.debug"]) as locator:
        report = profile.symbolize(locator)
    print(report, end="")
    profile.filter(lambda sample: "handle_request" in sample.functions).write("requests.folded")
    profile.write("named.pb.gz")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.samples.model import Label, Mapping, Sample, Samples, SampleType

if TYPE_CHECKING:
    from whence.profiles.binaries import Binaries
    from whence.profiles.coverage import CoverageRow, Report
    from whence.profiles.formats.go_trace import read_go_trace
    from whence.profiles.profile import Profile, merge, read
    from whence.profiles.sampling import sample
    from whence.profiles.symbol_lists import SymbolLists

__all__ = [
    "Binaries",
    "CoverageRow",
    "Label",
    "Mapping",
    "Profile",
    "Report",
    "Sample",
    "SampleType",
    "Samples",
    "SymbolLists",
    "merge",
    "read",
    "read_go_trace",
    "sample",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "merge": "whence.profiles.profile",
            "read": "whence.profiles.profile",
            "read_go_trace": "whence.profiles.formats.go_trace",
            "sample": "whence.profiles.sampling",
            "Profile": "whence.profiles.profile",
            "SymbolLists": "whence.profiles.symbol_lists",
            "Binaries": "whence.profiles.binaries",
            "Report": "whence.profiles.coverage",
            "CoverageRow": "whence.profiles.coverage",
        },
    )
