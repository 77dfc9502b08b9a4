// Witness answers for itself: it reads vaddrs of its own code from stdin, one in hex per line, and prints the chain
// of frames that its runtime sees there, innermost first: "function\tfile\tline" each, joined by tabs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"unsafe"
)

//go:linkname expand runtime/pprof.runtime_expandFinalInlineFrame
func expand(stack []uintptr) []uintptr

type shape interface{ area() float64 }

type square struct{ side float64 }

func (s square) area() float64 { return mul(s.side, s.side) }

type named struct {
	square
	Name string
}

func mul(a, b float64) float64 { return check(a) * check(b) }

func check(a float64) float64 {
	if a < 0 {
		panic("negative")
	}
	return a
}

type number interface{ ~int | ~float64 }

func sum[T number](values []T) (total T) {
	for _, value := range values {
		total = add(total, value)
	}
	return total
}

func add[T number](a, b T) T { return a + b }

func deferred(path string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", path, r)
		}
	}()
	for i := range strings.Fields(path) {
		defer func(n int) { counter += n }(i)
	}
	return nil
}

var counter int

//line generated.y:100
func generated(x int) int {
	x *= 3
//line other.y:7
	x += len(os.Args)
	return twice(x)
}

func twice(x int) int {
	return x + x
}

//line main.go:1000
func main() {
	shapes := []shape{square{2}, &named{square{3}, "three"}}
	sort.Slice(shapes, func(i, j int) bool { return shapes[i].area() < shapes[j].area() })
	text, _ := json.Marshal(shapes)
	counter += len(text) + sum([]int{1, 2}) + int(sum([]float64{3, 4})) + generated(counter)
	_ = deferred("a b c")

	in, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	shift := uintptr(0)
	if len(os.Args) > 1 { // position-independent: where this program's main is by its own file
		linked, _ := strconv.ParseUint(os.Args[1], 16, 64)
		main := main
		shift = **(**uintptr)(unsafe.Pointer(&main)) - uintptr(linked)
	}
	for in.Scan() {
		pc, err := strconv.ParseUint(in.Text(), 16, 64)
		if err != nil {
			panic(err)
		}
		frames := runtime.CallersFrames(expand([]uintptr{uintptr(pc) + shift + 1}))
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			fmt.Fprintf(out, "%s\t%s\t%d\t", frame.Function, frame.File, frame.Line)
		}
		fmt.Fprintln(out)
	}
}
