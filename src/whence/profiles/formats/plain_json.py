"""A profile as a JSON document, to be read by programs: the model as it is, each table once.

    sample_types    [{"type", "unit"}], default_type: an index of them
    time_ns, duration_ns, period, period_type, comments     what the profile says about itself; absent where it does not
    mappings        [{"path", "build_id", "start", "end", "file_offset"}]
    locations       [{"mapping": index or null, "address", "frames": [...], "reason"}], frames innermost first, each
                    {"function", "file", "line", "column", "start_line", "inlined", "source"} as far as it is known
    stacks          [[location, ...], ...], innermost first
    samples         [{"stack": index, "values": [...], "labels": {...}}], a value for each sample type
    timeline        {"sample": [...], "time_ns": [...], "values": [[...], ...]} where it is known when each was taken
    lost            [{"samples", "time_ns", "pid", "tid"}]

Addresses are numbers; those of 2^53 and above, which are not exact in JavaScript, are texts in hex.
"""

from __future__ import annotations

from typing import Any

from whence._base.model import Frame
from whence.profiles.formats.json_text import written
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, ProfileData, SampleType

EXACT = 1 << 53  # numbers below it are exact in JavaScript


def write(profile: ProfileData, name: str = "") -> str:
    """The profile as JSON."""
    samples = profile.samples
    budget = bounds.writing(profile.stored, "the tables of JSON")
    budget.charge(bounds.JSON_OBJECT * (len(profile.address) + sum(map(len, profile.frames)) + len(samples)))
    budget.charge(sum(len(one.function) + len(one.file) for chain in profile.frames for one in chain))
    budget.charge(sum(len(one.path) + len(one.build_id) for one in profile.mappings))
    budget.charge(sum(map(len, profile.reasons.values())))
    budget.charge(bounds.JSON_VALUE * (len(samples.stack) + len(samples) * len(samples.values)))
    budget.charge(bounds.LABEL * sum(map(len, samples.labels)))
    document: dict[str, Any] = {"name": name} if name else {}
    document |= {
        "sample_types": [type_of(one) for one in profile.sample_types],
        "default_type": profile.default_type,
        "time_ns": profile.time_ns,
        "duration_ns": profile.duration_ns,
        "period": profile.period,
        "period_type": type_of(profile.period_type) if profile.period_type.type else None,
        "comments": profile.comments,
    }
    document = {key: value for key, value in document.items() if value or key in ("sample_types", "default_type")}
    document["mappings"] = [
        {
            "path": one.path,
            "build_id": one.build_id,
            "start": exact(one.start),
            "end": exact(one.limit),
            "file_offset": exact(one.file_offset),
        }
        for one in profile.mappings
    ]
    document["locations"] = [location_of(profile, at) for at in range(len(profile.address))]
    document["stacks"] = [samples.locations_of(at).tolist() for at in range(len(samples.first) - 1)]
    rows = zip(*samples.values, strict=True) if samples.values else [()] * len(samples)
    document["samples"] = [
        sample_of(stack, values, labels) for stack, values, labels in zip(samples.of, rows, samples.labels, strict=True)
    ]
    timeline = samples.timeline
    if timeline is not None:
        budget.charge(bounds.JSON_VALUE * len(timeline) * (2 + len(timeline.values)))
        values = [column.tolist() for column in timeline.values]
        document["timeline"] = {
            "sample": timeline.sample.tolist(), "time_ns": timeline.time.tolist(), "values": values,
        }  # fmt: skip
    if profile.lost:
        document["lost"] = [
            {"samples": one.samples, "time_ns": one.time, "pid": one.pid, "tid": one.tid} for one in profile.lost
        ]
    return written(document) + "\n"


def exact(number: int) -> int | str:
    """A number that every reader of JSON reads exactly.

    >>> exact(4096), exact(0xffffffff81000000)
    (4096, '0xffffffff81000000')
    """
    return number if number < EXACT else f"{number:#x}"


def type_of(one: SampleType) -> dict[str, str]:
    return {"type": one.type, "unit": one.unit}


def location_of(profile: ProfileData, at: int) -> dict[str, Any]:
    mapping = profile.mapping[at]
    out: dict[str, Any] = {
        "mapping": None if mapping == NO_MAPPING else mapping,
        "address": exact(profile.address[at]),
        "frames": [frame_of(one) for one in profile.frames[at]],
    }
    if at in profile.reasons:
        out["reason"] = profile.reasons[at]
    return out


def frame_of(frame: Frame) -> dict[str, Any]:
    out: dict[str, Any] = {"function": frame.function}
    for key in ("file", "line", "column", "start_line"):
        if value := getattr(frame, key):
            out[key] = value
    if frame.inlined:
        out["inlined"] = True
    if source := str(frame.source):
        out["source"] = source
    return out


def sample_of(stack: int, values: tuple[int, ...], labels: tuple[Label, ...]) -> dict[str, Any]:
    out: dict[str, Any] = {"stack": stack, "values": list(values)}
    if labels:
        out["labels"] = {one.key: one.text or one.number for one in labels}
    return out
