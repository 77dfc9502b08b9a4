"""Simulations of a fleet on one machine: `python -m benchmarks.fleet NAME --help`.

caches    what caches of servers save, in requests to the bucket (no timing)
storm     a deploy storm: uploads, many hosts at once, killed servers
naming    OTLP and pprof profiles named by a server
catalog   a store of very many builds
batch     rows named by Ray and Spark
"""

from __future__ import annotations

from benchmarks.fleet.caches import run as run
