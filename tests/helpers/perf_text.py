"""Text of `perf script`, as several tests and the fuzzer read it."""

from __future__ import annotations

OFFSETS = """
# a comment
my app 42/43 [001]  81.500000:     250000 cycles:u:
\t            11d6 outer+0x16 (/bin/app)
\t           2724a [unknown] (/usr/lib/libc.so.6)

my app 42/43 [001]  81.600000:     250000 cycles:u:
\t            11d6 outer+0x16 (/bin/app)
\t           2724a [unknown] (/usr/lib/libc.so.6)

kworker/0:1 7 81.7: 1 cpu-clock:pppH:
\tffffffff81000012 do_idle+0x2 ([kernel.kallsyms])
"""


MAPPED = """
app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x55d000(0x1000) @ 0x1000 08:01 77 0]: r-xp /bin/app
app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x55e000(0x1000) @ 0x2000 08:01 77 0]: rw-p /bin/app
app 42 81.2: PERF_RECORD_MMAP2 42/42: [0x7f0000(0x9000) @ 0 <0123456789abcdef01234567>]: r-xp /lib/z z.so
app 42 81.2: PERF_RECORD_FORK(50:50):(42:42)
app 42 81.3: 1 cycles:
\t55d0e4 main+0x14 (/bin/app)
\t7f1230 [unknown] (/lib/z z.so)

child 50 81.4: 1 cycles:
\t1234 [unknown] (/lib/z z.so)
"""


# perf script's text of two threads, out of order of time, with a loss between
TWO_THREADS = """
app 42/42 [001] 10.000300: 100 cpu-clock:
\t11d6 late+0x16 (/bin/app)
\t2224 main+0x4 (/bin/app)

app 42/43 [001] 10.000100: 200 cpu-clock:
\t1300 worker+0x10 (/bin/app)

app 42/42 [001] 10.000200: 300 cpu-clock:
\t1200 early+0x10 (/bin/app)
\t2224 main+0x4 (/bin/app)

app 42/43 [001] 10.000250: PERF_RECORD_LOST lost 33
"""
