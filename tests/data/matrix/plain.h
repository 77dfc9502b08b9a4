/* Inline functions of a header, macros that call them, and a function made by a macro. */
#ifndef PLAIN_H
#define PLAIN_H

static inline unsigned mixed(unsigned value, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++)
        value = (value << 5 | value >> 27) ^ (value + i);
    return value;
}

static inline __attribute__((always_inline)) unsigned twice_mixed(unsigned value)
{
    unsigned once = mixed(value, value & 7);
    return once & 1 ? mixed(once, 3) : once;
}

#define MIX_BOTH(a, b) (twice_mixed(a) + \
                        twice_mixed(b))

#define MAKE_FOLD(name, op)                              \
    __attribute__((noinline)) unsigned name(const unsigned *from, unsigned count) \
    {                                                    \
        unsigned total = 1;                              \
        for (unsigned i = 0; i < count; i++)             \
            total = total op twice_mixed(from[i]);       \
        return total;                                    \
    }

unsigned spin(unsigned value);
unsigned shapes(unsigned seed);

#endif
