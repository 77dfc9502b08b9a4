"""An option means one thing in every command that has it."""

from __future__ import annotations

import re
from argparse import Action
from collections.abc import Iterator
from importlib import import_module

import pytest

from whence.cli.main import COMMANDS, main, parser_of
from whence.cli.options import LOCATOR_DEFAULTS
from whence.cli.parser import Parser

LOCATE = {
    "addr", "columns", "convert", "core", "cores", "dwarf", "explain", "filter", "lidia create", "listing", "mcp",
    "pid", "profile", "record", "size",
}  # fmt: skip
"""The commands that look for files, and so take every option that says where."""
NAME = {
    "addr", "columns", "convert", "core", "filter", "lidia dump", "listing", "pid", "profile", "record", "size",
    "symbols",
}  # fmt: skip
"""The commands that print names as people read them, unless --no-demangle is given."""
SERVE = {"serve", "mcp"}
"""The commands that answer requests."""
WRITE = {f"trace {name}" for name in ("text", "wire", "filter", "anonymize", "salvage", "pprof", "events")}
WRITE |= {"record", "demo", "completion"}
"""The commands that write files, JSON if that is a format of the file."""
ONE_MEANING = {"--return-addresses": {"addr", "columns", "core", "pid"}, "--save-snapshot": {"core", "pid"}}
LOCATOR_OPTIONS = {
    "--binary", "--archive-dir", "--store", "--debug-dir", "--sysroot", "--record-missing", "--debuginfod",
    "--debuginfod-allow", "--symbol-server", "--cache-dir", "--cache-size", "--no-cache", "--jobs", "--verbose",
}  # fmt: skip


def parsers() -> Iterator[tuple[str, Parser]]:
    """Every command that does something, by the words that call it."""
    for name, (module, _) in COMMANDS.items():
        parser = parser_of(name, False, import_module(f"whence.cli.{module}"))
        subcommands = list(parser.subparsers())
        yield from ((each.prog.removeprefix("whence "), each) for each in subcommands)
        if not subcommands:
            yield name, parser


PARSERS = dict(parsers())


def options(parser: Parser) -> dict[str, Action]:
    """Its options by each of their spellings."""
    return {word: action for action in parser._actions for word in action.option_strings}


def meaning(action: Action) -> tuple[object, ...]:
    return (
        type(action), tuple(action.option_strings), action.dest, action.nargs, action.const, action.default,
        action.type, action.choices, action.metavar, action.help,
    )  # fmt: skip


def those_with(option: str) -> set[str]:
    return {name for name, parser in PARSERS.items() if option in options(parser)}


@pytest.mark.parametrize("option", sorted(LOCATOR_OPTIONS))
def test_where_names_come_from_is_said_alike_in_every_command_that_looks_for_files(option: str) -> None:
    assert those_with(option) == LOCATE
    assert len({repr(meaning(options(PARSERS[name])[option])) for name in LOCATE}) == 1


def test_the_defaults_without_argparse_are_those_with_it() -> None:
    result = {
        action.dest: action.default for word, action in options(PARSERS["pid"]).items() if word in LOCATOR_OPTIONS
    }
    assert result == LOCATOR_DEFAULTS


def test_names_are_readable_in_every_command_unless_no_demangle_is_given() -> None:
    assert those_with("--no-demangle") == NAME
    assert len({repr(meaning(options(PARSERS[name])["--no-demangle"])) for name in NAME}) == 1


def test_json_is_an_option_of_every_command_that_prints() -> None:
    assert those_with("--json") == PARSERS.keys() - WRITE - SERVE
    assert all(options(PARSERS[name])["--json"].nargs == 0 for name in PARSERS.keys() - WRITE - SERVE)


@pytest.mark.parametrize("option", sorted(ONE_MEANING))
def test_an_option_of_some_commands_has_one_meaning(option: str) -> None:
    assert those_with(option) == ONE_MEANING[option]


def test_snapshots_are_read_by_one_option_and_written_by_another() -> None:
    readers = those_with("--snapshot")
    assert readers == {"addr", "filter"}
    assert not readers & those_with("--save-snapshot")
    assert all(options(PARSERS[name])["--snapshot"].metavar == "FILE" for name in readers)


def test_no_option_has_two_spellings_of_one_thing() -> None:
    every = {word for parser in PARSERS.values() for word in options(parser) if word.startswith("--")}
    twice = {word for word in every if f"{word}s" in every or word.replace("-", "") in every - {word}}
    # `explain --stack`: of one thread, `columns --stacks`: a shape of the output; `trace --goroutine N`: rows of one
    # goroutine, `core --goroutines`: all instead of threads
    assert twice == {"--stack", "--goroutine"}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_help_is_plain(name: str) -> None:
    text = PARSERS[name].format_help()
    assert text.startswith("usage: ")
    assert "--debug" in text
    assert not re.search(r"SUPPRESS|None|<class|%\(", text)
    for action in PARSERS[name]._actions:
        assert action.help, f"{action.option_strings or action.dest} has no help"


@pytest.mark.parametrize(
    "words",
    [
        ["--debug", "addr", "/no/such"],
        ["addr", "--debug", "/no/such"],
        ["lidia", "create", "/no/such", "--debug"],
        ["lidia", "--debug", "info", "/no/such"],
    ],
)
def test_debug_may_be_anywhere_in_every_command(words: list[str]) -> None:
    with pytest.raises(FileNotFoundError):
        main(words)
    assert main([word for word in words if word != "--debug"]) == 3


def test_debug_after_two_dashes_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build-id", "--", "--debug"]) == 3
    assert capsys.readouterr().err == "whence: --debug: No such file or directory\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_of_options_that_exist(name: str) -> None:
    command = parser_of(name, False, import_module(f"whence.cli.{COMMANDS[name][0]}"))
    for parser in (command, *command.subparsers()):
        _, marker, examples = (parser.epilog or "").partition("examples:\n")
        assert marker, parser.prog
        assert any(f"{parser.prog} " in f"{line} " for line in examples.splitlines())
    own = [line for line in examples_of(command) if f" whence {name} " in line]
    options = {word for line in own for word in line.split() if word.startswith("--") and word != "--"}
    assert options <= {*command._options()}


def examples_of(parser: Parser) -> list[str]:
    """Return the examples at the end of a help, without the commands after whence's in pipes."""
    lines = (parser.epilog or "").partition("examples:\n")[2].splitlines()
    return [line.partition(" -- ")[0].partition(" | jq")[0].partition(" && ")[0] for line in lines]
