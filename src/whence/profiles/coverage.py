"""How much of a profile has names, from which sources, and what would name the rest.

A location is weighted by the number of samples whose stack has it (by the first sample type, if that is a count),
because an address on every stack matters more than one seen once.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

from whence._base.errors import plain
from whence._base.reasons import Missing, remedy_for
from whence._base.records import Record, field
from whence.locate.identity import key
from whence.profiles.naming import FileReport
from whence.samples.kernels.stacks import weigh
from whence.samples.model import ProfileData


class CoverageRow(Record):
    """The coverage of one file. `samples`, `named` and `lines` are weights; the percentages are of `samples`."""

    path: str
    build_id: str
    addresses: int
    samples: int
    named: int
    lines: int
    sources: Counter[str]
    answered_by: str
    missing: list[tuple[Missing, int]]
    tried: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        share = f"{shown(self.named_percent)} of {self.samples:,} samples named"
        return f"<profiles.CoverageRow {ascii(self.path)[1:-1] or 'no file'}: {share}>"

    @property
    def name(self) -> str:
        """The file's name; "" if unknown."""
        path = self.path
        return path if path.startswith("[") or not path else os.path.basename(path)

    @property
    def named_percent(self) -> float:
        """The share of samples with a name."""
        return percent(self.named, self.samples)

    @property
    def lines_percent(self) -> float:
        """The share of samples with a line."""
        return percent(self.lines, self.samples)

    def remedy(self, missing: Missing) -> str:
        """Return what would name the addresses that are missing for this reason."""
        return remedy_for(missing, self.path, key(self.build_id))

    def as_json(self) -> dict[str, object]:
        """Return the row as `whence profile --json` prints it."""
        return {
            "path": self.path,
            "build_id": self.build_id,
            "addresses": self.addresses,
            "samples": self.samples,
            "named_percent": round(self.named_percent, 2),
            "lines_percent": round(self.lines_percent, 2),
            "sources": dict(self.sources.most_common()),
            "answered_by": self.answered_by,
            "missing": [
                {
                    "reason": missing.reason.word,
                    "sentence": str(missing),
                    "remedy": self.remedy(missing),
                    "addresses": count,
                }
                for missing, count in self.missing
            ],
            "tried": self.tried,
        }


class Report:
    """The coverage of a profile: a row for each file, most samples first. Rows are computed on first use."""

    def __init__(self, profile: ProfileData, files: Sequence[FileReport]) -> None:
        self.profile, self.files = profile, files
        self._rows: list[CoverageRow] | None = None

    def __repr__(self) -> str:
        return f"<profiles.Report: {shown(self.named_percent)} of the frames named, {len(self.files)} files>"

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[CoverageRow]:
        return iter(self.rows)

    @property
    def rows(self) -> list[CoverageRow]:
        """The rows, most samples first."""
        if self._rows is None:
            self._rows = coverage(self.profile, self.files)
        return self._rows

    @property
    def named_percent(self) -> float:
        """The share of frames in samples that have names, in percent; 100 if there are no samples."""
        return total(self.rows)

    def reaches(self, percent: float) -> bool:
        """Return True if at least `percent` of the frames have names, as `--fail-under` checks."""
        return self.named_percent >= percent

    def as_json(self) -> dict[str, object]:
        """Return the coverage as `whence profile --json` prints it."""
        return {"named_percent": round(self.named_percent, 2), "binaries": [row.as_json() for row in self.rows]}

    def __str__(self) -> str:
        """Return the table that `whence profile --coverage` prints, with control characters escaped."""
        return text(self.rows)


def percent(part: int, total: int) -> float:
    """Return a share in percent; 100 if the total is 0."""
    return 100 * part / total if total else 100.0


def weights(profile: ProfileData) -> array[int]:
    """Return the number of samples of each location; 1 for each if the profile has no samples."""
    out = array("q", bytes(8 * len(profile.address)))
    samples = profile.samples
    counted = bool(profile.sample_types) and profile.sample_types[0].unit == "count"
    column = samples.values[0] if counted and samples.values else array("q")
    if len(column) and min(column) < 0:  # the difference of two profiles
        column = array("q")
    each = array("q", bytes(8 * (len(samples.first) - 1)))
    weigh(samples.first, samples.stack, samples.of, column, each, out)
    return out if any(out) else array("q", [1]) * len(out)


def coverage(profile: ProfileData, reports: Sequence[FileReport]) -> list[CoverageRow]:
    """Return a row for each file, most samples first."""
    weight = weights(profile)
    rows = []
    for report in reports:
        search = report.search
        named = lines = 0
        for location in report.members:
            frames = profile.frames[location]
            if frames:
                named += weight[location]
                if frames[0].line:
                    lines += weight[location]
        row = CoverageRow(
            report.path,
            report.build_id or (search.opened.build_id if search and search.opened else ""),
            report.locations,
            sum(map(weight.__getitem__, report.members)),
            named,
            lines,
            report.sources,
            "; ".join([*([search.opened.how] if search and search.opened else ()), *report.lists]),
            report.missing.most_common(),
            [str(tried) for tried in search.tried] if search else [],
        )
        rows.append(row)
    return sorted(rows, key=lambda row: -row.samples)


def shown(share: float) -> str:
    """Return a percentage with one digit; 0.0 % and 100.0 % are exact.

    >>> shown(99.97), shown(100.0), shown(0.01), shown(33.333)
    ('99.9 %', '100.0 %', '0.1 %', '33.3 %')
    """
    return f"{min(max(share, 0.1), 99.9):.1f} %" if 0 < share < 100 else f"{share:.1f} %"


def total(rows: Sequence[CoverageRow]) -> float:
    """Return the share of frames in samples that have names, in percent."""
    return percent(sum(row.named for row in rows), sum(row.samples for row in rows))


def text(rows: Sequence[CoverageRow]) -> str:
    """Return the table: a line for each file, followed by the reasons for missing names and their remedies."""
    head = ("binary", "build-id", "addresses", "samples", "named", "lines", "by")
    cells = [head]
    for row in rows:
        named, lines = shown(row.named_percent), shown(row.lines_percent)
        by = ", ".join(name for name, _ in row.sources.most_common(2)) or "-"
        identity = row.build_id[:12] or "-"
        cells.append((plain(row.name) or "(no file)", identity, f"{row.addresses}", f"{row.samples}", named, lines, by))
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    out = []
    for index, line in enumerate(cells):
        fields = [
            cell.ljust(width) if column in (0, 1, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append("  ".join(fields).rstrip())
        if index:
            row = rows[index - 1]
            for missing, count in row.missing[:2]:
                out.append(f"    {count} without a name: {plain(missing)}")
                out.append(f"      {row.remedy(missing)}")
    out.append(f"{shown(total(rows))} of the frames in samples have names")
    return "\n".join(out) + "\n"
