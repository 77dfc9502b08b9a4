#include <stdlib.h>
#define KEPT __attribute__((noipa))
KEPT void use(int *where) { *where += 1; }
KEPT int last(int first, int second) { int local = 1; use(&local); if (local) abort(); return 0; }
KEPT int between(int first, int second) { return last(first + 1, 7); }
KEPT int start(int first) { return between(2 * first, 3); }
int main(int argc, char **argv) { return start(20) + argc; }
