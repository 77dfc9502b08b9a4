"""The compiled hot loops of whence.columns: Arrow's C data interface, texts by number, and the answers of a namer."""

from whence.kernels import shared_object

__path__ = [shared_object(__file__)]
