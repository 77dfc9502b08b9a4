"""The API as a user meets it: what is there after `import whence`, and what every object of it can do."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import os
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import whence
from tests.helpers.programs import compiled
from whence._base.options import ReadOptions
from whence.archive.create import create

ROOMS = {"lidia", "procmap", "gotrace", "profiles"}


def public() -> list[str]:
    return [each for each in whence.__all__ if each not in ROOMS and not each.startswith("_")]


def address() -> int:
    result = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    assert result is not None
    return result


def test_everything_is_there_after_a_plain_import_and_loaded_when_it_is_used() -> None:
    script = (
        "import sys, whence\n"
        "heavy = {'whence.binary', 'whence.symbolize', 'whence.profiles', 'whence.gotrace', 'whence.lidia'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert set(whence.__all__) <= set(dir(whence))\n"
        "assert all(getattr(whence, name) is not None for name in whence.__all__)\n"
        "assert whence.lidia.open and whence.procmap.Resolver\n"
        "assert whence.gotrace.ColumnReader and whence.profiles.read\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = whence.nothing  # type: ignore[attr-defined]


def test_open_has_the_documented_signature() -> None:
    parameters = inspect.signature(whence.open).parameters
    assert list(parameters) == ["path", "locator", "options", "changes"]
    assert [parameters[name].kind.name for name in ("locator", "options")] == ["KEYWORD_ONLY"] * 2
    assert parameters["locator"].default is None
    assert parameters["options"].default == ReadOptions()


@pytest.mark.parametrize("name", sorted(public()))
def test_everything_public_has_a_docstring_and_types(name: str) -> None:
    item = getattr(whence, name)
    if name == "Frames":
        return
    assert inspect.getdoc(item), name
    methods = inspect.getmembers(item, inspect.isfunction) if inspect.isclass(item) else [(name, item)]
    for method, function in methods:
        if method.startswith("_") or function.__module__.split(".")[0] != "whence":
            continue
        assert inspect.getdoc(function), f"{name}.{method}"
        hints = function.__annotations__
        wanted = {item for item in inspect.signature(function).parameters if item not in ("self", "cls")}
        assert {item.lstrip("*") for item in wanted} | {"return"} <= hints.keys(), f"{name}.{method}"


def test_one_default_for_names_in_every_call() -> None:
    """Names are linkage names by default (docs/decisions/demangling.md)."""
    calls: list[Callable[..., object]] = [
        whence.open, whence.Locator.open, whence.Symbolizer, whence.lidia.create_from_elf, whence.lidia.open,
        whence.lidia.from_bytes,
        whence.profiles.Profile.symbolize,
    ]  # fmt: skip
    for call in calls:
        parameters = inspect.signature(call).parameters
        options = parameters["options"].default if "options" in parameters else None
        default = parameters["demangle"].default if options is None else options.demangle
        assert default is False, call


def test_what_has_a_close_is_a_context_manager_and_has_a_repr(tmp_path: Path) -> None:
    create(compiled(), tmp_path / "a.lidia")
    snapshot = tmp_path / "snapshot"
    process = whence.Process(os.getpid())
    process.snapshot().save(snapshot)
    objects: list[AbstractContextManager[object]] = [
        whence.open(compiled()), whence.open(tmp_path / "a.lidia"), whence.Locator(), whence.Symbolizer(), process,
        whence.Snapshot(snapshot), whence.lidia.open(tmp_path / "a.lidia"), whence.procmap.Resolver(),
    ]  # fmt: skip
    for each in objects:
        with each as entered:
            assert entered is each
            shown = repr(each)
            assert "\n" not in shown
            assert " object at 0x" not in shown, shown


def test_results_and_errors_pickle_with_all_their_fields(tmp_path: Path) -> None:
    with whence.open(compiled()) as binary:
        vaddr = binary.find("sum")[0].vaddr
        results: list[object] = [
            binary.lookup(vaddr), binary.lookup_many([vaddr, 0]), binary.find("sum"), binary.find_line("program.c", 9),
            binary.explain(vaddr), binary.plan([vaddr]),
        ]  # fmt: skip
    with whence.Symbolizer() as symbolizer:
        process = whence.Process(os.getpid())
        results += symbolizer.symbolize(process, [address(), 16])
        results += [whence.Reason.UNMAPPED, process.mappings()]
    search = whence.Locator().find(build_id="00ff")
    results += [search, search.tried, search.missing]
    for result in results:
        again = pickle.loads(pickle.dumps(result))
        assert again == result
        assert repr(again) == repr(result)
    live = pickle.loads(pickle.dumps(process))
    assert live.mappings() == process.mappings()
    with pytest.raises(whence.WhenceError) as caught:
        whence.open(__file__)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), vars(again)) == (str(caught.value), vars(caught.value))


def test_an_answer_is_true_when_it_has_frames_and_else_says_why_and_what_helps() -> None:
    with whence.Symbolizer() as symbolizer:
        named, unmapped = symbolizer.symbolize(os.getpid(), [address(), 16])
    assert named
    assert named.reason is None
    assert named.remedy == ""
    assert not unmapped
    assert unmapped.reason is whence.Reason.UNMAPPED
    assert unmapped.remedy == whence.Reason.UNMAPPED.remedy


def test_names_are_readable_when_they_are_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "a.cc"
    source.write_text("namespace ns { int add(int x) { return x + 1; } }\nint main() { return ns::add(1); }\n")
    subprocess.run(["g++", "-g", "-O0", str(source), "-o", str(tmp_path / "a")], check=True)
    create(tmp_path / "a", tmp_path / "a.lidia")
    wanted: tuple[tuple[bool | Callable[[str], str], str], ...] = (
        (False, "_ZN2ns3addEi"), (True, "ns::add(int)"), (str.upper, "_ZN2NS3ADDEI"),
    )  # fmt: skip
    for demangle, expected in wanted:
        for path in (tmp_path / "a", tmp_path / "a.lidia"):
            with whence.open(path, demangle=demangle) as binary, whence.Locator().open(path, demangle=demangle) as same:
                (function,) = binary.find("ns::add(int)") or binary.find(expected)
                assert binary.lookup(function.vaddr) == same.lookup(function.vaddr)
                assert binary.lookup(function.vaddr)[0].function == expected
                assert function.function == expected
                assert expected in {each.function for each in binary.functions()}
                assert {span.function for span in binary.find_line("a.cc", 1)} == {expected}
        with whence.lidia.open(tmp_path / "a.lidia", demangle=demangle) as table:
            assert table.lookup(function.vaddr)[0].function == expected
            assert expected in {table[index].function for index in range(len(table))}
            assert [each.function for each in table] == [each.function for each in table[:]]


def test_the_planner_s_decision_is_explained() -> None:
    with whence.open(compiled()) as binary:
        vaddr = 0x1000
        planned = str(binary.plan([vaddr]))
        assert planned.split(":")[0] in ("near", "whole")
        assert dict(step[:2] for step in binary.explain(vaddr).steps)["plan"] == planned
        binary.table()
        assert str(binary.plan([vaddr])) == "whole: the whole table was built before"


MINE = ("binary", "explanation", "locate", "planner", "producers", "reverse", "symbolize", "filter.places")


def test_every_public_class_has_a_repr_and_closes_with_a_block() -> None:
    names = [each.name for each in pkgutil.walk_packages(whence.__path__, "whence.")]
    for name in names:
        if not name.removeprefix("whence.").startswith(MINE) or name.endswith("locate.http"):
            continue
        module = importlib.import_module(name)
        for each in vars(module).values():
            if not inspect.isclass(each) or each.__module__ != name or getattr(each, "_is_protocol", False):
                continue
            assert each.__doc__, each
            assert each.__repr__ is not object.__repr__, each
            assert not hasattr(each, "close") or hasattr(each, "__exit__"), each
