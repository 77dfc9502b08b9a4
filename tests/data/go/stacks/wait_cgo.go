//go:build cgo

package main

/*
#include <unistd.h>
extern void again(int);
static void __attribute__((noinline)) inner(int n) { if (n) again(n - 1); else for (;;) pause(); }
static int __attribute__((noinline)) outer(int n) { inner(n); return n; }
*/
import "C"

//export again
func again(n C.int) { C.outer(n) }

//go:noinline
func wait() { C.outer(1) }
