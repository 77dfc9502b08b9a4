"""`whence explain FILE` without an address: what an object file has, and what names its addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from whence._base.errors import ObjectError, WhenceError
from whence._base.words import plain
from whence.binary import Binary
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.locate.search import FileKind
from whence.locator.locator import Locator
from whence.objects.interface import ObjectFile
from whence.objects.machines import machine_name
from whence.objects.opening import open_object

TRIED_SHOWN = 8


class Overview(NamedTuple):
    """The contents of a file: facts by name, the files that were tried for debug info, and damaged parts."""

    facts: dict[str, str | list[str]]
    tried: list[str]
    problems: list[str]

    @property
    def has_names(self) -> bool:
        return bool(self.facts["sources of names"])

    def lines(self) -> Iterator[str]:
        """Yield the text that `whence explain FILE` prints."""
        width = max(map(len, self.facts))
        for name, value in self.facts.items():
            for number, text in enumerate(value if isinstance(value, list) else [value or "none"]):
                yield f"{'' if number else name:{width}}  {plain(text)}"
        for text in self.tried[:TRIED_SHOWN]:
            yield f"{'':{width}}  tried {plain(text)}"
        for text in self.problems:
            yield f"{'skipped':{width}}  {plain(text)}"
        if not self.has_names:
            yield f"{'to do':{width}}  give a debug file: --binary FILE.debug, --debug-dir DIR or --store STORE"


def overview(path: str, locator: Locator) -> Overview:
    """Return what a file has. Raises OSError, WhenceError."""
    with open_object(path) as elf:
        facts = dict(file_facts(elf))
        link = debug_link(elf)
    if link:
        facts["debug link"] = link
    facts["sources of names"] = sources = []
    with locator.open(path) as binary:
        sources += sources_of(binary)
        problems = [str(problem) for problem in binary.problems]
    tried = []
    if not any(source.startswith("DWARF") for source in sources) and facts["build-id"]:
        search = locator.find(build_id=str(facts["build-id"]), path=path, kinds=[FileKind.DEBUGINFO])
        tried = [f"{each.path or each.how}: {each.outcome.code}" for each in search.tried]
        facts["debug file"] = search.path or "not found"
    return Overview(facts, tried, problems)


def show_overview(path: str, locator: Locator, as_json: bool) -> int:
    """Print what a file has and return the exit code: 1 if nothing names its addresses."""
    about = overview(path, locator)
    if as_json:
        facts = {name.replace(" ", "_").replace("-", "_"): value for name, value in about.facts.items()}
        print(json.dumps({**facts, "tried": about.tried, "problems": about.problems}))
    else:
        for line in about.lines():
            print(line)
    return ANSWERED if about.has_names else SOME_UNKNOWN


def file_facts(elf: ObjectFile) -> Iterator[tuple[str, str | list[str]]]:
    yield "file", elf.path
    yield "type", f"{elf.kind}, {elf.bits}-bit, {machine_name(elf.machine)}"
    yield from elf.details.items()
    yield "build-id", elf.build_id
    if elf.go_build_id:
        yield "Go build ID", elf.go_build_id


def debug_link(elf: ObjectFile) -> str:
    """Return the name in .gnu_debuglink, "" if there is none; the error if the section is damaged."""
    try:
        link = elf.debug_link
    except ObjectError as error:
        return str(error)
    return link.name if link is not None else ""


def sources_of(binary: Binary) -> list[str]:
    """Return a line for each source that names addresses of a binary, the best first."""
    producers = binary.producers
    if producers is None:
        return []
    sources = []
    info = producers.dwarf
    if info is not None and len(info.units):
        count = len(info.units)
        sources.append(f"DWARF: {count:,} unit{'s' if count != 1 else ''}")
    if producers.linked is not None:
        count = producers.linked.unit_count
        sources.append(f"debug map: {count:,} object file{'s' if count != 1 else ''}")
    if producers.pdb is not None:
        count = producers.pdb.unit_count
        sources.append(f"PDB: {count:,} module{'s' if count != 1 else ''}")
    try:
        if producers.pclntab is not None:
            sources.append(".gopclntab: functions, files, lines and inlined calls of Go")
    except WhenceError as error:
        sources.append(f".gopclntab: {error}")
    elf = producers.elf
    for table in (".symtab", ".dynsym"):
        section = elf.section(table)
        if elf.format == "ELF" and section is not None and section.in_file and section.size:
            sources.append(f"{table}: {len(elf.symbols(table).value):,} symbols")
    if elf.format != "ELF":
        for table, what in (
            (".symtab", "public symbols" if elf.format == "PDB" else "symbols"),
            (".dynsym", "exports"),
        ):
            count = len(elf.symbols(table)) - 1  # the first one is empty
            if count > 0:
                sources.append(f"{what}: {count:,} with an address")
    return sources
