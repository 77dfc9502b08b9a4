#include <stdlib.h>
#include <string.h>

typedef struct node {
    int id;
    const char *name;
    struct node *next;
} node_t;
enum color { RED, GREEN = 5, BLUE };
enum flags { F_A = 1, F_B = 2, F_C = 4 };
union either {
    int i;
    float f;
    char c[4];
};
struct big {
    unsigned a : 3;
    int b : 5;
    unsigned long long c : 40;
    double d;
    enum color col;
    union either u;
    struct {
        int x, y;
    } anon;
    char buf[32];
    node_t *list;
    int (*fn)(int);
};
volatile int sink;

int twice(int x) { return 2 * x; }

static int depth(struct big *b, int n, const char *s, double d, float f, node_t node) {
    int arr[20] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 2, 3};
    char text[64] = "hello\nworld";
    unsigned char bytes[4] = {1, 2, 3, 255};
    int vla[n];
    for (int i = 0; i < n; i++)
        vla[i] = i * i;
    enum flags fl = F_A | F_C, none = 0, unk = 9;
    enum color c2 = BLUE;
    _Bool yes = 1;
    long double ld = 1.1L;
    char ch = 'x';
    signed char sc = -3;
    short sh = -5;
    unsigned long ul = ~0ul;
    long long ll = -1;
    __int128 huge = ((__int128)1 << 100) + 5;
    int *p = &arr[2];
    void *vp = p;
    char **pp = 0;
    char *badp = (char *)8;
    int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
    static int counter = 42;
    static const char *names[] = {"a", "bc", 0};
    double not_a_number = __builtin_nan(""), infinite = -__builtin_inf();
    if (n > 2) {
        int inner = n * 3;
        char ch = 'y';
        counter += inner;
        sink += inner + ch;
        abort();
    }
    return arr[0] + vla[0] + (int)ld + counter + text[0] + names[0][0] + (int)infinite;
}

__attribute__((noinline)) static int outer(int first, long second, node_t *third) {
    struct big b;
    memset(&b, 0, sizeof b);
    b.a = 5;
    b.b = -3;
    b.c = 135056262347ull;
    b.d = 3.25;
    b.col = GREEN;
    b.u.i = 0x41424344;
    b.anon.x = 1;
    strcpy(b.buf, "buffer");
    b.list = third;
    b.fn = twice;
    return depth(&b, first, "argument", 2.5, 1.1f, *third) + (int)second;
}

int main(int argc, char **argv) {
    node_t n1 = {1, "one", 0}, n2 = {2, "two", &n1};
    return outer(argc + 4, 17, &n2);
}
