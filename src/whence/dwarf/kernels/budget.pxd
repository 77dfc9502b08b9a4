# Budgets for reading: bytes that are read repeatedly (a table that thousands of units share, lists that overlap) cost at
# most a constant times the size of the input, plus an allowance.
#
# Each unit has a budget proportional to its size, and beyond it may use a fund that all units share. A unit that needs
# too much is skipped; the others still have their own budgets.

cdef enum:
    WORK_PER_BYTE = 32  # attributes or bytes of tables, for each byte of a unit
    FUND_PER_BYTE = 4  # work for each byte that all units share
    FUND = 1 << 24  # the allowance
    LIST_ENTRY = 8  # the cost of an entry of a list, which is stored

cdef struct Budget:
    unsigned long long own
    unsigned long long shared
    int exceeded  # the unit needed more than was left

cdef inline void make_budget(Budget* budget, unsigned long long size) noexcept nogil:
    """Initialize a budget for units that share `size` bytes."""
    budget.own = 0
    budget.shared = FUND_PER_BYTE * size + FUND
    budget.exceeded = False

cdef inline void begin_unit(Budget* budget, unsigned long long size) noexcept nogil:
    """Begin a unit of `size` bytes."""
    budget.own = WORK_PER_BYTE * size
    budget.exceeded = False

cdef inline unsigned long long affordable(Budget* budget) noexcept nogil:
    return budget.own + budget.shared

cdef inline bint spend(Budget* budget, unsigned long long work) noexcept nogil:
    """Spend work. False if the budget is exceeded."""
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
