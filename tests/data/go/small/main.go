package main

import (
	"os"
	"strings"
)

type shape interface{ area() int }
type square struct{ side int }

func (s square) area() int { return mul(s.side, s.side) }
func mul(a, b int) int     { return abs(a) * abs(b) }
func abs(a int) int {
	if a < 0 {
		return -a
	}
	return a
}

type named struct{ square }

func sum[T int | float64](v []T) (t T) {
	for _, x := range v {
		t += x
	}
	return
}

func main() {
	var s shape = &named{square{len(os.Args)}}
	defer func() { println(recover() != nil) }()
	println(s.area(), strings.Repeat("x", sum([]int{1, 2})), sum([]float64{1, 2}) > 2)
}
