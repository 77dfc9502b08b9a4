/* A library for listings that are kept: inlined calls, calls through the PLT and the GOT, variables, a jump table, a loop,
   a cold part, and Intel and AT&T syntax of all of them.
   gcc -O2 -g -fPIC -shared -nostdlib -Wl,--build-id=sha1 -Wl,-z,norelro -fdebug-prefix-map=$PWD=/src calls.c -o calls */
extern int puts(const char *);
extern void stop(int) __attribute__((cold, noreturn));
extern int limit;
static int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
int counter;

static inline int square(int x) { return x * x; }

static inline int twice(int x) {
    return square(x) + square(x + 1);
}

__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++)
        total += twice(i);
    return total;
}

int choose(int what, int x) {
    switch (what) {
    case 0: return x + counter;
    case 1: return x << 3;
    case 2: return puts("two");
    case 3: return table[x & 7];
    case 4: return sum(x);
    case 5: return limit - x;
    default: return 0;
    }
}

int checked(int x) {
    if (__builtin_expect(x > limit, 0))
        stop(x);
    counter++;
    return square(x);
}
