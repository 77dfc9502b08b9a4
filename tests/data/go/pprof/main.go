// Command pprof prints a profile as `go tool pprof -raw -symbolize=none` does, by the package that it reads with,
// without the commands, symbolizers and web server that linking the whole tool would compile.
//
//	pprof FILE
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func main() {
	file, err := os.Open(os.Args[1])
	var read *profile.Profile
	if err == nil {
		read, err = profile.Parse(file)
	}
	if err == nil {
		read.RemoveUninteresting()
		err = read.CheckValid()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(read.String())
}
