// Command dump prints a trace by the packages that `go tool trace -d` prints by, without the web server that
// linking the whole tool would compile.
//
//	dump wire|parsed TRACE
package main

import (
	"bufio"
	"fmt"
	"internal/trace"
	"internal/trace/raw"
	"io"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := dump(os.Args[1], os.Args[2], out)
	out.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dump(form, path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	next, err := reader(form, bufio.NewReader(file))
	for err == nil {
		var event fmt.Stringer
		if event, err = next(); err == nil {
			fmt.Fprintln(out, event.String())
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// reader returns what reads the next event: as it is stored ("wire"), or as Go understands it ("parsed").
func reader(form string, file io.Reader) (func() (fmt.Stringer, error), error) {
	if form == "wire" {
		stored, err := raw.NewReader(file)
		return func() (fmt.Stringer, error) { event, err := stored.ReadEvent(); return &event, err }, err
	}
	understood, err := trace.NewReader(file)
	return func() (fmt.Stringer, error) { event, err := understood.ReadEvent(); return event, err }, err
}
