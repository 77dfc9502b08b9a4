"""pprof profiles put together field by field, right or wrong."""

from __future__ import annotations

from whence.samples import wire


def strings(*texts: str) -> bytes:
    return b"".join(wire.text(6, each) for each in texts)


def sample_type(kind: int = 1, unit: int = 2) -> bytes:
    return wire.payload(1, wire.number(1, kind) + wire.number(2, unit))


def mapping(number: int, start: int, limit: int, offset: int = 0, path: int = 0, build_id: int = 0) -> bytes:
    fields = (number, start, limit, offset, path, build_id)
    return wire.payload(3, b"".join(wire.number(index + 1, value) for index, value in enumerate(fields)))


def location(number: int, mapping_id: int, address: int, *lines: tuple[int, int], extra: bytes = b"") -> bytes:
    body = wire.number(1, number) + wire.number(2, mapping_id) + wire.number(3, address)
    for function, line in lines:
        body += wire.payload(4, wire.number(1, function) + wire.number(2, line))
    return wire.payload(4, body + extra)


def function(number: int, name: int, file: int = 0, start_line: int = 0) -> bytes:
    fields = (number, name, name, file, start_line)
    return wire.payload(5, b"".join(wire.number(index + 1, value) for index, value in enumerate(fields)))


def sample(stack: list[int], values: list[int], *labels: tuple[int, int, int], packed: bool = True) -> bytes:
    if packed:
        body = wire.packed(1, stack) + wire.packed(2, values)
    else:
        body = b"".join(wire.varint(1 << 3) + wire.varint(each) for each in stack)
        body += b"".join(wire.varint(2 << 3) + wire.varint(each) for each in values)
    for key, text, number in labels:
        body += wire.payload(3, wire.number(1, key) + wire.number(2, text) + wire.number(3, number))
    return wire.payload(2, body)


def small(*more: bytes) -> bytes:
    """Two samples over three locations in one mapping, the third without one; location 2 is named."""
    return b"".join(
        (
            sample_type(),
            sample([1, 2], [10], (5, 6, 0)),
            sample([3, 2], [-5], packed=False),
            mapping(1, 0x400000, 0x500000, 0x1000, 3, 4),
            location(1, 1, 0x401000),
            location(2, 1, 0x402000, (7, 12), (8, 30), extra=wire.number(5, 1)),
            location(3, 0, 0xFFFF),
            function(7, 7, 8, 10),
            function(8, 9),
            strings("", "cpu", "nanoseconds", "/bin/app", "ab12", "thread", "main", "inner", "/src/a.c", "outer"),
            *more,
        )
    )
