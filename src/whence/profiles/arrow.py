"""A profile as an Arrow table: a row for each sample, or for each event if times are known.

    time        int64, nanoseconds of the recorder's clock; only if known
    TYPE        int64, a column for each sample type, with its name; the field's metadata has the unit
    stack       list of struct, innermost frame first: function (null if unknown: see reason), file, line, inlined,
                binary, build_id, address, reason; texts are dictionaries
    labels      map of text to text: thread, process, command, other labels of the recorder

`write` makes an Arrow IPC stream. Requires pyarrow (the extra `arrow`).
Reference: arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from whence.lidia.results import imported
from whence.samples import bounds
from whence.samples.model import Label, ProfileData
from whence.samples.stacks import NOT_SYMBOLIZED, binary_of

if TYPE_CHECKING:
    import pyarrow

    from whence._base.budget import Budget

FRAME_BYTES = 64  # of a frame in a row: columns and validity of its struct


def table(profile: ProfileData) -> pyarrow.Table:
    """Return the profile as a pyarrow Table. Raises ImportError if pyarrow is not installed."""
    pa = imported("pyarrow", "an Arrow table", "arrow")
    samples = profile.samples
    timeline = samples.timeline
    budget = bounds.writing(profile.stored, "Arrow's rows")
    rows = samples.of if timeline is None else array("I", map(samples.of.__getitem__, timeline.sample))
    budget.charge(bounds.LABELS * len(rows))
    columns: dict[str, Any] = {}
    fields = []

    def add(name: str, column: Any, unit: str = "") -> None:
        name = name if name not in columns else f"{name}_{unit or len(columns)}"
        name = name if name not in columns else f"{name}_{len(columns)}"
        columns[name] = column
        fields.append(pa.field(name, column.type, metadata={"unit": unit} if unit else None))

    if timeline is not None:
        add("time", pa.array(timeline.time, pa.int64()), "nanoseconds")
    values = samples.values if timeline is None else timeline.values
    for kind, column in zip(profile.sample_types, values):
        add(clean(kind.type) or "samples", pa.array(column, pa.int64()), clean(kind.unit))
    stacks = stacks_of(pa, profile, budget)
    lengths = stacks.value_lengths().to_pylist()
    budget.charge(FRAME_BYTES * sum(map(lengths.__getitem__, rows)))
    add("stack", stacks.take(pa.array(rows, pa.uint32())))
    labels = samples.labels if timeline is None else [samples.labels[row] for row in timeline.sample]
    budget.charge(bounds.LABELS * sum(map(len, labels)))
    pairs: dict[Label, tuple[str, str]] = {}
    maps = [
        [pairs.setdefault(label, (clean(label.key), clean(label.text or f"{label.number}"))) for label in row]
        for row in labels
    ]
    add("labels", pa.array(maps, pa.map_(pa.string(), pa.string())))
    about = {"whence.default_type": f"{profile.default_type}", "whence.time_ns": f"{profile.time_ns}"}
    about["whence.duration_ns"] = f"{profile.duration_ns}"
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields, metadata=about))


def stacks_of(pa: Any, profile: ProfileData, budget: Budget) -> Any:
    """Return the stacks, each a list of structs."""
    frames = [chain or (None,) for chain in profile.frames]
    count = sum(map(len, frames))
    budget.charge(4 * bounds.ENTRY * count)
    functions: list[str | None] = []
    files: list[str | None] = []
    lines, inlined, addresses = array("q"), [], array("Q")
    binaries: list[str | None] = []
    build_ids: list[str | None] = []
    reasons: list[str | None] = []
    first = array("i", [0])
    binary_of_mapping: dict[int, tuple[str, str]] = {}
    for location, (chain, index) in enumerate(zip(frames, profile.mapping, strict=True)):
        if index not in binary_of_mapping:
            mapping = profile.mapping_of(location)
            binary_of_mapping[index] = binary_of(profile, location), mapping.build_id if mapping else ""
        binary, build_id = binary_of_mapping[index]
        for frame in chain:
            functions.append(None if frame is None else frame.function)
            files.append("" if frame is None else frame.file)
            lines.append(0 if frame is None else frame.line)
            inlined.append(frame is not None and frame.inlined)
            reasons.append(profile.reasons.get(location, NOT_SYMBOLIZED) if frame is None else None)
            binaries.append(binary)
            build_ids.append(build_id)
            addresses.append(profile.address[location])
        first.append(len(functions))

    def texts(column: list[str | None]) -> Any:
        """Return a dictionary column, as many rows may have one long text."""
        numbers: dict[str, int] = {}
        rows = [None if text is None else numbers.setdefault(text, len(numbers)) for text in column]
        budget.charge(sum(bounds.STRING + len(text) for text in numbers))
        return pa.DictionaryArray.from_arrays(
            pa.array(rows, pa.int32()), pa.array([clean(text) for text in numbers], pa.string())
        )

    struct = pa.StructArray.from_arrays(
        [
            texts(functions), texts(files), pa.array(lines, pa.int64()), pa.array(inlined, pa.bool_()), texts(binaries),
            texts(build_ids), pa.array(addresses, pa.uint64()), texts(reasons),
        ],
        ["function", "file", "line", "inlined", "binary", "build_id", "address", "reason"],
    )  # fmt: skip
    located = pa.ListArray.from_arrays(pa.array(first, pa.int32()), struct)
    samples = profile.samples
    lengths = located.value_lengths().to_pylist()
    budget.charge(FRAME_BYTES * sum(map(lengths.__getitem__, samples.stack)))
    taken = located.take(pa.array(samples.stack, pa.uint32()))
    ends = taken.offsets.take(pa.array(samples.first, pa.uint64()))
    return pa.ListArray.from_arrays(ends, taken.values)


def clean(text: str) -> str:
    """Return text that UTF-8 can encode, with a question mark for each byte that was not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def write(profile: ProfileData) -> bytes:
    """Return the table as an Arrow IPC stream."""
    pa = imported("pyarrow", "the format arrow", "arrow")
    rows = table(profile)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
