/* A few calls, then a fault: what tests/data/cores/make.sh builds for each machine. Nothing of a C library. */
static volatile int sink;
__attribute__((noinline)) static int boom(volatile int *p) { *p = 1; return *p + 1; }
__attribute__((noinline)) int deep(int n) { return n ? deep(n - 1) + sink : boom((int *)8) + 1; }
__attribute__((noinline)) int wide(int n) {
    volatile char place[1000];
    place[n] = sink;
    sink += deep(3) + place[n / 2];
    return sink;
}
#ifdef __arm__
asm(".globl _start\n.thumb_func\n_start:\n.fnstart\n.cantunwind\nmovs r0, #7\nbl wide\nudf #0\n.fnend");
#else
void _start(void) {
    asm volatile(".cfi_undefined " RETURN_COLUMN);
    wide(7);
    for (;;)
        sink = 1;
}
#endif
