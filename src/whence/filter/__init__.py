"""Name the addresses in logs: text in, the same text with names out.

    bases.py        where a program was loaded, guessed from addresses that follow its calls
    apple.py        crash reports of macOS and iOS
    engine.py       LogFilter: filters a log block by block
    forms.py        the forms that logs write frames in: a table with an example of each
    frame_text.py   frames in the style of the log
    functions.py    where functions start, by the names that logs write
    json_text.py    text inside JSON strings, and its offset in the line
    matching.py     the forms as the loop over lines uses them
    naming.py       finds forms in lines and writes names
    places.py       from a module and an address, or a function and an offset, to frames or a reason
    reports.py      reports that are held back until their modules are listed

Text without a known form is copied byte for byte. A log decides which files are opened, so a file is used only if it is
regular and, if the log has a build-id, has that build-id. Filtering a filtered log changes nothing.
"""

from whence.filter.engine import LogFilter, kernel_offsets_in
from whence.filter.forms import FORMS, Form, Style
from whence.filter.places import Places

__all__ = ["FORMS", "Form", "LogFilter", "Places", "Style", "kernel_offsets_in"]
