"""multiprocessing: a pool of two processes, with callbacks in the parent's threads."""

import multiprocessing
import pickle

import common


class Item:
    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return make, (self.number,)

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)


def make(number):
    return Item(number)


def work(item):
    items = [Item(number % 17) for number in range(item.number % 300)]
    unique = set(items)
    return pickle.loads(pickle.dumps(sorted(unique, key=lambda each: -each.number)))


def main():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        common.ready()
        while True:
            pool.map(work, map(Item, range(2000)), chunksize=20)
            sum(len(result) for result in pool.imap_unordered(work, map(Item, range(500))))
            pool.apply_async(work, (Item(9),), callback=len).get()


if __name__ == "__main__":
    main()
