"""The documentation site: `make docs` builds it; the reference is made of the parsers and the docstrings."""

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.napoleon import Config, GoogleDocstring

from whence._base.records import Record
from whence._version import __version__

project, author, copyright = "whence", "the authors of whence", "the authors of whence"
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton", "sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
smartquotes = False
html_css_files = ["site.css"]
html_static_path = ["static"]
html_theme = "furo"
html_title = f"whence {__version__}"
myst_enable_extensions = ["linkify", "colon_fence"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]

HERE = Path(__file__).parent
MODULES = (
    "whence",
    "whence.lidia",
    "whence.procmap",
    "whence.sizes",
    "whence.profiles",
    "whence.gotrace",
    "whence.columns",
    "whence._base.errors",
)


def commands() -> str:
    """Every command's --help, from its parser."""
    from whence.cli.main import COMMANDS, parser_of

    os.environ["COLUMNS"] = "88"  # what the page shows without wrapping
    out = ["# Commands\n", "What `whence COMMAND --help` prints. `whence help COMMAND` prints the same.\n"]
    for name, (module, line) in COMMANDS.items():
        parser = parser_of(name, False, import_module(f"whence.cli.{module}"))
        out.append(f"## whence {name}\n\n{line[0].upper()}{line[1:]}.\n")
        for one in (parser, *parser.subparsers()):
            if one is not parser:
                out.append(f"### {one.prog}\n")
            out.append(f"```text\n{one.format_help()}```\n")
    return "\n".join(out)


def api() -> None:
    """Write a page for each public module, whose contents autodoc makes of signatures and docstrings."""
    folder = HERE / "reference" / "api"
    folder.mkdir(exist_ok=True)
    for name in MODULES:
        title = "Errors" if name.endswith(".errors") else name
        members = f":members: {', '.join(public(name))}"
        text = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {name}\n   {members}\n   :undoc-members:\n"
        (folder / f"{name.replace('_base.', '')}.rst").write_text(text)


def exported(name: str) -> dict[str, Any]:
    """Return the classes and functions that a module exports."""
    module = import_module(name)
    words = [word for word in getattr(module, "__all__", vars(module)) if not word.startswith("_")]
    things = {word: getattr(module, word) for word in words}
    return {
        word: thing for word, thing in things.items()
        if callable(thing) and getattr(thing, "__module__", "").startswith("whence")
    }  # fmt: skip


def public(name: str) -> list[str]:
    """Return the names that a module exports and no module before it in MODULES."""
    before = [thing for other in MODULES[: MODULES.index(name)] for thing in exported(other).values()]
    return [word for word, thing in exported(name).items() if thing not in before]


def link_types(app: Any, doctree: Any) -> None:
    """Point the names of types at their pages. Private types and those of Python become plain text."""
    pages = {word: f"{name}.{word}" for name in reversed(MODULES) for word in public(name)}
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") != "py":
            continue
        word = node["reftarget"].rpartition(".")[2]
        own = f"{node.get('py:module')}.{word}"
        after = node.next_node(nodes.Text, descend=False, siblings=True)
        is_generic = word == "Mapping" and after is not None and after.astext().startswith("[")  # collections.abc's
        target = own if own in pages.values() else pages.get(word, "")
        if target and not is_generic and (target == own or word not in HOMONYMS):
            node["reftarget"] = target
            node["refspecific"] = False
        else:
            conditions = node.findall(addnodes.pending_xref_condition)
            short = next((child for child in conditions if child["condition"] == "resolved"), node)
            node.replace_self(short.children)
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":  # between a parameter and its description; other hyphens belong to options
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


HOMONYMS = ("Kind", "Source")  # types that are not public have these names, too
CODE = re.compile(r"(``?)(.+?)\1(?=(\w?))")
SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:", "Yields:")
CELLS = re.compile(r" {2,}(?=\S)")
GOOGLE = Config(napoleon_numpy_docstring=False, napoleon_use_ivar=True)


def escaped(line: str) -> str:
    """Return a line of a docstring as reStructuredText: code between backticks, everything else literally."""
    parts, end = [], 0
    for match in CODE.finditer(line):
        parts += [without_markup(line[end : match.start()]), f"``{match[2]}``", "\\ " if match[3] else ""]
        end = match.end()
    return "".join([*parts, without_markup(line[end:])])


def without_markup(text: str) -> str:
    return re.sub(r"([*|`]|_(?!\w))", r"\\\1", text)


def indented_block(lines: list[str]) -> list[str]:
    """Return an indented block as reStructuredText: a list for a table of names and descriptions, else code."""
    rows = [CELLS.split(line.strip()) for line in lines]
    if any(len(row) % 2 for row in rows):
        return ["", "::", "", *lines, ""]
    pairs = [(row[i], row[i + 1]) for row in rows for i in range(0, len(row), 2)]
    return ["", *(f"* ``{name.strip('`')}``: {escaped(text)}" for name, text in pairs), ""]


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield runs of lines without a blank line, of which all or none are indented."""
    run: list[str] = []
    for line in lines:
        if run and (not line.strip() or line.startswith("    ") != run[0].startswith("    ")):
            yield run
            run = []
        if line.strip():
            run.append(line)
    yield run


def read_docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText."""
    out: list[str] = []
    in_section = False
    for run in paragraphs([] if lines[:1] and lines[0].startswith("Alias for field number") else lines):
        if not run:
            continue
        is_indented = run[0].startswith("    ")
        in_section = in_section and is_indented
        if is_indented and not in_section:
            out += indented_block(run)
        elif run[0].lstrip().startswith(">>>"):
            out += ["", *run, ""]
        else:
            if not out or out[-1] not in SECTIONS:
                out.append("")
            out += [line if line in SECTIONS else escaped(line) for line in run]
            in_section = in_section or run[-1] in SECTIONS
    kind = "method" if what in ("property", "attribute") else what  # napoleon would read their first words as a type
    lines[:] = GoogleDocstring(out, GOOGLE, app, kind, name, thing, options).lines()


def record_signature(app: Any, what: str, name: str, thing: Any, *rest: Any) -> tuple[str, str] | None:
    """Return the fields of a record as its signature."""
    if what == "class" and issubclass(thing, Record):
        return f"({', '.join(thing._fields)})", ""
    return None


def schemas() -> str:
    """Return the types of every table written as Arrow, as the code makes them."""
    import pyarrow

    import whence
    from whence import columns, profiles

    def table(schema: Any, left_out: tuple[str, ...] = ()) -> str:
        rows = [f"| `{field.name}` | `{short(field.type)}` |" for field in schema if field.name not in left_out]
        return "\n".join(["| column | type |", "|---|---|", *rows, ""])

    def short(kind: Any) -> str:
        """An Arrow type in a word or two; a text that is a dictionary is said to be one."""
        if pyarrow.types.is_dictionary(kind):
            return f"dictionary of {kind.value_type}"
        if pyarrow.types.is_list(kind):
            return f"list of {short(kind.value_type)}"
        if pyarrow.types.is_struct(kind):
            return f"struct({', '.join(f'{field.name}: {short(field.type)}' for field in kind)})"
        return str(kind)

    asked = pyarrow.schema([("address", pyarrow.uint64()), ("build_id", pyarrow.string())])
    shapes = {"lists, the default": {}, "leaf=True": {"leaf": True}, "exploded=True": {"exploded": True}}
    out = ["# Arrow schemas\n", "Made of the code. They keep to [the promise of stability](output.md#what-stays).\n"]
    out += ["## Tables of addresses\n", "The columns that `whence columns` and `whence.columns.Namer` add.\n"]
    for name, options in shapes.items():
        with columns.Namer(**options) as namer:
            out += [f"### {name}\n", table(namer.schema(asked), ("address", "build_id"))]
    profile = profiles.read(str(HERE.parent / "tests" / "data" / "perf" / "plain.data"))
    kinds = tuple(f"{kind.type}" for kind in profile.sample_types)
    out += [
        "## Profiles\n",
        "`whence profile --format arrow` and `Profile.to_arrow()`: a row for each sample. Before these columns come",
        "one of int64 for each sample type, named after it with its unit in the field's metadata, and `time` where",
        "times are known.\n",
        table(profile.to_arrow().schema, (*kinds, "time")),
        "## Frames of one file\n",
        "`FrameTable.to_arrow()`: a row for each frame; `row` counts the addresses asked for.\n",
    ]
    builder = whence.lidia.Builder()
    builder.add(whence.lidia.Range(vaddr=0, length=1, function="main"))
    with whence.lidia.from_bytes(builder.to_bytes()) as archive:
        out.append(table(archive.lookup_many([0]).to_arrow().schema))
    return "\n".join(out)


def setup(app: Any) -> None:
    (HERE / "reference" / "arrow.md").write_text(schemas())
    (HERE / "reference" / "commands.md").write_text(commands())
    api()
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", record_signature)
    app.connect("doctree-read", link_types)
