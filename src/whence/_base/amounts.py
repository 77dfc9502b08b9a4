"""Values of profiles with their units, as people read them."""

from __future__ import annotations

SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "nanoseconds": ((60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
    "microseconds": ((60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "us")),
    "milliseconds": ((60e3, "min"), (1e3, "s"), (1, "ms")),
    "seconds": ((60, "min"), (1, "s")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
}


def amount(value: int, unit: str) -> str:
    """Return a value with its unit, as people read it.

    >>> amount(1_500_000, "nanoseconds"), amount(-2048, "bytes"), amount(12345, "count"), amount(7, "widgets")
    ('1.50 ms', '-2.00 KiB', '12,345', '7 widgets')
    """
    for size, label in SCALES.get(unit, ()):
        if abs(value) >= size > 1:
            return f"{value / size:.2f} {label}"
    if unit in SCALES:
        return f"{value:,} {SCALES[unit][-1][1]}"
    return f"{value:,}" if unit in ("", "count", "samples") else f"{value:,} {unit}"
