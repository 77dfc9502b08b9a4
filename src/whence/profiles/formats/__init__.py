"""Formats of profiles, each a reader, a writer or both; `registry` recognizes the format of a file.

firefox           Firefox Profiler's processed format, written
firefox_read      Firefox Profiler's processed format, read
folded            folded stacks
go_trace          CPU samples of a Go execution trace
gz                gzip, bounded, with errors for cut and damaged files
json_text         JSON decoded member by member
legacy            profiles of addresses from before pprof
memory_maps       the memory map at the end of gperftools' profiles
others            formats that are recognized but not read
otlp              OTLP profiles, binary and JSON
otlp_json         OTLP's tables in JSON
otlp_tables       OTLP's dictionary and samples in columns
perf              the text of `perf script`
perf_lines        the lines of `perf script`
perf_memory       mappings of a `perf script` text
plain_json        a profile as a JSON document
pprof             pprof profiles, gzip or plain
registry          recognizes the format of a file; reads and writes by a format's name
schema            messages of pprof and OTLP as tables of fields
speedscope        speedscope's file format, written
speedscope_read   speedscope's file format, read
stack_texts       stacks of DTrace, bpftrace and macOS's sample
timed_samples     samples and a timeline, built from events that have times
v8                V8's CPU profiles
written           names of the formats that are written, and the endings of their files
"""
