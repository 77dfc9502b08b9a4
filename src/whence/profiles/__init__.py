"""Read profiles (perf.data, pprof, OTLP, text) into one model, name their addresses, and write them.

    profile             the public class Profile, `read` and `merge`
    formats/            readers and writers, one module per format
    naming              names for each location, or the reason why it has none
    binaries            opens the file that answers for a mapping
    fallback_names      locations that other tools named by file and address
    fixed_program       mappings for a profile without any, from its program
    non_elf_names       names of generated code and of the kernel, from lists
    symbol_lists        lists of symbols: perf maps, kallsyms
    coverage            how much has names, from where, and what would name the rest
    code                functions by line and by instruction
    callers             callers and callees of functions
    page_code           source lines and instructions in the page of a flame graph
    top                 the functions with the highest values, as a table
    arrow               a profile as an Arrow table
    sampling            samples the stacks of a live process

A malformed profile raises ProfileError; an address without a name gets a reason, never an error.

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
