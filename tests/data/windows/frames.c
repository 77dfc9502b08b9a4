// Functions with frames of all kinds, for 32-bit x86: conventions, arguments, aligned and variable frames.
#include <stdarg.h>

#define NOINLINE __declspec(noinline)

volatile int sink;
int _fltused;
struct big { int v[10]; };
typedef int(__stdcall *callback)(int, int, int);

NOINLINE int leaf(int a, int b) { sink = a; return a * b + sink; }
NOINLINE int __stdcall std3(int a, int b, int c) { int x = leaf(a, b); return x + leaf(b, c) + c; }
NOINLINE int __fastcall fast3(int a, int b, int c) { return std3(a, b, c) + std3(c, b, a) + leaf(a, 2); }

NOINLINE int many(int a, int b, int c, int d, int e, int f) {
    int x = std3(a, b, c), y = fast3(d, e, f), z = std3(a, d, e);
    return leaf(x, y) + leaf(y, z) + leaf(x, z) + a + b + c + d + e + f;
}

NOINLINE int variadic(int n, ...) {
    va_list list;
    va_start(list, n);
    int sum = 0;
    while (n--) sum += leaf(va_arg(list, int), n);
    va_end(list);
    return sum;
}

NOINLINE int buffer(int n) {
    volatile char b[600];
    for (int i = 0; i < 40; i++) b[i] = n;
    return leaf(b[n], b[n + 1]);
}

NOINLINE int dynamic(int n) {
    volatile char *b = __builtin_alloca(n);
    b[n / 2] = n;
    return buffer(n & 15) + leaf(b[n / 2], n);
}

NOINLINE int aligned(int n) {
    volatile __declspec(align(64)) int b[16];
    b[3] = n;
    return dynamic(n) + leaf(b[3], n);
}

NOINLINE double floating(double a, float b, int n) { return a * leaf(n, 3) + b; }

NOINLINE struct big returned(int n) {
    struct big b;
    for (int i = 0; i < 10; i++) b.v[i] = leaf(i, n);
    return b;
}

NOINLINE int passed(struct big b, int n) { return leaf(b.v[n & 7], n) + std3(b.v[0], b.v[1], b.v[2]); }
NOINLINE int recursive(int n) { return n ? recursive(n - 1) + leaf(n, n) : many(1, 2, 3, 4, 5, 6); }
NOINLINE int indirect(callback f, int n) { return f(n, n + 1, n + 2) + f(n + 2, 3, 4); }
NOINLINE int tail(int n) { return leaf(n, n) > 3 ? recursive(n) : variadic(1, n); }

int start(void) {
    int total = many(1, 2, 3, 4, 5, 6) + variadic(3, 7, 8, 9) + aligned(100) + tail(4) + indirect(std3, 5);
    total += (int)floating(2.5, 1.5f, total);
    struct big b = returned(3);
    return total + passed(b, 5);
}

void *memset(void *to, int c, unsigned n) { volatile char *p = to; while (n--) *p++ = c; return to; }
void *memcpy(void *to, const void *from, unsigned n) {
    volatile char *p = to;
    const char *q = from;
    while (n--) *p++ = *q++;
    return to;
}
