"""The documentation site: `make docs` builds it; the reference is made of the parsers and the docstrings."""

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from whence._version import __version__

project, author, copyright = "whence", "the authors of whence", "the authors of whence"
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
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
    "whence.profiles",
    "whence.gotrace",
    "whence.procmap",
    "whence.columns",
    "whence._base.errors",
)


def commands() -> str:
    """Every command's --help, from its parser."""
    from whence.cli.main import COMMANDS, parser_of

    os.environ["COLUMNS"] = "96"
    out = ["# Commands\n", "What `whence COMMAND --help` prints. `whence help COMMAND` prints the same.\n"]
    for name, (module, line) in COMMANDS.items():
        parser = parser_of(name, False, import_module(f"whence.cli.{module}"))
        out.append(f"## whence {name}\n\n{line[0].upper()}{line[1:]}.\n")
        for one in (parser, *parser.subparsers()):
            if one is not parser:
                out.append(f"### {one.prog}\n")
            out.append(f"```text\n{one.format_help()}```\n")
    return "\n".join(out)


def signature(thing: Any) -> str:
    try:
        found = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    return re.sub(r"<[^>]* at 0x[0-9a-f]+>", "...", found)


def described(name: str, thing: Any, level: str) -> list[str]:
    """A public thing's signature and docstring, and those of what a class has."""
    text = inspect.getdoc(thing) or ""
    kind = "class " if inspect.isclass(thing) else ""
    out = [f"{level} {name}\n"]
    if callable(thing):
        out.append(f"```python\n{kind}{name}{signature(thing)}\n```\n")
    if text:
        out.append(f"```text\n{text}\n```\n")
    return out


def api() -> str:
    """The public names of the public modules, from their docstrings."""
    out = ["# Python API\n", "Made of the docstrings; `help(whence.open)` shows the same.\n"]
    for module_name in MODULES:
        module = import_module(module_name)
        out += [f"## {module_name}\n", f"```text\n{inspect.getdoc(module) or ''}\n```\n"]
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.ismodule(thing) or name.startswith("_"):
                continue
            out += described(name, thing, "###")
            if inspect.isclass(thing):
                for member, value in sorted(vars(thing).items()):
                    if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                        out += described(
                            f"{name}.{member}", value.fget if isinstance(value, property) else value, "####"
                        )
    return "\n".join(out)


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
    (HERE / "reference" / "api.md").write_text(api())
