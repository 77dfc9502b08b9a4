// Every way that a C++ program's stack can look: the first argument says which, "wait" as the second that it stops
// there instead of crashing.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile int sink;
static volatile bool waits;
static void (*volatile null)();

static void rest() {
    for (;;) pause();
}
NOINLINE static int boom(volatile int *p) {
    if (waits) rest();
    *p = 1;
    return *p + 1;
}
NOINLINE int deep(int n) { return n ? deep(n - 1) + sink : boom((int *)8) + 1; }
NOINLINE static int tail(int n) {
    sink = n;
    return deep(n);
}
__attribute__((noinline, noreturn)) static void die() {
    if (waits) rest();
    abort();
}
NOINLINE static void ends(int n) {
    sink = n;
    if (n) die();
}
NOINLINE static int wide(int n) {
    char *place = (char *)alloca(n * 16 + 64);
    memset(place, n, n * 16 + 64);
    sink = place[n / 2];
    return deep(n) + place[0];
}
typedef float Vector __attribute__((vector_size(32)));
NOINLINE static int aligned(int n) {
    alignas(64) volatile Vector places[4] = {};
    for (int i = 0; i < 4; i++) places[i] = places[i] + (float)n;
    return wide(n) + (int)places[n & 3][0];
}
static void handler(int) { sink = deep(3); }
static void nested(int) {
    raise(SIGUSR1);
    sink = 1;
}
static int compare(const void *a, const void *b) {
    sink = sink + deep(2);
    return *(const int *)a - *(const int *)b;
}
struct Ends {
    ~Ends() {
        if (std::getenv("IN_DESTRUCTOR")) die();
    }
};
NOINLINE static int throws(int n) {
    Ends held;
#if __cpp_exceptions
    if (!n) throw std::runtime_error(std::string(40, 'x'));
#endif
    return throws(n - 1) + 1;
}
struct Base {
    virtual ~Base() = default;
    virtual int run(int n) = 0;
};
struct First : virtual Base {
    int run(int n) override { return n ? deep(n) + 1 : 0; }
};
struct Second : virtual Base {};
struct Both : First, Second {};
static ucontext_t here, there;
static char coroutine_stack[1 << 16], other_stack[1 << 16];
static void coroutine() { sink = deep(5); }
static jmp_buf place;

NOINLINE static int way(const std::string &name) {
    stack_t other = {};
    other.ss_sp = other_stack;
    other.ss_size = sizeof other_stack;
    struct sigaction action = {};
    action.sa_handler = handler;
    int numbers[3] = {3, 1, 2};
    if (name == "plain") return deep(40);
    if (name == "handler") {
        sigaction(SIGUSR1, &action, nullptr);
        raise(SIGUSR1);
    }
    if (name == "nested") {
        sigaction(SIGUSR1, &action, nullptr);
        action.sa_handler = nested;
        sigaction(SIGUSR2, &action, nullptr);
        raise(SIGUSR2);
    }
    if (name == "alternate" || name == "fault") {
        sigaltstack(&other, nullptr);
        action.sa_flags = SA_ONSTACK;
        sigaction(SIGUSR1, &action, nullptr);
        sigaction(SIGSEGV, &action, nullptr);
        if (name == "alternate") raise(SIGUSR1);
        *(volatile int *)16 = 1;
    }
    if (name == "null") {
        if (waits) return deep(1);
        null();
    }
    if (name == "sort") qsort(numbers, 3, sizeof *numbers, compare);
    if (name == "wide") return wide(9);
    if (name == "aligned") return aligned(9);
    if (name == "tail") return tail(4) + sink;
    if (name == "noreturn") ends(1);
    if (name == "abort") die();
    if (name == "vfork" && !vfork()) {
        sink = deep(2);
        _exit(0);
    }
    if (name == "uncaught") return waits ? deep(3) : throws(4);
#if __cpp_exceptions
    if (name == "destructor") {
        setenv("IN_DESTRUCTOR", "1", 1);
        try {
            throws(4);
        } catch (std::exception &) {
            die();
        }
    }
    if (name == "caught") {
        try {
            throws(4);
        } catch (std::exception &) {
            die();
        }
    }
#endif
    if (name == "context") {
        getcontext(&there);
        there.uc_stack.ss_sp = coroutine_stack;
        there.uc_stack.ss_size = sizeof coroutine_stack;
        there.uc_link = &here;
        makecontext(&there, coroutine, 0);
        swapcontext(&here, &there);
    }
    if (name == "longjmp") {
        if (!setjmp(place)) {
            std::function<void(int)> jumps = [&](int n) {
                if (!n) longjmp(place, 1);
                jumps(n - 1);
            };
            jumps(5);
        }
        return deep(2);
    }
    if (name == "library") {
        std::map<int, std::string> known;
        std::vector<int> values = {5, 3, 9, 1};
        std::sort(values.begin(), values.end(), [&](int a, int b) {
            known.emplace(a, "x");
            return deep(a & 3) + a < b;
        });
    }
    if (name == "virtual") {
        std::unique_ptr<Base> both = std::make_unique<Both>();
        return both->run(4) + 1;
    }
    if (name == "atexit") {
        atexit([] { sink = deep(2); });
        exit(0);
    }
    if (name == "thread") {
        std::thread one([] { sink = deep(6); });
        one.join();
    }
    if (name == "opened") {
        void *library = dlopen(getenv("LIBRARY"), RTLD_NOW);
        if (getenv("UNLINKED")) unlink(getenv("LIBRARY"));
        auto call = (int (*)(int (*)(int), int))dlsym(library, "through");
        return call(deep, 3);
    }
    if (name == "million") {
        volatile int depth = atoi(getenv("DEPTH"));
        return deep(depth);
    }
    return sink;
}
static void wait_here(int n) {
    if (n) wait_here(n - 1);
    else rest();
    sink = n;
}
int main(int argc, char **argv) {
    waits = argc > 2;
    for (int i = 0; i < 2; i++) std::thread(wait_here, 3).detach();
    usleep(30000);
    return way(argc > 1 ? argv[1] : "plain") + sink;
}
