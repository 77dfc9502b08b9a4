// A Windows program without a C library: templates, methods and calls inlined into each other.
typedef unsigned long long u64;
extern "C" int _fltused = 0;
extern "C" void* memset(void* to, int byte, u64 size) {
    char* at = (char*)to;
    while (size--) *at++ = (char)byte;
    return to;
}
extern "C" void* memcpy(void* to, const void* from, u64 size) {
    for (u64 i = 0; i < size; i++) ((char*)to)[i] = ((const char*)from)[i];
    return to;
}
volatile int sink;
namespace util {
inline int mix(int a, int b) { return (a ^ b) * 31 + (a >> 3); }
static inline int fold(int x) {
    for (int i = 0; i < 3; i++) x = mix(x, i);
    return x;
}
template <class T> struct List {
    T data[64];
    unsigned count = 0;
    void push(const T& value) {
        if (count < 64) data[count++] = value;
    }
    T sum() const {
        T total{};
        for (unsigned i = 0; i < count; i++) total += data[i];
        return total;
    }
};
}  // namespace util
template <int N> struct Unrolled {
    static int run(int x) { return util::mix(Unrolled<N - 1>::run(x), N); }
};
template <> struct Unrolled<0> {
    static int run(int x) { return util::fold(x); }
};
template <int N> __attribute__((noinline)) int step(int a) {
    util::List<int> list;
    for (int i = 0; i < a; i++) list.push(util::fold(i + N));
    switch (a & 3) {
    case 0: return list.sum() + util::fold(N);
    case 1: return Unrolled<N % 7>::run(a);
    default: return util::mix(util::mix(a, N), list.sum());
    }
}
template <int N> int steps(int a) { return step<N>(a) + steps<N - 1>(a); }
template <> int steps<0>(int a) { return a; }
extern "C" int start() {
    auto twice = [](int x) { return util::fold(x) + util::mix(x, sink); };
    return sink = steps<24>(sink) + twice(sink);
}
