"""Profiles in, names out: pprof, OTLP and perf, read into one model, named, written.

    wire                protocol buffers as columns (wire_kernel), and the splice that changes nothing but names
                        (splice_kernel)
    model               Profile: mappings, locations, samples; what every reader fills and every writer reads
    pprof               perftools.profiles.Profile, gzip or plain
    otlp                OTLP profiles v1development (dictionary form), binary and JSON
    perf, folded        the text of `perf script`; folded stacks
    speedscope          speedscope's JSON, to write
    flamegraph/         one HTML page that needs nothing else
    binaries            which file answers for a mapping, and what was tried
    kernel              the kernel's files: which belongs to a mapping, and where it was loaded
    lists, listed       names that are in no file: perf maps, kallsyms
    naming              each location to its frames or its reason
    coverage            how much got named, by what, and what would name the rest

A profile that breaks a rule of its format is a ProfileError; an address that has no name is a reason, never an error.
"""

from whence.profiles.model import Label, Mapping, Profile, Samples, SampleType

__all__ = ["Label", "Mapping", "Profile", "SampleType", "Samples"]
