"""The command line: one module per command, imported when that command is run.

A command's module has `configure(parser)`, which adds options to an argparse parser, and `run(options) -> int`, which
runs the command and returns the exit code. main.py lists the commands. Data is written to stdout, messages to stderr.

Exit codes: 0 answered, 1 some unknown, 2 wrong use, 3 broken input. A WhenceError is printed as one line on stderr with
its hint; --debug prints the traceback.

addr              `whence addr`: functions, files and lines of addresses
answers           answers of the symbolizer as text and JSON
browser           the browser, for --open
build_id          `whence build-id`: build-ids of files
colour            colours and links on a terminal
columns           `whence columns`: names for the addresses of a table
completion        `whence completion`: completion scripts of the shells, in shell/
convert           `whence convert`: names of a file as an archive or in the formats of other tools
core              `whence core`: frames and stacks of a core file
cores             `whence cores`: crashes in folders of cores, by signature
demo              `make demo`: the main jobs on real input
demo_files        `whence demo`: the files that the documentation uses, in demo.zip
dispatch          the command for a file's content: `whence FILE`, `whence PID`
dump_info         `whence core --info`: what a minidump says of its system
dwarf             `whence dwarf`: the units of debug info
explain           `whence explain`: each step from an address to its frames
filter            `whence filter`: logs with the frames in them named
goroutines        goroutines as Go's traceback prints them, and as JSON
lidia             `whence lidia`: create, inspect and verify archives
listing           `whence listing`: source lines and instructions of functions
main              finds and runs the command; turns errors into one line and an exit code
maps              `whence maps`: the executable mappings of a process
mcp               `whence mcp`: a server of the Model Context Protocol
mcp_files         the files that requests to `whence mcp` may read
mcp_tools         the tools of `whence mcp`
mcp_transport     messages of `whence mcp` on stdin and stdout
options           options that several commands share
overview          `whence explain FILE`: what a file has
parser            command lines by argparse, with a suggestion for unknown words
pid               `whence pid`: frames and stacks of a live process
process_names     a process by pid or by the name of its command
profile           `whence profile`: names, merges, compares and draws profiles
profile_files     `whence profile A B C -o DIR`: many profiles by several processes
profile_output    output options of the commands that write a profile
profile_listing   `whence profile --list`, `--annotate`: functions by line and by instruction
progress          a progress line on a terminal after one second
record            `whence record`: a profile and its flame graph, by perf or by sampling
report            `whence core --report`: a page for a bug report
serve             `whence serve`: the server
shrink            `whence core --shrink`: a core with only what stacks need
size              `whence size`: bytes by function, file, unit and section, and growth
snapshot          `whence addr --snapshot`: addresses of a process that has ended
source_options    options that say where source files are
stacks            stacks as gdb prints them, and as JSON
store             `whence store`: add to, list and verify a store
symbols           `whence symbols`: the functions of symbol tables
tasks             tasks of asyncio and what each one awaits, as text and as JSON
trace             `whence trace`: Go execution traces, one module per subcommand
trace_anonymize   `whence trace anonymize`: a trace without its strings
trace_events      `whence trace events`: events as CSV, JSON lines or Parquet
trace_files       input and output of the trace subcommands
trace_filter      `whence trace filter`: part of a trace
trace_info        `whence trace info`: a summary
trace_pprof       `whence trace pprof`: CPU samples as a profile
trace_salvage     `whence trace salvage`: the whole generations of a damaged trace
trace_text        `whence trace text`: the text form
trace_verify      `whence trace verify`: problems of a trace, one per line
trace_wire        `whence trace wire`: the binary form
"""

from __future__ import annotations

from whence.cli.main import main

__all__ = ["main"]
