"""Name the addresses of a table: python examples/name_table.py BINARY ADDRESS...

Reads a table (here made of the arguments) with a column of addresses, and adds function, file and line.
"""

import sys

import whence


def named(path: str, addresses: list[int]) -> list[tuple[int, str, str, int]]:
    """Return a row for each address: its innermost frame, or "" without one."""
    with whence.open(path, demangle=True) as binary:
        rows = []
        for address, frames in zip(addresses, binary.lookup_many(addresses), strict=True):
            frame = frames[0] if frames else whence.Frame("")
            rows.append((address, frame.function, frame.file, frame.line))
        return rows


if __name__ == "__main__":
    for address, function, file, line in named(sys.argv[1], [int(word, 16) for word in sys.argv[2:]]):
        print(f"{address:#x}\t{function}\t{file}:{line}")
