// Writes to stdout an execution trace of a program that does a little of everything for as many milliseconds as its
// argument says: goroutines, channels, garbage, system calls, coroutines, tasks, regions, logs, CPU samples.
package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

var kept [][]byte

func numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < 20; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func coroutines() (sum int) {
	next, stop := iter.Pull(numbers())
	defer stop()
	for v, ok := next(); ok && v < 15; v, ok = next() {
		sum += v
	}
	return sum
}

func garbage(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 4096))
	}
	if len(kept) > 2000 {
		kept = nil
	}
}

func syscalls() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	go func() { time.Sleep(50 * time.Microsecond); w.Write([]byte("x")); w.Close() }()
	r.Read(make([]byte, 1))
	r.Close()
}

func spin(until time.Time) (x int) {
	for time.Now().Before(until) {
		for i := 0; i < 1000; i++ {
			x += i * i
		}
	}
	return x
}

func round(ctx context.Context, i int) {
	ctx, task := trace.NewTask(ctx, "round "+strconv.Itoa(i%7)+" \"quoted\" \u00e9\u200b\n")
	defer task.End()
	trace.Log(ctx, "key\x00\x7f", "value \xff\xfe `back` "+strconv.Itoa(i))
	var wg sync.WaitGroup
	c := make(chan int)
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			trace.WithRegion(ctx, "send", func() { c <- g })
		}()
	}
	for g := 0; g < 4; g++ {
		<-c
	}
	wg.Wait()
	trace.WithRegion(ctx, "coroutines", func() { coroutines() })
	trace.WithRegion(ctx, "garbage", func() { garbage(200) })
	syscalls()
	spin(time.Now().Add(2 * time.Millisecond))
	time.Sleep(10 * time.Millisecond)
}

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[1])
	if err := pprof.StartCPUProfile(nullWriter{}); err != nil {
		panic(err)
	}
	if err := trace.Start(os.Stdout); err != nil {
		panic(err)
	}
	debug.SetGCPercent(20)
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	for i := 0; time.Now().Before(end); i++ {
		round(context.Background(), i)
	}
	trace.Stop()
	pprof.StopCPUProfile()
	fmt.Fprintln(os.Stderr, runtime.Version())
}

type nullWriter struct{}

func (nullWriter) Write(b []byte) (int, error) { return len(b), nil }
