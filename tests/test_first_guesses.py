"""What people try first works, or fails with a sentence that says the right call."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import whence
import whence.engines.pandas
import whence.engines.polars
from tests.helpers.archives import INNER_VADDR, ONE, small_archives
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence import gotrace, profiles
from whence._base.errors import WrongUse
from whence.columns import Namer
from whence.engines import duckdb as duckdb_engine

NAMED = ["inner"]
RECORDING = Path(__file__).parent / "data" / "perf" / "plain.data"
FRAME = {"build_id": [ONE], "address": pa.array([INNER_VADDR], pa.uint64())}


TRACE = b"Trace Go1.22\nEventBatch gen=1 m=1 time=2 size=4\nProcStart dt=1 p=0 p_seq=1\n"


class Files:
    """A folder of archives, a store, a stripped program and its debug files."""

    def __init__(self, folder: Path) -> None:
        self.archives = str(small_archives(made(folder / "archives")))
        self.store = str(folder / "store")
        with whence.Store(self.store) as store:
            store.add(compiled())
        self.bare = folder / "svc"
        subprocess.run(["strip", "-o", str(self.bare), str(compiled())], check=True)
        self.debug = made(folder / "debug")
        shutil.copy(compiled(), self.debug / "svc.debug")
        with whence.open(compiled()) as binary:
            self.vaddr = binary.find("sum")[0].vaddr


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    if not shutil.which("strip"):
        pytest.skip("no strip on this machine (binutils)")
    return Files(tmp_path_factory.mktemp("guesses"))


def in_duckdb(*places: Any, **options: Any) -> list[Any]:
    with duckdb.connect() as connection:
        duckdb_engine.register(connection, *places, **options)
        rows = connection.sql(f"select whence_leaf('{ONE}', {INNER_VADDR}).function").fetchall()
    return [name for (name,) in rows]


def in_pandas(*places: Any, **options: Any) -> list[Any]:
    frame = pd.DataFrame({"build_id": [ONE], "address": [INNER_VADDR]})
    names = frame.whence.name(*places, leaf=True, **options).function
    return [None if name is pd.NA else name for name in names]


def in_polars(*places: Any, **options: Any) -> list[Any]:
    frame: Any = pl.DataFrame(pa.table(FRAME))
    return list(frame.whence.name(*places, leaf=True, **options)["function"])


def in_polars_column(*places: Any, **options: Any) -> list[Any]:
    column: Any = pl.col("address")
    frame = pl.DataFrame(pa.table(FRAME))
    return list(frame.select(column.whence.leaf("build_id", *places, **options).struct.field("function")).to_series())


def in_namer(*places: Any, **options: Any) -> list[Any]:
    with Namer(*places, leaf=True, **options) as namer:
        return list(namer(pa.table(FRAME))["function"].to_pylist())


ENGINES = (in_duckdb, in_pandas, in_polars, in_polars_column, in_namer)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_engines_take_every_spelling_of_where_names_come_from(engine: Callable[..., list[Any]], files: Files) -> None:
    archives = files.archives
    assert engine(archives) == NAMED
    assert engine(Path(archives)) == NAMED
    assert engine({"archive_dirs": [archives]}) == NAMED
    assert engine({"archive_dirs": archives}) == NAMED
    assert engine(archive_dirs=archives) == NAMED
    assert engine(whence.Locator(archive_dirs=[archives])) == NAMED
    assert engine(whence.Locator(archives)) == NAMED
    assert engine() == [None]
    assert engine(store=files.store) == [None]
    assert engine({"stores": files.store}) == [None]
    assert engine(whence.Store(files.store)) == [None]
    with pytest.raises(TypeError, match="did you mean"):
        engine(archives_dirs=archives)


def test_a_namer_takes_a_locator_by_position_and_every_kind_of_table(files: Files) -> None:
    namer = Namer(whence.Locator(archive_dirs=files.archives))
    assert isinstance(namer(pa.table(FRAME)), pa.Table)
    assert pl.DataFrame(namer(pl.DataFrame(pa.table(FRAME)))).height == 1
    with pytest.raises(TypeError, match="Arrow's C data interface"):
        namer(FRAME)


def test_duckdb_functions_are_registered_again(files: Files) -> None:
    with duckdb.connect() as connection:
        duckdb_engine.register(connection)
        duckdb_engine.register(connection, files.archives)
        row = connection.sql(f"select whence_leaf('{ONE}', {INNER_VADDR}).function").fetchall()
        assert row == [("inner",)]
        with pytest.raises(duckdb.Error, match="build-ids must be texts in hex or bytes"):
            connection.sql(f"select whence_leaf({INNER_VADDR}, 5)").fetchall()


def test_a_locator_takes_one_path_where_it_takes_several(files: Files) -> None:
    assert whence.Locator(dirs=str(files.debug)).dirs == (str(files.debug),)
    assert whence.Locator(files=str(compiled())).files == (str(compiled()),)
    for locator in (
        whence.Locator(store=files.store), whence.Locator(stores=[files.store]), whence.Locator(files.store),
        whence.Locator(sources=[whence.Store(files.store).source()]), whence.Locator(binaries=files.debug),
        whence.Locator(debug_dirs=files.debug), whence.Locator(files=[files.debug / "svc.debug"]),
    ):  # fmt: skip
        with locator, locator.open(files.bare) as binary:
            assert binary.lookup(files.vaddr)[-1].function == "sum"


def test_debuginfod_true_needs_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    with pytest.raises(WrongUse, match="DEBUGINFOD_URLS"):
        whence.Locator(debuginfod=True)


def test_open_takes_paths_bytes_and_files(files: Files) -> None:
    data = compiled().read_bytes()
    with open(compiled(), "rb") as file:
        for source in (str(compiled()), compiled(), data, bytearray(data), memoryview(data), io.BytesIO(data), file):
            with whence.open(source) as binary:  # type: ignore[arg-type]
                assert binary.lookup(files.vaddr)[-1].function == "sum"
    archive = (Path(files.archives) / f"{ONE}.lidia").read_bytes()
    with whence.open(archive) as binary:
        assert binary.lookup(INNER_VADDR)[0].function == "inner"
    with whence.open(files.bare.read_bytes(), store=files.store) as binary:
        assert binary.lookup(files.vaddr)[-1].function == "sum"
    with whence.open(files.bare, store=files.store) as binary:
        assert binary.lookup(files.vaddr)[-1].function == "sum"


def test_open_says_what_it_takes() -> None:
    with pytest.raises(FileNotFoundError, match="nosuch"):
        whence.open("nosuch")
    with pytest.raises(TypeError, match="path, bytes or an open binary file, not a int"):
        whence.open(5)  # type: ignore[arg-type]
    with open(__file__) as file, pytest.raises(TypeError, match="mode 'rb'"):
        whence.open(file)  # type: ignore[arg-type]
    with pytest.raises(whence.WhenceError, match="neither an object file nor an archive"):
        whence.open(b"text")


def test_a_binary_says_how_to_look_up(files: Files) -> None:
    with whence.open(compiled()) as binary:
        with pytest.raises(ValueError, match=r"negative: .*lookup\(-1 % 2\*\*64\)"):
            binary.lookup(-1)
        with pytest.raises(TypeError, match=r"integer, not str: give lookup\(int\('0x183b', 16\)\)"):
            binary.lookup("0x183b")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"use binary.lookup\(vaddr\)"):
            binary[files.vaddr]
        with pytest.raises(TypeError, match="pickle its path"):
            pickle.dumps(binary)
        assert "build-id" in binary._repr_html_()
        table = binary.lookup_many([files.vaddr, 0])
        assert "sum" in table._repr_html_()
        assert "??" in table._repr_html_()
    binary.close()
    with pytest.raises(ValueError, match="is closed"):
        binary.lookup(files.vaddr)
    assert "closed" in binary._repr_html_()


def test_lookups_run_on_several_threads(files: Files) -> None:
    results: list[str] = []
    with whence.open(compiled()) as binary:

        def look_up() -> None:
            results.extend(binary.lookup(files.vaddr)[-1].function for _ in range(300))

        threads = [threading.Thread(target=look_up) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["sum"] * 2400


def profile() -> profiles.Profile:
    """Return a profile of a program that is not at its path any more."""
    return profiles.Profile.of(program_profile(compiled(), file="/opt/gone/svc"))


@pytest.mark.parametrize("spelling", ["path", "store", "files", "binaries", "locator", "mapping"])
def test_a_profile_is_symbolized_from_every_spelling(spelling: str, files: Files) -> None:
    calls: dict[str, Callable[[profiles.Profile], object]] = {
        "path": lambda made: made.symbolize(files.store),
        "store": lambda made: made.symbolize(store=files.store),
        "files": lambda made: made.symbolize(files=[compiled()]),
        "binaries": lambda made: made.symbolize(binaries=compiled()),
        "locator": lambda made: made.symbolize(whence.Locator(store=files.store)),
        "mapping": lambda made: made.symbolize({"store": files.store}),
    }
    made = profile()
    calls[spelling](made)
    assert any(sample.functions for sample in made)


def test_samples_of_a_profile_are_looked_at(files: Files) -> None:
    made = profile()
    made.symbolize(files=compiled())
    samples = [*made]
    assert len(made) == len(made.samples) == len(samples)
    assert samples[0].functions == made.samples[0].functions
    assert [sample.values for sample in made.samples] == [sample.values for sample in samples]
    assert made.samples[-1].index == len(samples) - 1
    with pytest.raises(IndexError, match="sample 99 of a profile"):
        made.samples[99]
    with pytest.raises(ReferenceError, match="keep it in a variable"):
        profile().samples[0]
    with pytest.raises(TypeError, match=r"filter\(lambda sample: 'serve' in sample.functions\)"):
        made.filter("serve")  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(made))
    assert again.samples[0].functions == samples[0].functions
    assert profiles.Profile()


def test_a_profile_becomes_tables_and_pages(files: Files, tmp_path: Path) -> None:
    made = profile()
    made.symbolize(files=compiled())
    assert len(made.to_pandas()) == len(made.to_polars()) == made.to_arrow().num_rows == len(made)
    page = made.flamegraph(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == page == made.flamegraph()
    made.write(tmp_path / "b.html")
    assert "<html" in (tmp_path / "b.html").read_text()
    for name in ("x.svg", "x.png"):
        with pytest.raises(WrongUse, match=r"unknown ending .* expected .*\.html"):
            made.write(tmp_path / name)
    top = made.top(3)
    assert "<table>" in top._repr_html_()
    assert "sum" in top._repr_html_()
    assert len(repr(top)) < 200
    assert "<iframe" in made._repr_html_()


def test_a_stack_prints_as_a_backtrace() -> None:
    process = whence.Process(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            process = whence.Process(child.pid)
            stack = next(iter(process.stacks()))
        finally:
            child.kill()
    assert str(stack).startswith(f"thread {child.pid}")
    assert "\n#0  0x" in str(stack)
    assert len(repr(stack)) < 200
    assert all(len(repr(frame)) < 400 and len(repr(frame.place)) < 300 for frame in stack.frames)
    assert stack._repr_html_().startswith("<pre>thread")


def test_a_trace_is_opened_and_read(tmp_path: Path) -> None:
    form = io.BytesIO()
    gotrace.text_to_wire(TRACE, form)
    wire = form.getvalue()
    text = io.BytesIO()
    gotrace.wire_to_text(wire, text)
    with gotrace.open(wire) as events, gotrace.open(text.getvalue()) as same:
        assert [event.name for event in events] == [event.name for event in same]
    with pytest.raises(whence.WhenceError, match="not a Go execution trace"):
        gotrace.open(b"nothing")
    columns = gotrace.read(wire)
    assert len(repr(columns)) < 200
    info = gotrace.info(wire)
    for shown in (info, *info.generations, gotrace.ColumnReader(wire), gotrace.open(wire)):
        assert len(repr(shown)) < 200
        assert " object at 0x" not in repr(shown)
    assert all(len(repr(table)) < 200 for table in columns.tables)
    assert list(columns.to_pandas()["event"]) == columns.to_arrow()["event"].to_pylist()


def test_results_pickle(files: Files) -> None:
    with whence.open(compiled()) as binary:
        results = [binary.lookup(files.vaddr), binary.lookup_many([files.vaddr])]
    results += [whence.Locator(store=files.store), whence.Store(files.store)]  # type: ignore[list-item]
    for result in results:
        assert repr(pickle.loads(pickle.dumps(result))) == repr(result)


def test_a_symbolizer_takes_a_store(files: Files) -> None:
    with whence.Symbolizer(store=files.store) as each, whence.Symbolizer(locator=files.store) as other:
        assert repr(each.locator) == repr(other.locator)
        assert files.store in repr(each.locator)


WORK: dict[str, Callable[[Files], object]] = {
    "register(con)": lambda files: in_duckdb(),
    "register(con, {'store': p})": lambda files: in_duckdb({"store": files.store}),
    "register(con, Locator(files=[p]))": lambda files: in_duckdb(whence.Locator(files=[compiled()])),
    "register(con, p)": lambda files: in_duckdb(files.archives),
    "register(con, Store(p))": lambda files: in_duckdb(whence.Store(files.store)),
    "register(con, store=p)": lambda files: in_duckdb(store=files.store),
    "register(con, archive_dirs=[p])": lambda files: in_duckdb(archive_dirs=[files.archives]),
    "register(con, {'stores': p})": lambda files: in_duckdb({"stores": files.store}),
    "frame.whence.name(p)": lambda files: in_pandas(files.archives),
    "frame.whence.name(store=p)": lambda files: in_pandas(store=files.store),
    "frame.whence.name({'store': p})": lambda files: in_pandas({"store": files.store}),
    "frame.whence.name(Store(p))": lambda files: in_pandas(whence.Store(files.store)),
    "polars: frame.whence.name(p)": lambda files: in_polars(files.archives),
    "polars: frame.whence.name(store=p)": lambda files: in_polars(store=files.store),
    "polars: col.whence.leaf('build_id', p)": lambda files: in_polars_column(files.archives),
    "Namer(p)": lambda files: in_namer(files.archives),
    "Namer(Path(p))": lambda files: in_namer(Path(files.archives)),
    "Namer({'store': p})": lambda files: in_namer({"store": files.store}),
    "Namer(Locator())": lambda files: in_namer(whence.Locator()),
    "Namer(Store(p))": lambda files: in_namer(whence.Store(files.store)),
    "Namer(store=p)": lambda files: in_namer(store=files.store),
    "Locator(p)": lambda files: whence.Locator(files.archives),
    "Locator(Path(p))": lambda files: whence.Locator(Path(files.archives)),
    "Locator(store=p)": lambda files: whence.Locator(store=files.store),
    "Locator(stores=[p])": lambda files: whence.Locator(stores=[files.store]),
    "Locator(dirs=p)": lambda files: whence.Locator(dirs=str(files.debug)),
    "Locator(debug_dir=p)": lambda files: whence.Locator(debug_dir=files.debug),  # type: ignore[call-arg]
    "Locator(archive_dir=p)": lambda files: whence.Locator(archive_dir=files.archives),  # type: ignore[call-arg]
    "Locator(files=p)": lambda files: whence.Locator(files=str(compiled())),
    "Locator(binary=p)": lambda files: whence.Locator(binary=compiled()),  # type: ignore[call-arg]
    "Locator(sources=[Store(p).source()])": lambda files: whence.Locator(sources=[whence.Store(files.store).source()]),
    "open(Path(p))": lambda files: whence.open(compiled()).lookup(files.vaddr),
    "open(bytes)": lambda files: whence.open(compiled().read_bytes()).lookup(files.vaddr),
    "open(BytesIO)": lambda files: whence.open(io.BytesIO(compiled().read_bytes())).lookup(files.vaddr),
    "open(p, store=p)": lambda files: whence.open(files.bare, store=files.store).lookup(files.vaddr),
    "open(p, debug_dirs=p)": lambda files: whence.open(files.bare, debug_dirs=files.debug).lookup(files.vaddr),
    "open(p, binaries=p)": lambda files: whence.open(files.bare, binaries=files.debug).lookup(files.vaddr),
    "profiles.read(perf.data)": lambda files: profiles.read(RECORDING),
    "profile.symbolize()": lambda files: profiles.read(RECORDING).symbolize(),
    "profile.symbolize(p)": lambda files: profile().symbolize(files.store),
    "profile.symbolize(store=p)": lambda files: profile().symbolize(store=files.store),
    "profile.symbolize(files=[p])": lambda files: profile().symbolize(files=[compiled()]),
    "profile.top(3)": lambda files: profiles.read(RECORDING).top(3),
    "profile.to_arrow()": lambda files: profile().to_arrow(),
    "profile.to_pandas()": lambda files: profile().to_pandas(),
    "profile.to_polars()": lambda files: profile().to_polars(),
    "profile._repr_html_()": lambda files: profile()._repr_html_(),
    "profile.flamegraph()": lambda files: profile().flamegraph(),
    "profile.flamegraph(p)": lambda files: profile().flamegraph(files.debug.parent / "a.html"),
    "profile.write('x.html')": lambda files: profile().write(files.debug.parent / "b.html"),
    "for sample in profile": lambda files: [*profile()],
    "for sample in profile.samples": lambda files: (lambda made: [*made.samples])(profile()),
    "profile.samples[0]": lambda files: (lambda made: made.samples[0])(profile()),
    "profile.filter(function)": lambda files: profile().filter(lambda sample: "sum" in sample.functions),
    "Store(p).list()": lambda files: [*whence.Store(files.store).list()],
    "Symbolizer(store=p)": lambda files: whence.Symbolizer(store=files.store),
    "Symbolizer(locator=p)": lambda files: whence.Symbolizer(locator=files.store),
    "pickle Frame": lambda files: pickle.loads(pickle.dumps(whence.open(compiled()).lookup(files.vaddr))),
    "pickle FrameTable": lambda files: pickle.loads(pickle.dumps(whence.open(compiled()).lookup_many([files.vaddr]))),
    "pickle Profile": lambda files: pickle.loads(pickle.dumps(profile())),
    "pickle Locator": lambda files: pickle.loads(pickle.dumps(whence.Locator(store=files.store))),
    "pickle Store": lambda files: pickle.loads(pickle.dumps(whence.Store(files.store))),
}
SAY_THE_CALL: dict[str, tuple[Callable[[Files], object], str]] = {
    "register(con, archives_dirs=p)": (lambda files: in_duckdb(archives_dirs=[files.archives]), "did you mean"),
    "Locator('nosuch')": (lambda files: whence.Locator("nosuch"), "nosuch"),
    "Locator(store=5)": (lambda files: whence.Locator(store=5), "the path or address of one, not int"),  # type: ignore[arg-type]
    "Namer(dict)": (lambda files: Namer()({}), r"pyarrow.table\(columns\)"),
    "open('nosuch')": (lambda files: whence.open("nosuch"), "nosuch"),
    "binary[vaddr]": (lambda files: whence.open(compiled())[0], r"binary.lookup\(vaddr\)"),
    "binary.lookup('0x10')": (lambda files: whence.open(compiled()).lookup("0x10"), r"lookup\(int\('0x10', 16\)\)"),  # type: ignore[arg-type]
    "binary.lookup(-1)": (lambda files: whence.open(compiled()).lookup(-1), r"lookup\(-1 % 2\*\*64\)"),
    "pickle Binary": (lambda files: pickle.dumps(whence.open(compiled())), "pickle its path"),
    "profile.filter('sum')": (lambda files: profile().filter("sum"), r"filter\(lambda sample: "),  # type: ignore[arg-type]
    "profile.write('x.svg')": (lambda files: profile().write("x.svg"), r"unknown ending .* expected .*\.html"),
    "gotrace.open(bytes)": (lambda files: gotrace.open(b"nothing"), "not a Go execution trace"),
}


@pytest.mark.parametrize("guess", WORK)
def test_a_guess_works(guess: str, files: Files) -> None:
    WORK[guess](files)


@pytest.mark.parametrize("guess", SAY_THE_CALL)
def test_a_wrong_guess_gets_the_right_call(guess: str, files: Files) -> None:
    call, sentence = SAY_THE_CALL[guess]
    with pytest.raises((TypeError, ValueError, OSError, whence.WhenceError), match=sentence):
        call(files)
