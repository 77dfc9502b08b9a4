"""Profiles for tests: of a compiled program, of stacks of names, and one with something of everything."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from whence._base.model import Frame
from whence.objects.elf import ElfFile
from whence.samples.model import NO_MAPPING, Mapping, ProfileData, SampleType

BASE = 0x7F0000000000


def program_profile(path: Path, build_id: str | None = None, file: str | None = None) -> ProfileData:
    """A profile with three addresses of the program: in main, in sum, and in the middle of nowhere."""
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab") if elf.section(".symtab") else elf.symbols(".dynsym")
        position = {symbols.name(i): symbols.value[i] for i in range(len(symbols.value))}
        code = next(segment for segment in elf.segments if segment.type == 1 and segment.executable)
        wanted = elf.build_id if build_id is None else build_id
    offset = code.file_offset & -4096
    mapping = Mapping(BASE, BASE + code.file_size + 4096, offset, str(path) if file is None else file, wanted)
    profile = ProfileData([SampleType("samples", "count")], [mapping])
    for vaddr in (position["main"], position["sum"] + 1, code.vaddr + code.file_size - 1):
        profile.samples.add([profile.location(0, BASE + vaddr - code.vaddr + code.file_offset - offset)], [2])
    return profile


REASON = "the file is not on this machine </script><!-- <b>"


def made() -> ProfileData:
    """main calls work (into which inner is inlined) and an unnamed place in libz."""
    profile = ProfileData([SampleType("samples", "count"), SampleType("cpu", "nanoseconds")])
    profile.default_type = 1
    profile.mappings = [
        Mapping(0x400000, 0x500000, 0, "/bin/app"),
        Mapping(0x700000, 0x800000, 0x1000, "/lib/libz.so.1"),
    ]
    main = profile.location(0, 0x401000, (Frame("main", "/src/a.c", 9),))
    work = profile.location(0, 0x402000, (Frame("inner<1;2>", "/src/b.c", 3, True), Frame("work", "/src/a.c", 5)))
    libz = profile.location(1, 0x700F20)
    profile.reasons[libz] = REASON
    profile.samples.add([work, main], [1, 30])
    profile.samples.add([libz, main], [1, 10])
    profile.samples.add([work, main], [1, 60])
    return profile


def profile_of(stacks: list[tuple[list[str], int]], kinds: int = 1) -> ProfileData:
    """Stacks of functions, outermost first, with the same value of each type."""
    profile = ProfileData([SampleType(f"type{kind}", "count") for kind in range(kinds)])
    locations: dict[str, int] = {}
    for names, value in stacks:
        for name in names:
            if name not in locations:
                locations[name] = profile.location(NO_MAPPING, 0, (Frame(name),))
        profile.samples.add([locations[name] for name in reversed(names)], [value] * kinds)
    return profile


names = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)


def in_app(*functions: tuple[str, str, int]) -> ProfileData:
    """Functions of the binary app, and a smaller one of the binary c."""
    profile = ProfileData(
        [SampleType("cpu", "nanoseconds")], [Mapping(1, 9, 0, "/bin/app"), Mapping(11, 19, 0, "/lib/c")]
    )
    for name, file, value in functions:
        profile.samples.add([profile.location(0, 1, (Frame(name, file),))], [value])
    profile.samples.add([profile.location(1, 11, (Frame("read", "/libc/read.c"),))], [10])
    return profile
