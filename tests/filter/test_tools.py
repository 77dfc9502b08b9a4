"""Forms of tools that are not installed, as their sources print them, over real programs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers.drop_ins import tool
from tests.helpers.functions import place_of
from tests.helpers.programs import compiled
from whence.filter import LogFilter, Places
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile

SPACE = """
extern "C" __attribute__((noinline, noipa)) int other(int a) { return a * 7; }
namespace app {
struct Box { int at(int, long); };
__attribute__((noinline)) int Box::at(int a, long b) { return other(a) * 3 + (int)b; }
template <typename T> __attribute__((noinline)) T twice(T a) { return other(a) * 2 + 1; }
}
int main(int c, char **v) { app::Box box; return box.at(c, 2) + app::twice<int>(c); }
"""
AT = "_ZN3app3Box2atEil"
TWICE = "_ZN3app5twiceIiEET_S1_"


def after_call(path: Path, function: str) -> tuple[int, int]:
    """Return the address after the first call in a function: the vaddr, and the offset in the function."""
    text = subprocess.run([tool("objdump"), "-d", path], capture_output=True, check=True, text=True).stdout
    start = rf"^([0-9a-f]+) <{re.escape(function)}>:\n"
    result = re.search(start + r"(?:.+\n)*?.*\tcall.*\n *([0-9a-f]+):", text, re.MULTILINE)
    assert result
    return int(result[2], 16), int(result[2], 16) - int(result[1], 16)


def filtered(text: bytes, *files: Path) -> bytes:
    with Places(Locator(files=files)) as places:
        log = LogFilter(places)
        named = log.feed(text) + log.finish()
        again = LogFilter(places)
        assert again.feed(named) + again.finish() == named
        return named


def built_id(path: Path) -> str:
    with ElfFile.open(path) as elf:
        return elf.build_id


def test_frames_of_systemd_coredump_are_found_in_the_program_it_lists() -> None:
    """Frames have only file names, and function names where there are symbols."""
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    with ElfFile.open(program) as elf:
        first = min(segment.vaddr for segment in elf.segments if segment.type == 1)
    frames = (
        "                Stack trace of thread 4242:\n"
        f"                #0  0x{start:016x} n/a ({program.name} + {start - first:#x})\n"
        f"                #1  0x{start + size:016x} sum ({program.name} + {start + size - first:#x})\n"
        "                #2  0x0000000000000000 n/a (n/a + 0x0)\n"
        "                ELF object binary architecture: AMD x86-64\n"
    )
    named = filtered(f"           PID: 4242 (app)\n    Executable: {program}\n{frames}".encode())
    assert len(re.findall(rb" \+ 0x[0-9a-f]+\) in sum at \S*program\.c:\d+\n", named)) == 2
    assert filtered(frames.encode()) == frames.encode()
    build_id = built_id(program)
    for words in (f"Module {program} with build-id {build_id}", f"Found module {program} with build-id: {build_id}"):
        assert filtered(f"                {words}\n{frames}".encode()).count(b" in sum at ") == 2
    other = f"                Module {program} with build-id {'ab' * 20}\n{frames}".encode()
    assert filtered(other) == other


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("space")
    (folder / "s.cpp").write_text(SPACE)
    subprocess.run([tool("g++"), "-g", "-O1", "-rdynamic", "s.cpp", "-o", "libspace.so"], cwd=folder, check=True)
    return folder / "libspace.so"


def test_frames_of_pytorch_are_named_by_readable_symbols_or_offsets_in_their_files(library: Path) -> None:
    offset, into = after_call(library, AT)
    _, into_twice = after_call(library, TWICE)
    frames = [
        (f"app::Box::at(int, long) + {into:#x}", "app::Box::at(int, long)", 5),
        (f"int app::twice<int>(int) + {into_twice:#x}", "int app::twice<int>(int)", 6),
        (f"<unknown function> + {offset:#x}", "app::Box::at(int, long)", 5),
        (f"+ {offset:#x}", "app::Box::at(int, long)", 5),
        ("app::gone(int) + 0x12", "", 0),
    ]
    text = "Exception raised from at at s.cpp:5 (most recent call first):\n"
    for number, (words, _, _) in enumerate(frames):
        text += f"frame #{number}: {words} (0x7f1200000000 in {library})\n"
    for (_, function, line), named in zip(frames, filtered(text.encode()).decode().splitlines()[1:], strict=True):
        if function:
            assert f"{library}) in {function} at {library.with_name('s.cpp')}:{line}" in named
        else:
            assert named.endswith(f"{library})")


def test_the_c_stack_of_pythons_faulthandler_is_named(library: Path) -> None:
    offset, into = after_call(library, AT)
    text = (
        "Current thread's C stack trace (most recent call first):\n"
        f'  Binary file "{library}", at {AT}+{into:#x} [0x7f1200001000]\n'
        f'  Binary file "{library}", at +{offset:#x} [0x7f1200001000]\n'
        "  Binary file '<unknown>' [0x7f1200000000]\n"
    ).encode()
    named = filtered(text)
    assert len(re.findall(rb"\] in app::Box::at\(int, long\) at \S+s\.cpp:5\n", named)) == 2
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    assert b"] in sum at " in filtered(b'  Binary file "%s" [0x%x]\n' % (bytes(program), start + size))


def test_a_frame_that_has_a_function_but_no_line_gets_its_line(library: Path) -> None:
    offset, _ = place_of(library, AT)
    line = f"    #3 0x7f1200001234 in app::Box::at(int, long) ({library}+{offset:#x}) (BuildId: {built_id(library)})\n"
    assert re.search(rb"#3 0x7f1200001234 in app::Box::at\(int, long\) \S*s\.cpp:5\n$", filtered(line.encode()))
    bare = library.with_name("bare.so")
    subprocess.run(["objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", library, bare], check=True)
    line = f"    #3 0x7f1200001234 in app::Box::at(int, long) ({bare}+{offset:#x})\n"
    assert filtered(line.encode()) == line.encode()


@pytest.mark.parametrize("where", ["", " (deleted)", " (offset 0x1000)"])
def test_frames_of_android_are_named_by_a_given_library_of_the_build_id(where: str, library: Path) -> None:
    offset, _ = place_of(library, AT)
    text = (
        f"      #00 pc {offset:016x}  /data/app/~~x==/app-y==/base.apk!libother.so{where} (app::Box::at(int, long)+4)"
        f" (BuildId: {built_id(library)})\n"
    )
    assert b" in app::Box::at(int, long) at " in filtered(("F DEBUG   : " + text).encode(), library)


def test_a_line_of_v8_or_of_static_glibc_may_start_with_blanks() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    for before in (b"", b" ", b"    "):
        assert b"] in sum at " in filtered(before + b"[0x%x]\n" % (start + size), program)


def test_native_frames_of_node_are_runtime_return_addresses() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    frames = b" 1: 0x%x  [%s]\n10: 0x%x v8::f(int, char [4])::operator[](int) [%s]\n" % (
        start + size,
        bytes(program),
        start + size,
        bytes(program),
    )
    assert filtered(frames).count(b"] in sum at ") == 2
    other = frames.replace(bytes(program), bytes(compiled()))
    assert filtered(other) == other  # it may be loaded anywhere


def test_addresses_of_seastar_are_named_in_each_of_its_layouts() -> None:
    program = compiled("-no-pie")
    start, _ = place_of(program, "sum")
    for text in (
        b"ERROR 2026 [shard 0] seastar - Failed to allocate 4096 bytes at: 0x%x 0x%x\n",
        b"Reactor stalled for 33 ms on shard 0, in task quota violation. Backtrace: 0x%x 0x%x\n",
        b"WARN [shard 1] seastar - Exceptional future ignored: std::bad_alloc, backtrace:   0x%x 0x%x\n",
    ):
        assert filtered(text % (start, start), program).count(b" in sum at ") == 2


def test_names_that_a_log_has_already_are_not_repeated(library: Path) -> None:
    bare = library.with_name("stripped.so")
    subprocess.run(["objcopy", "--strip-debug", library, bare], check=True)
    _, into = after_call(library, "main")
    line = b"%s(main+0x%x) [0x7f1200001234]\n" % (bytes(bare), into)
    assert filtered(line) == line


@pytest.mark.parametrize("before", [b"", b"Nov 22 04:56:14 host app[123]: ", b"app-1  | "])
@pytest.mark.parametrize(
    "title",
    [
        b"redis-server *:7777",
        b"redis-server 127.0.0.1:6379 [cluster]",
        b"postgres: u d [local] SELECT",
        b"postgres: 15/main: u d 127.0.0.1(5432) idle",
    ],
)
def test_a_title_in_place_of_a_path_is_named_by_its_first_word(title: bytes, before: bytes, tmp_path: Path) -> None:
    program = tmp_path / re.split(rb"[ :]", title)[0].decode()
    program.symlink_to(compiled("-no-pie"))
    start, size = place_of(program, "sum")
    text = b"%s\t%s(+0x%x) [0x55d0e0a01162]\n%s%s(sum+0x%x)[0x55d0e0a01162]\n" % (
        before, title, start + size, before, title, size,
    )  # fmt: skip
    assert filtered(text, program).count(b"] in sum at ") == 2
    assert filtered(text, compiled()) == text
    prose = b"crash in %s(+0x%x) [0x55d0e0a01162]\n" % (program.name.encode(), start + size)
    assert b"] in sum at " in filtered(prose, program)


def test_a_report_of_redis_names_its_program_after_the_stack() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    text = (
        b"=== REDIS BUG REPORT START: Cut & paste starting from here ===\n%s *:7777(+0x%x)[0x55fb3340fe51]\n"
        b"# Server\r\nexecutable:%s\r\n=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n"
    ) % (program.name.encode(), start + size, bytes(program))
    assert b"] in sum at " in filtered(text)


def test_a_report_of_ruby_is_named_by_its_memory_map(library: Path) -> None:
    offset, _ = after_call(library, AT)
    base = 0x7FE5A6000000
    address = base + offset
    frames = b"-- C level backtrace information ----\n%s(0x%x) [0x%x]\n%s(%s+0x0) [0x%x]\n" % (
        bytes(library), address, address, bytes(library), AT.encode(), address,
    )  # fmt: skip
    maps = b"* Process memory map:\n\n%x-%x r-xp 00000000 fe:00 2171175    %s\n\n" % (
        base, base + 0x100000, bytes(library),
    )  # fmt: skip
    text = b"-e:1: [BUG] Segmentation fault at 0x00000000000064d6\n\n" + frames + maps + b"end\n"
    assert filtered(text).count(b"] in app::Box::at(int, long) at ") == 2
    with Places() as places:
        assert (
            LogFilter(places).feed(b"WARN: [BUG] unexpected state\n") == b"WARN: [BUG] unexpected state\n"
        )  # not held back
    assert filtered(frames).count(b"] in app::Box::at(int, long) at ") == 1  # the other one has no offset


def test_symbols_of_backtraces_may_be_readable(library: Path) -> None:
    """MySQL writes them after the path, Ceph without it, Xorg and DPDK after a blank."""
    offset, into = after_call(library, AT)
    _, into_main = after_call(library, "main")
    path = bytes(library)
    name = b"] in app::Box::at(int, long) at "
    assert name in filtered(b"%s(app::Box::at(int, long)+0x%x) [0x1f5b8d1]\n" % (path, into))
    assert name in filtered(b"(EE) 3: %s (%s+0x%x) [0x55d0e0a01162]\n" % (path, AT.encode(), into))
    assert name in filtered(b"2: %s (+0x%x) [55d0e0a01162]\n" % (path, offset))
    ceph = b" 3: (app::Box::at(int, long)+0x%x) [0x55d0e0a01162]\n 4: (main()+0x%x) [0x55d0e0a02000]\n" % (
        into,
        into_main,
    )
    assert len(re.findall(rb"\] in (?:app::Box::at\(int, long\)|main) at ", filtered(ceph, library))) == 2
    unknown = b" 1: (()+0x12dd0) [0x7f8c]\n(EE) 1: %s (?+0x0) [0x55d0e0a01175]\n" % path
    assert filtered(unknown, library) == unknown


def test_functions_that_a_fuzzer_reaches_are_named(library: Path) -> None:
    offset, _ = place_of(library, AT)
    location = f"0x55d0e0a01162  ({library}+{offset:#x})"
    text = f"\tNEW_FUNC[1/3]: {location} (BuildId: {built_id(library)})\n\tNEW_PC: {location}\n"
    assert (
        len(re.findall(rb": 0x55d0e0a01162 in app::Box::at\(int, long\) \S+s\.cpp:5\n", filtered(text.encode()))) == 2
    )
