// Writes to stdout a trace of as many channel hand-overs as its argument says: many events in little time.
package main

import (
	"os"
	"runtime/trace"
	"strconv"
	"sync"
)

func main() {
	handovers, _ := strconv.Atoi(os.Args[1])
	if err := trace.Start(os.Stdout); err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	for pair := 0; pair < 8; pair++ {
		c := make(chan int)
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := 0; i < handovers/8; i++ {
				c <- i
			}
			close(c)
		}()
		go func() {
			defer wg.Done()
			for range c {
			}
		}()
	}
	wg.Wait()
	trace.Stop()
}
