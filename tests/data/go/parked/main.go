// Goroutines that are parked in different ways: "ready" is printed when all of them are. With an argument a line on
// stdin is what the program panics at.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

type waiter interface{ wait() }

type group struct{ *sync.WaitGroup }

//go:noinline
func (g group) wait() { g.Wait() }

//go:noinline
func receive(c chan int) int { return <-c + 1 }

func main() {
	var wait sync.WaitGroup
	var lock sync.Mutex
	wait.Add(1)
	lock.Lock()
	for i := 0; i < 200; i++ {
		go func() { wait.Wait() }()
	}
	c, d := make(chan int), make(chan int)
	go receive(c)
	go func() { defer fmt.Println("never"); d <- 1 }()
	go func() {
		select {
		case <-c:
		case d <- 1:
		}
	}()
	go func() { select {} }()
	go lock.Lock()
	go time.Sleep(time.Hour)
	go waiter(group{&wait}).wait()
	read, _, _ := os.Pipe()
	go read.Read(make([]byte, 1))
	if len(os.Args) > 1 {
		go func() {
			os.Stdin.Read(make([]byte, 1))
			panic("asked to")
		}()
	}
	time.AfterFunc(200*time.Millisecond, func() { fmt.Println("ready") })
	receive(c)
}
