# What reading may cost, so that a few bytes that are read again and again (a table that thousands of units name, lists
# that overlap) cost no more than a constant times the bytes that are there, and an allowance.
#
# Each unit may spend what its own bytes justify; what it needs beyond that it takes from a fund that all units share.
# A unit that wants too much is left out by itself: the fund may be empty then, the others still have their own share.

cdef enum:
    WORK_PER_BYTE = 32  # attributes or bytes of tables, for each byte of the unit that is read
    FUND_PER_BYTE = 4  # the same for each byte that all units share
    FUND = 1 << 24  # the allowance
    LIST_ENTRY = 8  # what an entry of a list costs: it is kept

cdef struct Budget:
    unsigned long long own
    unsigned long long shared
    int exceeded  # did the unit want more than there was?

cdef inline void found_budget(Budget* budget, unsigned long long size) noexcept nogil:
    """A budget for units that share `size` bytes."""
    budget.own = 0
    budget.shared = FUND_PER_BYTE * size + FUND
    budget.exceeded = False

cdef inline void begin_unit(Budget* budget, unsigned long long size) noexcept nogil:
    """What is read from now on is for a unit of so many bytes."""
    budget.own = WORK_PER_BYTE * size
    budget.exceeded = False

cdef inline unsigned long long affordable(Budget* budget) noexcept nogil:
    return budget.own + budget.shared

cdef inline bint spend(Budget* budget, unsigned long long work) noexcept nogil:
    """Pay for so much work; False when there is not enough left."""
    if work <= budget.own:
        budget.own -= work
        return True
    work -= budget.own
    budget.own = 0
    if work > budget.shared:
        budget.shared = 0
        budget.exceeded = True
        return False
    budget.shared -= work
    return True
