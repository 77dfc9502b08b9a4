"""`contextmanager` and `suppress` for what one address needs: contextlib imports four modules that nothing else does.

They do what contextlib's do, but that a manager is no decorator.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import contextmanager as contextmanager
    from contextlib import suppress as suppress
else:

    class suppress:
        """A block that ends where an exception of these kinds is raised."""

        __slots__ = ("_kinds",)

        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            pass

        def __exit__(self, kind, error, trace):
            return kind is not None and issubclass(kind, self._kinds)

    class Block:
        """A generator that yields once, as a block: its end is behind the yield."""

        __slots__ = ("_steps",)

        def __init__(self, steps):
            self._steps = steps

        def __enter__(self):
            try:
                return next(self._steps)
            except StopIteration:
                raise RuntimeError("generator didn't yield") from None

        def __exit__(self, kind, error, trace):
            if kind is None:
                try:
                    next(self._steps)
                except StopIteration:
                    return False
                raise RuntimeError("generator didn't stop")
            try:
                self._steps.throw(error)
            except StopIteration as stopped:
                return stopped is not error  # the generator passed over the error
            except BaseException as raised:
                # a StopIteration that a generator lets through comes out as the cause of a RuntimeError (PEP 479)
                same = raised is error or (isinstance(error, StopIteration) and raised.__cause__ is error)
                if not same:
                    raise
                error.__traceback__ = trace
                return False
            raise RuntimeError("generator didn't stop after throw()")

    def contextmanager(function):
        def block(*values, **named):
            return Block(function(*values, **named))

        block.__name__, block.__qualname__, block.__module__ = (
            function.__name__,
            function.__qualname__,
            function.__module__,
        )
        block.__doc__, block.__wrapped__ = function.__doc__, function
        return block
