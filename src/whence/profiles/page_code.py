"""Source lines and instructions with costs for the page of a flame graph, as JSON.

    server      1 if the page's server has the texts: /source/v1 and /asm/v1; else 0
    types       indexes of the sample types that have costs
    names, files, notes
    source      of each frame of the tree: an index into `listings` plus 1, 0 if unknown
    listings    functions: name, file, the line of the declaration (0: unknown), an address for /source/v1 (`place`: an
                index into libs, and an offset), and `rows` for each of `types`: columns of the lines with a cost
                (line, depth, file, name, self, total), in the order of a listing
    texts       by index of the file: embedded sources, and where they are from
    code        of each frame: indexes into `assembly`, of the functions that contain it, the most expensive first
    assembly    functions of executables: name, lib, start and size in the image, and `costs` for each of `types`:
                columns of offsets and values; embedded instructions are in `rows`: offsets, texts and chains;
                `vaddr` is the start in the file
    instructions    the texts of instructions
    chains      of instructions: lists of [name, file, line], outermost first
    libs        names and debug ids of files

Numbers in columns are packed as in whence.flamegraph.data. The most expensive functions are embedded first, until the
page has LINES lines, or SOURCE_BYTES or CODE_BYTES of code.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from whence import flamegraph
from whence._base.errors import ProfileError, WhenceError
from whence._base.records import Record
from whence.flamegraph.data import SAFE, packed
from whence.flamegraph.tree import drawn_types
from whence.listing.model import ListingOptions
from whence.objects.elf.segments import image_base
from whence.objects.ids import DebugId
from whence.profiles.code import FunctionLines, code_of, leaf_values, mapping_sources, weights_of
from whence.samples import bounds
from whence.samples.model import NO_MAPPING
from whence.samples.stacks import NAME_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whence.flamegraph.tree import Tree
    from whence.listing import ListedLine, Listing, SourceFile, SourceOptions
    from whence.listing.sources import Sources
    from whence.profiles.binaries import Binaries
    from whence.samples.model import ProfileData

TYPES = 4  # sample types with costs
LINES = 300_000
SOURCE_BYTES = 8 << 20
CODE_BYTES = 1 << 20  # of instructions, which take thirty times as much of the page
TEXT = SAFE | {9: "\t", 10: "\n"}  # control characters of sources that are kept
ADDRESS_LIMIT = 1 << 63


class PageCodeOptions(Record, frozen=True):
    """The choice of code that a page has.

    Attributes:
        source: embed source files.
        code: embed instructions.
        server: the page's server has both.
        sources: where source files are looked for.
        syntax: "intel" or "att", for x86.
    """

    source: bool = False
    code: bool = False
    server: bool = False
    sources: SourceOptions | None = None
    syntax: str = "intel"


class ImageFunction(Record):
    """A function of an executable: its mapping, start and size in the image, and costs by type and address."""

    name: str
    mapping: int
    start: int
    size: int
    costs: list[Counter[int]]


class PageCode:
    """The code of the functions in a tree.

    Args:
        profile: a profile whose locations have names.
        tree: the nodes of the page.
        binaries: finds executables and debug info.
        options: what is embedded.
    """

    def __init__(self, profile: ProfileData, tree: Tree, binaries: Binaries | None, options: PageCodeOptions) -> None:
        self._profile, self._tree, self._binaries, self._options = profile, tree, binaries, options
        kinds = drawn_types(profile)
        default = kinds.index(profile.default_type) if profile.default_type in kinds else 0
        self._types = [default, *(number for number in range(len(kinds)) if number != default)][:TYPES]
        self._weights = [weights_of(profile, kinds[number]) for number in self._types]
        self._names: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._texts: dict[str, int] = {}  # of instructions
        self._chains: dict[tuple[tuple[int, int, int], ...], int] = {}
        self._libs: dict[tuple[str, str], int] = {}
        self._notes: list[str] = []
        self._places = {
            location: (address, start, size)
            for part in profile.in_files
            for location, address, start, size in zip(
                part.locations, part.address, part.function, part.size, strict=True
            )
            if address < ADDRESS_LIMIT
        }

    def as_json(self) -> dict[str, object]:
        """Return the JSON object of the page."""
        source, listings, texts = self._lines()
        code, assembly = self._assembly()
        return {
            "server": int(self._options.server),
            "types": self._types,
            "source": source,
            "listings": listings,
            "texts": texts,
            "code": code,
            "assembly": assembly,
            "names": shown(self._names),
            "files": shown(self._files),
            "instructions": shown(self._texts),
            "chains": list(self._chains),
            "libs": list(self._libs),
            "notes": self._notes,
        }

    def _name(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))

    def _file(self, text: str) -> int:
        return self._files.setdefault(text, len(self._files))

    def _lib(self, mapping_index: int) -> int:
        """Return the number of a mapping's file as symbolication servers know it, -1 without a build-id."""
        mapping = self._profile.mappings[mapping_index]
        identity = DebugId.of_build_id(mapping.build_id)
        if not identity:
            return -1
        key = os.path.basename(mapping.path)[:NAME_MAX], identity.breakpad
        return self._libs.setdefault(key, len(self._libs))

    # source lines

    def _lines(self) -> tuple[list[int], list[dict[str, object]], dict[int, dict[str, object]]]:
        """Return the listing of each frame plus 1, the listings, and the embedded files."""
        if not (self._options.source or self._options.server):
            return [], [], {}
        profile, frames = self._profile, self._tree.frames
        needed = {frame.name for frame in frames if not frame.reason}
        costs = []
        for weights in self._weights:
            budget = bounds.writing(profile.stored, "lines of functions")
            lines = FunctionLines(profile, budget, needed.__contains__)
            try:
                lines.add_up(weights)
            except ProfileError as error:
                self._notes.append(f"Source lines are left out: {error}.")
                return [], [], {}
            costs.append(lines.functions)
        in_tree = {(frame.name, frame.file) for frame in frames if not frame.reason}
        order = sorted(costs[0].keys() & in_tree, key=lambda key: (-abs(costs[0][key].total), key))
        order += sorted({key for functions in costs[1:] for key in functions.keys() & in_tree}.difference(order))
        places = self._place_of(in_tree) if self._options.server else {}
        numbers: dict[tuple[str, str], int] = {}
        listings: list[dict[str, object]] = []
        mapping_of_file: dict[str, int] = {}
        count = 0
        for key in order:
            results = [functions.get(key) for functions in costs]
            trees = [None if each is None else list(each.tree.lines({})) for each in results]
            count += sum(len(rows) for rows in trees if rows)
            if count > LINES:
                self._notes.append(f"Functions with lines here: {len(listings):,}, the most expensive.")
                break
            numbers[key] = len(listings)
            first = next(each for each in results if each is not None)
            for rows in trees:
                for row in rows or ():
                    mapping_of_file.setdefault(row.file, first.mapping)
            listing: dict[str, object] = {
                "name": self._name(key[0]),
                "file": self._file(key[1]),
                "line": first.line,
                "rows": [self._columns(rows) for rows in trees],
            }
            if key in places:
                listing["place"] = places[key]
            listings.append(listing)
        texts = self._embedded(mapping_of_file) if self._options.source else {}
        source = [0 if frame.reason else numbers.get((frame.name, frame.file), -1) + 1 for frame in frames]
        return source, listings, texts

    def _columns(self, rows: list[ListedLine] | None) -> dict[str, bytes] | None:
        """Return the lines of a function in columns."""
        if not rows:
            return None
        return {
            "line": packed(row.line for row in rows),
            "depth": packed(row.depth for row in rows),
            "file": packed(self._file(row.file) for row in rows),
            "name": packed(self._name(row.function) for row in rows),
            "self": packed(row.self for row in rows),
            "total": packed(row.total for row in rows),
        }

    def _place_of(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
        """Return an address in each function, as an index into libs and an offset in the image."""
        profile, found = self._profile, dict[tuple[str, str], tuple[int, int]]()
        for location, (address, _, _) in self._places.items():
            if profile.mapping[location] == NO_MAPPING:
                continue
            lib = self._lib(profile.mapping[location])
            for frame in profile.frames[location] if lib >= 0 else ():
                key = frame.function, frame.file
                if key in keys:
                    found.setdefault(key, (lib, address))
        return found

    def _embedded(self, mapping_of_file: dict[str, int]) -> dict[int, dict[str, object]]:
        """Return the source files that are found, of the most expensive functions first, up to SOURCE_BYTES."""
        texts: dict[int, dict[str, object]] = {}
        sources_of: dict[int, Sources] = {}
        left = SOURCE_BYTES
        missing: list[str] = []
        for file, mapping in mapping_of_file.items():
            if mapping not in sources_of:
                sources_of[mapping] = mapping_sources(self._profile, mapping, self._options.sources, self._binaries)
                sources_of[mapping].expect([other for other, its in mapping_of_file.items() if its == mapping])
            found: SourceFile | None = sources_of[mapping].find(file) if file else None
            if found is None:
                missing += [file] if file else []
                continue
            text = "\n".join(found.lines).translate(TEXT)
            left -= len(text.encode("utf-8", "replace"))
            if left < 0:
                self._notes.append(f"Embedded source files: {len(texts):,}, of the most expensive functions.")
                break
            texts[self._file(file)] = {"origin": found.origin, "verified": found.verified, "text": text}
        if missing:
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            remedy = next(iter(sources_of.values())).remedy(missing[0])
            self._notes.append(f"No source of {missing[0]}{more}: {remedy}.")
        return texts

    # instructions

    def _assembly(self) -> tuple[list[list[int]], list[dict[str, object]]]:
        """Return the functions of each frame, and the functions."""
        if not (self._options.code or self._options.server):
            return [], []
        functions, keys = self._functions()
        order = sorted(functions, key=lambda each: (-abs(sum(functions[each].costs[0].values())), each))
        numbers: dict[tuple[int, int, int], int] = {}
        assembly: list[dict[str, object]] = []
        left = CODE_BYTES
        for key in order:
            function = functions[key]
            if left < function.size:
                self._notes.append(f"Functions with instructions here: {len(assembly):,}, the most expensive.")
                break
            left -= function.size
            entry: dict[str, object] = {
                "name": self._name(function.name),
                "lib": self._lib(function.mapping),
                "start": hex(function.start),
                "size": hex(function.size),
                "costs": [
                    {"at": packed(address - function.start for address in costs), "self": packed(costs.values())}
                    for costs in function.costs
                ],
            }
            if self._options.code:
                entry |= self._rows(function)
            numbers[key] = len(assembly)
            assembly.append(entry)
        of_frames = [
            sorted(numbers[key] for key in keys.get((frame.name, frame.file), ()) if key in numbers)
            for frame in self._tree.frames
        ]
        return of_frames, assembly

    def _functions(
        self,
    ) -> tuple[dict[tuple[int, int, int], ImageFunction], dict[tuple[str, str], set[tuple[int, int, int]]]]:
        """Return the functions of the innermost addresses with their costs, and the functions around each frame."""
        profile = self._profile
        functions: dict[tuple[int, int, int], ImageFunction] = {}
        keys: defaultdict[tuple[str, str], set[tuple[int, int, int]]] = defaultdict(set)
        for number, weights in enumerate(self._weights):
            for location, value in leaf_values(profile, weights).items():
                address, start, size = self._places.get(location, (0, 0, 0))
                frames = profile.frames[location]
                if not size or not frames or profile.mapping[location] == NO_MAPPING:
                    continue
                key = profile.mapping[location], start, size
                function = functions.get(key)
                if function is None:
                    costs = [Counter[int]() for _ in self._weights]
                    function = functions[key] = ImageFunction(frames[-1].function, *key, costs)
                function.costs[number][address] += value
        for location, (_, start, size) in self._places.items():
            key = profile.mapping[location], start, size
            if key in functions:
                for frame in profile.frames[location]:
                    keys[frame.function, frame.file].add(key)
        return functions, keys

    def _rows(self, function: ImageFunction) -> dict[str, object]:
        """Return the instructions of a function in columns, or a note that says why there are none."""
        mapping = self._profile.mappings[function.mapping]
        assert self._binaries is not None
        try:
            search = self._binaries.search(mapping)
            if search.opened is None:
                why = search.missing.reason.sentence if search.missing is not None else "the file was not found"
                return {"note": f"no instructions: {mapping.path}: {why}"}
            opened = search.opened
            base = image_base(opened.segments or (), only_code=opened.elf is None)
            code = code_of(opened.binary, self._binaries, mapping.build_id, mapping.path)
            start = function.start + base
            options = ListingOptions(code=code, syntax=self._options.syntax)
            listing = opened.binary.listing_of(None, [(start, start + function.size)], options)
        except (WhenceError, OSError) as error:
            return {"note": f"no instructions: {error}"}
        if not listing.instructions:
            return {"note": "; ".join(listing.notes)}
        return {"vaddr": hex(start), "rows": self._instructions(listing, start)}

    def _instructions(self, listing: Listing, start: int) -> dict[str, bytes]:
        instructions = listing.instructions
        chains = [
            tuple((self._name(frame.function), self._file(frame.file), frame.line) for frame in reversed(each.frames))
            for each in instructions
        ]
        return {
            "at": packed(each.vaddr - start for each in instructions),
            "text": packed(self._texts.setdefault(each.text, len(self._texts)) for each in instructions),
            "chain": packed(self._chains.setdefault(chain, len(self._chains)) for chain in chains),
        }


def page(profile: ProfileData, title: str, binaries: Binaries | None, options: PageCodeOptions) -> bytes:
    """Return the page of a flame graph with code, as an HTML file."""

    def code(tree: Tree) -> dict[str, object]:
        return PageCode(profile, tree, binaries, options).as_json()

    return flamegraph.page_bytes(profile, title, code=code)


def shown(texts: Iterable[str]) -> list[str]:
    """Return texts without control characters."""
    return [text if text.isprintable() else text.translate(TEXT) for text in texts]
