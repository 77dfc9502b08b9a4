"""The forms that logs write frames in, as a table: needles, pattern, what the number is, template, and an example.

A line is matched with the pattern of a form if it contains one of its needles (`kernels/needles.py` defines their
syntax); a match that has no names yet gets them. Groups of a pattern: `address` (hex), and if the form has them
`module`, `build_id`, `number` (of the frame), `symbol`, `size`. A form with a `template` is rewritten once for each
frame; the others keep their text, followed by the names: `` in main at /src/app.c:3 (inlined by) ...``. A template has
groups and, for a frame, `{frame}` (function and location) or `{function}` and `{location}`; the text of the group
`tail` replaces the location of a frame without a file.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from whence.filter.kernels.needles import PREFIXES


class Holds(enum.Enum):
    """The meaning of the number in a form."""

    VADDR = enum.auto()  # an address of the module, in its ELF address space
    FROM_START = enum.auto()  # bytes after the address where the module's first segment is loaded
    FILE_OFFSET = enum.auto()  # offset of the code in the module's file
    RUNTIME = enum.auto()  # an address of the process; a vaddr if the match has a module
    LOADED = enum.auto()  # an address of the process, in `module`: a vaddr if it is loaded where it was linked
    SYMBOL = enum.auto()  # an offset from the start of `symbol`


class Back(enum.Enum):
    """Says if the number is a return address, so that the byte before it is looked up."""

    EXACT = enum.auto()  # a pc
    INSIDE = enum.auto()  # a return address that is one less already: inside the call
    RETURN = enum.auto()
    CALLERS = enum.auto()  # frame 0 (or the first line of a run, where frames have no number) is exact


class Needs(enum.Enum):
    """The facts that are needed, besides the line, to name a frame of a needle."""

    NOTHING = enum.auto()  # the line names the file
    PLACED = enum.auto()  # mappings: a process, a core file, a list of modules, a single given file
    FILES = enum.auto()  # a given file, or a list of modules


class Needle(NamedTuple):
    """Bytes in a line that a form may match."""

    text: bytes
    needs: Needs = Needs.NOTHING


class Style(enum.StrEnum):
    """How names are written: like the tools of the form, or after the text, as `llvm-symbolizer -p` or as JSON."""

    SAME = "same"
    LLVM = "llvm"
    JSON = "json"


class Form(NamedTuple):
    """A form. The example has capitals for the numbers and the file of a real program; tests fill them in."""

    name: str
    needles: tuple[Needle, ...]
    pattern: re.Pattern[bytes]
    holds: Holds
    back: Back
    example: bytes
    template: bytes = b""
    module: bytes = b""
    innermost: bool = False  # one line, of the innermost frame
    lines_only: bool = False  # the text has names: only frames with a file are written
    programs: range | None = None  # where its tool loads programs that are position-independent: at the start
    intercepts: bool = False  # its tools name an interceptor after the function that it replaces


AFTER_PREFIX = "|".join(f"(?<={re.escape(prefix.decode())})" for prefix in PREFIXES)
# The name of a function as backtrace_symbols prints it, or readable, with up to three levels of parentheses.
SYMBOL_NAME = r"(?>(?:[^()+\n]++|\+(?!0x)|NESTED)+)".replace("NESTED", r"\((?>(?:[^()\n]++|NESTED)*)\)").replace(
    "NESTED", r"\((?>(?:[^()\n]++|\([^()\n]*+\))*)\)"
)
# The path of a module up to its +0x..; no other frame starts in it, so that a line with many starts is read once.
MODULE_PATH = r"[^\n#+]*+(?>(?:(?:#(?!\d{1,9} [0<])|\+(?!0xHEX\)))[^\n#+]*+)*)"

# The first word of the title that a process gave itself in place of its path, and the words up to the last one:
# `redis-server *:6379(+0x..)`, `postgres: user db 127.0.0.1(5432) idle(+0x..)`.
TITLE = r"(?:BOL[ \t]*+(?P<title>[a-z][\w.+-]{0,63}+):?+ (?! ?\|)(?:[^\n(]{0,255}(?:\(\d{1,5}\)[^\n(]{0,63})?[ \[])?)?"


def _pattern(text: str) -> re.Pattern[bytes]:
    """Return a pattern with its words in capitals replaced.

    A part that can start anywhere in a line must fail early, so that the time is proportional to the length of the
    line. A group that must not be tried again is written (?>(?:...)*): CPython before 3.11.5 continues from the wrong
    position after (?:...)*+ (https://github.com/python/cpython/issues/106052).
    """
    text = text.replace("PATH", MODULE_PATH).replace("SYMBOL_NAME", SYMBOL_NAME).replace("TITLE", TITLE)
    text = text.replace("HEX", "[0-9a-fA-F]{1,16}").replace("ID", "[0-9a-fA-F]{4,64}")
    text = text.replace("WORD_STARTS", r"(?<![^\s(\[\"])(?>(?:(?<=\x1b\[)[0-9;]*+m(?>(?:\x1b\[[0-9;]*+m)*))?)")
    text = text.replace("EOL", r"(?= *+(?:\x1b|\r?$))").replace("BOL", rf"(?:^|{AFTER_PREFIX})(?>(?:\x1b\[[0-9;]*+m)*)")
    return re.compile(text.encode())


def _needles(*texts: bytes, placed: tuple[bytes, ...] = (), files: tuple[bytes, ...] = ()) -> tuple[Needle, ...]:
    return (
        *(Needle(text) for text in texts),
        *(Needle(text, Needs.PLACED) for text in placed),
        *(Needle(text, Needs.FILES) for text in files),
    )


KERNEL = b"vmlinux"

FORMS = (
    Form(
        "sanitizer",
        _needles(b"#%d 0x%x  (", b"NEW_FUNC[%d/%d]: 0x%x  (", b"NEW_PC: 0x%x  ("),
        _pattern(
            r"(?P<head>(?:#(?P<number>\d{1,9})|NEW_(?:FUNC\[\d{1,9}/\d{1,9}\]|PC):) 0xHEX)  "
            r"(?P<tail>\((?P<module>PATH)\+0x(?P<address>HEX)\)(?: \(BuildId: (?P<build_id>ID)\))?)"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"    #3 0x562330902f0e  (MODULE+0xVADDR)",
        b"{head} in {frame}",
        intercepts=True,
    ),
    Form(
        "sanitizer, a function without a line",
        _needles(b"+0x%x)"),
        _pattern(
            r"(?P<head>#(?P<number>\d{1,9}) 0xHEX) in (?>(?:[^\n#(]++|#(?!\d{1,9} 0x)|\((?!/))+)"
            r"(?P<tail>\((?P<module>PATH)\+0x(?P<address>HEX)\)(?: \(BuildId: (?P<build_id>ID)\))?)"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"    #3 0x562330902f0e in sum (MODULE+0xVADDR)",
        b"{head} in {frame}",
        lines_only=True,
        intercepts=True,
    ),
    Form(
        "ThreadSanitizer",
        _needles(b"#%d <null> <null> (", b"#%d \\u003cnull\\u003e "),
        _pattern(
            r"(?P<head>#(?P<number>\d{1,9})) <null> <null> "
            r"(?P<tail>\((?P<module>PATH)\+0x(?P<address>HEX)\)(?: \(BuildId: (?P<build_id>ID)\))?)"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"    #0 <null> <null> (MODULE+0xVADDR)",
        b"{head} {frame}",
        intercepts=True,
    ),
    Form(
        "summary of a sanitizer",
        _needles(b"SUMMARY: "),
        _pattern(
            r"(?P<head>SUMMARY: \w{1,64}Sanitizer: [^\n(]{1,256}+(?<= ))"
            r"(?P<tail>\((?P<module>PATH)\+0x(?P<address>HEX)\)(?>(?: \(BuildId: (?P<build_id>ID)\))?))(?! in )"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"SUMMARY: AddressSanitizer: heap-use-after-free (MODULE+0xVADDR) ",
        b"{head}{location} in {function}",
        innermost=True,
        intercepts=True,
    ),
    Form(
        "LLVM and Chromium",
        _needles(b"#%d 0x%x ("),
        _pattern(
            r"(?P<head>#(?P<number>\d{1,9}) 0xHEX) "
            r"(?P<tail>\((?P<module>(?![ (])PATH)\+0x(?P<address>HEX)\)(?: \(BuildId: (?P<build_id>ID)\))?)"
        ),
        Holds.VADDR,
        Back.RETURN,
        b" #2 0x00007f390affd210 (MODULE+0xRETURN)",
        b"{head} {frame}",
    ),
    Form(
        "LLVM markup",
        _needles(placed=(b"{{{bt:",)),
        _pattern(
            r"\{\{\{bt:(?P<number>\d{1,9}):(?P<runtime>0x(?P<address>HEX))(?>(?::(?:(?P<ra>ra)|(?P<pc>pc)))?)(?::[^{}\n]*+)?\}\}\}"
        ),
        Holds.RUNTIME,
        Back.CALLERS,
        b"{{{bt:1:0xRETURN:ra}}}",
        b"#{number} {runtime} in {frame}",
    ),
    Form(
        "LLVM markup, one address",
        _needles(placed=(b"{{{pc:",)),
        _pattern(r"\{\{\{pc:(?P<runtime>0x(?P<address>HEX))(?>(?::(?:(?P<pc>pc)|(?P<ra>ra)))?)\}\}\}"),
        Holds.RUNTIME,
        Back.EXACT,
        b"at {{{pc:0xRUNTIME}}}",
        b"{runtime} in {frame}",
    ),
    Form(
        "tombstone",
        _needles(b"#%d%_pc "),
        _pattern(
            r"#(?P<number>\d{1,9}) +pc (?:0x)?(?P<address>[0-9a-fA-F]{8,16}) +(?P<module>[^\s<(][^\s(]{0,4095})"
            r"(?>(?: \((?:deleted|offset 0x(?P<in_zip>[0-9a-f]{1,16}))\))?)"
            r"(?>(?: \((?!BuildId)[^\n#]{1,4096}?\+\d+\))?)(?: \(BuildId: (?P<build_id>ID)\))?"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"      #00 pc 00000000VADDR  MODULE (sum+4)",
    ),
    Form(
        "Java hs_err",
        _needles(b"C  [", b"V  ["),
        _pattern(
            r"(?<!\S)[VC]  \[(?P<module>[^\]\n]{1,4096}?)\+0x(?P<address>HEX)\]"
            r"(?:  [^\r\n\x1b]*?(?= in |\r|\n|\x1b|$)|EOL|(?= in ))"
        ),
        Holds.VADDR,
        Back.CALLERS,
        b"C  [MODULE+0xVADDR]  sum+0x10",
    ),
    Form(
        "PyTorch",
        _needles(b"frame #%d: "),
        _pattern(
            r"frame #(?P<number>\d{1,9}): "
            r"(?>(?:<unknown function>|(?P<symbol>(?>(?:[^\nf(+ ]++|f(?!rame #)|\((?!0xHEX in )|\+(?! 0xHEX \(0x)"
            r"| (?!\+ 0xHEX \(0x))+)))?)"
            r" ?\+ 0x(?P<address>HEX) \(0x(?P<runtime>HEX) in (?P<module>[^\n()]++)\)"
        ),
        Holds.VADDR,
        Back.RETURN,
        b"frame #1: <unknown function> + 0xRETURN (0x7f3b8c2f5e1f in MODULE)",
    ),
    Form(
        "faulthandler",
        _needles(b'Binary file "', b'Binary file \\"'),
        _pattern(
            r'Binary file "(?P<module>[^"\n]{1,4096}+)"(?:, at (?P<symbol>[^\s+"]{1,4096}+)?\+0x| \[0x)'
            r"(?P<address>HEX)(?: \[0x(?P<runtime>HEX))?\]"
        ),
        Holds.VADDR,
        Back.RETURN,
        b'  Binary file "MODULE", at +0xRETURN [0x7f3b8c2f5e1f]',
    ),
    Form(
        "kernel",
        _needles(b"+0x%x/0x%x [", files=(b"+0x%x/0x%x",)),
        _pattern(
            r"(?<![\w.$])(?P<symbol>[A-Za-z_$][\w.$]{0,511}+)\+0x(?P<address>HEX)/0x(?P<size>HEX)"
            r"(?>(?: \[(?P<module>\w{1,64})(?: (?P<build_id>ID))?\])?)"
        ),
        Holds.SYMBOL,
        Back.RETURN,
        b"[ 5567.094860]  sum+0xOFFSET/0xSIZE",
    ),
    Form(
        "glibc",
        _needles(b"+0x%x)%~[0x%x]", b"+0x%x)%~[%x]", b"(0x%x)%~[0x%x]"),
        _pattern(
            r"TITLEWORD_STARTS(?![^\s/(]{1,4096}+ )"
            r"(?P<module>[^\s(\[\":\x1b]{1,4096}+(?>(?::[^\s(\[\":\x1b]{1,4096}+)*)):?+ ?"
            r"\((?:(?P<symbol>(?!\?\+)SYMBOL_NAME)?\+)?0x(?P<address>HEX)\) ?\[(?:0x)?(?P<placed>HEX)\]"
        ),
        Holds.VADDR,
        Back.RETURN,
        b"MODULE(+0xRETURN) [0x557053fa21b2]",
    ),
    Form(
        "glibc, loaded where it was linked",
        _needles(b"%/[0x%x]", b"%/()%~[0x%x]", files=(b"%w[0x%x]", b"()%~[0x%x]")),
        _pattern(
            r"WORD_STARTS(?<! > )(?P<module>[^\s(\[\":\x1b]{1,4096}+(?>(?::[^\s(\[\":\x1b]{1,4096}+)*))(?<!\)):?+"
            r"(?:\(\) ?)?\[0x(?P<address>HEX)\]"
        ),
        Holds.VADDR,
        Back.RETURN,
        b"MODULE() [0xRETURN]",
    ),
    Form(
        "glibc, of a static program; V8",
        _needles(placed=(b"%^%~[0x%x]%$",)),
        _pattern(r"BOL[ \t]*+\[0x(?P<address>HEX)\](?:(?= in )|EOL)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"[0xRETURN]",
    ),
    Form(
        "Ceph",
        _needles(files=(b"+0x%x) [0x%x]",)),
        _pattern(
            r"(?<!\S)\d{1,9}: \((?!\(\)\+)(?P<symbol>SYMBOL_NAME)\+0x(?P<address>HEX)\) \[0x(?P<runtime>HEX)\]"
        ),
        Holds.SYMBOL,
        Back.RETURN,
        b" 2: (sum+0xOFFSET) [0x55d0c1a3e0f2]",
    ),
    Form(
        "strace -k, no symbol",
        _needles(b"() [0x%x]"),
        _pattern(r"(?<= > )(?P<module>/[^\n()]{1,4096}+)\(\) \[0x(?P<address>HEX)\]"),
        Holds.FILE_OFFSET,
        Back.RETURN,
        b" > MODULE() [0xIN_FILE]",
    ),
    Form(
        "Mozilla",
        _needles(b" +0x%x]"),
        _pattern(
            r"(?P<head>#(?P<number>\d{1,9}): )[^\s\[]{1,4096}+"
            r"\[(?P<tail>(?P<module>[^\n\[\]]{1,4096}) \+0x(?P<address>HEX))\]"
        ),
        Holds.FROM_START,
        Back.RETURN,
        b"#02: ???[MODULE +0xAFTER_START]",
        b"{head}{function} ({location})",
    ),
    Form(
        "ClickHouse",
        _needles(b" @ 0x%x in /"),
        _pattern(r"(?<= )@ 0x(?P<address>HEX) in (?P<module>/[^\s()\x1b]{1,4096}+)"),
        Holds.VADDR,
        Back.RETURN,
        b"4. sum(int) @ 0xRETURN in MODULE",
        lines_only=True,
    ),
    Form(
        "kernel, raw",
        _needles(files=(b"[<%x>]%$", b"[<%x>]%_[<", b"[\\u003c%x")),
        _pattern(r"\[<(?P<address>[0-9a-f]{16}|[0-9a-f]{8})>\](?:(?=  ?\[<)|EOL)"),
        Holds.VADDR,
        Back.RETURN,
        b"Call Trace: [<00000000RETURN>]",
        module=KERNEL,
    ),
    Form(
        "heap profile",
        _needles(placed=(b"@ 0x%x",)),
        _pattern(r"(?<=[@ ])0x(?P<address>HEX)(?:(?= 0x| in | at )|EOL)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"  1: 524288 [1: 524288] @ 0xRETURN",
    ),
    Form(
        "gperftools, a leak",
        _needles(placed=(b"%^\t@ %x%$", b"\\t@ %x")),
        _pattern(r"BOL\t@ (?P<address>[0-9a-f]{6,16})(?:(?= in )|EOL)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"\t@ RETURN ",
    ),
    Form(
        "glog and abseil",
        _needles(placed=(b"@%_0x%x ", b"@%_%x ")),
        _pattern(
            r"@ +(?:0x)?(?P<address>[0-9a-f]{6,16}) (?>(?: *+(?:\(unknown\)|\d{1,18})  | )?)"
            r"(?:\(unknown\)|(?!in )(?=[A-Za-z_~])[^\r\n\x1b]*?(?= in |[\r\n\x1b]|$))"
        ),
        Holds.RUNTIME,
        Back.CALLERS,
        b"    @     0xRUNTIME  (unknown)",
    ),
    Form(
        "Rust",
        _needles(placed=(b" - <unknown>", b" - \\u003cunknown")),
        _pattern(r"(?P<head>(?<!\S)\d{1,9}: +0x(?P<address>HEX) - )<unknown>(?!!)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"   0:     0xRETURN - <unknown>",
        b"{head}{frame}",
    ),
    Form(
        "libgfortran",
        _needles(placed=(b"#%d%_0x%x in ???",)),
        _pattern(r"(?P<head>#(?P<number>\d{1,9}) +0x(?P<address>HEX)) in \?\?\?EOL"),
        Holds.RUNTIME,
        Back.INSIDE,
        b"#3  0xRUNTIME in ???",
        b"{head} in {frame}",
    ),
    Form(
        "Ada",
        _needles(placed=(b"%^0x%x 0x%x",)),
        _pattern(r"(?:^|(?<= ))0x(?P<address>[0-9a-f]{5,16})(?:(?= 0x| in )|EOL)"),
        Holds.RUNTIME,
        Back.EXACT,  # GNAT prints return addresses minus 2
        b"0xRUNTIME 0xRUNTIME",
    ),
    Form(
        "Free Pascal",
        _needles(placed=(b"%^  $%x%$", b" at $%x")),
        _pattern(r"(?:BOL  |(?<= at ))\$(?P<address>[0-9A-Fa-f]{8,16})(?:(?=:| in )|EOL)"),
        Holds.RUNTIME,
        Back.CALLERS,
        b"An unhandled exception occurred at $00000000VADDR:",
    ),
    Form(
        "UndefinedBehaviorSanitizer, minimal runtime",
        _needles(placed=(b"ubsan: ",)),
        _pattern(r"ubsan: [a-z-]{1,64} by 0x(?P<address>HEX)(?:(?= in | address )|EOL)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"ubsan: add-overflow by 0xRETURN",
    ),
    Form(
        "numbered runtime addresses",
        _needles(placed=(b"#%d%_0x%x in ?? ()", b"#%d%_0x%x <unknown>", b"#%d%_0x%x \\u003cunknown", b"#%d%_0x%x%$")),
        _pattern(
            r"#(?P<number>\d{1,9}) +0x(?P<address>HEX)"
            r"(?: in \?\? \(\)(?: from [^\r\n\x1b]*?(?= in |\r|\n|\x1b|$))?| <unknown>|EOL)"
        ),
        Holds.RUNTIME,
        Back.CALLERS,
        b"#1 0xRETURN <unknown>",
    ),
    Form(
        "Envoy",
        _needles(placed=(b"#%d: ",)),
        _pattern(r"#(?P<number>\d{1,9}): (?:[^\s\[][^\r\n\x1b]{0,4095}? )?\[0x(?P<address>HEX)\](?:(?= in )|EOL)"),
        Holds.RUNTIME,
        Back.RETURN,
        b"[2026-10-01 08:15:30.123][7][critical][backtrace] [source/server/backtrace.h:98] #1: [0xRETURN]",
    ),
    Form(
        "Boost.Stacktrace",
        _needles(b"# 0x%x in "),
        _pattern(r"(?<!\S)(?P<number>\d{1,9})# 0x(?P<address>HEX) in (?P<module>[^\s\x1b]{1,4096}+)"),
        Holds.LOADED,
        Back.CALLERS,
        b" 1# 0xRETURN in MODULE",
    ),
    Form(
        "valgrind",
        _needles(b" 0x%x: ??? (in "),
        _pattern(r"(?P<head>(?:at|by) 0x(?P<address>HEX): )\?\?\? \((?P<tail>in (?P<module>/[^\r\n()]{1,4096}))\)"),
        Holds.LOADED,
        Back.EXACT,
        b"==7271==    by 0xVADDR: ??? (in MODULE)",
        b"{head}{function} ({location})",
        programs=range(0x108000, 0x4000000),  # libraries follow
    ),
    Form(
        "crash report of macOS",
        _needles(files=(b"0x%x 0x%x + %d",)),
        _pattern(
            r"(?P<head>BOL(?P<number>\d{1,9}) +(?P<module>\S(?:[^\r\n]{0,255}?\S)?)[ \t]+0x(?P<address>HEX) )"
            r"(?P<tail>0x(?P<base>HEX) \+ \d{1,18})(?:(?= in )|EOL)"
        ),
        Holds.FROM_START,
        Back.CALLERS,
        b"1   MODULE                   0x0000AFTER_START 0x0 + 4409",
        b"{head}{function} ({location})",
    ),
    Form(
        "crash report of macOS, a function without a line",
        _needles(placed=(b"%^%d%_%w%_0x%x %w",)),
        _pattern(
            r"(?P<head>BOL(?P<number>\d{1,9}) +(?![^\r\n]{0,255}\.so[. ])(?P<module>[^\s()]{1,256}+)[ \t]+"
            r"0x(?P<address>[0-9a-f]{16}) )"
            r"(?P<tail>(?!0x)(?=\S)[^\r\n\x1b]{1,4096}? \+ \d{1,18})(?:(?= in )|EOL)"
        ),
        Holds.LOADED,
        Back.CALLERS,
        b"1   MODULE          0x00000000RETURN sum + 20",
        b"{head}{function} ({location})",
        lines_only=True,
    ),
    Form(
        "LLVM, without llvm-symbolizer",
        _needles(placed=(b"%^%d%_%w%_0x%x",)),
        _pattern(
            r"BOL(?P<number>\d{1,9}) +[^\s()]{1,256}+ +0x(?P<address>[0-9a-f]{16})"
            r"(?: [^\r\n\x1b]*? \+ \d++(?=(?: in |[\r\n\x1b]|$))|(?= in )|EOL)"
        ),
        Holds.RUNTIME,
        Back.RETURN,
        b"2  libLLVM.so.19.1      0x00000000RETURN",
    ),
    Form(
        "systemd-coredump",
        _needles(b" + 0x%x)"),
        _pattern(
            r"#(?P<number>\d{1,9}) +0x[0-9a-f]{16} (?>(?:[^\n#(]++|#(?!\d{1,9} +0x)|\((?![^\s()]{1,4096} \+ 0x))+)"
            r"\((?P<module>(?!n/a )[^\s()]{1,4096}) \+ 0x(?P<address>HEX)\)"
        ),
        Holds.FROM_START,
        Back.CALLERS,
        b"    #1  0x0000557053fa2139 n/a (MODULE + 0xAFTER_START)",
    ),
    Form(
        "Breakpad",
        _needles(b"%^%~%d  %w + 0x%x%$"),
        _pattern(r"BOL *(?P<number>\d{1,9})  (?P<module>\S{1,4096}) \+ 0x(?P<address>HEX)(?:(?= in )|EOL)"),
        Holds.FROM_START,
        Back.CALLERS,
        b" 1  MODULE + 0xAFTER_START",
    ),
    Form(
        "segmentation fault",
        _needles(b": segfault at ", b" sp:%x error:%x in "),
        _pattern(
            r"(?:: segfault at HEX ip HEX sp HEX error [0-9a-f]+| ip:HEX sp:HEX error:[0-9a-f]+) in "
            r"(?P<module>[^\s\[]{1,4096})\[(?P<address>HEX),HEX\+HEX\]"
        ),
        Holds.FILE_OFFSET,
        Back.EXACT,
        b"app[4]: segfault at 8 ip 00005555ed7ab1c8 sp 00007ffe2c8f6b60 error 6 in MODULE[IN_FILE,5555ed7ab000+1000]",
    ),
    Form(
        "Node",
        _needles(b": 0x%x  [", files=(b": 0x%x ",)),
        _pattern(
            r"(?<!\S)\d{1,9}: 0x(?P<address>HEX) "
            r"(?>(?:[^\n\[:]++|:(?! 0x)|\[(?!\D[^\]\s]{0,255}\](?:$| in |[\r\x1b])))*)"
            r"\[(?P<module>[^\]\s]{1,256})\]"
            r"(?:(?= in )|EOL)"
        ),
        Holds.LOADED,
        Back.RETURN,
        b" 1: 0xRETURN  [MODULE]",
    ),
    Form(
        "Seastar, a library a line",
        _needles(b"%/+0x%x%$"),
        _pattern(r"BOL\s+(?P<module>/[^\s+()]{1,4096})\+0x(?P<address>HEX)(?:(?= in )|EOL)"),
        Holds.VADDR,
        Back.INSIDE,
        b"  MODULE+0xVADDR",
    ),
    Form(
        "Seastar, an address a line",
        _needles(placed=(b"%^%_0x%x%$",)),
        _pattern(r"BOL +0x(?P<address>HEX)(?:(?= in )|EOL)"),
        Holds.RUNTIME,
        Back.INSIDE,
        b"  0xRUNTIME",
    ),
    Form(
        "Seastar, in one line",
        _needles(b"acktrace:%_0x%x", b"acktrace: /", b" at: 0x%x 0x%x"),
        _pattern(r"(?<= )(?:(?P<module>/[^\s+()]{1,4096})\+)?0x(?P<address>HEX)(?!\S)"),
        Holds.RUNTIME,
        Back.INSIDE,
        b"Reactor stalled for 33 ms on shard 0. Backtrace: 0xRUNTIME MODULE+0xVADDR",
    ),
    Form(
        "WebAssembly in browsers and Node",
        _needles(b":wasm-function[%d]:0x%x"),
        _pattern(
            r"(?<![^\s()@\"'<>])(?P<module>[^\s()@\"'<>]{1,4096}?):wasm-function\[\d{1,9}\]:0x(?P<address>HEX)"
        ),
        Holds.FILE_OFFSET,
        Back.EXACT,
        b"    at sum (file://MODULE:wasm-function[3]:0xIN_FILE)",
    ),
    Form(
        "wasmtime",
        _needles(b": 0x%x - ", b":   0x%x - ", b":  0x%x - ", b":    0x%x - ", b":     0x%x - "),
        _pattern(
            r"(?<!\S)(?P<number>\d{1,9}): {1,5}0x(?P<address>HEX) - (?P<module><unknown>|[^\s!<]{1,4096})![^\r\n\x1b]+?"
            r"(?:(?= in )|EOL)"
        ),
        Holds.FILE_OFFSET,
        Back.EXACT,
        b"    0:   0xIN_FILE - MODULE!sum",
    ),
    Form(
        "Pyroscope",
        _needles(b"%w!0x%x"),
        _pattern(
            r"(?<![^\s;,=\"'|])(?P<module>(?!unknown!)[^\s;,=\"'|()\[\]!\x1b]{1,4096}+)!0x(?P<address>HEX)(?![\w!+])"
        ),
        Holds.VADDR,
        Back.EXACT,
        b"slowest frame: MODULE!0xVADDR",
    ),
)  # fmt: skip

# With --all: every other address. Its name follows in parentheses, not after " in ".
ANY_ADDRESS = Form(
    "any address",
    _needles(placed=(b"0x%x",)),
    _pattern(r"(?<![\w+/(])0x(?P<address>HEX)(?!\w)"),
    Holds.RUNTIME,
    Back.EXACT,
    b"pc=0xRUNTIME",
)

GO_NEEDLE = Needle(b":%d +0x%x", Needs.FILES)
# Go's panics have a file and a line; if the path is trimmed or the line is 0, the function and its offset say more.
GO_FUNCTION = _pattern(
    r"BOL(?:created by )?(?P<symbol>[\w./*()\[\]%~\xb7-]{1,512}?)"
    r"(?:\([^()]{0,4096}\))?(?: in goroutine \d{1,18})?(?>(?:\x1b\[[0-9;]*+m)*)\r?$"
)
GO_LOCATION = _pattern(
    r"BOL\t(?P<location>[^\n]{1,4096}?:(?P<line>\d{1,9})) \+0x(?P<address>[0-9a-f]{1,16})"
    r"(?: fp=0x[0-9a-f]{1,16} sp=0x[0-9a-f]{1,16} pc=0x(?P<pc>[0-9a-f]{1,16}))?"
)
