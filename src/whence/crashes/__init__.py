"""Crashes: a report of one core or minidump, and collections of cores, grouped by signature.

In: a Core and a Symbolizer. Out: plain objects, and text, HTML and JSON of these.

    signature   a hash of the functions of a crash that stays the same between builds and machines
    fault       what is at the address that a crash accessed
    model       CrashReport: what a report has, and its JSON (docs/formats/crash-report.md)
    build       the report of a core or a minidump
    text        a report as text
    page        a report as an HTML page, with page.css and page.js
    collected   cores in folders: their files, metadata and signatures
    keeping     small cores kept by signature in a folder or a store, within limits

    with whence.Symbolizer() as symbolizer:
        report = crash_report(whence.Core("core.4711"), symbolizer)
        print(report_text(report))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach

if TYPE_CHECKING:
    from whence.crashes.build import ReportOptions, crash_report
    from whence.crashes.collected import CoreCollection, crashes_in
    from whence.crashes.keeping import keep_cores
    from whence.crashes.model import CrashReport
    from whence.crashes.page import report_page
    from whence.crashes.signature import CrashSignature, signature_of
    from whence.crashes.text import report_text

__all__ = [
    "CoreCollection", "CrashReport", "CrashSignature", "ReportOptions", "crash_report", "crashes_in", "keep_cores",
    "report_page", "report_text", "signature_of",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "CoreCollection": "whence.crashes.collected",
            "CrashReport": "whence.crashes.model",
            "CrashSignature": "whence.crashes.signature",
            "ReportOptions": "whence.crashes.build",
            "crash_report": "whence.crashes.build",
            "crashes_in": "whence.crashes.collected",
            "keep_cores": "whence.crashes.keeping",
            "report_page": "whence.crashes.page",
            "report_text": "whence.crashes.text",
            "signature_of": "whence.crashes.signature",
        },
    )
