"""`llvm-symbolizer --filter-markup`: copy text with LLVM's symbolizer markup, replaced by names.

The output is that of llvm-symbolizer 19, also on stderr. Elements are `{{{tag:field:...}}}`: `module`, `mmap` and
`reset` describe the memory (the rest of their line is dropped, and each module becomes one line); `bt`, `pc`, `data`
and `symbol` are replaced. An element without a name is kept in square brackets, a malformed element is dropped and
reported, other elements are kept. Modules are found by build-id only. Colors are removed.

Source: "Symbolizer Markup Format" in LLVM's documentation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from whence._base.files import write_all
from whence._base.model import Frames
from whence._base.words import plain
from whence.dropin.symbolizer_protocol import Question, SymbolizerResponder, lines_of, number

TAG = re.compile(r"[a-z0-9_]+(?=:|\}\}\})")
COLORS = re.compile(r"\033\[(?:[01]|3[0-7])m")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}|0+")
MODE = re.compile(r"r?w?x?", re.IGNORECASE)
BUILD_ID = re.compile(r"(?:[0-9a-fA-F]{2})+")
MAPPINGS_MAX = 1 << 16


class Element(NamedTuple):
    """An element: its offset in the line, text and tag, and its fields with their offsets."""

    start: int
    text: str
    tag: str
    fields: list[str]
    offsets: list[int]


class MarkupModule(NamedTuple):
    number: int
    name: str
    build_id: str


class MarkupMapping(NamedTuple):
    """[start, start + size) of a process maps the module at `vaddr`."""

    start: int
    size: int
    module: MarkupModule
    mode: str
    vaddr: int

    def __str__(self) -> str:
        return f"[{self.start:#x}-{self.start + self.size - 1:#x}]"


class Malformed(Exception):
    """An error in an element, with its offset in the line."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


class MarkupFilter:
    """Replaces markup by names, line by line."""

    def __init__(self, responder: SymbolizerResponder) -> None:
        self._responder = responder
        self._modules: dict[int, MarkupModule] = {}
        self._mappings: list[MarkupMapping] = []
        self._described: tuple[MarkupModule, list[MarkupMapping]] | None = (
            None  # of the current line, which is not complete
        )
        self._line = ""
        self._end = "\n"

    def line(self, text: str) -> str:
        """Return the output for a line, which has no newline."""
        self._end = "\r\n" if text.endswith("\r") else "\n"
        self._line = text.removesuffix("\r")
        nodes: list[str | Element] = []
        for node in elements(self._line):
            if isinstance(node, Element) and node.tag in ("module", "mmap", "reset"):
                return self._checked(partial(self._context, node, nodes))
            nodes.append(node)
        return self.finish() + self._written(nodes) + self._end

    def finish(self) -> str:
        """Complete the line of the last module, if it is not complete."""
        if self._described is None:
            return ""
        mappings = ",".join(f"{mapping}({mapping.mode})" for mapping in self._described[1])
        self._described = None
        return f"{' ' + mappings if mappings else ''}]]]{self._end}"

    def _written(self, nodes: Iterable[str | Element]) -> str:
        return "".join(node if isinstance(node, str) else self._presented(node) for node in nodes)

    # elements that describe the memory

    def _context(self, node: Element, before: list[str | Element]) -> str:
        if node.tag == "reset":
            return self._reset(node, before)
        return self._add_module(node, before) if node.tag == "module" else self._add_mapping(node, before)

    def _reset(self, node: Element, before: list[str | Element]) -> str:
        check_count(node, 0)
        if not self._modules and not self._mappings:
            return ""
        self._modules.clear()
        self._mappings.clear()
        return f"{self.finish()}{self._written(before)}[[[reset]]]{self._end}"

    def _add_module(self, node: Element, before: list[str | Element]) -> str:
        check_count(node, 3, at_least=True)
        if node.fields[2] != "elf":
            raise Malformed("unknown module type", node.offsets[2])
        check_count(node, 4)
        module = MarkupModule(integer(node, 0, "module ID"), node.fields[1], matched(node, 3, BUILD_ID, "build ID"))
        if module.number in self._modules:
            raise Malformed("duplicate module ID", node.offsets[0])
        if len(self._modules) < MAPPINGS_MAX:
            self._modules[module.number] = module
        done = self.finish() + self._written(before)
        self._described = module, []
        return f"{done}{described(module)}; BuildID={module.build_id.lower()}"

    def _add_mapping(self, node: Element, before: list[str | Element]) -> str:
        check_count(node, 3, at_least=True)
        if node.fields[2] != "load":
            raise Malformed("unknown mmap type", node.offsets[2])
        check_count(node, 6)
        start, size = address(node, 0), integer(node, 1, "size")
        module = self._modules.get(integer(node, 3, "module ID"))
        if module is None:
            raise Malformed("unknown module ID", node.offsets[3])
        mode = matched(node, 4, MODE, "mode").lower()
        mapping = MarkupMapping(start, size, module, mode, address(node, 5))
        for other in self._mappings:
            if start < other.start + other.size and other.start < start + size:
                raise Malformed(f"overlapping mmap: #{other.module.number:#x} {other}", node.offsets[0])
        if len(self._mappings) < MAPPINGS_MAX:
            self._mappings.append(mapping)
        if self._described is not None and self._described[0] is module:
            self._described[1].append(mapping)
            return ""
        done = self.finish() + self._written(before)
        self._described = module, [mapping]
        return f"{done}{described(module)}; adds"

    # elements that are replaced

    def _presented(self, node: Element) -> str:
        present = {"symbol": self._symbol, "pc": self._pc, "bt": self._backtrace, "data": self._data}.get(node.tag)
        if present is None:
            return node.text
        return self._checked(partial(present, node))

    def _checked(self, work: Callable[[], str]) -> str:
        """Return the result of `work`; report a malformed element, and return ""."""
        try:
            return work()
        except Malformed as error:
            self._report(str(error), error.offset)
            return ""

    def _report(self, problem: str, offset: int) -> None:
        print(f"error: {problem}\n{plain(self._line)}\n{' ' * offset}^", file=sys.stderr)

    def _symbol(self, node: Element) -> str:
        check_count(node, 1)
        return self._responder.readable(node.fields[0])

    def _pc(self, node: Element) -> str:
        check_count(node, 1, at_least=True)
        runtime = address(node, 0) - returned(node, 1, default=False)
        frames = self._frames(node, runtime)
        if frames is None or not frames[1]:
            return raw(node)
        inner, outer = frames[1][0], frames[1][-1]
        return f"{self._responder.readable(outer.function)}[{inner.file or '??'}:{inner.line}]"

    def _backtrace(self, node: Element) -> str:
        check_count(node, 2, at_least=True)
        if not node.fields[0].isdecimal():
            raise Malformed(f"expected frame number; found '{node.fields[0]}'", node.offsets[0])
        runtime = address(node, 1) - returned(node, 2, default=True)
        result = self._frames(node, runtime)
        if result is None:
            return raw(node)
        mapping, frames = result
        location = f"({mapping.module.name}+{runtime - mapping.start + mapping.vaddr:#x})"
        number = f"#{int(node.fields[0])}".rjust(6)
        lines = []
        for index, frame in enumerate(frames or (None,)):
            last = index >= len(frames) - 1
            shown = ""
            if frame is not None:
                file = frame.file or "??"
                shown = f"{self._responder.readable(frame.function)} {file}:{frame.line}:{frame.column} "
            lines.append(f"{number}{'   ' if last else f'.{index + 1:<2}'} {runtime:#018x} {shown}{location}")
        return self._end.join(lines)

    def _data(self, node: Element) -> str:
        check_count(node, 1)
        runtime = address(node, 0)
        mapping = self._mapping(node, runtime)
        if mapping is None:
            return raw(node)
        variable = self._responder.variable(self._question(mapping, runtime, "DATA"))
        return self._responder.readable(variable[0].name) if variable is not None else raw(node)

    def _mapping(self, node: Element, runtime: int) -> MarkupMapping | None:
        for mapping in self._mappings:
            if mapping.start <= runtime < mapping.start + mapping.size:
                return mapping
        self._report("no mmap covers address", node.offsets[0])
        return None

    def _question(self, mapping: MarkupMapping, runtime: int, kind: str) -> Question:
        vaddr = runtime - mapping.start + mapping.vaddr
        return Question(kind, f"BUILDID:{mapping.module.build_id}", vaddr, b"")

    def _frames(self, node: Element, runtime: int) -> tuple[MarkupMapping, Frames] | None:
        """Return the mapping and the frames of an address; None without a mapping, or if its module was not found."""
        mapping = self._mapping(node, runtime)
        if mapping is None:
            return None
        question = self._question(mapping, runtime, "CODE")
        if self._responder.modules[question.module] is None:
            return None
        return mapping, self._responder.frames(question)


def elements(line: str) -> Iterable[str | Element]:
    """Yield the text and the elements of a line, in order; colors are removed from the text."""
    done = start = 0
    end = line.find("}}}")
    while (start := line.find("{{{", start)) >= 0:
        if end < start:
            end = line.find("}}}", start)
        if end < 0:
            break
        if not TAG.match(line, start + 3):
            start += 1
            continue
        tag, *fields = line[start + 3 : end].split(":")
        if start > done:
            yield COLORS.sub("", line[done:start])
        offsets, offset = [], start + 3 + len(tag) + 1
        for field in fields:
            offsets.append(offset)
            offset += len(field) + 1
        done = end + 3
        yield Element(start, line[start:done], tag, fields, offsets)
        start = done
    if done < len(line):
        yield COLORS.sub("", line[done:])


def raw(node: Element) -> str:
    return f"[[[{node.text[3:-3]}]]]"


def described(module: MarkupModule) -> str:
    return f'[[[ELF module #{module.number:#x} "{module.name}"'


def check_count(node: Element, count: int, *, at_least: bool = False) -> None:
    """Raise Malformed for an element with too few fields; more fields are ignored."""
    if len(node.fields) < count:
        problem = f"expected {'at least ' if at_least else ''}{count} field(s); found {len(node.fields)}"
        raise Malformed(problem, node.start + 3 + len(node.tag))


def matched(node: Element, field: int, pattern: re.Pattern[str], what: str) -> str:
    text = node.fields[field]
    if not text or not pattern.fullmatch(text):
        raise Malformed(f"expected {what}; found '{text}'", node.offsets[field])
    return text


def address(node: Element, field: int) -> int:
    return int(matched(node, field, ADDRESS, "address"), 16)


def integer(node: Element, field: int, what: str) -> int:
    """Return a field as an unsigned 64-bit number, in the syntax of questions. Raises Malformed."""
    text = node.fields[field]
    value = number(text.encode("utf-8", "surrogateescape"), False)
    if value is None:
        raise Malformed(f"expected {what}; found '{text}'", node.offsets[field])
    return value


def returned(node: Element, field: int, *, default: bool) -> bool:
    """Return True for a return address, whose call is in the byte before it."""
    if len(node.fields) <= field:
        return default
    if node.fields[field] not in ("ra", "pc"):
        raise Malformed(f"expected PC type; found '{node.fields[field]}'", node.offsets[field])
    return node.fields[field] == "ra"


def filter_markup(responder: SymbolizerResponder, source: int, out: int) -> None:
    """Filter lines from one file descriptor to another. Raises OSError."""
    markup = MarkupFilter(responder)
    for lines in lines_of(source):
        text = "".join(markup.line(line.decode("utf-8", "surrogateescape")) for line in lines)
        write_all(out, text.encode("utf-8", "surrogateescape"))
    write_all(out, markup.finish().encode("utf-8", "surrogateescape"))
