package main

/*
static int twice(int x) { return 2 * x; }
*/
import "C"

import "strings"

func main() { println(C.twice(21), strings.Repeat("a", 3)) }

//export Exported
func Exported(x C.int) C.int { return x + 1 }
