package main

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"
)

type point struct {
	x, y int
	name string
}

type speaker interface{ speak() int }

func (p *point) speak() int { return p.x }

type colour uint8

const (
	red colour = iota
	green
)

var kept *point

//go:noinline
func depth(number int, text string, slice []int, p *point) int {
	flag := true
	letter := 'é'
	small := uint8(200)
	real := 2.5
	single := float32(1.5)
	imaginary := complex(1, 2)
	empty := ""
	var nothing []int
	words := []string{"a", "bc"}
	array := [20]int16{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 2}
	value := point{3, 4, "p"}
	lookup := map[string]int{"k": 5}
	many := map[int]int{}
	for i := 0; i < 100; i++ {
		many[i] = i * i
	}
	var none map[string]int
	var any1 interface{} = 42
	var any2 interface{} = "boxed"
	var nilany interface{}
	var speaks speaker = p
	var fault error = errors.New("fault")
	c := green
	channel := make(chan int, 3)
	channel <- 1
	function := func(k int) int { return k + number }
	structs := []point{{1, 2, "one"}, {3, 4, "two"}}
	pointers := []*point{p, nil}
	nested := map[string][]int{"a": {1, 2}}
	moved := point{5, 6, "moved"}
	kept = &moved
	sum := function(1) + speaks.speak() + len(words) + int(array[3]) + value.y + lookup["k"] + len(many) + len(none)
	sum += len(text) + len(slice) + len(empty) + len(nothing) + int(letter) + int(small) + int(real) + int(single)
	sum += int(c) + len(structs) + len(pointers) + len(nested) + int(imag(imaginary)) + len(channel)
	if flag && any1 != nil && any2 != nil && nilany == nil && fault != nil && sum != 0 {
		syscall.Kill(os.Getpid(), syscall.SIGABRT)
		for {
		}
	}
	return sum
}

func main() {
	debug.SetTraceback("crash")
	p := &point{8, 9, "pointed"}
	os.Exit(depth(-9, "text", []int{1, 2, 3}, p))
}
