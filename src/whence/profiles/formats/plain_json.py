"""A profile as a JSON document for programs: the tables of the model.

    sample_types    [{"type", "unit"}], default_type: an index of them
    time_ns, duration_ns, period, period_type, comments     what the recorder stored; absent if unknown
    mappings        [{"path", "build_id", "start", "end", "file_offset"}]
    locations       [{"mapping": index or null, "address", "frames": [...], "reason"}], frames innermost first, each
                    {"function", "file", "line", "column", "start_line", "inlined", "source"}; absent if unknown
    stacks          [[location, ...], ...], innermost first
    samples         [{"stack": index, "values": [...], "labels": {...}}], a value for each sample type
    timeline        {"sample": [...], "time_ns": [...], "values": [[...], ...]}, if times are known
    lost            [{"samples", "time_ns", "pid", "tid"}]

Addresses are numbers; from 2^53 on the addresses are texts in hex, as JavaScript's numbers are not exact.
"""

from __future__ import annotations

from typing import Any

from whence._base.model import Frame
from whence.profiles.formats.json_text import encoded
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, ProfileData, SampleType

EXACT = 1 << 53  # numbers below it are exact in JavaScript


def write(profile: ProfileData, name: str = "") -> str:
    """Return the profile as JSON."""
    samples = profile.samples
    budget = bounds.writing(profile.stored, "the tables of JSON")
    budget.charge(bounds.JSON_OBJECT * (len(profile.address) + sum(map(len, profile.frames)) + len(samples)))
    budget.charge(sum(len(frame.function) + len(frame.file) for chain in profile.frames for frame in chain))
    budget.charge(sum(len(mapping.path) + len(mapping.build_id) for mapping in profile.mappings))
    budget.charge(sum(map(len, profile.reasons.values())))
    budget.charge(bounds.JSON_VALUE * (len(samples.stack) + len(samples) * len(samples.values)))
    budget.charge(bounds.LABEL * sum(map(len, samples.labels)))
    document: dict[str, Any] = {"name": name} if name else {}
    document |= {
        "sample_types": [type_of(kind) for kind in profile.sample_types],
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
            "path": mapping.path,
            "build_id": mapping.build_id,
            "start": exact(mapping.start),
            "end": exact(mapping.limit),
            "file_offset": exact(mapping.file_offset),
        }
        for mapping in profile.mappings
    ]
    document["locations"] = [location_of(profile, index) for index in range(len(profile.address))]
    document["stacks"] = [samples.locations_of(row).tolist() for row in range(len(samples.first) - 1)]
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
            {"samples": lost.samples, "time_ns": lost.time, "pid": lost.pid, "tid": lost.tid} for lost in profile.lost
        ]
    return encoded(document) + "\n"


def exact(number: int) -> int | str:
    """Return a number in a form that every reader of JSON reads exactly.

    >>> exact(4096), exact(0xffffffff81000000)
    (4096, '0xffffffff81000000')
    """
    return number if number < EXACT else f"{number:#x}"


def type_of(kind: SampleType) -> dict[str, str]:
    return {"type": kind.type, "unit": kind.unit}


def location_of(profile: ProfileData, index: int) -> dict[str, Any]:
    mapping = profile.mapping[index]
    out: dict[str, Any] = {
        "mapping": None if mapping == NO_MAPPING else mapping,
        "address": exact(profile.address[index]),
        "frames": [frame_of(frame) for frame in profile.frames[index]],
    }
    if index in profile.reasons:
        out["reason"] = profile.reasons[index]
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
        out["labels"] = {label.key: label.text or label.number for label in labels}
    return out
