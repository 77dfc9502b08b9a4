"""Over every stack of a profile at once."""

import cython


def weigh(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    weights: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Add each sample's weight (1 without weights) to out[location] for each location of its stack."""
    i: cython.Py_ssize_t
    k: cython.ulonglong
    weight: cython.longlong = 1
    fault: cython.int = 0
    samples: cython.Py_ssize_t = first.shape[0] - 1
    weighted: cython.bint = weights.shape[0] == samples
    if samples < 1 or stack.shape[0] == 0:
        return 0, 0, 0
    with cython.nogil:
        for i in range(samples):
            if first[i + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = 1
                break
            if weighted:
                weight = weights[i]
            for k in range(first[i], first[i + 1]):
                if stack[k] >= cython.cast(cython.ulonglong, out.shape[0]):
                    fault = 1
                    break
                out[stack[k]] = out[stack[k]] + weight
            if fault:
                break
    return samples, fault, 0
