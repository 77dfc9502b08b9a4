"""A profile as an Arrow table: a row for each sample, or for each event where it is known when each was taken.

    time        int64, nanoseconds of the recorder's clock; only where it is known
    TYPE        int64, one for each sample type, named as it; the field's metadata has its unit
    stack       list of struct, innermost frame first: function (null: it has no name, and reason says why), file, line,
                inlined, binary, build_id, address, reason; texts are dictionaries
    labels      map of text to text: thread, process, command, what else the recorder knew

Written, it is an Arrow IPC stream, whose readers are in every language. It takes pyarrow (the extra `arrow`).
Reference: arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from whence.lidia.results import imported
from whence.samples import bounds
from whence.samples.model import Label, ProfileData
from whence.samples.stacks import binary_of

if TYPE_CHECKING:
    import pyarrow

FRAME_BYTES = 64  # of a frame in a row: its struct's columns and validity


def table(profile: ProfileData) -> pyarrow.Table:
    """The profile as a pyarrow Table. ImportError where pyarrow is not installed."""
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
    labels = samples.labels if timeline is None else [samples.labels[at] for at in timeline.sample]
    budget.charge(bounds.LABELS * sum(map(len, labels)))
    pairs: dict[Label, tuple[str, str]] = {}
    maps = [
        [pairs.setdefault(one, (clean(one.key), clean(one.text or f"{one.number}"))) for one in row] for row in labels
    ]
    add("labels", pa.array(maps, pa.map_(pa.string(), pa.string())))
    about = {"whence.default_type": f"{profile.default_type}", "whence.time_ns": f"{profile.time_ns}"}
    about["whence.duration_ns"] = f"{profile.duration_ns}"
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields, metadata=about))


def stacks_of(pa: Any, profile: ProfileData, budget: Any) -> Any:
    """The stacks as a list of structs each."""
    frames = [one or (None,) for one in profile.frames]
    count = sum(map(len, frames))
    budget.charge(4 * bounds.ENTRY * count)
    functions: list[str | None] = []
    files: list[str | None] = []
    lines, inlined, addresses = array("q"), [], array("Q")
    binaries: list[str | None] = []
    build_ids: list[str | None] = []
    reasons: list[str | None] = []
    first = array("i", [0])
    named: dict[int, tuple[str, str]] = {}
    for at, (chain, mapping) in enumerate(zip(frames, profile.mapping, strict=True)):
        if mapping not in named:
            found = profile.mapping_of(at)
            named[mapping] = binary_of(profile, at), found.build_id if found else ""
        binary, build_id = named[mapping]
        for frame in chain:
            functions.append(None if frame is None else frame.function)
            files.append("" if frame is None else frame.file)
            lines.append(0 if frame is None else frame.line)
            inlined.append(frame is not None and frame.inlined)
            reasons.append(profile.reasons.get(at, "not asked for") if frame is None else None)
            binaries.append(binary)
            build_ids.append(build_id)
            addresses.append(profile.address[at])
        first.append(len(functions))

    def texts(column: list[str | None]) -> Any:
        """A column of texts, each once: many rows may have one long text."""
        known: dict[str, int] = {}
        rows = [None if one is None else known.setdefault(one, len(known)) for one in column]
        budget.charge(sum(bounds.STRING + len(one) for one in known))
        return pa.DictionaryArray.from_arrays(
            pa.array(rows, pa.int32()), pa.array([clean(one) for one in known], pa.string())
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
    """A text that UTF-8 has: bytes that were none show as a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def write(profile: ProfileData) -> bytes:
    """The table as an Arrow IPC stream."""
    pa = imported("pyarrow", "the format arrow", "arrow")
    found = table(profile)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found)
    return bytes(sink.getvalue())
