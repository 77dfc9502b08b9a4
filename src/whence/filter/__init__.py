"""Logs with names in place: text in, the same text out, with the addresses that it recognizes named.

    forms.py     the forms a log may write a frame in: a table, each with an example
    functions.py where the functions of a binary start, by the names that logs write
    places.py    from what a form holds (module and vaddr, runtime address, symbol and offset) to frames or a reason
    frame_text.py the text of frames in each style
    json_text.py the text in the strings of a JSON object, and where in the object it is
    engine.py    LogFilter: bytes line by line as they come; what is not recognized stays byte for byte
    frame_text.py   frames in the style of the log
    functions.py    where functions start, by the names that logs write
    json_text.py    text inside JSON strings, and its place in the line

A log's words decide which files are opened, so a file counts only if it is a regular one and, where the log gives a
build-id, has that build-id. Filtering a filtered log changes nothing.
"""

from whence.filter.engine import LogFilter, kernel_offsets_in
from whence.filter.forms import FORMS, Form, Style
from whence.filter.places import Places

__all__ = ["FORMS", "Form", "LogFilter", "Places", "Style", "kernel_offsets_in"]
