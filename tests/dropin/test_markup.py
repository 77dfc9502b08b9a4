"""`llvm-symbolizer --filter-markup`: text with LLVM's symbolizer markup in it."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from whence.dropin.llvm_symbolizer import settings_of
from whence.dropin.markup import MarkupFilter
from whence.dropin.symbolizer_protocol import SymbolizerResponder
from whence.objects.elf import ElfFile

SOURCE = """namespace app {
struct Box { int v; };
static inline __attribute__((always_inline)) int poke(char *p, int n) { return p[n] * 2; }
__attribute__((noinline)) int write_past(Box &b, int n) { return poke((char *)&b, n) + 1; }
}
int counter = 3;
int main(int c, char **v) { app::Box b{c}; return app::write_past(b, c) + counter; }
"""
LOG = """start
{{{{{{module:0:app:elf:{build_id}}}}}}}
{{{{{{mmap:0x10000:0x2000:load:0:rx:0x0}}}}}} dropped
{{{{{{mmap:0x13000:0x2000:load:0:rw:0x3000}}}}}}
plain
{{{{{{bt:0:{function:#x}:pc}}}}}}
before {{{{{{bt:12:{later:#x}}}}}}} after
pc is {{{{{{pc:{function:#x}}}}}}} end
data {{{{{{data:{counter:#x}}}}}}}
sym {{{{{{symbol:_ZN3app10write_pastERNS_3BoxEi}}}}}} {{{{{{symbol:plain}}}}}}
{{{{{{bt:2:0x999}}}}}} {{{{{{unknown:tag}}}}}}
x {{{{{{bt:zz}}}}}} y {{{{{{pc:0x10:zz}}}}}}
{{{{{{module:0:again:elf:aa}}}}}}
{{{{{{mmap:0x10000:0x1000:load:0:rx:0x0}}}}}}
{{{{{{mmap:0x30000:0x1000:load:7:rx:0x0}}}}}}
\033[1mbold\033[0m \033[38;5;1mkept
end {{{{{{reset}}}}}} of it
{{{{{{pc:{function:#x}}}}}}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Make a debug directory with the program, and a log of the program."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("markup")
    (folder / "app.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-g", "-O2", "-Wl,--build-id", "app.cpp", "-o", "app"], cwd=folder, check=True)
    with ElfFile.open(folder / "app") as elf:
        symbols = elf.symbols(".symtab")
        build_id = elf.build_id
        function = symbols.value[symbols.find("_ZN3app10write_pastERNS_3BoxEi") or 0] + 0x10000
        counter = symbols.value[symbols.find("counter") or 0] + 0x10000
    target = folder / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    target.parent.mkdir(parents=True)
    shutil.copy(folder / "app", target)
    return folder, LOG.format(build_id=build_id, function=function, later=function + 5, counter=counter)


def filtered(folder: Path, text: str) -> str:
    markup = MarkupFilter(SymbolizerResponder(settings_of("llvm-symbolizer-19", [f"--debug-file-directory={folder}"])))
    return "".join(markup.line(line) for line in text.splitlines()) + markup.finish()


def test_markup_becomes_names(program: tuple[Path, str], capfd: pytest.CaptureFixture[str]) -> None:
    folder, log = program
    lines = filtered(folder, log).splitlines()
    assert lines[0] == "start"
    assert lines[1].startswith('[[[ELF module #0x0 "app"; BuildID=')
    assert lines[1].endswith(" [0x10000-0x11fff](rx),[0x13000-0x14fff](rw)]]]")
    assert lines[2] == "plain"
    assert lines[3].startswith("    #0.1  0x00000000000")
    assert f"poke {folder}/app.cpp:3:" in lines[3]
    assert lines[4].startswith("    #0    0x00000000000")
    assert f"app::write_past(app::Box&, int) {folder}/app.cpp:4:" in lines[4]
    assert lines[5].startswith("before    #12.1  0x")
    assert lines[6].endswith(" after")
    assert lines[7] == f"pc is app::write_past(app::Box&, int)[{folder}/app.cpp:3] end"
    assert lines[8:] == [
        "data counter",
        "sym app::write_past(app::Box&, int) plain",
        "[[[bt:2:0x999]]] {{{unknown:tag}}}",
        "x  y ",
        "bold \033[38;5;1mkept",
        "end [[[reset]]]",
        f"[[[pc:{log.rpartition('pc:')[2].partition('}')[0]}]]]",
    ]
    faults = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert faults == [
        "error: no mmap covers address",
        "error: expected at least 2 field(s); found 1",
        "error: expected PC type; found 'zz'",
        "error: duplicate module ID",
        "error: overlapping mmap: #0x0 [0x10000-0x11fff]",
        "error: unknown module ID",
        "error: no mmap covers address",
    ]


def test_markup_has_the_output_of_llvm_symbolizer(program: tuple[Path, str]) -> None:
    theirs = next((tool for tool in ("llvm-symbolizer-19",) if shutil.which(tool)), None)
    if theirs is None:
        pytest.skip("llvm-symbolizer-19 is not installed")
    folder, log = program
    command = [theirs, "--filter-markup", f"--debug-file-directory={folder}"]
    told = subprocess.run(command, input=log, capture_output=True, text=True, check=True)
    assert filtered(folder, log) == told.stdout


def test_lines_without_markup_are_unchanged(tmp_path: Path) -> None:
    markup = MarkupFilter(SymbolizerResponder(settings_of("llvm-symbolizer", [f"--debug-file-directory={tmp_path}"])))
    assert markup.line("a\r") == "a\r\n"
    assert markup.line("{{{ {{{bt:0") == "{{{ {{{bt:0\n"
    assert markup.line("{{{symbol:_Z1fv}}}\r") == "f()\r\n"


@pytest.mark.parametrize("line", ["{{{a:" * 13_000, "{{{" * 20_000 + "}}}", "{{{bt:0" * 9_000 + "}}}", ":" * 65_000])
def test_a_line_of_openings_is_read_in_one_pass(tmp_path: Path, line: str) -> None:
    """Splitting each of them to the end of the line would take minutes."""
    markup = MarkupFilter(SymbolizerResponder(settings_of("llvm-symbolizer", [f"--debug-file-directory={tmp_path}"])))
    began = time.process_time()
    assert markup.line(line)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("spelled", "number"),
    [("0", 0), ("0o7", 7), ("010", 8), ("0X10", 16), ("0B1", 1), (str((1 << 64) - 1), (1 << 64) - 1)]
    + [(word, None) for word in ("", "0o", "0b", "0x", "08", "0O7", "-1", str(1 << 64))],
)
def test_numbers_of_markup_are_read_as_in_questions(
    tmp_path: Path, spelled: str, number: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """A prefix without digits is reported like other invalid numbers."""
    text = filtered(tmp_path, f"{{{{{{module:{spelled}:a:elf:ab}}}}}}\n")
    if number is None:
        assert text == ""
        assert f"expected module ID; found '{spelled}'" in capfd.readouterr().err
    else:
        assert text == f'[[[ELF module #{number:#x} "a"; BuildID=ab]]]\n'
