# cython: language_level=3
"""Callbacks from C code, with and without the GIL, generators, and properties of extension types."""

from libc.stdlib cimport qsort, malloc, free

cdef object compare_function


cdef int compare(const void* a, const void* b) noexcept with gil:
    return compare_function((<int*> a)[0], (<int*> b)[0])


def sort_with(values, function):
    global compare_function
    cdef int count = len(values), i
    cdef int* items = <int*> malloc(count * sizeof(int))
    compare_function = function
    for i in range(count):
        items[i] = values[i]
    with nogil:
        qsort(items, count, sizeof(int), compare)
    result = [items[i] for i in range(count)]
    free(items)
    return result


def generate(function, int count):
    cdef int i
    for i in range(count):
        yield function(i)


cdef class Tree:
    cdef public list children
    cdef object function

    def __init__(self, function, int depth):
        self.function = function
        self.children = [Tree(function, depth - 1) for _ in range(3)] if depth else []

    def __call__(self):
        return self.function(self, [child() for child in self.children])

    @property
    def size(self):
        return 1 + sum([child.size for child in self.children])

    def __lt__(self, other):
        return self.function(self, other) is None
