"""A Cython module that calls Python functions back from C, in two threads."""

import threading

import common

import callbacks

lock = threading.Lock()


def compare(a, b):
    return (a > b) - (a < b)


def doubled(number):
    return number * 2


def visit(tree, results):
    return tree.size + sum(results) if isinstance(results, list) else None


def work():
    while True:
        with lock:
            callbacks.sort_with(list(range(50, 0, -1)), compare)
        sum(callbacks.generate(doubled, 50))
        callbacks.Tree(visit, 3)()
        sorted([callbacks.Tree(visit, 0) for _ in range(5)])


def main():
    threading.Thread(target=work, daemon=True).start()
    common.ready()
    work()


main()
