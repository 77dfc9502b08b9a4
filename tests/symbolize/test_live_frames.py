"""Live processes of ours, named by the real readers."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import numpy
import pytest

from tests.helpers.fakes import only
from tests.helpers.live import compiled, may_unshare, python, running
from whence.procmap import Kind, Resolver
from whence.symbolize import Process, Reason, Symbolizer


@pytest.mark.parametrize("options", [("-pie", "-fPIE", "-Wl,-z,noseparate-code"), ("-no-pie", "-fno-pie")])
def test_functions_have_their_names_and_lines(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = compiled(tmp_path, *options)
    with running([path]) as (pid, words), Symbolizer() as symbolizer:
        marker, other = (int(word, 16) for word in words)
        answers = symbolizer.symbolize(pid, [marker, other, marker, 0x10])
        assert [a.frames[0].function if a.frames else a.reason for a in answers] == [
            "marker",
            "other",
            "marker",
            Reason.UNMAPPED,
        ]
        assert answers[0].frames[0].file.endswith("program.c")
        assert [answer.frames[0].line for answer in answers[:2]] == [3, 4]
        snapshot = Process(pid).snapshot()
    with Symbolizer() as later:  # the process is gone
        assert [answer.frames for answer in later.symbolize(snapshot, [marker, other])] == [
            answer.frames for answer in answers[:2]
        ]


def test_a_deleted_program_is_still_named(tmp_path: Path) -> None:
    path = compiled(tmp_path)
    with running([path]) as (pid, words), Symbolizer() as symbolizer:
        path.unlink()
        answer = only(symbolizer, pid, int(words[0], 16))
        assert answer.frames[0].function == "marker"
        assert answer.mapping is not None
        assert answer.mapping.kind is Kind.DELETED


@pytest.mark.skipif(not may_unshare(), reason="mount namespaces are not allowed here")
def test_a_program_in_another_mount_namespace_is_named(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = f"mount -t tmpfs none {hidden} && cp {compiled(tmp_path)} {hidden}/inside && exec {hidden}/inside"
    with running(["unshare", "-m", "sh", "-c", script]) as (pid, words), Symbolizer() as symbolizer:
        if not words:
            pytest.skip("mounting a tmpfs is not allowed here")
        assert only(symbolizer, pid, int(words[0], 16)).frames[0].function == "marker"


def test_the_vdso_is_named_from_memory() -> None:
    with Symbolizer() as symbolizer:
        vdso = [mapping for mapping in symbolizer.resolver.mappings(os.getpid()) if mapping.kind is Kind.VDSO]
        if not vdso:
            pytest.skip("this process has no vDSO")
        answers = symbolizer.symbolize(os.getpid(), range(vdso[0].start, vdso[0].limit, 16))
        names = {answer.frames[0].function for answer in answers if answer.frames}
        assert any("clock_gettime" in name for name in names)
        assert all(answer.reason in (None, Reason.NO_DEBUG_FILE, Reason.OUTSIDE_SEGMENTS) for answer in answers)


def test_generated_code_has_the_name_its_process_wrote_down() -> None:
    code = (
        "import ctypes, mmap, os; m = mmap.mmap(-1, 4096, prot=7);"
        "a = ctypes.addressof(ctypes.c_char.from_buffer(m)); path = f'/tmp/perf-{os.getpid()}.map';"
        "open(path, 'w').write(f'{a + 16:x} 20 py::generated <file.py>\\n'); print(hex(a), path)"
    )
    with running(python(code)) as (pid, words), Symbolizer() as symbolizer:
        address, perf_map = int(words[0], 16), words[1]
        try:
            named, not_named = symbolizer.symbolize(pid, [address + 16, address])
            assert (named.frames[0].function, named.frames[0].source) == ("py::generated <file.py>", "perfmap")
            assert not_named.reason is Reason.NOT_FILE_BACKED
            assert not_named.mapping is not None
            assert not_named.mapping.kind is Kind.ANONYMOUS
        finally:
            os.unlink(perf_map)


@pytest.mark.skipif(not may_unshare(), reason="namespaces are not allowed here")
def test_a_perf_map_is_found_in_the_processs_own_tmp_under_its_own_pid() -> None:
    code = (
        "import ctypes, mmap, os, sys; m = mmap.mmap(-1, 4096, prot=7);"
        "a = ctypes.addressof(ctypes.c_char.from_buffer(m)); path = f'/tmp/perf-{os.getpid()}.map';"
        "open(path, 'w').write(f'{a:x} 20 inside\\n'); print(hex(a), path, flush=True); sys.stdin.read()"
    )
    script = 'mount -t tmpfs none /tmp && exec "$0" -c "$1"'
    with running(["unshare", "-fpm", "--kill-child", "sh", "-c", script, sys.executable, code]) as (outer, words):
        if not words:
            pytest.skip("pid namespaces or mounting a tmpfs are not allowed here")
        assert words[1] == "/tmp/perf-1.map"
        (inner,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        with Symbolizer() as symbolizer:
            assert only(symbolizer, int(inner), int(words[0], 16)).frames[0].function == "inside"


def test_a_batch_over_every_process_never_fails() -> None:
    with Symbolizer() as symbolizer, Resolver() as resolver:
        requests = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                requests += [(int(name), mapping.start + 64) for mapping in resolver.mappings(int(name))[:3]]
        address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
        assert address is not None
        requests = [*requests[:60], (os.getpid(), address), (1 << 22, 0x1000)]
        answers = symbolizer.symbolize_many(requests)
    assert [answer.address for answer in answers] == [address for _, address in requests]
    assert answers[-2].frames[0].function == "Py_GetVersion"
    assert answers[-1].reason is Reason.NO_SUCH_PROCESS
    assert all(bool(answer.frames) != bool(answer.reason) for answer in answers)


def test_addresses_of_numpy_are_integers_like_others() -> None:
    address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    assert address is not None
    with Symbolizer() as symbolizer:
        for kind in ("u8", "i8"):
            asked = numpy.array([address, 0], kind)
            for back in (False, True):
                result = symbolizer.symbolize(os.getpid(), asked, return_address=back)
                assert [type(answer.address) for answer in result] == [int, int]
                assert result == symbolizer.symbolize(os.getpid(), [address, 0], return_address=back)
        for wrong in ("5", 5.0):
            with pytest.raises(TypeError, match="integer"):
                only(symbolizer, os.getpid(), wrong)  # type: ignore[arg-type]
