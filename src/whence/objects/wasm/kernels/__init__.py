"""The compiled hot loops of whence.objects.wasm."""

from whence.kernels import __path__

__all__ = ["__path__"]
