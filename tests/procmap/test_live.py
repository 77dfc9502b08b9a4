"""Live processes: the kernel's answers, the text of maps and the ELF files agree."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.live import compiled, may_read_map_files, may_unshare, python, running, until
from whence.objects.elf import ElfFile
from whence.procmap import AddressMapper, Kind, Mapping, Resolver, read_build_id
from whence.procmap.query import MapsQuery
from whence.procmap.threads import threads
from whence.procmap.vdso import read_vdso

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
SLEEP = shutil.which("sleep") or "/bin/sleep"


def vaddr_of_symbol(path: Path, name: str) -> int:
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        return next(symbols.value[i] for i in range(len(symbols.value)) if symbols.name(i) in (name, name.encode()))


def need_query() -> None:
    with MapsQuery("/proc/self") as query:
        if not query.supported():
            pytest.skip("this kernel has no PROCMAP_QUERY (Linux 6.11)")


@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        ("-pie", "-fPIE"),
        ("-pie", "-fPIE", "-Wl,-z,noseparate-code", "-Wl,-Ttext-segment=0x200000"),
        ("-no-pie", "-fno-pie"),
        ("-no-pie", "-fno-pie", "-static"),
    ],
    ids=["pie", "pie-moved", "non-pie", "static"],
)
def test_a_function_is_found_where_it_runs(tmp_path: Path, options: tuple[str, ...], query: bool) -> None:
    path = compiled(tmp_path, *options)
    expected = vaddr_of_symbol(path, "marker")
    with running([path]) as (pid, words), Resolver(query=query) as resolver:
        runtime = int(words[0], 16)
        mapping = resolver.lookup(pid, runtime)
        assert mapping is not None
        assert (mapping.path, mapping.build_id, mapping.kind) == (str(path), read_build_id(path), Kind.FILE)
        mapper = AddressMapper(mapping.openable_path())
        assert mapper.vaddr(mapping, runtime) == expected
        assert mapper.runtime(mapping, expected) == runtime


TWO_SEGMENTS = """
PHDRS { one PT_LOAD FLAGS(5); two PT_LOAD FLAGS(5); }
SECTIONS {
  . = 0x400000 + SIZEOF_HEADERS;
  .text : { *(.text) } :one
  . = . + 0x10000;
  .text2 : { *(.text2) } :two
  .rest : { *(.rodata*) *(.data*) *(.eh_frame*) } :two
  /DISCARD/ : { *(.note*) *(.comment) }
}
"""
TWO_SOURCE = r"""
static long call(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
__attribute__((noinline, section(".text2"))) long second(long x) { return x * 7 + 3; }
__attribute__((used)) static const char padding[PADDING + 1] = {1};
void _start(void) {
    char c;
    call(1, 1, (long)"ready\n", 6);
    call(0, 0, (long)&c, 1);
    call(60, second(0), 0, 0);
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the test program is x86-64's")
@pytest.mark.parametrize("padding", [0, 6000])
def test_two_executable_segments_on_one_page_are_distinguished(tmp_path: Path, padding: int) -> None:
    (tmp_path / "script").write_text(TWO_SEGMENTS)
    options = ("-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none")
    path = compiled(
        tmp_path,
        *options,
        f"-DPADDING={padding}",
        f"-Wl,-T,{tmp_path}/script",
        "-Wl,--build-id=none",
        source=TWO_SOURCE,
    )
    mapper = AddressMapper(path)
    first, second = mapper.segments
    assert first.file_end // 4096 == second.file_offset // 4096, "the segments share a page of the file"
    with running([path]) as (pid, _), Resolver() as resolver:
        ours = [mapping for mapping in resolver.mappings(pid) if mapping.path == str(path)]
        assert len(ours) == 2
        for name in ("_start", "second"):
            expected = vaddr_of_symbol(path, name)
            mapping = resolver.lookup(pid, expected)  # not relocated: runtime addresses are vaddrs
            assert mapping is not None
            assert mapper.vaddr(mapping, expected) == expected
        for mapping in ours:
            for runtime in range(mapping.start, mapping.limit, 97):
                own = any(s.vaddr <= runtime < s.vaddr + s.file_size for s in mapper.segments)
                if own or padding:  # of two mappings of the very same bytes, nothing tells whose the padding is
                    assert mapper.vaddr(mapping, runtime) == runtime


def test_query_and_text_agree_for_every_process() -> None:
    need_query()

    def agree(pid: int) -> bool:
        """Whether they do of a process that does not change meanwhile, or that is gone or not to be read."""
        with Resolver(query=True) as asking, Resolver(query=False) as reading:
            try:
                before = reading.require(pid)
                asked = asking.require(pid)
                single = []
                for mapping in before[:20]:
                    asking.invalidate(pid)
                    single += [asking.find(pid, mapping.start), asking.find(pid, mapping.limit - 1)]
                reading.invalidate(pid)
                after = reading.require(pid)
            except OSError:
                return True
            if before != after:
                return True
            return asked == before and single == [mapping for mapping in before[:20] for _ in range(2)]

    with running([sys.executable, "-c", "print('ready', flush=True); input()"]) as (waiting, _):
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[-40:]
        with Resolver(query=True) as asking:
            assert asking.require(waiting)
        assert agree(waiting)
        for pid in pids:  # what is mapped for a moment, and gone again, is seen by one of them alone
            assert any(agree(pid) for _ in range(5)), pid


def test_a_dlopened_library_is_found_with_and_without_invalidation(tmp_path: Path) -> None:
    library = compiled(tmp_path, "-shared", "-fPIC", source="int answer(void) { return 42; }", name="lib with space.so")
    code = (
        "import ctypes, sys; print('ready', flush=True); sys.stdin.readline();"
        f"lib = ctypes.CDLL({str(library)!r}); print(ctypes.cast(lib.answer, ctypes.c_void_p).value, flush=True)"
    )
    child = subprocess.Popen(python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        for query in (True, False):
            with Resolver(query=query) as resolver:
                assert all(mapping.path != str(library) for mapping in resolver.mappings(child.pid))
                if not query:
                    continue
                child.stdin.write("\n")
                child.stdin.flush()
                runtime = int(child.stdout.readline())
                mapping = resolver.lookup(child.pid, runtime)
                assert mapping is not None
                assert mapping.path == str(library)
                assert AddressMapper(library).vaddr(mapping, runtime) == vaddr_of_symbol(library, "answer")
                break
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()


@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_deleted_executable_keeps_its_own_build_id(tmp_path: Path, replaced: bool, query: bool) -> None:
    old = compiled(tmp_path)
    new = compiled(tmp_path, source=PROGRAM_2, name="new")
    expected, other = read_build_id(old), read_build_id(new)
    if not expected or expected == other:
        pytest.skip("this compiler writes no build-ids")
    vaddr = vaddr_of_symbol(old, "marker")
    with running([old]) as (pid, words), Resolver(query=query) as resolver:
        if replaced:
            new.rename(old)
        else:
            old.unlink()
        mapping = resolver.lookup(pid, int(words[0], 16))
        assert mapping is not None
        assert (mapping.path, mapping.kind, mapping.deleted) == (str(old), Kind.DELETED, True)
        assert mapping.build_id == expected
        assert AddressMapper(mapping.openable_path()).vaddr(mapping, int(words[0], 16)) == vaddr
        unlinked = mapping._replace(linked=False)  # without the right to map_files there is still /proc/PID/exe
        assert read_build_id(unlinked.openable_path()) == expected


PROGRAM_2 = "int main(void) { return 7; }"


@pytest.mark.skipif(not may_unshare(), reason="mount namespaces are not allowed here")
def test_a_process_in_another_mount_namespace_is_read_through_its_root(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    program = compiled(tmp_path)
    script = f"mount -t tmpfs none {hidden} && cp {program} {hidden}/inside && exec {hidden}/inside"
    with running(["unshare", "-m", "sh", "-c", script]) as (pid, words):
        if not words:
            pytest.skip("mounting a tmpfs is not allowed here")
        with Resolver(query=False) as resolver:
            mapping = resolver.lookup(pid, int(words[0], 16))
        assert mapping is not None
        assert mapping.path == f"{hidden}/inside"
        assert not os.path.exists(mapping.path)
        assert mapping.build_id == read_build_id(program)
        without_links = mapping._replace(linked=False)
        assert without_links.openable_path() == f"/proc/{pid}/root{hidden}/inside"
        (hidden / "inside").write_bytes(Path(SLEEP).read_bytes())  # ours, by the same name, is not taken for theirs
        assert without_links.openable_path() == f"/proc/{pid}/root{hidden}/inside"


def test_exec_is_noticed_by_the_same_pid(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    code = f"import os, sys; print('ready', flush=True); sys.stdin.readline(); os.execv({str(program)!r}, ['x'])"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdout.readline()
        with Resolver(recheck=0) as resolver:
            assert all(mapping.path != str(program) for mapping in resolver.mappings(child.pid))
            child.stdin.write("\n")
            child.stdin.flush()
            child.stdout.readline()
            assert any(mapping.path == str(program) for mapping in resolver.mappings(child.pid))
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()


def test_a_program_in_a_memfd_is_opened(tmp_path: Path) -> None:
    if not may_read_map_files():
        pytest.skip("needs the right to map_files")
    program = compiled(tmp_path)
    code = (
        "import os; f = os.memfd_create('inside', 0);"
        f"os.write(f, open({str(program)!r}, 'rb').read()); os.execv(f'/proc/self/fd/{{f}}', ['x'])"
    )
    with running([sys.executable, "-c", code]) as (pid, words), Resolver() as resolver:
        mapping = resolver.lookup(pid, int(words[0], 16))
        assert mapping is not None
        assert (mapping.kind, mapping.path) == (Kind.MEMFD, "/memfd:inside")
        assert mapping.build_id == read_build_id(program)


def test_the_vdso_is_an_elf_file_in_memory() -> None:
    with Resolver() as resolver:
        vdso = [mapping for mapping in resolver.mappings(os.getpid()) if mapping.kind is Kind.VDSO]
    if not vdso:
        pytest.skip("this process has no vDSO")
    elf = ElfFile.from_bytes(read_vdso(vdso[0]), "[vdso]")
    mapper = AddressMapper.from_elf(elf)
    symbols = elf.symbols(".dynsym")
    value = next(symbols.value[i] for i in range(len(symbols.value)) if symbols.value[i])
    assert mapper.vaddr(vdso[0], vdso[0].start + value) == value
    unreadable = vdso[0]._replace(process="/proc/0")
    assert read_vdso(unreadable) == read_vdso(vdso[0])


def test_the_program_counter_of_each_waiting_thread_is_known() -> None:
    code = (
        "import threading, time; [threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in 'ab']"
    )
    with running(python(code + "; print('ready')")) as (pid, _), Resolver() as resolver:
        assert until(lambda: all(thread.state == "S" for thread in threads(f"/proc/{pid}")))
        result = threads(f"/proc/{pid}")
        assert len(result) == 3
        for thread in result:
            if thread.pc is None:
                pytest.skip("this kernel tells no pcs of threads")
            mapping = resolver.lookup(pid, thread.pc)
            assert mapping is not None
            assert thread.syscall is not None
        assert [thread.tid for thread in result] == sorted(thread.tid for thread in result)


def test_one_address_of_a_new_process_does_not_read_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    need_query()
    from whence.procmap import maps

    def never(process: str) -> bytes:
        raise AssertionError(f"the maps of {process} were read")

    monkeypatch.setattr(maps, "read", never)
    address = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    assert address is not None
    with Resolver() as resolver:
        mapping: Mapping | None = resolver.lookup(os.getpid(), address)
        assert mapping is not None
        assert resolver.lookup(os.getpid(), address) is mapping
        assert resolver.lookup(os.getpid(), 0x10) is None


@pytest.mark.parametrize("query", [True, False])
def test_a_process_that_has_ended_has_no_mappings(tmp_path: Path, query: bool) -> None:
    child = subprocess.Popen([SLEEP, "60"])
    try:
        with Resolver(recheck=0, query=query) as resolver:
            assert until(lambda: bool(resolver.require(child.pid)))  # exec closes files before it maps
            start = resolver.require(child.pid)[0].start
            child.kill()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert resolver.find(child.pid, start + (1 << 40)) is None  # a zombie is there, and has no memory
            resolver.invalidate(child.pid)
            assert resolver.require(child.pid) == []
            child.wait()
            assert resolver.lookup(child.pid, start) is None
            assert resolver.mappings(child.pid) == []
            with pytest.raises(ProcessLookupError, match=f"there is no process {child.pid}"):
                resolver.require(child.pid)
    finally:
        child.kill()
        child.wait()
