"""The kernel's frames: a vmlinux moved by KASLR, modules laid out by the loader, kallsyms of the same kernel only."""

from __future__ import annotations

import functools
import gzip
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.programs import folder
from whence._base.reasons import Reason
from whence.archive.create import create
from whence.cli import main
from whence.locate.names import module_of, same_name
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.profiles.binaries import Binaries
from whence.profiles.naming import name
from whence.profiles.symbol_lists import SymbolLists
from whence.samples.kernel import is_kernel
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING, Mapping, ProfileData, SampleType

TEXT = 0xFFFFFFFF81000000
SLIDE = 0x19A00000
SOURCE = """
__attribute__((section(".head"))) void startup(void) { for (;;) ; }
static inline __attribute__((always_inline)) int twice(int x) { return x + x; }
__attribute__((noinline)) int do_idle(int x) { volatile int y = twice(x); return y; }
int get_text(void) { return 1; } /* linkers keep _text as the end of this name */
__attribute__((noinline)) int vfs_read(int x) { volatile int y = x * 5; return y; }
"""
MODULE = """
__attribute__((section(".init.text"), noinline)) int init_module(void) { volatile int y = 1; return y; }
__attribute__((noinline)) int xfs_read(int x) { volatile int y = x * 3; return y; }
__attribute__((section(".text.unlikely"), noinline)) int xfs_fail(int x) { volatile int y = x * 7; return y; }
"""
KALLSYMS = """ffffffff9aa00000 T startup
ffffffff9aa00000 T _text
ffffffff9aa01000 T do_idle
ffffffff9aa01020 T vfs_read
ffffffffc0401000 t xfs_read\t[xfs]
ffffffffc0402000 t bpf_prog_6deef7357e7b4530_egress\t[bpf]
"""


def gcc(*words: str) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not on this machine")
    subprocess.run(["gcc", "-O2", "-g", "-mcmodel=kernel", "-fno-pic", *words], check=True)


@functools.cache
def vmlinux() -> Path:
    """A kernel of three functions, linked where kernels are."""
    source, out = folder() / "kernel.c", folder() / "vmlinux-9.9"
    source.write_text(SOURCE)
    places = [
        "-Wl,-Ttext=0xffffffff81001000",
        "-Wl,--section-start=.head=0xffffffff81000000",
        "-Wl,--defsym=_text=startup",
    ]
    gcc("-nostdlib", "-static", "-no-pie", "-Wl,-e,startup", *places, str(source), "-o", str(out))
    return out


@functools.cache
def module() -> Path:
    source, out = folder() / "module.c", folder() / "snd-xfs.ko"
    source.write_text(MODULE)
    gcc("-c", "-ffunction-sections", str(source), "-o", str(out))
    return out


def addresses(path: Path) -> dict[str, int]:
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        return {symbols.name(index): symbols.value[index] for index in range(len(symbols))}


def of_kernel(mapping: Mapping, *runtime: int) -> ProfileData:
    profile = ProfileData([SampleType("samples", "count")], [mapping])
    for address in runtime:
        profile.samples.add([profile.location(0, address)], [1])
    return profile


def functions(profile: ProfileData, **options: object) -> list[str]:
    lists = options.pop("symbol_lists", None) or SymbolLists(local=False)
    with Binaries(Locator(**options), symbol_lists=lists) as binaries:  # type: ignore[arg-type]
        name(profile, binaries)
    return [frames[-1].function if frames else "" for frames in profile.frames]


@pytest.mark.parametrize("slide", [0, SLIDE])
@pytest.mark.parametrize("offset", ["told", "not told"])
def test_a_given_vmlinux_answers_wherever_the_kernel_was_moved(slide: int, offset: str) -> None:
    position = addresses(vmlinux())
    start = TEXT + slide
    mapping = Mapping(start, start + 0x2000000, start if offset == "told" else 0, "[kernel.kallsyms]_text")
    profile = of_kernel(mapping, position["do_idle"] + slide, position["vfs_read"] + slide + 1, start + 0x1000000)
    assert functions(profile, files=[vmlinux()])[:2] == ["do_idle", "vfs_read"]
    assert profile.frames[1][-1].file.endswith("kernel.c")
    assert "no executable segment" in profile.reasons[2]


def test_a_mapping_that_begins_elsewhere_counts_from_the_symbol_it_names() -> None:
    """Old perf maps the kernel from 0; the file offset is the address of the symbol after the bracket."""
    offset = addresses(vmlinux())
    mapping = Mapping(0, (1 << 64) - 1, TEXT + SLIDE, "[kernel.kallsyms]_stext")
    assert functions(of_kernel(mapping, offset["vfs_read"] + SLIDE), files=[vmlinux()]) == [""]  # it has no _stext
    mapping = Mapping(0, (1 << 64) - 1, TEXT + SLIDE, "[kernel.kallsyms]_text")
    assert functions(of_kernel(mapping, offset["vfs_read"] + SLIDE), files=[vmlinux()]) == ["vfs_read"]


def test_an_archive_of_a_vmlinux_answers_as_the_file_does(tmp_path: Path) -> None:
    offset = addresses(vmlinux())
    create(vmlinux(), tmp_path / "vmlinux.lidia")
    mapping = Mapping(TEXT + SLIDE, TEXT + SLIDE + 0x2000000, 0, "[kernel.kallsyms]_text")
    profile = of_kernel(mapping, offset["do_idle"] + SLIDE)
    assert functions(profile, files=[tmp_path / "vmlinux.lidia"]) == ["do_idle"]


def test_a_kernel_that_says_nothing_of_where_it_was_is_placed_by_kallsyms_or_not_at_all(tmp_path: Path) -> None:
    offset = addresses(vmlinux())
    moved, still = offset["vfs_read"] + SLIDE, offset["vfs_read"]
    loose = Mapping(path="[kernel.kallsyms]")
    profile = of_kernel(loose, moved)
    assert functions(profile, files=[vmlinux()]) == [""]
    assert "the file was mapped is unknown" in profile.reasons[0]
    assert functions(of_kernel(loose, still), files=[vmlinux()]) == ["vfs_read"]
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    profile = of_kernel(loose, moved)
    assert functions(profile, files=[vmlinux()], symbol_lists=SymbolLists(kallsyms=tmp_path / "kallsyms")) == [
        "vfs_read"
    ]
    assert profile.frames[0][0].source == "dwarf"


def test_kallsyms_answer_where_the_vmlinux_does_not(tmp_path: Path) -> None:
    """Modules and BPF programs are in no vmlinux; what has no mapping is still the kernel's."""
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    mapping = Mapping(TEXT + SLIDE, TEXT + SLIDE + 0x40000000, TEXT + SLIDE, "[kernel.kallsyms]_text")
    offset = addresses(vmlinux())
    profile = of_kernel(mapping, offset["do_idle"] + SLIDE, 0xFFFFFFFFC0402008)
    profile.location(NO_MAPPING, 0xFFFFFFFFC0401004)
    profile.location(NO_MAPPING, 0x1234)
    result = functions(profile, files=[vmlinux()], symbol_lists=SymbolLists(kallsyms=tmp_path / "kallsyms"))
    assert result == ["do_idle", "bpf_prog_6deef7357e7b4530_egress [bpf]", "xfs_read [xfs]", ""]
    assert [frames[0].source for frames in profile.frames[:3]] == ["dwarf", "kallsyms", "kallsyms"]
    assert "no mapping of the process" in profile.reasons[3]


def test_a_modules_sections_follow_one_another_without_its_init_sections() -> None:
    with ElfFile.open(module()) as elf:
        text = {each.name: each for each in elf.sections if each.executable and each.size}
    base = 0xFFFFFFFFC0401000
    order = [each.name for each in text.values() if not each.name.startswith(".init")]
    location, end = {}, base
    for each in order:
        end += -end % text[each].align
        location[each] = end
        end += text[each].size
    profile = of_kernel(
        Mapping(base, base + 0x9000, 0, "[snd_xfs]"), location[".text.xfs_read"] + 4, location[".text.unlikely"] + 4
    )
    assert functions(profile, files=[module()]) == ["xfs_read", "xfs_fail"]
    assert profile.frames[0][0].file.endswith("module.c")
    profile = of_kernel(Mapping(path="[snd_xfs]"), base + 4)
    assert functions(profile, files=[module()]) == [""]


def test_the_names_of_the_running_kernel_are_used_for_a_profile_of_it_alone(tmp_path: Path) -> None:
    running = tmp_path / "kallsyms"
    running.write_text(KALLSYMS)
    lists = SymbolLists(running=str(running), notes=str(tmp_path / "none"))
    same = Mapping(TEXT + SLIDE, TEXT + 0x2A000000, TEXT + SLIDE, "[kernel.kallsyms]_text")
    assert functions(of_kernel(same, TEXT + SLIDE + 0x1004), symbol_lists=lists) == ["do_idle"]
    other = Mapping(TEXT, TEXT + 0x2000000, TEXT, "[kernel.kallsyms]_text")
    profile = of_kernel(other, TEXT + SLIDE + 0x1004)
    assert functions(profile, symbol_lists=lists) == [""]
    assert "not on this machine" in profile.reasons[0]
    named = Mapping(TEXT + SLIDE, TEXT + 0x2A000000, TEXT + SLIDE, "[kernel.kallsyms]_text", "ab" * 20)
    assert functions(of_kernel(named, TEXT + SLIDE + 0x1004), symbol_lists=lists) == [""]
    current = Mapping(0xFFFFFFFFC0401000, 0xFFFFFFFFC0409000, 0, "[xfs]")
    assert functions(of_kernel(current, 0xFFFFFFFFC0401004), symbol_lists=lists) == ["xfs_read [xfs]"]
    elsewhere = Mapping(0xFFFFFFFFC0401000, 0xFFFFFFFFC0409000, 0, "[ext4]")
    assert functions(of_kernel(elsewhere, 0xFFFFFFFFC0401004), symbol_lists=lists) == [""]


def test_hidden_addresses_are_a_reason(tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text("0000000000000000 T _text\n0000000000000000 T do_idle\n")
    mapping = Mapping(TEXT, TEXT + 0x2000000, 0, "[kernel.kallsyms]_text")
    with Binaries(symbol_lists=SymbolLists(kallsyms=tmp_path / "kallsyms")) as binaries:
        (report,) = name(of_kernel(mapping, TEXT + 8), binaries)
    assert next(iter(report.missing)).reason is Reason.KERNEL_HIDDEN


@pytest.mark.parametrize(
    ("path", "module"),
    [("[xfs]", "xfs"), ("/lib/modules/6.1/kernel/snd-hda-intel.ko.xz", "snd_hda_intel"), ("nf_nat.ko.debug", "nf_nat"),
     ("[kernel.kallsyms]", ""), ("/usr/lib/libc.so.6", ""), ("[anon:heap]", "")],
)  # fmt: skip
def test_a_module_has_the_name_the_kernel_gives_it(path: str, module: str) -> None:
    assert module_of(path) == module


def test_which_file_is_called_like_which_mapping() -> None:
    kernel, guest = Mapping(path="[kernel.kallsyms]"), Mapping(path="[guest.kernel.kallsyms]_stext")
    assert same_name("/usr/lib/debug/boot/vmlinux-6.1.0-9-amd64", kernel.path)
    assert same_name("vmlinux.lidia", guest.path)
    assert not same_name("/bin/app", kernel.path)
    assert same_name("snd-pcm.ko.debug", "[snd_pcm]")
    assert not same_name("xfs.ko", "[ext4]")
    assert is_kernel(Mapping(0xFFFFFFFFC0401000, 0xFFFFFFFFC0402000, 0, "bpf_prog_1"))
    assert not is_kernel(Mapping(0x1000, 0x2000, 0, "/bin/app"))


@pytest.mark.parametrize(
    ("path", "address", "kind"),
    [
        ("[xfs]", 0xFFFFFFFFC0401000, AddressKind.KERNEL), ("[jit]", 0x7F0000001000, AddressKind.GENERATED),
        ("[unknown]", 0x7F0000001000, AddressKind.NOWHERE), ("[unknown]", 0xFFFFFFFF81000000, AddressKind.KERNEL),
        ("[vdso]", 0x7FFF00001000, AddressKind.PAGE), ("[kernel.kallsyms]_stext", 0x1000, AddressKind.KERNEL),
        ("", 0x7F0000001000, AddressKind.GENERATED), ("", 0xFFFFFFFF81000000, AddressKind.KERNEL),
        ("/lib/modules/6.1/xfs.ko.xz", 0x1000, AddressKind.KERNEL), ("/tmp/perf-7.map", 0x1000, AddressKind.GENERATED),
        ("/root/.debug/jit/jitted-7-1.so", 0x1000, AddressKind.FILE), ("/usr/lib/libc.so.6", 0x1000, AddressKind.FILE),
    ],
)  # fmt: skip
def test_the_mapping_and_the_address_say_where_to_look(path: str, address: int, kind: AddressKind) -> None:
    assert kind_of(Mapping(path=path), address) is kind


@pytest.mark.parametrize(("pack", "word"), [(lzma.compress, "xz"), (gzip.compress, "gzip")])
def test_a_packed_module_is_refused_with_what_to_do(
    tmp_path: Path, pack: Callable[[bytes], bytes], word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "xfs.ko.packed").write_bytes(pack(module().read_bytes()))
    (tmp_path / "in.folded").write_text("a;b 1\n")
    assert main(["profile", str(tmp_path / "in.folded"), "--binary", str(tmp_path / "xfs.ko.packed")]) == 3
    assert f"{word} -d" in capfd.readouterr().err
