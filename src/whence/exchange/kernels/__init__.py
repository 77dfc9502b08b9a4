"""The compiled hot loops of whence.exchange: one file per format."""

from whence.kernels import __path__

__all__ = ["__path__"]
