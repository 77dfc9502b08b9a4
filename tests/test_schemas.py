"""What `--json` prints is what the published schema describes, member for member."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.forge.minidump import everything
from tests.helpers.live import compiled, python, running
from tests.helpers.schemas import closed, conforms, document
from whence.cli.main import COMMANDS, main, parser_of

ROOT = Path(__file__).parent.parent
# A command for files of `whence demo`, and the definitions of the objects that it prints.
CALLS = {
    "addr app 0x1210 0x10 --json": "addr",
    "addr app main nothing --json": "functions",
    "build-id app server app.gsym --json": "ids",
    "convert app -o app.gsym --json": "conversion",
    "core core.4711 --binary server --json": "stack",
    "core core.4711 --binary server --registers --json": "stack",
    "core core.4711 --binary server 0x400158 0x10 --json": "answer",
    "core core.4711 --maps --json": "mapping",
    "core core.4711 --binary server --report --json": "crashReport",
    "core dump.dmp --json": "stack",
    "core dump.dmp --info --json": "minidump",
    "cores . --json": "crashes unreadableCore",
    "dwarf app --json": "unit",
    "dwarf app --unit 0 --json": "scope row",
    "explain app 0x1210 --json": "explanation",
    "explain app --json": "overview",
    "explain server --json": "overview",
    "lidia create app --json": "archiveCreated",
    "lidia create app --columns -o columns.lidia --json": "archiveCreated",
    "lidia info app.lidia --json": "archiveInfo",
    "lidia verify app.lidia --json": "archiveVerification",
    "lidia verify damaged.lidia --json": "archiveVerification",
    "lidia dump app.lidia --json": "range",
    "lidia dump columns.lidia --json": "range",
    "listing app main --json": "listing",
    "profile cpu.pb.gz --binary app --json": "coverage",
    "profile cpu.pb.gz --sysroot image --json": "coverage",
    "profile cpu.pb.gz old.pb.gz -o named --json": "batch",
    "profile cpu.pb.gz --binary app --list main --json": "listing",
    "profile cpu.pb.gz --binary app --callers sum --json": "callers",
    "size app --by inlined --json": "size",
    "size app --base server --json": "sizeGrowth",
    "store add store app server dump.dmp --json": "storeAdded",
    "store ls store --json": "storeRow",
    "store show store BUILD_ID --json": "storeEntry",
    "store export store BUILD_ID -o exported --json": "storeExported",
    "store verify store --json": "storeProblem",
    "store gc store --keep-days 0 --dry-run --json": "storeRemoved",
    "store rm store BUILD_ID --json": "storeRemoved",
    "store wanted store --json": "storeWanted",
    "symbols app --json": "symbol",
    "trace info trace.out --json": "traceInfo",
    "trace verify trace.out --json": "traceVerification",
}
# Definitions that tests of their subject check, because they need a process, a program of Go or a server.
ELSEWHERE = {"filtered", "task", "thread", "goroutine", "tableCoverage", "served", "error"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("schemas") / "demo"
    assert main(["demo", str(made)]) == 0
    (made / "dump.dmp").write_bytes(everything())
    (made / f"core.app.0.{'a' * 32}.12.1700000000000000").write_bytes(b"")  # as systemd names it
    return made


def objects(text: str) -> list[dict[str, object]]:
    """Return the JSON objects of an output: one per line, or one of several lines."""
    return [json.loads(text)] if text.startswith("{\n") else [json.loads(line) for line in text.splitlines()]


def test_every_object_has_the_members_of_its_definition(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build_id, printed = "", dict.fromkeys(" ".join(CALLS.values()).split(), 0)
    for call, names in CALLS.items():
        if call.startswith("lidia verify damaged"):
            data = bytearray(Path("app.lidia").read_bytes())
            data[0x200] ^= 1
            Path("damaged.lidia").write_bytes(data)
        if call.startswith("store verify"):
            kept = next(path for path in Path("store").rglob("*") if path.is_file() and path.stat().st_size > 10_000)
            kept.chmod(0o600)
            kept.write_bytes(kept.read_bytes()[:-1])
        main(call.replace("BUILD_ID", build_id).split())
        out, err = capfd.readouterr()
        for item in objects(out):
            build_id = str(item.get("build_id") or build_id)
            fitting = [name for name in names.split() if set(document()["$defs"][name]["required"]) <= set(item)]
            assert fitting, f"$ whence {call}\n{item}"
            conforms(fitting[0], item)
            printed[fitting[0]] += 1
        assert out or "storeWanted" in names, f"$ whence {call}\n{err}"
    assert [name for name, count in printed.items() if not count] == ["storeWanted"]


def test_a_requested_build_id_is_as_its_definition_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from whence.store import Store
    from whence.store.wanted import MissedId

    conforms("storeWanted", MissedId("ab" * 20, {"gdb": 2}, 1, 2).as_json())
    with Store(tmp_path / "store") as store:
        assert not list(store.wanted())


def test_threads_of_a_process_are_as_their_definition_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(python("import time; print('ready', flush=True); time.sleep(60)")) as (pid, _):
        main(["pid", str(pid), "--json"])
        threads = objects(capsys.readouterr().out)
        main(["pid", str(pid), "--stop", "--json"])
        stacks = objects(capsys.readouterr().out)
        main(["maps", str(pid), "--json"])
        mappings = objects(capsys.readouterr().out)
    with running([compiled(tmp_path)]) as (pid, words):
        main(["pid", str(pid), words[0], "10", "--json"])
        answers = objects(capsys.readouterr().out)
    for name, result in (("thread", threads), ("stack", stacks), ("mapping", mappings), ("answer", answers)):
        assert result, name
        for item in result:
            conforms(name, item)


def test_coverage_of_a_table_is_as_its_definition_says(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["columns", str(folder / "samples.csv"), "-o", str(tmp_path / "out.csv"), "--leaf", "--json"]
    assert main([*words, "--binary", str(folder / "app")]) == 0
    (result,) = objects(capsys.readouterr().err)
    conforms("tableCoverage", result)


def test_frames_in_filtered_logs_are_as_their_definition_says(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(["filter", "crash.log", "--binary", "app", "--json"]) == 0
    result = re.findall(r"\[\{.*?\}\]", capfd.readouterr().out)
    assert result
    for text in result:
        for frame in json.loads(text):
            conforms("filtered", frame)


def test_a_definition_refuses_members_that_it_does_not_list() -> None:
    conforms("storeExported", {"build_id": "ab", "path": "a"})
    for wrong in ({"build_id": "ab"}, {"build_id": "ab", "path": 1}, {"build_id": "ab", "path": "a", "more": 1}):
        with pytest.raises(AssertionError):
            conforms("storeExported", wrong)


def test_the_schema_is_valid_and_every_definition_is_used() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (make test installs it)")
    jsonschema.Draft202012Validator.check_schema(document())
    text = json.dumps(document())
    definitions = document()["$defs"]
    assert {name for name in definitions if f'"#/$defs/{name}"' not in text} == set()
    assert all(closed(each) == each or "properties" in json.dumps(each) for each in definitions.values())
    outputs = {entry["$ref"].rpartition("/")[2] for entry in document()["anyOf"]}
    assert {*" ".join(CALLS.values()).split()} | ELSEWHERE == outputs


def test_every_command_with_the_option_json_is_in_the_schema() -> None:
    described = " ".join(item["description"] for item in document()["$defs"].values())
    for name, (module, _) in COMMANDS.items():
        parser = parser_of(name, False, import_module(f"whence.cli.{module}"))
        for each in list(parser.subparsers()) or [parser]:
            prints = any(
                "--json" in action.option_strings and "style" not in (action.help or "") for action in each._actions
            )
            if prints:
                command = each.prog.removeprefix("whence ")
                assert re.search(rf"`whence {command} [^`]*--json`", described), command


def test_the_reference_names_the_definition_of_each_object() -> None:
    page = (ROOT / "docs" / "reference" / "output.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `whence ")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[3])}
    outputs = {entry["$ref"].rpartition("/")[2] for entry in document()["anyOf"]}
    assert named <= outputs
    assert len(named) == len(rows) > 10
