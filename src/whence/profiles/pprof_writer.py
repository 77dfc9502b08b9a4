"""Writing pprof: a profile whole, or the one that was read with other names.

What `renamed` adds (functions, strings) goes behind what is there; locations that got frames are written again with
lines for them, mappings get their has_* flags, every other byte is passed on as it lies.
"""

from __future__ import annotations

from array import array

from whence.model import Frames
from whence.profiles import bounds, wire
from whence.profiles.model import NO_MAPPING, Mapping, Profile, SampleType
from whence.profiles.wire import Messages

RENAMED_LINE = 64  # bytes of columns and of the message
HAS_FUNCTIONS, HAS_FILENAMES, HAS_LINES, HAS_INLINES = 1, 2, 4, 8  # fields 7 to 10 of a mapping


class Names:
    """The string and function tables as they grow: each string and each function once."""

    def __init__(self, profile: Profile, strings: Messages | None = None, next_function: int = 1) -> None:
        self.system_names = profile.system_names
        self.strings: dict[str, int] = {}
        self.functions: dict[tuple[str, str, int], int] = {}
        self._new_strings: list[bytes] = []
        self._new_functions = array("Q")  # rows of id, name, system name, file, start line
        self._next_string = len(strings) if strings else 0
        self._next_function = next_function
        if strings:
            for index in range(self._next_string):
                self.strings.setdefault(strings.text(index), index)
        self.string("")

    def string(self, text: str) -> int:
        index = self.strings.get(text)
        if index is None:
            index = self.strings[text] = self._next_string
            self._next_string += 1
            self._new_strings.append(text.encode("utf-8", "surrogateescape"))
        return index

    def function(self, name: str, file: str, start_line: int) -> int:
        """The id of a function."""
        key = name, file, start_line
        known = self.functions.get(key)
        if known is None:
            known = self.functions[key] = self._next_function
            self._next_function += 1
            text = self.string(name)
            system = self.system_names.get(name)
            system_text = text if system is None else self.string(system)
            self._new_functions.extend((known, text, system_text, self.string(file), start_line))
        return known

    def tables(self) -> bytes:
        """What came new to the two tables, as fields of the profile."""
        return bytes(wire.rows(5, self._new_functions, 5)) + wire.texts(6, self._new_strings)


def flags_of(frames: Frames) -> int:
    """What a mapping can claim to have once one of its locations has these frames."""
    flags = HAS_FUNCTIONS
    if any(frame.file for frame in frames):
        flags |= HAS_FILENAMES
    if any(frame.line for frame in frames):
        flags |= HAS_LINES | HAS_INLINES
    return flags | (HAS_INLINES if len(frames) > 1 else 0)


def renamed(profile: Profile, whole: Messages, strings: Messages, function_ids: array[int]) -> bytes | bytearray:
    """The bytes of `whole` with the frames of profile.changed in place of the lines those locations had."""
    if not profile.changed:
        return whole.data
    bounds.writing(profile.stored, "the lines of named locations").charge(
        RENAMED_LINE * sum(len(profile.frames[location]) for location in profile.changed)
    )
    names = Names(profile, strings, max(function_ids, default=0) + 1)
    first = array("Q", bytes(8 * (len(profile.address) + 1)))
    functions, lines = array("Q"), array("Q")
    flags = bytearray(len(profile.mappings))
    changed, function = profile.changed, names.function
    for location, (mapping, frames) in enumerate(zip(profile.mapping, profile.frames, strict=True)):
        if location in changed:
            bits = HAS_FUNCTIONS
            for name, file, line, inlined, _, start_line in frames:
                functions.append(function(name, file, start_line))
                if line > 0:
                    lines.append(line)
                    bits |= HAS_LINES | HAS_INLINES
                else:
                    lines.append(0)
                if file:
                    bits |= HAS_FILENAMES
                if inlined:
                    bits |= HAS_INLINES
            if mapping != NO_MAPPING:
                flags[mapping] |= bits
        first[location + 1] = len(lines)
    out = wire.splice(whole, 4, 4, first, functions, lines, 3, bytes(flags))
    out += names.tables()
    return out


def encoded(profile: Profile) -> bytes:
    """The whole profile from its model."""
    names = Names(profile)

    def kind(field: int, one: SampleType) -> bytes:
        return wire.payload(field, wire.number(1, names.string(one.type)) + wire.number(2, names.string(one.unit)))

    out = [kind(1, one) for one in profile.sample_types]
    flags = bytearray(len(profile.mappings))
    locations: list[bytes] = []
    for index, (mapping, address, frames) in enumerate(
        zip(profile.mapping, profile.address, profile.frames, strict=True)
    ):
        if frames and mapping != NO_MAPPING:
            flags[mapping] |= flags_of(frames)
        body = wire.number(1, index + 1) + wire.number(2, mapping + 1) + wire.number(3, address)
        for frame in frames:
            known = names.function(frame.function, frame.file, frame.start_line)
            body += wire.payload(4, wire.number(1, known) + wire.number(2, frame.line))
        locations.append(wire.payload(4, body))
    out += _samples(profile, names)
    out += [_mapping(index + 1, one, flags[index], names) for index, one in enumerate(profile.mappings)]
    out += locations
    out += [wire.number(9, profile.time_ns), wire.number(10, profile.duration_ns)]
    if profile.period_type.type:
        out.append(kind(11, profile.period_type))
    out += [wire.number(12, profile.period), wire.packed(13, [names.string(one) for one in profile.comments])]
    if profile.default_type < len(profile.sample_types) - 1:
        out.append(wire.number(14, names.string(profile.sample_types[profile.default_type].type)))
    return b"".join([*out, names.tables()])


def _mapping(number: int, mapping: Mapping, flags: int, names: Names) -> bytes:
    fields = [number, mapping.start, mapping.limit, mapping.file_offset]
    fields += [names.string(mapping.path), names.string(mapping.build_id)]
    fields += [flags >> bit & 1 for bit in range(4)]
    return wire.payload(3, b"".join(wire.number(field + 1, value) for field, value in enumerate(fields)))


def _samples(profile: Profile, names: Names) -> list[bytes]:
    samples = profile.samples
    out = []
    ids = [wire.varint(index + 1) for index in range(len(profile.address))]
    budget = bounds.writing(profile.stored, "samples with a stack each, as pprof has them,")
    for index in range(len(samples)):
        at = samples.of[index]
        stack = samples.first[at + 1] - samples.first[at]
        budget.charge(bounds.STRING + bounds.ENTRY * (stack + len(samples.values)))
        body = wire.payload(1, b"".join([ids[one] for one in samples.locations(index)]))
        body += wire.packed(2, [column[index] for column in samples.values])
        for label in samples.labels[index]:
            fields = (names.string(label.key), names.string(label.text), label.number, names.string(label.unit))
            body += wire.payload(3, b"".join(wire.number(at + 1, value) for at, value in enumerate(fields)))
        out.append(wire.payload(2, body))
    return out
