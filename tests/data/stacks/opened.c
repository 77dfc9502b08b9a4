// A library that is opened while the program runs; with -DEARLY its constructor already calls back.
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) static int inner(int (*call)(int), int n) { return n ? inner(call, n - 1) + 1 : call(2) + 1; }
int through(int (*call)(int), int n) {
    volatile char place[300];
    place[n] = n;
    sink = inner(call, n) + place[n];
    return sink;
}
