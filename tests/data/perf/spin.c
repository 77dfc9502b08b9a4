/* A program without a C library, for recordings that are kept: three functions deep, with a noreturn call at the end. */
static volatile unsigned long sum;

__attribute__((noinline)) void leaf(int n) {
    for (int i = 0; i < n; i++)
        sum += i * i;
}

__attribute__((noinline)) void middle(int n) {
    leaf(n);
    leaf(n / 2);
    sum++;
}

__attribute__((noinline, noreturn)) static void last(void) {
    for (int i = 0; i < 40; i++)
        middle(200000);
    __asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall");
    __builtin_unreachable();
}

__attribute__((noreturn, used, force_align_arg_pointer)) void _start(void) {
    for (int i = 0; i < 20; i++)
        middle(300000);
    last();
}
