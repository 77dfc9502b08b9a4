/* C: macros and headers, a recursion, a switch, a cold part, calls through a table. */
#include "plain.h"

volatile unsigned sink;
static unsigned cells[16];

MAKE_FOLD(fold_sum, +)
MAKE_FOLD(fold_xor, ^)

__attribute__((cold, noinline)) static void give_up(unsigned code)
{
    sink = code;
    for (;;)
        sink += mixed(code, 1);
}

static unsigned walk(unsigned depth, unsigned value)
{
    if (depth == 0)
        return MIX_BOTH(value, depth + 1);
    return walk(depth - 1, twice_mixed(value)) + mixed(value, depth);
}

static unsigned choose(unsigned which)
{
    switch (which & 7) {
    case 0: return fold_sum(cells, 16);
    case 1: return fold_xor(cells, 16);
    case 2: return walk(which & 15, which);
    case 3: return spin(which);
    case 4: return shapes(which);
    case 5: return MIX_BOTH(which, which >> 3);
#line 100 "elsewhere/generated.y"
    case 6: return mixed(which, 9);
    default:
        if (which > 0xfffffff0u)
            give_up(which);
        return which;
    }
}

int main(void)
{
    for (unsigned i = 0; i < 64; i++) {
        cells[i & 15] = choose(i);
        sink ^= cells[i & 15];
    }
    return (int)(sink & 1);
}

#ifdef FREESTANDING
void _start(void)
{
    main();
    for (;;)
        sink++;
}
#endif
