"""The comparer itself: what counts as one answer, and who wins a vote."""

from __future__ import annotations

from tests.oracle.compare import Report, Symbols, difference, plain, same, same_name, sample
from tests.oracle.witnesses import Call, call, normal

MAIN = (Call("inner", "/src/a.h", 3), Call("main", "/src/a.c", 7))
OTHER = (Call("inner", "/src/a.h", 4), Call("main", "/src/a.c", 7))


def test_places_are_read_as_llvm_and_bfd_print_them() -> None:
    assert call("main", "/src/./a.c:7 (discriminator 2)") == Call("main", "/src/a.c", 7)
    assert call("??", "??:?") == Call("", "", 0)
    assert normal("./rt/../a.c") == "a.c"


def test_the_outermost_function_may_go_by_any_of_its_symbols_and_the_others_may_not() -> None:
    cold = (MAIN[0], MAIN[1]._replace(function="main.cold"))
    assert same(MAIN, cold, {"main.cold"})
    assert not same(MAIN, cold, set())
    assert not same(MAIN, (MAIN[0]._replace(function="inner.cold"), MAIN[1]), {"inner.cold", "main"})


def test_names_are_one_when_qualified_or_of_one_origin() -> None:
    assert same_name("geometry::area", "area", set())
    assert same_name("_ZN1AC4Ev", "_ZN1AC2Ev.constprop.0", {"_ZN1AC2Ev.constprop.0"})
    assert same_name("step", "step@GLIBC_2.2.5", {"step@GLIBC_2.2.5"})
    assert not same_name("area", "aria", {"aria"})


def test_a_file_without_a_line_is_no_file() -> None:
    assert same((Call("f", "", 0),), (Call("f", "unit.c", 0),), set())
    assert not same((Call("f", "", 0),), (Call("f", "unit.c", 1),), set())
    assert plain((Call("", "", 0),)) == ()


def test_most_of_those_that_say_anything_decide() -> None:
    report = Report(asked=3)
    report.add(1, MAIN, {"llvm": OTHER, "bfd": MAIN, "symbolic": MAIN}, set())
    report.add(2, MAIN, {"llvm": OTHER, "bfd": OTHER, "symbolic": MAIN}, set())
    report.add(3, MAIN, {"llvm": (), "bfd": MAIN, "symbolic": ()}, set())
    assert (report.like_most, dict(report.classes)) == (
        2,
        {"(as most) another line": 1, "another line": 1, "(as most) they say nothing": 1},
    )
    assert "0x2" in str(report)


def test_a_difference_is_named_by_the_first_thing_that_differs() -> None:
    assert difference(MAIN, MAIN[1:]) == "we have more frames"
    assert difference((), MAIN) == "we say nothing"
    assert difference(MAIN, (MAIN[0]._replace(file="/b.h"), MAIN[1])) == "another file"
    assert difference(MAIN, (MAIN[0], MAIN[1]._replace(function="exit"))) == "another function"


def test_samples_are_drawn_over_the_bytes_of_functions() -> None:
    symbols = Symbols([0x1000, 0x2000], [0x1001, 0x2003], ["a", "b"])
    assert set(sample(symbols, [], 200)) == {0x1000, 0x2000, 0x2001, 0x2002}
    assert symbols.at(0x2002) == {"b"}
    assert set(sample(Symbols(), [(5, 7)], 50)) == {5, 6}
