"""Find words and phrases that the style guide forbids in text that people read: one line per finding.

    python -m tools.english [PATH...]

Checked are the prose of Markdown files (without code blocks) and the comments, docstrings and strings of Python files.
`python -m tools.lint` runs this check over the whole project.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHECKED = (
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "src", "tools", "tests",
    "benchmarks", "fuzz", "examples",
)  # fmt: skip

PHRASES: dict[str, str] = {
    r"\bbehind\b": "say after or past",
    r"\b(no|some)body\b|\bno-one\b": "name who",
    r"\bwhoever\b|\bwhatever\b|\bwhichever\b": "name who or what",
    r"\bthose (that|who|which)\b": "repeat the noun",
    r"\bis asked for\b|\bare asked for\b|\bwas asked for\b|\bwere asked for\b": "say requested",
    r"\b(is|are|was|were) told\b|\btold (as|by|from|apart)\b": "say reported or distinguished",
    r"\bbears?\b|\bbearing\b|\bborne\b": "say has",
    r"\bkept from\b": "say must not or prevented",
    r"\blet(s|ting)? go\b": "say release, unmap or drop",
    r"\bhas it that\b": "state it",
    r"\blies\b|\blie (in|at|on|before|after|outside|inside|beyond|within)\b|\blay (in|at)\b": "say is",
    r"\bstands?\b(?!-)|\bstood\b": "say is or represents",
    r"\b(goes|went)\b": "say is removed, is written, continues",
    r"\b(comes|came)\b": "say follows, is read from",
    r"(?<!there )\b(is|are|was|were) (?-i:none)\b": "say is not a, or does not exist",
    r"(?<!there )(?<!it )\b(is|are|was|were) no (?!longer\b|more than\b|less than\b|such)": "say is not a",
    r"\b(is|are|was|were) no such\b": "say does not exist or is not a",
    r"\bthe same(,| as above| for| but)": "say what it is, so that it can be read alone",
    r"\bas above\b": "say what it is",
    r"\bbut for\b": "say except",
    r"\b(the )?ones? (that|which|who)\b|\bthe ones? of\b": "repeat the noun",
    r"\balso (when|if|where|after|without)\b": "say even",
    r"\b(for|in|at) so (many|much)\b|\bso many (bytes|addresses|rows|seconds)\b": "name the number",
    r"\bnothing of\b|\bmuch of it\b": "say none of, or name it",
    r"\bhouse (word|rule)s?\b|\brooms?\b": "say package, section or space",
    r"\bof old\b|\bof late\b|\bin vain\b|\bat hand\b": "say earlier, without result, available",
    r"\bhence\b|\bthereof\b|\btherein\b|\bwhereof\b|\bthereupon\b|\bhereby\b": "use plain words",
    r"\bhow(ever)? (many|long|much|large) (it|they|there) may\b": "name the limit",
    r"\bfrom \w+ on\b(?! the\b| a\b)": "say since",
    r"\(rule: ": "put the rule into the error's attribute",
    r"\bis (true|right) of\b|\bis as good as\b|\bas good as\b": "say applies to, or equals",
    r"\bbelongs? together\b|\bgive[sn]? away\b|\blook(s|ed)? at it\b": "say what happens",
}
FORBIDDEN = re.compile("|".join(f"(?P<p{i}>{phrase})" for i, phrase in enumerate(PHRASES)), re.IGNORECASE)
ADVICE = list(PHRASES.values())
QUOTED = "  # quoted"  # at the end of a line with the words of another program
FENCE = re.compile(r"^\s*(```|~~~)")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of Markdown's prose, without code blocks, code spans, addresses and quotes."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", ">")):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", " ", line)


def strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) of the lines of a Python file's comments, docstrings and strings, without QUOTED."""
    lines = text.splitlines()
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds and not re.match(r"[rR]?[bB]", token.string):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                if not lines[number - 1].endswith(QUOTED):
                    yield number, re.sub(r"`[^`]*`|{[^{}]*}", " ", line)


def check(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, phrase, advice) of each forbidden phrase of a file."""
    read = strings if path.suffix in (".py", ".pyi") else prose
    for number, line in read(path.read_text()):
        for match in FORBIDDEN.finditer(line):
            yield number, match[0], ADVICE[int((match.lastgroup or "p0")[1:])]


def files(paths: list[Path]) -> Iterator[Path]:
    """Yield the checked files among paths and in folders; this file, which lists the phrases, is left out."""
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in (".py", ".pyi", ".md"))
            yield from (file for file in inside if file.resolve() != Path(__file__).resolve())
        elif path.exists():
            yield path


def findings(root: Path = ROOT) -> Iterator[str]:
    """Yield every finding of the project, as `file:line: "phrase": advice`."""
    for path in files([root / name for name in CHECKED]):
        for number, phrase, advice in check(path):
            yield f'{path.relative_to(root)}:{number}: "{phrase}": {advice}'


def main(arguments: list[str]) -> int:
    total = 0
    for path in files([Path(each) for each in arguments] or [ROOT / name for name in CHECKED]):
        for number, phrase, advice in check(path):
            total += 1
            print(f'{path}:{number}: "{phrase}": {advice}')
    print(total, "findings", file=sys.stderr)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
