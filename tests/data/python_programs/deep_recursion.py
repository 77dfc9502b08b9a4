"""Deep recursion: calls of Python functions alone, and through C: keys, maps, comparisons, generators, JSON, properties."""

import functools
import json
import sys
import threading

import common


def plain(n):
    return plain(n - 1) + 1 if n else 0


def by_map(n):
    return list(map(by_map, [n - 1])) if n else []


def by_key(n):
    return sorted([1, 2], key=lambda item: by_key(n - 1) and item) if n else [1]


def by_generator(n):
    if n:
        yield from by_generator(n - 1)
    yield n


class Chain:
    def __init__(self, n):
        self.following = Chain(n - 1) if n else None

    def __eq__(self, other):
        return self.following == other.following

    __hash__ = None

    @functools.cached_property
    def length(self):
        return 1 + (self.following.length if self.following else 0)


def by_json(n):
    return json.dumps(n, default=lambda _: by_json(n - 1)) if not n else json.dumps({"n": Value(n)}, default=encoded)


class Value:
    def __init__(self, n):
        self.n = n


def encoded(value):
    return json.loads(by_json(value.n - 1))


def work():
    while True:
        plain(3000)
        by_map(120)
        by_key(80)
        sum(by_generator(150))
        Chain(90) == Chain(90)  # noqa: B015
        Chain(90).length  # noqa: B018
        by_json(20)


def main():
    sys.setrecursionlimit(10_000)
    threading.stack_size(256 << 20)
    threading.Thread(target=work, daemon=True).start()
    common.ready()
    threading.Event().wait()


main()
