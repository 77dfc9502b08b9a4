"""Names of the formats that are written, with the endings of their files and the options of the table."""

from __future__ import annotations

WRITTEN = ("pprof", "otlp", "otlp-json", "folded", "speedscope", "firefox", "top", "json", "arrow")
BINARY = ("pprof", "arrow")
PAGE = "flamegraph"  # an HTML page, is not read again
PAGE_ENDINGS = ((".html", PAGE), (".htm", PAGE))
ENDINGS = (
    (".speedscope.json", "speedscope"), (".firefox.json", "firefox"), (".firefox.json.gz", "firefox"),
    (".otlp.json", "otlp-json"), (".json", "otlp-json"), (".otlp", "otlp"), (".arrow", "arrow"), (".arrows", "arrow"),
    (".pb.gz", "pprof"), (".pprof", "pprof"), (".prof", "pprof"), (".pb", "pprof"),
    (".folded", "folded"), (".txt", "folded"),
)  # fmt: skip

SORTS = ("self", "total")
GROUPS = ("function", "process", "thread", "binary", "line")
