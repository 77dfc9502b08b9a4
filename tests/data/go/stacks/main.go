// Stacks to unwind: a crash deep down, after the stack has grown, in a panic, and threads that wait.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

//go:noinline
func deep(n int, f func()) int {
	if n == 0 {
		f()
		return 1
	}
	return deep(n-1, f) + 1
}

//go:noinline
func grow(n int, f func()) int {
	var place [512]int
	place[n%512] = n
	if n == 0 {
		f()
		return 0
	}
	return grow(n-1, f) + place[(n*7)%512]
}

//go:noinline
func crash() {
	var nothing *int
	*nothing = 1
}

func main() {
	switch os.Args[1] {
	case "nil":
		deep(10, crash)
	case "grow":
		grow(200, crash)
	case "panic":
		deep(5, func() { panic("on purpose") })
	case "wait":
		for i := 0; i < 3; i++ {
			go func() {
				runtime.LockOSThread()
				deep(4, func() { wait() })
			}()
		}
		time.Sleep(50 * time.Millisecond)
		fmt.Println("ready")
		os.Stdin.Read(make([]byte, 1))
	}
}
