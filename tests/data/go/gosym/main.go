// Gosym prints what Go's own debug/gosym makes of a program's table: "entry\tend\tname" for every function, in order.
package main

import (
	"bufio"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"strconv"
)

func main() {
	file, err := elf.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	text, err := strconv.ParseUint(os.Args[2], 16, 64)
	if err != nil {
		panic(err)
	}
	data, err := file.Section(".gopclntab").Data()
	if err != nil {
		panic(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text))
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, function := range table.Funcs {
		fmt.Fprintf(out, "%d\t%d\t%s\n", function.Entry, function.End, function.Name)
	}
}
