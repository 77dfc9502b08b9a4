"""numpy: callbacks from C loops, ufuncs made of Python functions, sorting of objects, linear algebra in threads."""

import threading

import common
import numpy as np


class Number:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value

    def __add__(self, other):
        return Number(self.value + other.value)


def of_row(row):
    return np.median(row) + row.sum()


def of_item(item):
    return item * 2 + len(str(item))


def callbacks(random):
    values = random.random((60, 30))
    np.apply_along_axis(of_row, 1, values)
    np.vectorize(of_item)(values[:5])
    objects = np.array([Number(value) for value in values[0]], dtype=object)
    np.sort(objects)
    objects.sum()
    np.fromiter((of_item(item) for item in values[1]), dtype=float)
    np.piecewise(values, [values < 0.5, values >= 0.5], [lambda part: -part, lambda part: part * 2])
    np.fromfunction(lambda i, j: i * j, (20, 20))


def algebra(seed):
    random = np.random.default_rng(seed)
    while True:
        a = random.random((120, 120))
        np.linalg.svd(a)
        np.linalg.solve(a, a[0])
        (a @ a).sort()


def main():
    random = np.random.default_rng(1)
    threading.Thread(target=algebra, args=(2,), daemon=True).start()
    common.ready()
    while True:
        callbacks(random)


main()
