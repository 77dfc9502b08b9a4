"""pprof profiles: perftools.profiles.Profile, in gzip or plain.

    read     checks every index and id of the profile, fills mappings, locations and the frames that are there;
             samples stay undecoded until something asks for them
    write    a profile that was read from pprof: the same bytes with other names, functions and strings added behind;
             any other profile: written whole

Lines of a location are innermost first, the function they were all inlined into last. An address is a byte of the
instruction itself: callers are adjusted by who recorded the profile, so nothing is subtracted here.
Reference: github.com/google/pprof, proto/profile.proto.

>>> from whence.profiles.model import Mapping, Profile, SampleType
>>> profile = Profile([SampleType("cpu", "nanoseconds")], [Mapping(0x400000, 0x500000, 0, "/bin/app", "ab12")])
>>> profile.samples.add([profile.location(0, 0x401000)], [7])
>>> again = read(write(profile))
>>> again.mappings[0].path, hex(again.address[0]), again.samples.values[0][0]
('/bin/app', '0x401000', 7)
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from whence.budget import Budget
from whence.errors import ProfileError
from whence.model import Frame, Frames, Source
from whence.profiles import bounds, gz, wire
from whence.profiles.model import NO_MAPPING, Label, Mapping, Profile, Samples, SampleType
from whence.profiles.pprof_writer import encoded, renamed
from whence.profiles.wire import Ids, Messages

# Field numbers of Profile
SAMPLE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = 1, 2, 3, 4, 5, 6
DROP, KEEP, TIME, DURATION, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_TYPE, DOC_URL = range(7, 16)

# (field number, its name) of each message's string indices, and how many fields a row of its table needs
STRINGS_OF = {
    "sample_type": ((1, "type"), (2, "unit")),
    "mapping": ((5, "filename"), (6, "build_id")),
    "function": ((2, "name"), (3, "system_name"), (4, "filename")),
    "label": ((1, "key"), (2, "str"), (4, "num_unit")),
}
WIDTH = {"sample_type": 3, "mapping": 11, "location": 6, "line": 4, "function": 6, "label": 5}


@dataclass(slots=True)
class Origin:
    """The bytes a pprof profile was read from, and its tables as extents and rows."""

    data: bytes = field(repr=False)
    compressed: bool
    whole: Messages
    strings: Messages
    functions: array[int] = field(repr=False)  # rows of WIDTH["function"]
    function_ids: Ids


def read(data: bytes, *, compressed: bool = False, budget: Budget | None = None) -> Profile:
    """The profile in `data`; a ProfileError says which part of it breaks which rule.

    `compressed` says that plain data came out of gzip and is to go back into it; `budget` then counts what is stored.
    """
    packed = data.startswith(gz.MAGIC)
    compressed |= packed
    budget = budget or bounds.reading(len(data))
    plain = gz.inflated(data, budget) if packed else data
    whole = Messages.whole(plain, "profile", budget)
    strings = whole.field(STRING, "string_table")
    if not len(strings) or strings.raw(0):
        raise ProfileError(
            "string_table", None, "its first string is empty", strings.raw(0) if len(strings) else "none"
        )

    def rows(messages: Messages) -> array[int]:
        table = messages.table(WIDTH[messages.part])
        for number, name in STRINGS_OF.get(messages.part, ()):
            rule = f"{name} is an index into string_table"
            wire.below(table, WIDTH[messages.part], number, len(strings), messages.part, rule)
        return table

    types = rows(whole.field(SAMPLE_TYPE, "sample_type"))
    mappings = rows(whole.field(MAPPING, "mapping"))
    functions = rows(whole.field(FUNCTION, "function"))
    budget.charge(bounds.TYPE * (len(types) // 3) + bounds.MAPPING * (len(mappings) // WIDTH["mapping"]))
    origin = Origin(plain, compressed, whole, strings, functions, _ids(functions, "function", budget))
    profile = Profile(origin=origin)
    text = strings.text
    profile.sample_types = [SampleType(text(types[i + 1]), text(types[i + 2])) for i in range(0, len(types), 3)]
    profile.mappings = [
        Mapping(mappings[i + 2], mappings[i + 3], mappings[i + 4], text(mappings[i + 5]), text(mappings[i + 6]))
        for i in range(0, len(mappings), WIDTH["mapping"])
    ]
    locations = whole.field(LOCATION, "location")
    table = locations.table(WIDTH["location"])
    ids = _ids(table, "location", budget)
    _locations(profile, locations, table, _ids(mappings, "mapping", budget))
    _names(profile, locations, origin)
    _about(profile, origin, whole.table(16))
    profile.stored = bounds.stored(budget)
    samples = whole.field(SAMPLE, "sample")
    kinds = len(profile.sample_types)
    if not ids.all_known(samples, kinds):
        _stacks(samples, ids, kinds)  # says which sample breaks which rule
    labels = samples.field(3, "label")
    label_rows = rows(labels)
    profile.load = lambda: _samples(kinds, samples, ids, labels, label_rows, strings)
    return profile


def write(profile: Profile, *, compress: bool | None = None) -> bytes:
    """The profile as pprof; in gzip unless it was read from plain bytes or `compress` says otherwise."""
    origin = profile.origin
    if isinstance(origin, Origin):
        plain: bytes | bytearray = renamed(profile, origin.whole, origin.strings, origin.function_ids.ids)
        compress = origin.compressed if compress is None else compress
    else:
        plain = encoded(profile)
    return gz.deflated(plain) if compress or compress is None else bytes(plain)


def _ids(rows: array[int], part: str, budget: Budget) -> Ids:
    budget.charge(bounds.ID * (len(rows) // WIDTH[part]))
    return Ids(rows[1 :: WIDTH[part]], part)


def _locations(profile: Profile, locations: Messages, table: array[int], mapping_ids: Ids) -> None:
    """Columns of the locations: a mapping_id of 0 is none, any other must be there."""
    width = WIDTH["location"]
    wanted = table[2::width]
    held = array("Q", filter(None, wanted))
    found = mapping_ids.positions(held, "location", "mapping_id is the id of a mapping")
    if len(held) == len(wanted):
        profile.mapping = array("q", found)
    else:
        rest = iter(found)
        profile.mapping = array("q", (next(rest) if one else NO_MAPPING for one in wanted))
    profile.address = table[3::width]
    profile.frames = [()] * len(locations)


def _names(profile: Profile, locations: Messages, origin: Origin) -> None:
    """Frames of the locations that come with lines."""
    lines = locations.field(4, "line")
    if not len(lines):
        return
    lines.budget.charge(bounds.FRAME * len(lines))
    table = lines.table(WIDTH["line"])
    functions = origin.function_ids.positions(table[1 :: WIDTH["line"]], "line", "function_id is the id of a function")
    text = origin.strings.text
    names: dict[int, tuple[str, str, int]] = {}
    previous = -1
    chain: list[Frame] = []
    frames: list[Frames] = profile.frames
    for row, (parent, function) in enumerate(zip(lines.parent, functions, strict=True)):
        if parent != previous:
            if chain:
                frames[previous] = _chain(chain)
            chain = []
            previous = parent
        if function not in names:
            at = function * WIDTH["function"]
            name, system, file, start = origin.functions[at + 2 : at + 6]
            names[function] = text(name or system), text(file), max(0, _signed(start))
        line = table[row * WIDTH["line"] + 2]
        name_text, file_text, start = names[function]
        chain.append(Frame(name_text, file_text, line if line < 1 << 63 else 0, True, Source.UNKNOWN, start))
    frames[previous] = _chain(chain)


def _chain(chain: list[Frame]) -> Frames:
    chain[-1] = chain[-1]._replace(inlined=False)
    return tuple(chain)


def _about(profile: Profile, origin: Origin, fields: array[int]) -> None:
    """What the profile says about itself."""
    strings, whole = origin.strings, origin.whole
    comments, _ = whole.numbers(COMMENT)
    wire.below(array("Q", comments), 1, 0, len(strings), "comment", "it is an index into string_table")
    texts = (DROP, "drop_frames"), (KEEP, "keep_frames"), (DEFAULT_TYPE, "default_sample_type"), (DOC_URL, "doc_url")
    for number, name in texts:
        if fields[number] >= len(strings):
            raise ProfileError(name, None, "it is an index into string_table", f"{fields[number]} of {len(strings)}")
    profile.comments = [strings.text(index) for index in comments]
    profile.time_ns = _signed(fields[TIME])
    profile.duration_ns = _signed(fields[DURATION])
    profile.period = _signed(fields[PERIOD])
    kind = whole.field(PERIOD_TYPE, "period_type")
    if len(kind):
        rows = kind.table(3)
        wire.below(rows, 3, 1, len(strings), "period_type", "type is an index into string_table")
        wire.below(rows, 3, 2, len(strings), "period_type", "unit is an index into string_table")
        profile.period_type = SampleType(strings.text(rows[-2]), strings.text(rows[-1]))
    wanted = strings.text(fields[DEFAULT_TYPE])
    names = [kind.type for kind in profile.sample_types]
    profile.default_type = names.index(wanted) if wanted in names else max(0, len(names) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _stacks(samples: Messages, ids: Ids, kinds: int) -> tuple[array[int], array[int], array[int]]:
    """Where each sample's stack starts, the locations of all stacks, and the values of all samples; checked."""
    stack, first = samples.numbers(1)
    where = ids.positions(stack, "sample", "location_id is the id of a location")
    values, per_sample = samples.numbers(2)
    if per_sample != array("Q", range(0, kinds * len(samples) + 1, kinds) if kinds else bytes(8 * (len(samples) + 1))):
        wrong = next(i for i in range(len(samples)) if per_sample[i + 1] - per_sample[i] != kinds)
        found = per_sample[wrong + 1] - per_sample[wrong]
        raise ProfileError(f"sample {wrong}", None, f"it has a value for each of {kinds} sample types", found)
    return first, where, values


def _samples(kinds: int, samples: Messages, ids: Ids, labels: Messages, rows: array[int], strings: Messages) -> Samples:
    first, stack, values = _stacks(samples, ids, kinds)
    signed = array("q", values.tobytes())
    samples.budget.charge(2 * bounds.ENTRY * len(samples) + bounds.LABELS * len(labels))
    own, columns = array("I", range(len(samples))), [signed[kind::kinds] for kind in range(kinds)]
    out = Samples(first, stack, own, columns, [()] * len(samples))
    known: dict[tuple[int, ...], Label] = {}
    width = WIDTH["label"]
    parents = labels.parent
    told: list[Label] = []  # of one sample
    for row, parent in enumerate(parents):
        key = tuple(rows[row * width + 1 : row * width + 5])
        label = known.get(key)
        if label is None:
            labels.budget.charge(bounds.LABEL)
            label = Label(strings.text(key[0]), strings.text(key[1]), _signed(key[2]), strings.text(key[3]))
            known[key] = label
        told.append(label)
        if row + 1 == len(parents) or parents[row + 1] != parent:
            out.labels[parent] = tuple(told)
            told = []
    return out
