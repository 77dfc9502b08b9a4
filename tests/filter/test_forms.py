"""The example of every form is named, and a filtered log stays unchanged."""

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.filter.examples import example_of
from tests.helpers.functions import place_of
from tests.helpers.programs import compiled
from whence.filter import FORMS, Form, LogFilter, Places, Style
from whence.filter.forms import ANY_ADDRESS, Holds
from whence.filter.kernels.needles import Needles
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile


def filtered(text: bytes, *binaries: Path, style: Style = Style.SAME, every: bool = False) -> bytes:
    with Places(Locator(files=binaries)) as places:
        log = LogFilter(places, style=style, every=every)
        return log.feed(text) + log.finish()


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("form", [*FORMS, ANY_ADDRESS], ids=lambda form: form.name)
def test_the_example_of_each_form_is_named_and_a_second_pass_changes_nothing(
    form: Form, style: Style, tmp_path: Path
) -> None:
    program = compiled("-no-pie")
    if form.module:
        program = Path(tmp_path / form.module.decode())
        program.symlink_to(compiled("-no-pie"))
    text = b"before\n" + example_of(form, program) + b"\nafter\n"
    every = form is ANY_ADDRESS
    named = filtered(text, program, style=style, every=every)
    assert named.startswith(b"before\n")
    assert named.endswith(b"\nafter\n")
    assert re.search(
        rb"program\.c:\d+ in sum\b" if form.innermost and style is Style.SAME else rb"\bsum\b.*program\.c", named
    )
    assert filtered(named, program, style=style, every=every) == named


def test_examples_cover_each_meaning_of_a_number() -> None:
    for form in FORMS:
        assert "address" in form.pattern.groupindex, form.name
        assert Needles(tuple(needle.text for needle in form.needles)), form.name
        assert (form.holds is Holds.SYMBOL) <= ("symbol" in form.pattern.groupindex), form.name
        numbered = any(needle.text.startswith(b"#%d") for needle in form.needles)
        assert numbered <= ("number" in form.pattern.groupindex), form.name


MARKED = (
    "heap profile",
    "Seastar, in one line",
    "Ada",
)  # their patterns are of the addresses of lines that the needle marks


@pytest.mark.parametrize(
    "form", [form for form in (*FORMS, ANY_ADDRESS) if form.name not in MARKED], ids=lambda form: form.name
)
def test_each_line_that_a_form_matches_has_one_of_its_needles(form: Form) -> None:
    """Lines of the example with parts of it taken out, doubled and overwritten by others."""
    chance = random.Random(form.name)
    example = example_of(form, compiled("-no-pie"))
    needles = Needles(tuple(needle.text for needle in form.needles))
    parts = [
        b" ",
        b"  ",
        b"#1",
        b"0x12",
        b" 0x12",
        b"\t",
        b"(",
        b")",
        b"[",
        b"]",
        b"\x1b[0m",
        b"\r",
        b"/",
        b"a",
        b"3",
        b": ",
    ]
    matched = 0
    for _ in range(1000):
        line = example
        for _ in range(chance.randrange(3)):
            start = chance.randrange(len(line) + 1)
            line = line[:start] + chance.choice(parts) + line[start + chance.choice((0, 0, 1, 2, 8)) :]
        result = form.pattern.search(line)
        if result:
            matched += 1
            assert needles.lines(line).numbers().tolist(), line
    assert matched > 100


def test_a_return_address_past_the_last_byte_of_a_function_is_the_call_in_it() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    line = b"%s() [0x%x]\n" % (bytes(program), start + size)
    assert b" in sum at " in filtered(line)


def test_lines_with_nothing_to_name_come_out_byte_for_byte() -> None:
    text = b"\xff\xfe 0xzz\n\0\x01 #0 0x12  (/a+0x1)\nRAX: 0x1 RBX: 0x2\r\n\x1b[1m#1 0x1 in f a.c:3\x1b[0m\nlast"
    assert filtered(text) == text


def test_the_size_of_the_blocks_makes_no_difference() -> None:
    program = compiled("-no-pie")
    start, _ = place_of(program, "sum")
    text = b"x\n#1 0x55  (%s+0x%x)\n\nlast #2 0x66  (%s+0x%x)" % (bytes(program), start, bytes(program), start)
    full = filtered(text)
    assert full.count(b" in sum ") == 2
    for size in (1, 7, 40):
        with Places() as places:
            log = LogFilter(places)
            parts = [log.feed(text[offset : offset + size]) for offset in range(0, len(text), size)]
            assert b"".join(parts) + log.finish() == full


def test_an_endless_line_passes_with_bounded_memory() -> None:
    with Places() as places:
        log = LogFilter(places)
        block, given, got = b"0x" * 5000, 0, 0
        for _ in range(100):
            given += len(block)
            got += len(log.feed(block))
            assert given - got <= 1 << 17
        assert got + len(log.finish()) == given


def test_another_build_id_keeps_the_line_and_counts_the_reason() -> None:
    program = compiled()
    line = b"#0 0x12  (%s+0x1139) (BuildId: 00112233)\n" % bytes(program)
    with Places() as places:
        assert LogFilter(places).feed(line) == line
        assert [reason.word for reason, _ in places.reasons] == ["build-id-mismatch"]


def test_a_report_that_lists_its_modules_at_its_end_is_named() -> None:
    program = compiled()
    start, _ = place_of(program, "sum")
    with ElfFile.open(program) as elf:
        code = next(segment for segment in elf.segments if segment.flags & 1 and segment.type == 1)
    base = 0x7F0000000000
    low = code.vaddr & -4096
    offset = code.file_offset & -4096
    text = (
        b"# A fatal error has been detected by the Java Runtime Environment:\n"
        b"Native frames: (V=VM code, C=native code)\nC  [%s+0x%x]  sum+0x0\n\nDynamic libraries:\n"
        b"%x-%x r-xp %08x 08:01 1   %s\n\nVM Arguments:\n"
    ) % (program.name.encode(), start, base, base + 0x4000, offset, bytes(program))
    assert low <= start
    assert b"sum+0x0 in sum at " in filtered(text)
    heap = b"heap profile: 1: 1 [1: 1] @ heapprofile\n 1: 1 @ 0x%x\nMAPPED_LIBRARIES:\n%x-%x r-xp %08x 08:01 1 %s\n" % (
        base + start - low + 1, base, base + 0x4000, offset, bytes(program),
    )  # fmt: skip
    assert b" in sum at " in filtered(heap)


def test_markup_is_named_by_the_modules_it_lists() -> None:
    program = compiled()
    start, _ = place_of(program, "sum")
    text = b"{{{reset}}}\n{{{module:0:%s:elf:}}}\n{{{mmap:0x7000000:0x10000:load:0:rx:0x0}}}\n{{{bt:0:0x%x:pc}}}\n" % (
        bytes(program), 0x7000000 + start,
    )  # fmt: skip
    assert b"\n#0 0x%x in sum " % (0x7000000 + start) in filtered(text)


def test_real_output_of_backtrace_symbols_is_named(tmp_path: Path) -> None:
    source = tmp_path / "bt.c"
    source.write_text(
        "#include <execinfo.h>\n__attribute__((noinline)) int here(void) { void *at[9]; int n = backtrace(at, 9);\n"
        "backtrace_symbols_fd(at, n, 1); return n; }\nint main(void) { return here() < 0; }\n"
    )
    program = tmp_path / "bt"
    subprocess.run(["gcc", "-g", "-O0", "-o", program, source], check=True)
    out = subprocess.run([program], capture_output=True, check=True).stdout
    named = filtered(out)
    assert b" in here at %s:2\n" % bytes(source) in named
    assert b" in main at %s:4\n" % bytes(source) in named


def test_a_real_report_of_a_sanitizer_is_named(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text("#include <stdlib.h>\nint main(void) { char *p = malloc(4);\nfree(p);\nreturn p[1]; }\n")
    program = tmp_path / "bad"
    subprocess.run(["gcc", "-g", "-O0", "-fsanitize=address", "-o", program, source], check=True)
    environment = {"ASAN_OPTIONS": "symbolize=0:detect_leaks=0"}
    out = subprocess.run([program], capture_output=True, check=False, env=environment).stderr
    assert b"  (%s+0x" % bytes(program) in out
    named = filtered(out)
    assert b" in main %s:4\n" % bytes(source) in named
    assert filtered(named) == named


def test_a_trimmed_path_of_a_go_panic_is_completed() -> None:
    program = compiled()
    _, size = place_of(program, "sum")
    text = b"goroutine 1 [running]:\nsum(0x1, 0x2)\n\tapp/program.c:0 +0x%x\n" % (size - 1)
    named = filtered(text, program)
    assert re.search(rb"\n\t/\S+/program\.c:\d+ \+0x", named)
    assert filtered(named, program) == named
    assert filtered(text.replace(b"app/program.c:0", b"/app/program.c:3"), program).count(b"/app/program.c:3 ") == 1


def test_a_kernel_function_is_found_in_the_module_that_its_line_names(tmp_path: Path) -> None:
    module = tmp_path / "my-driver.ko"
    module.symlink_to(compiled())
    _, size = place_of(compiled(), "sum")
    line = b"[    1.2] RIP: 0010:sum+0x0/0x%x [my_driver]\n" % size
    assert b"[my_driver] in sum at " in filtered(line, module)
    assert filtered(line.replace(b"my_driver", b"other"), module) == line.replace(b"my_driver", b"other")


def test_names_in_a_string_of_json_are_escaped(tmp_path: Path) -> None:
    source = tmp_path / 'a"b.c'
    source.write_text("int main(void) { return 0; }\n")
    program = tmp_path / "app"
    subprocess.run(["gcc", "-g", "-o", program, source], check=True)
    start, _ = place_of(program, "main")
    line = b'{"log":"#0 0x1  (%s+0x%x)\\n"}\n' % (bytes(program), start)
    assert b'a"b.c' in json.loads(filtered(line))["log"].encode()


def test_a_given_binary_with_the_right_build_id_is_preferred_to_the_path_in_the_log() -> None:
    program = compiled()
    start, _ = place_of(program, "sum")
    with ElfFile.open(program) as elf:
        build_id = elf.build_id.encode()
    line = b"#00 pc %016x  /data/app/gone.so (BuildId: %s)\n" % (start, build_id)
    assert b") in sum at " in filtered(line, program)
    assert filtered(line) == line


JAVA = """public class Crash { public static void main(String[] a) throws Exception {
var f = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe"); f.setAccessible(true);
((sun.misc.Unsafe) f.get(null)).putAddress(8, 1); } }
"""


@pytest.mark.skipif(not shutil.which("javac"), reason="no Java compiler on this machine")
def test_a_real_error_file_of_java_is_named_by_the_libraries_it_lists(tmp_path: Path) -> None:
    (tmp_path / "Crash.java").write_text(JAVA)
    log = tmp_path / "hs.log"
    command = ["java", f"-XX:ErrorFile={log}", "-XX:-CreateCoredumpOnCrash", "Crash.java"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    if not log.exists():
        pytest.skip("this Java wrote no error file")
    text = log.read_bytes()
    assert filtered(text) == text  # Java's own names say as much
    text = re.sub(rb"(\nV  \[[^\]\n]*\])  [^\n]*", rb"\1", text)
    named = filtered(text)
    assert re.search(rb"\nV  \[libjvm\.so\+0x[0-9a-f]+\] in ", named)
    assert len(named.splitlines()) == len(text.splitlines())
    assert filtered(named) == named


def test_a_line_gets_the_names_of_all_the_frames_in_it() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    frame = b"#1 0x55  (%s+0x%x)" % (bytes(program), start)
    glibc = b"%s() [0x%x]" % (bytes(program), start + size)
    for text in (frame + b" and " + frame, frame + b" then " + glibc, glibc + b" then " + frame):
        named = filtered(text + b"\n")
        assert len(re.findall(rb"\bsum\b \S*|\bsum\b at ", named)) == 2
        assert named.count(b"program.c:") == 2
        assert filtered(named) == named


def test_a_json_object_stays_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(
        "static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + 1; }\n"
        "__attribute__((noinline)) int outer(int x) { return inner(x) ^ 5; }\n"
        "int main(int c, char **v) { return outer(c); }\n"
    )
    subprocess.run(["gcc", "-g", "-O2", "-no-pie", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    start, size = place_of(tmp_path / "p", "outer")
    texts = [b'{"line": "#0 0x55  (%s+0x%x)"}\n' % (bytes(tmp_path / "p"), start + index) for index in range(size)]
    named = [filtered(text) for text in texts]
    assert any(b"inner" in text and b"outer" in text for text in named)
    for text in named:
        assert text.count(b"\n") == 1
        assert json.loads(text)
        assert filtered(text) == text


ALIASES = """__attribute__((noinline)) int inside(int x) { return x * 3; }
int outside(int) __attribute__((weak, alias("inside")));
__attribute__((noinline)) int first(int) __asm__("\\"main.gen[go.shape.int]\\"");
int first(int x) { return x + 1; }
__attribute__((noinline)) int second(int) __asm__("\\"main.gen[go.shape.string]\\"");
int second(int x) { return x + 2; }
__attribute__((noinline)) int third(int) __asm__("runtime.gopanic");
int third(int x) { return x + 3; }
__attribute__((noinline)) int fourth(int) __asm__("runtime.exit.abi0");
int fourth(int x) { return x + 4; }
int main(int c, char **v) { return outside(c) + first(c) + second(c) + third(c) + fourth(c); }
"""


@pytest.fixture(scope="module")
def aliases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aliases")
    (folder / "a.c").write_text(ALIASES)
    subprocess.run(["gcc", "-g", "-O1", "-rdynamic", "-no-pie", "a.c", "-o", "a"], cwd=folder, check=True)
    return folder / "a"


def test_an_offset_from_any_of_the_names_of_a_function_is_named(aliases: Path) -> None:
    line = b"%s(outside+0x1) [0x401234]\n" % bytes(aliases)
    assert b" in inside at %s.c:1\n" % bytes(aliases) in filtered(line)


def test_names_as_traces_of_go_print_them_are_found(aliases: Path) -> None:
    start, _ = place_of(aliases, "main.gen[go.shape.string]")
    for function, pc, line in (
        (b"panic({0x1, 0x2})", b"", 8),
        (b"runtime.exit({})", b"", 10),
        (b"main.gen[...](0x0)", b" fp=0x10 sp=0x8 pc=0x%x" % (start + 1), 6),
    ):
        text = b"goroutine 1 [running]:\n%s\n\tapp/a.go:0 +0x1%s\n" % (function, pc)
        assert b"\n\t%s.c:%d +0x1" % (bytes(aliases), line) in filtered(text, aliases)
    text = b"main.gen[...](0x0)\n\tapp/a.go:0 +0x1\n"
    assert filtered(text, aliases) == text  # one of two, and nothing says which


def test_an_entry_inside_a_function_of_assembly_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.S").write_text(
        ".text\n.globl main\n.type main, @function\nmain:\nnop\nnop\ninside:\nnop\ncall other\nret\n"
        ".size main, . - main\nother:\nret\n.section .note.GNU-stack\n"
    )
    subprocess.run(["gcc", "-g", "-no-pie", "a.S", "-o", "a"], cwd=tmp_path, check=True)
    line = b"[ 1.2]  inside+0x6/0x7\n"
    assert re.search(rb" in main at \S*a\.S:9\n$", filtered(line, tmp_path / "a"))


CLANG = shutil.which("clang-14") or shutil.which("clang")
WRONG = """#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(char *p) { return p[1]; }
__attribute__((noinline)) int use(char *p) { return inner(p) + 1; }
int main(int c, char **v) { char *p = malloc(4); free(p); int k = 0x7fffffff; k += c; return use(p) ^ k; }
"""


@pytest.mark.skipif(not CLANG, reason="no clang on this machine")
@pytest.mark.parametrize("kind", ["address", "undefined"])
def test_frames_of_a_real_report_of_clang_equal_those_of_its_symbolizer(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text(WRONG)
    command = [CLANG or "", "-g", "-O1", f"-fsanitize={kind}", "bad.c", "-o", "bad"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("this clang has no sanitizers")
    options = "symbolize=%d:detect_leaks=0:print_stacktrace=1"

    def report(symbolize: int) -> bytes:
        environment = {"ASAN_OPTIONS": options % symbolize, "UBSAN_OPTIONS": options % symbolize, "PATH": "/usr/bin"}
        return subprocess.run([tmp_path / "bad"], capture_output=True, check=False, env=environment).stderr

    own = re.findall(rb"#\d+ 0x\S+ in (\w+) %s/bad\.c:(\d+)" % bytes(tmp_path), report(1))
    if not own:
        pytest.skip("no symbolizer for this clang")
    named = filtered(report(0))
    assert re.findall(rb"#\d+ 0x\S+ in (\w+) %s/bad\.c:(\d+)\n" % bytes(tmp_path), named) == own


def test_ends_of_lines_and_escapes_of_the_terminal_stay_as_they_were() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    lines = (
        b"\x1b[1m    #0 0x55  (%s+0x%x)\x1b[0m\r\n" % (bytes(program), start),
        b"%s() [0x%x]\r\n" % (bytes(program), start + size),
        b"\x1b[31m[ 1.2]  sum+0x%x/0x%x\x1b[0m\r\n" % (size, size),
        b"   0:     0x%x - <unknown>\r\n" % (start + size),
        b"#1 0x%x <unknown>\r\n" % (start + size),
    )
    for line in lines:
        named = filtered(line, program)
        assert b"program.c:" in named
        assert named.endswith(b"\x1b[0m\r\n" if b"\x1b" in line else b"\r\n")
        assert named.startswith(line[: line.find(b"m") + 1] if b"\x1b" in line else line[:3])
        assert filtered(named, program) == named


@pytest.mark.parametrize(
    "line",
    [
        b"   1: 4 [1: 4] @ 0x5590d2e0b4c1 0x5590d2e0b502",
        b"[ 1.2]  ? do_sys_open+0x1d/0x2f0",
        b"#3 0x5590d2e0b4c1",
        b"values[0x12] = 3",
    ],
)
def test_lines_that_cannot_be_named_are_counted_once_and_then_skipped(line: bytes) -> None:
    """Thousands of such lines cost no more than the scan for needles."""
    with Places() as places:
        log = LogFilter(places)
        calls: list[int] = []
        name_line = log._namer._named_line

        def counted(text: bytes, start: int, line: bytes, present: int) -> bytes | None:
            calls.append(start)
            return name_line(text, start, line, present)

        log._namer._named_line = counted  # type: ignore[method-assign]
        text = (line + b"\n") * 5000
        assert log.feed(text) + log.feed(text) + log.finish() == text + text
        assert len(calls) <= 1100
        assert len(places.reasons) <= 1


def test_a_relative_path_of_go_with_a_line_keeps_its_bytes() -> None:
    text = b"goroutine 1 [running]:\nmain()\n\t%s +0x5\n"
    assert filtered(text % b"./pan.go:4", compiled("-O2")) == text % b"./pan.go:4"
    assert filtered(text % b"./pan.go:0", compiled("-O2")) != text % b"./pan.go:0"


CLONES = r"""__attribute__((noinline)) int plain(int) __asm__("_Z5plaini.constprop.0");
int plain(int x) { return x * 3; }
__attribute__((noinline)) int twice(int) __asm__("_Z5twicei.constprop.0.isra.1");
int twice(int x) { return x * 5; }
__attribute__((noinline)) void *interceptor(long) __asm__("___interceptor_malloc");
void *interceptor(long x) { return (void *)x; }
__attribute__((noinline)) void *older(long) __asm__("__interceptor_free");
void *older(long x) { return (void *)(x + 1); }
int main(int c, char **v) { return plain(c) + twice(c) + !interceptor(c) + !older(c); }
"""


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clones")
    (folder / "clones.c").write_text(CLONES)
    subprocess.run(["gcc", "-O1", "clones.c", "-o", "clones"], cwd=folder, check=True)
    return folder / "clones"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z5plaini.constprop.0", b"plain(int) [clone .constprop.0]"),
        ("_Z5twicei.constprop.0.isra.1", b"twice(int) [clone .constprop.0] [clone .isra.1]"),
        ("_Z5twicei.constprop.0.isra.1", b"twice(int) [clone .constprop.0.isra.1]"),
    ],
)
def test_a_clone_that_java_named_is_not_named_again(clones: Path, symbol: str, name: bytes) -> None:
    start, _ = place_of(clones, symbol)
    line = b"C  [%s+0x%x]  %s+0x1\n" % (bytes(clones), start + 1, name)
    assert filtered(line) == line
    assert b" in " in filtered(line.replace(name, b"other(int)"))


@pytest.mark.parametrize(("symbol", "name"), [("___interceptor_malloc", b"malloc"), ("__interceptor_free", b"free")])
def test_sanitizers_frames_of_interceptors_have_the_names_of_the_functions_they_replace(
    clones: Path, symbol: str, name: bytes
) -> None:
    start, _ = place_of(clones, symbol)
    location = b"%s+0x%x" % (bytes(clones), start + 1)
    assert filtered(b"    #1 0x55  (%s)\n" % location) == b"    #1 0x55 in %s (%s)\n" % (name, location)
    assert b" <null> " not in (threads := filtered(b"    #0 <null> <null> (%s)\n" % location))
    assert b"#0 %s " % name in threads
    assert b" in %s" % name in filtered(b"SUMMARY: AddressSanitizer: SEGV (%s) \n" % location)
    named = b"    #1 0x55 in %s (%s)\n" % (name, location)
    assert filtered(named) == named
    assert symbol.encode() in filtered(b"#1 0x55 (%s)\n" % location)  # of LLVM itself


def test_a_fallback_name_in_a_log_is_named_where_its_file_is_given() -> None:
    program = compiled("-no-pie")
    start, _ = place_of(program, "sum")
    name = b"%s!0x%x" % (program.name.encode(), start)
    for text in (b"top: %s 12%%\n", b"main;%s 3\n", b'{"frame": "%s"}\n'):
        named = filtered(text % name, program)
        assert named.startswith((text % name).partition(name)[0] + name + b" in sum at ")
        assert filtered(named, program) == named
        assert filtered(text % name) == text % name
    for other in (b"unknown!0x12", b"a!0x12x", b"f(!0x12)", b"!0x12", b"a!=0x12"):
        assert filtered(other, program) == other
