"""The forms as the loop over lines uses them: by their needles, with their groups by number and templates in parts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from whence import stack_token
from whence.filter.forms import GO_NEEDLE, Back, Form, Needle, Needs
from whence.filter.kernels.needles import Needles
from whence.filter.reports import REPORTS, ReportKind

MODULES = b"{{{m"  # LLVM markup of a module or of a mapping
RESET = b"{{{reset"
KERNEL_OFFSET_NEEDLE = b"Kernel Offset: 0x"
FILES = {  # needles of lines with the path or the build-id of a file: of systemd-coredump and coredumpctl
    b" Executable: /": re.compile(rb" Executable: (?P<path>/[^\r\n\x1b(]{1,4096}+)"),
    b"odule %w with": re.compile(
        rb"\b(?:Found m|M)odule (?P<path>\S{1,4096}) with(?:out)? build-id(?::? (?P<build_id>[0-9a-f]{4,64}))?"
    ),
}
TOKEN_NEEDLE = stack_token.PREFIX.encode()
FACTS = (MODULES, RESET, KERNEL_OFFSET_NEEDLE, *FILES)  # needles of lines with facts about files and addresses

AT_LINE = b"%^"  # the start of a needle that starts a line
KEYS = ("address", "base", "module", "build_id", "symbol", "size", "ra", "pc")  # the groups that an answer depends on
FILE_KEYS = ("module", "build_id", "title")  # the groups that say which file
ORDINARY = re.compile(rb"(?:%[/^])?(?:%.)?([^%]+)")  # the first ordinary bytes of a needle


class Matcher:
    """A form as the loop over lines uses it: its groups by number, its template in parts around the frame.

    Most templates keep the text up to the end of one group (`{head} in {frame}`): `head_group` is its number, else 0.
    """

    __slots__ = (
        "after", "before", "bits", "exact", "file", "form", "frame", "head_group", "keys", "literals", "misses",
        "search", "tail",
    )  # fmt: skip

    def __init__(self, form: Form) -> None:
        groups = form.pattern.groupindex
        self.form = form
        self.bits = dict.fromkeys(Needs, 0)  # of its needles, by what they need
        self.search = form.pattern.search
        self.misses = 0
        self.keys = tuple(groups[name] for name in KEYS if name in groups)
        self.tail = groups.get("tail", 0)
        self.file = tuple(groups[name] for name in FILE_KEYS if name in groups) if "module" in groups else ()
        self.literals = {match[1] for needle in form.needles if (match := ORDINARY.match(needle.text))}
        self.exact = form.back in (Back.EXACT, Back.INSIDE) and "ra" not in groups
        self.before, self.frame, self.after = template_parts(form.template)
        self.head_group = groups["head"] if self.before.startswith(b"{head}") else 0
        if self.head_group:
            self.before = self.before.removeprefix(b"{head}")


class FormIndex:
    """The needles of all forms, facts and reports, as bits of a line.

    Attributes:
        needles: finds lines with needles.
        matchers: the forms, in order.
        go_bit: the bit of the needle of Go's panics.
        token_bit: the bit of the needle of stack tokens.
        fact_bits: the bits of the needles of lines with facts about files and addresses.
        reports: the kinds of reports, by their bit.
    """

    def __init__(self, forms: tuple[Form, ...]) -> None:
        self.matchers = tuple(map(Matcher, forms))
        self._needles: list[tuple[Needle, Matcher | ReportKind | None]] = [
            *((needle, matcher) for matcher in self.matchers for needle in matcher.form.needles),
            (GO_NEEDLE, None),
            (Needle(TOKEN_NEEDLE), None),
            *((Needle(text), None) for text in FACTS),
            *((Needle(text), report) for report in REPORTS for text in report.starts),
        ]
        numbers = numbers_of(self._needles)
        self.reports: dict[int, ReportKind] = {}
        bits = {}
        for bit, (needle, owner) in zip(numbers, self._needles, strict=True):
            if isinstance(owner, Matcher):
                owner.bits[needle.needs] |= 1 << bit
            elif owner is not None:
                self.reports[1 << bit] = owner
            else:
                bits[needle] = 1 << bit
        self.needles = Needles(tuple(needle.text for needle, _ in self._needles), numbers)
        self.go_bit = bits[GO_NEEDLE]
        self.token_bit = bits[Needle(TOKEN_NEEDLE)]
        self.fact_bits = sum({bits[Needle(text)] for text in FACTS})
        self._present: dict[int, tuple[Matcher, ...]] = {}
        self._literals: dict[tuple[Matcher, ...], re.Pattern[bytes]] = {}

    def with_needles(self, present: int) -> tuple[Matcher, ...]:
        """Return the forms that have a needle among the bits of `present`."""
        matchers = self._present.get(present)
        if matchers is None:
            matchers = self._present[present] = tuple(
                matcher for matcher in self.matchers if present & sum(matcher.bits.values())
            )
        return matchers

    def literals(self, matchers: tuple[Matcher, ...]) -> re.Pattern[bytes]:
        """Return a pattern of the first ordinary bytes of the needles of some forms."""
        pattern = self._literals.get(matchers)
        if pattern is None:
            texts = sorted({literal for matcher in matchers for literal in matcher.literals})
            pattern = self._literals[matchers] = re.compile(b"|".join(map(re.escape, texts)))
        return pattern


def numbers_of(needles: Sequence[tuple[Needle, Matcher | ReportKind | None]]) -> tuple[int, ...]:
    """Return the number of each needle's bit: needles of a form with the same needs share one, as do all facts.

    So do the needles of a report. Needles at the start of a line have a bit of their own.
    """
    numbers: dict[object, int] = {}
    out = []
    for index, (needle, owner) in enumerate(needles):
        group: object = (owner, needle.needs) if owner is not None else FACTS
        if needle.text.startswith(AT_LINE) or (owner is None and needle.text not in FACTS):
            group = index
        out.append(numbers.setdefault(group, len(numbers)))
    return tuple(out)


def template_parts(template: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the text of a template before a frame, the layout of the frame (b"" for `{frame}`), and the text after."""
    if b"{frame}" in template:
        before, _, after = template.partition(b"{frame}")
        return before, b"", after
    offsets = [offset for name in (b"{function}", b"{location}") if (offset := template.find(name)) >= 0]
    first = min(offsets, default=len(template))
    return template[:first], template[first:], b""


def filled(template: bytes, groups: Mapping[str, bytes]) -> bytes:
    """Return a template with its groups filled in."""
    return re.sub(rb"\{(\w+)\}", lambda name: groups[name[1].decode()], template)
