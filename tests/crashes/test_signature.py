"""Signatures of crashes do not depend on addresses, builds, or frames of the runtime."""

from __future__ import annotations

from whence._base.model import Frame
from whence.crashes import signature_of
from whence.dumps.signals import signal_of
from whence.procmap import Mapping
from whence.symbolize import NamedFrame, Stack, Symbolized
from whence.unwind import End, FoundBy

APP, LIBC = "/opt/app", "/usr/lib/x86_64-linux-gnu/libc.so.6"


def stack(*frames: str | tuple[str, str], base: int = 0x1000, signal: int = 11) -> Stack:
    """A stack of functions of the program, or of (function, path); each with an inlined call for `a+b`."""
    made = []
    for number, frame in enumerate(frames):
        name, path = (frame, APP) if isinstance(frame, str) else frame
        functions = tuple(Frame(each, "app.c", base) for each in name.split("+") if each)
        location = Symbolized(base + number, functions, None, Mapping(path, base, base + 0x1000))
        made.append(NamedFrame(base + number, 0, FoundBy.CFI, name == "<trampoline>", location))
    return Stack(1, signal_of(signal, 1, 0), {}, tuple(made), End.COMPLETE)


def functions(*frames: str | tuple[str, str]) -> tuple[str, ...]:
    return signature_of(stack(*frames), "app").functions


def test_addresses_and_lines_do_not_matter() -> None:
    item, other = stack("boom", "main"), stack("boom", "main", base=0x55550000)
    assert signature_of(item, "app") == signature_of(other, "app")
    assert len(signature_of(item, "app").text) == 12
    assert signature_of(item, "app").text != signature_of(item, "app2").text
    assert signature_of(item, "app").text != signature_of(stack("bang", "main"), "app").text


def test_frames_of_the_runtime_and_of_reporting_are_left_out() -> None:
    runtime = [("__pthread_kill_implementation", LIBC), ("raise", LIBC), ("abort", LIBC)]
    assert functions(*runtime, "die", ("qsort", LIBC), "main", ("__libc_start_main", LIBC), "_start") == ("die", "main")
    assert functions("__GI_raise", "__GI_abort", "__assert_fail", "check", "main") == ("check", "main")  # static
    assert functions("rust_panic", "core::panicking::panic_fmt", "app::run", "main") == ("app::run", "main")
    assert functions("runtime.raise", "runtime.sigpanic", "main.boom", "main.main", "runtime.main") == (
        "main.boom", "main.main",
    )  # fmt: skip
    assert functions(("std::terminate()", "/usr/lib/libstdc++.so.6"), "f()", "main") == ("f()", "main")


def test_frames_of_libraries_with_similar_names_are_kept() -> None:
    assert functions(("encode", "/opt/libcodec.so.1"), ("abort_all", APP)) == ("encode", "abort_all")


def test_what_compilers_append_to_names_is_removed() -> None:
    names = ("parse.isra.0", "read.part.1.cold", "app::run::h0123456789abcdef", "go [clone .cold]")
    assert functions(*names) == ("parse", "read", "app::run", "go")
    assert functions("_ZN3app3runE", "main") == ("app::run", "main")


def test_the_depth_of_a_recursion_does_not_matter() -> None:
    assert functions(*["deep"] * 9, "main") == functions(*["deep"] * 40, "main") == ("deep", "main")


def test_inlined_functions_count_as_if_they_were_not_inlined() -> None:
    assert functions("boom+inlined", "main") == functions("boom", "inlined", "main")


def test_at_most_five_functions_count() -> None:
    assert functions(*"abcdefgh") == tuple("abcde")


def test_a_crash_in_the_runtime_alone_has_the_runtimes_functions() -> None:
    assert functions(("memcpy", LIBC), ("", APP)) == ("memcpy",)


def test_without_names_the_signal_counts() -> None:
    segv, abort = (signature_of(stack("", signal=number), "app") for number in (11, 6))
    assert segv.functions == abort.functions == ()
    assert segv.text != abort.text


def test_a_hostile_name_costs_little() -> None:
    assert functions("f" + ".isra.0" * 20_000 + "!") != ()
