// Work in goroutines, a method, closures and inlined calls, to be sampled.
package main

import "sort"

type task struct{ count int }

func mix(a, b int) int { return a*31 + b }

//go:noinline
func spin(count int) (sum int) {
	for i := 0; i < count; i++ {
		sum = mix(sum, i)
	}
	return sum
}

//go:noinline
func (t *task) run() int { return spin(t.count) }

func worker(out chan<- int, count int) {
	t := &task{count}
	numbers := make([]int, 20000)
	for i := range numbers {
		numbers[i] = (i * 7919) % len(numbers)
	}
	sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
	out <- t.run() + numbers[0]
}

func main() {
	out := make(chan int)
	for i := 0; i < 8; i++ {
		go worker(out, 10000000)
	}
	sum := 0
	for i := 0; i < 8; i++ {
		sum += <-out
	}
	println(sum)
}
