"""Profiles in, names out: pprof, OTLP and perf, read into one model, named, written.

    wire                protocol buffers as columns (wire_kernel), and the splice that changes nothing but names
                        (splice_kernel)
    model               Profile: mappings, locations, samples; what every reader fills and every writer reads
    pprof               perftools.profiles.Profile, gzip or plain
    otlp                OTLP profiles v1development (dictionary form), binary and JSON
    perf, folded        the text of `perf script`; folded stacks
    speedscope          speedscope's JSON, to write
    text                lines of text of any size
    others              what is no profile, told by name, with what to do
    bounds              how much memory a profile may take for its stored bytes
    flamegraph/         one HTML page that needs nothing else
    identity            build-ids in the one form in which they are compared
    binaries            which file answers for a mapping, and what was tried
    kernel              the kernel's files: which belongs to a mapping, and where it was loaded
    lists, listed       names that are in no file: perf maps, kallsyms
    naming              each location to its frames or its reason
    coverage            how much got named, by what, and what would name the rest

A profile that breaks a rule of its format is a ProfileError; an address that has no name is a reason, never an error.

    from whence import profiles

    profile = profiles.open("cpu.pb.gz")
    with whence.Locator(files=["app.debug"]) as locator:
        for report in profiles.name(profile, locator):
            print(report.path, report.named, report.locations)
    profiles.write(profile, "named.pb.gz")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.profiles.model import Label, Mapping, Profile, Samples, SampleType

if TYPE_CHECKING:
    from whence.profiles.binaries import Binaries
    from whence.profiles.formats import from_bytes, to_bytes, write
    from whence.profiles.formats import open_profile as open
    from whence.profiles.naming import Named, name

__all__ = [
    "Binaries", "Label", "Mapping", "Named", "Profile", "SampleType", "Samples", "from_bytes", "name", "open",
    "to_bytes", "write",
]  # fmt: skip

_LAZY = {
    "open": ("whence.profiles.formats", "open_profile"),
    "from_bytes": ("whence.profiles.formats", "from_bytes"),
    "to_bytes": ("whence.profiles.formats", "to_bytes"),
    "write": ("whence.profiles.formats", "write"),
    "Binaries": ("whence.profiles.binaries", "Binaries"),
    "Named": ("whence.profiles.naming", "Named"),
    "name": ("whence.profiles.naming", "name"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # to type checkers the names above are there, and kernels are modules

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _LAZY:
            module, attribute = _LAZY[name]
            return getattr(import_module(module), attribute)
        raise AttributeError(f"module 'whence.profiles' has no attribute {name!r}")
