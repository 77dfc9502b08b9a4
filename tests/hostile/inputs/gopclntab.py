"""Tables of Go programs that claim much."""

from __future__ import annotations

from tests.forge.gopclntab import Function, Node, program

SIZE = 20_000


def deep_trees(size: int = SIZE) -> bytes:
    """At every other byte two hundred calls are inlined into each other, at those between them none."""
    nodes = [Node(f"main.n{index}", index - 1, 0, index, 0) for index in range(200)]
    nodes_pc = [Node(node.name, node.parent, node.file, node.line, 1) for node in nodes]
    inlined = [(index, 199 if index % 2 else -1) for index in range(size)]
    return program([Function(f"main.f{row}", size, [(0, 1)], [(0, 0)], inlined, nodes_pc) for row in range(4)])


def old_deep_trees(size: int = SIZE) -> bytes:
    nodes = [Node(f"main.n{index}", index - 1, 0, index, 0) for index in range(200)]
    inlined = [(index, 199 if index % 2 else -1) for index in range(size)]
    functions = [Function(f"main.f{row}", size, [(0, 1)], [(0, 0)], inlined, nodes) for row in range(4)]
    return program(functions, since="1.18")


def standstill(count: int = 200) -> bytes:
    """A pc-value table of 32 KB whose steps all stay at the first byte."""
    table = b"\x02\x00" * (1 << 14) + b"\x00"
    return program([Function(f"main.f{row}", 64, [(0, 1)], [(0, 0)], raw_lines=table) for row in range(count)])


def line_at_every_byte() -> bytes:
    """One table of steps, which twenty functions share (equal tables are stored once)."""
    lines = [(index, 1 + index % 2) for index in range(SIZE)]
    return program([Function(f"main.f{row}", SIZE, lines, [(0, 0)]) for row in range(20)])


def short_functions() -> bytes:
    return program([Function(f"main.f{row}", 1, [(0, 1)], [(0, 0)]) for row in range(10_000)])


def many_pieces() -> bytes:
    """Text in as many pieces as there are functions."""
    count = 4000
    functions = [Function(f"main.f{row}", 16, [(0, 1)], [(0, 0)]) for row in range(count)]
    pieces = [(16 * row, 16 * row + 16, 0x401000 + 16 * (count - 1 - row)) for row in range(count)]
    return program(functions, pieces=pieces)
