/* What `make demo` runs and samples: queens on a chessboard, prime numbers, sorting.

   Every millisecond a signal writes down where the program is: the program counter, then the return addresses along the
   frame pointers. At the end the stacks go to stdout, a line each, innermost first, as bare addresses; an empty line
   says that they are all there. The process then waits until its stdin is closed, so that it can be looked at. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>

enum { DEEPEST = 64, MOST = 4096, INTERVAL_US = 1000, RUN_SAMPLES = 800, MOST_ROUNDS = 2000 };

static uintptr_t stacks[MOST][DEEPEST];
static volatile sig_atomic_t taken;
static uintptr_t stack_end;

static void sample(int signal_number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    uintptr_t pc = 0, frame = 0;
    int depth = 0;
    (void)signal_number, (void)info;
#if defined(__x86_64__)
    pc = (uintptr_t)at->uc_mcontext.gregs[REG_RIP], frame = (uintptr_t)at->uc_mcontext.gregs[REG_RBP];
#elif defined(__aarch64__)
    pc = (uintptr_t)at->uc_mcontext.pc, frame = (uintptr_t)at->uc_mcontext.regs[29];
#else
    (void)at;
#endif
    if (!pc || taken == MOST)
        return;
    stacks[taken][depth++] = pc;
    uintptr_t low = (uintptr_t)&depth;
    while (depth < DEEPEST - 1 && frame > low && frame <= stack_end && frame % sizeof(uintptr_t) == 0) {
        uintptr_t *link = (uintptr_t *)frame;
        stacks[taken][depth++] = link[1];
        low = frame, frame = link[0];
    }
    taken++;
}

/* Compilers give no frame to a function that calls none, and its caller would be missing from the stacks. */
static void *volatile frame_of;
#define HAS_A_FRAME (frame_of = __builtin_frame_address(0))

/* queens */

static inline int attacked(const int *column_of, int row, int column)
{
    for (int above = 0; above < row; above++) {
        int apart = column_of[above] - column;
        if (apart == 0 || apart == row - above || apart == above - row)
            return 1;
    }
    return 0;
}

__attribute__((noinline)) static long place_queen(int *column_of, int row, int size)
{
    long found = 0;
    if (row == size)
        return 1;
    for (int column = 0; column < size; column++)
        if (!attacked(column_of, row, column)) {
            column_of[row] = column;
            found += place_queen(column_of, row + 1, size);
        }
    return found;
}

__attribute__((noinline)) static long solve_queens(int size)
{
    int column_of[16];
    long found = place_queen(column_of, 0, size);
    return found;
}

/* primes */

static inline int is_prime(unsigned number)
{
    for (unsigned divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return number > 1;
}

__attribute__((noinline)) static long count_primes(unsigned limit)
{
    long count = 0;
    HAS_A_FRAME;
    for (unsigned number = 0; number < limit; number++)
        count += is_prime(number);
    return count;
}

/* sorting */

static uint32_t numbers[1 << 14];

static inline void swap(uint32_t *one, uint32_t *two)
{
    uint32_t kept = *one;
    *one = *two, *two = kept;
}

__attribute__((noinline)) static long partition(uint32_t *of, long low, long high)
{
    long middle = low;
    uint32_t pivot = of[high];
    HAS_A_FRAME;
    for (long at = low; at < high; at++)
        if (of[at] < pivot)
            swap(&of[at], &of[middle++]);
    swap(&of[high], &of[middle]);
    return middle;
}

__attribute__((noinline)) static void quicksort(uint32_t *of, long low, long high)
{
    while (low < high) {
        long middle = partition(of, low, high);
        quicksort(of, low, middle - 1);
        low = middle + 1;
    }
}

__attribute__((noinline)) static long sort_numbers(uint32_t seed)
{
    long count = sizeof numbers / sizeof *numbers;
    for (long at = 0; at < count; at++)
        numbers[at] = seed = seed * 1664525u + 1013904223u;
    quicksort(numbers, 0, count - 1);
    return numbers[count / 2];
}

int main(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, INTERVAL_US}, {0, INTERVAL_US}}, never = {{0, 0}, {0, 0}};
    volatile long total = 0;

    stack_end = (uintptr_t)__builtin_frame_address(0);
    action.sa_sigaction = sample;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (uint32_t round = 1; taken < RUN_SAMPLES && round <= MOST_ROUNDS; round++) {
        total += solve_queens(9);
        total += count_primes(40000);
        total += sort_numbers(round);
    }
    setitimer(ITIMER_REAL, &never, NULL);

    for (int stack = 0; stack < taken; stack++) {
        for (int depth = 0; stacks[stack][depth]; depth++)
            printf("%#lx ", (unsigned long)stacks[stack][depth]);
        puts("");
    }
    puts("");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
