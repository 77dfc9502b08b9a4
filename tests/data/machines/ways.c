/* Threads that wait in 21 ways, for `make machines`: of each the functions s_<way> and start are its callers. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define WAY __attribute__((noinline, noclone)) static void
static volatile int sink;
static int never[2];
static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t nothing;
static volatile int waiting;

__attribute__((noinline)) static void block(void) {
    char byte;
    __sync_fetch_and_add(&waiting, 1);
    for (;;)
        sink += read(never[0], &byte, 1);
}
static void handler(int signal) { block(); sink = signal; }
static void fault(int signal) { block(); _exit(signal); }

WAY s_plain(void) { block(); sink = 1; }
WAY deep(int n) { if (n) deep(n - 1); else block(); sink = n; }
WAY s_deep(void) { deep(50); sink = 1; }
WAY s_alloca(void) { volatile char *p = alloca(100 + sink); p[0] = 1; block(); sink = p[0]; }
WAY s_vla(void) { volatile int row[10 + sink]; row[3] = 1; block(); sink = row[3]; }
WAY s_big(void) { volatile char row[300000]; row[7] = 1; block(); sink = row[7]; }
WAY s_jump(void) { jmp_buf env; if (!setjmp(env)) longjmp(env, 1); block(); sink = 1; }
WAY s_signal(void) { pthread_kill(pthread_self(), SIGUSR1); sink = 1; }
WAY s_altstack(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, 0);
    pthread_kill(pthread_self(), SIGUSR2);
    sink = 1;
}
static ucontext_t outer, inner;
static void uc_f(void) { block(); sink = 1; }
WAY s_context(void) {
    getcontext(&inner);
    inner.uc_stack.ss_sp = malloc(65536);
    inner.uc_stack.ss_size = 65536;
    inner.uc_link = &outer;
    makecontext(&inner, uc_f, 0);
    swapcontext(&outer, &inner);
}
static int compare(const void *a, const void *b) { block(); return *(int *)a - *(int *)b; }
WAY s_qsort(void) { int row[] = {3, 2, 1}; qsort(row, 3, sizeof *row, compare); sink = row[0]; }
WAY s_mutex(void) { __sync_fetch_and_add(&waiting, 1); pthread_mutex_lock(&locked); sink = 1; }
WAY s_cond(void) {
    pthread_mutex_lock(&other);
    __sync_fetch_and_add(&waiting, 1);
    pthread_cond_wait(&signalled, &other);
    sink = 1;
}
WAY s_sem(void) { __sync_fetch_and_add(&waiting, 1); sem_wait(&nothing); sink = 1; }
WAY s_sleep(void) { struct timespec t = {1000, 0}; __sync_fetch_and_add(&waiting, 1); nanosleep(&t, 0); sink = 1; }
static void destroy(void *value) { block(); sink = value != 0; }
WAY s_keydtor(void) { pthread_setspecific(key, &sink); }
static void once_f(void) { block(); sink = 1; }
WAY s_once(void) { pthread_once(&once, once_f); sink = 1; }
static void cleanup(void *value) { block(); sink = value != 0; }
WAY s_exit(void) { pthread_cleanup_push(cleanup, 0); pthread_exit(0); pthread_cleanup_pop(0); }
WAY s_nullcall(void) { void (*volatile null)(void) = 0; null(); sink = 1; }
WAY s_heapcall(void) {
    void (*volatile heap)(void) = (void (*)(void))mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    heap();
    sink = 1;
}
__attribute__((noinline, noreturn)) static void last(void) { for (;;) block(); }
WAY s_noreturn(void) { last(); }
WAY s_pointer(void) { void (*volatile f)(void) = s_plain; f(); sink = 1; }
static int order(const void *a, const void *b) { block(); return a < b; }
WAY s_search(void) { int row[] = {1, 2, 3}; sink = bsearch(&row[1], row, 3, sizeof *row, order) != 0; }

static void (*const ways[])(void) = {
    s_plain, s_deep, s_alloca, s_vla, s_big, s_jump, s_signal, s_altstack, s_context, s_qsort, s_mutex, s_cond, s_sem,
    s_sleep, s_keydtor, s_once, s_exit, s_nullcall, s_heapcall, s_noreturn, s_pointer, s_search,
};
#define COUNT (sizeof ways / sizeof *ways)

__attribute__((noinline)) static void *start(void *way) {
    ((void (*)(void))way)();
    sink = 2;
    return 0;
}

int main(void) {
    pthread_t thread;
    struct sigaction on_alternate = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    struct sigaction on_fault = {.sa_handler = fault, .sa_flags = SA_SIGINFO * 0};
    if (pipe(never))
        return 1;
    signal(SIGUSR1, handler);
    sigaction(SIGUSR2, &on_alternate, 0);
    sigaction(SIGSEGV, &on_fault, 0);
    pthread_mutex_lock(&locked);
    pthread_key_create(&key, destroy);
    sem_init(&nothing, 0, 0);
    for (unsigned at = 0; at < COUNT; at++)
        pthread_create(&thread, 0, start, (void *)ways[at]);
    while (waiting < (int)COUNT)
        usleep(1000);
    usleep(300000);
    abort();
}
