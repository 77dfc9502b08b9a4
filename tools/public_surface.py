"""The public surface: what docs/compatibility.md promises, a line for each part, as the code has it.

    python -m tools.public_surface [FILE]

writes it to tests/data/public_surface.txt (or FILE). tests/test_compatibility.py compares the file with the code, so
that a change of the surface is deliberate: run the command, read the difference, and commit it with the change.
"""

from __future__ import annotations

import ast
import enum
import hashlib
import inspect
import json
import re
import sys
import tempfile
from argparse import SUPPRESS, Action
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from whence._base import errors
from whence._base.reasons import Reason
from whence._base.records import Record
from whence.cli.main import ANSWERED, BROKEN_INPUT, COMMANDS, SOME_UNKNOWN, TOO_LARGE, WRONG_USE, parser_of
from whence.cli.parser import Parser

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "data" / "public_surface.txt"
SCHEMA = ROOT / "docs" / "reference" / "whence.schema.json"
COMMAND = "python -m tools.public_surface"
MODULES = (
    "whence",
    "whence.lidia",
    "whence.procmap",
    "whence.sizes",
    "whence.profiles",
    "whence.gotrace",
    "whence.columns",
    "whence._base.errors",
)  # as docs/conf.py documents them
ENGINES = ROOT / "src" / "whence" / "engines"
INNER_ENGINES = ("__init__", "files", "workers")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
EXIT_CODES = {
    ANSWERED: "answered", SOME_UNKNOWN: "some unknown", WRONG_USE: "wrong use", BROKEN_INPUT: "broken input",
    TOO_LARGE: "grown beyond --max-growth", 130: "interrupted",
}  # fmt: skip


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports; without a list of them, its classes and constants."""
    values = vars(module).items()
    classes = [name for name, value in values if inspect.isclass(value) and value.__module__ == module.__name__]
    constants = [name for name, value in values if name.isupper() and isinstance(value, str)]
    return sorted(getattr(module, "__all__", classes + constants))


def default_of(value: object) -> str:
    """Return the default of a parameter as text; an options object is named only."""
    return f"{type(value).__name__}(...)" if isinstance(value, Record) else ADDRESS.sub("", repr(value))


def signature_of(thing: Callable[..., Any]) -> str:
    """Return the parameters of a function or a class, with annotations as they are written."""
    if inspect.isclass(thing) and issubclass(thing, Record):
        return f"({', '.join(thing._fields)})"
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"  # a compiled function without a signature
    parts, star = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        mark = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" * (parameter.kind is parameter.VAR_KEYWORD)
        text = f"{mark}{parameter.name}"
        if isinstance(parameter.annotation, str):
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            text += f" = {default_of(parameter.default)}"
        parts.append(text)
    returns = f" -> {signature.return_annotation}" if isinstance(signature.return_annotation, str) else ""
    return f"({', '.join(parts)}){returns}"


def class_lines(name: str, thing: type, exported: set[type]) -> Iterator[str]:
    """Yield a class, and its public members without those of public base classes."""
    bases = [base.__name__ for base in thing.__mro__[1:] if base in exported or base in (Exception, enum.Enum, tuple)]
    kind = f" is {bases[0]}" if bases else ""
    if issubclass(thing, enum.Enum):
        yield f"{name}{kind}"
        yield from (f"{name}.{member}" for member in thing.__members__)
    else:
        yield f"{name}{signature_of(thing)}{kind}"
    members: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("whence") and (base is thing or base not in exported):
            members |= vars(base)
            members |= {field: None for field in vars(base).get("__annotations__", {}) if field not in members}
    enumerators = set(thing.__members__) if issubclass(thing, enum.Enum) else set()
    for member, value in sorted(members.items()):
        if member.startswith("_") or member in enumerators:
            continue
        function = getattr(value, "__func__", value)
        if inspect.isroutine(function):
            yield f"{name}.{member}{signature_of(function)}"
        else:
            yield f"{name}.{member}"


def python_lines() -> Iterator[str]:
    """Yield the public names of Python with their signatures."""
    things = {
        f"{name}.{word}": getattr(module, word) for name, module in zip(MODULES, map(import_module, MODULES))
        for word in public_names(module)
    }  # fmt: skip
    exported = {thing for thing in things.values() if inspect.isclass(thing)}
    for name, thing in things.items():
        if inspect.isclass(thing):
            yield from class_lines(name, thing, exported)
        elif inspect.isroutine(thing):
            yield f"{name}{signature_of(thing)}"
        else:
            yield name
    for path in sorted(ENGINES.glob("*.py")):  # read, not imported: each needs its engine
        if path.stem not in INNER_ENGINES:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    yield f"whence.engines.{path.stem}.{node.name}({ast.unparse(node.args)})"


def option_line(command: str, action: Action) -> str:
    """Return an option or an argument of a command."""
    name = ", ".join(sorted(action.option_strings)) or str(action.metavar or action.dest)
    if action.choices is not None:
        value = f" {{{','.join(map(str, action.choices))}}}"
    elif action.nargs == 0 or not action.option_strings:
        value = ""
    else:
        value = f" {action.metavar or action.dest.upper()}"
    count = f" ({action.nargs})" if action.nargs not in (None, 0) else ""
    return f"{command} {name}{value}{count}"


def option_lines() -> Iterator[str]:
    """Yield the options and arguments of each command and subcommand."""
    yield "whence -V, --version"
    yield "whence --debug"
    for name, (module, _) in COMMANDS.items():
        parser = parser_of(name, False, import_module(f"whence.cli.{module}"))
        for each in (parser, *parser.subparsers()):
            subcommands = any(True for _ in each.subparsers()) if isinstance(each, Parser) else False
            yield each.prog
            for action in each._actions:
                if action.help != SUPPRESS and not (subcommands and not action.option_strings):
                    yield option_line(each.prog, action)


def exit_code_lines() -> Iterator[str]:
    """Yield the exit codes."""
    yield from (f"{code} {meaning}" for code, meaning in EXIT_CODES.items())


def word_lines() -> Iterator[str]:
    """Yield the codes of errors and the words of reasons."""
    for name, value in sorted(vars(errors).items()):
        if name.isupper() and isinstance(value, str):
            yield f"error {value}"
    for reason in Reason:
        yield f"reason {reason.word}"


def members_of(name: str, schema: dict[str, Any], required: bool = True) -> Iterator[str]:
    """Yield a member of a JSON object with its type, and the members in it."""
    optional = "" if required else " (optional)"
    if "properties" in schema:
        yield name + optional
        for member, value in schema["properties"].items():
            yield from members_of(f"{name}.{member}", value, member in schema["required"])
    elif "$ref" in schema:
        yield f"{name}: {schema['$ref'].rpartition('/')[2]}{optional}"
    elif "items" in schema:
        yield from members_of(f"{name}[]", schema["items"], required)
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from members_of(f"{name}{{}}", schema["additionalProperties"], required)
    elif "anyOf" in schema:
        types = [each.get("type") or each["$ref"].rpartition("/")[2] for each in schema["anyOf"]]
        yield f"{name}: {' or '.join(types)}{optional}"
    else:
        kind = schema.get("type", "anything") if "enum" not in schema else "|".join(map(str, schema["enum"]))
        yield f"{name}: {kind if isinstance(kind, str) else ' or '.join(kind)}{optional}"


def json_lines() -> Iterator[str]:
    """Yield the members of the objects in the published JSON schema."""
    for name, schema in json.loads(SCHEMA.read_text())["$defs"].items():
        yield from members_of(name, schema)


def http_lines() -> Iterator[str]:
    """Yield the methods and paths of the server, with the scope that each needs."""
    from whence.server.app import make_app
    from whence.server.settings import ServerSettings

    with tempfile.TemporaryDirectory() as folder:
        app = make_app(ServerSettings(store=folder))
        for route in app.app.routes:
            methods = ",".join(sorted(getattr(route, "methods", ())))
            yield f"{methods} {getattr(route, 'path', '')} ({getattr(route, 'name', '')})"
        app.server.close()


def arrow_lines() -> Iterator[str]:
    """Yield the columns of Arrow tables."""
    import pyarrow as pa

    from whence import lidia
    from whence.columns import Namer

    given = pa.schema([("address", pa.uint64()), ("build_id", pa.string())])
    shapes: dict[str, dict[str, bool]] = {"lists": {}, "leaf": {"leaf": True}, "exploded": {"exploded": True}}
    for shape, options in shapes.items():
        with Namer(**options) as namer:  # type: ignore[arg-type]
            yield from (f"columns {shape} {field.name}: {field.type}" for field in namer.schema(given))
    with lidia.from_bytes(archive()) as table:
        yield from (f"frames {field.name}: {field.type}" for field in table.lookup_many([0x1000]).to_arrow().schema)


def archive() -> bytes:
    """Return an archive of a function with an inlined call."""
    from whence import lidia

    builder = lidia.Builder()
    builder.add(lidia.Range(vaddr=0x1000, length=0x40, function="main", file="main.c", line_table=((0, 3), (16, 5))))
    builder.add(
        lidia.Range(
            vaddr=0x1010, length=8, function="square", file="math.h", line_table=((0, 12),),
            depth=1, call_file="main.c", call_line=5,
        )
    )  # fmt: skip
    return builder.to_bytes()


def archive_lines() -> Iterator[str]:
    """Yield the bytes of archives of known contents, as checksums."""
    yield f"version {int.from_bytes(archive()[4:8], 'little')}"
    yield f"a function and an inlined call: {hashlib.sha256(archive()).hexdigest()}"


SECTIONS = {
    "Python": python_lines,
    "options": option_lines,
    "exit codes": exit_code_lines,
    "words": word_lines,
    "JSON": json_lines,
    "HTTP": http_lines,
    "Arrow": arrow_lines,
    "archives": archive_lines,
}


def surface() -> str:
    """Return the public surface as text."""
    parts = [f"# What docs/compatibility.md promises. Written by {COMMAND}.\n"]
    for title, lines in SECTIONS.items():
        parts.append(f"\n[{title}]\n")
        parts += [f"{line}\n" for line in lines()]
    return "".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else RECORDED).write_text(surface())
