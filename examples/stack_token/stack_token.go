// Package stacktoken encodes the stack of a goroutine as a stack token (docs/formats/stack-token.md).
package stacktoken

import (
	"debug/elf"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const (
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	frames   = 64
	noteID   = 3 // NT_GNU_BUILD_ID
)

var lengths = [...]int{1, 2, 3, 4, 5, 6, 8, 11}

func characters(value uint64, count int) string {
	text := make([]byte, count)
	for i := range text {
		text[count-1-i] = alphabet[value&63]
		value >>= 6
	}
	return string(text)
}

// buildID returns the first five bytes of the program's build-id, and the address where it is loaded minus its vaddr.
func buildID() (id, bias uint64) {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return 0, 0
	}
	defer program.Close()
	if section := program.Section(".note.gnu.build-id"); section != nil {
		note, err := section.Data()
		if err == nil && len(note) >= 21 && program.ByteOrder.Uint32(note[8:]) == noteID {
			for _, value := range note[16:21] {
				id = id<<8 | uint64(value)
			}
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && program.Type == elf.ET_DYN {
		start, _, _ := strings.Cut(string(maps), "-")
		bias, _ = strconv.ParseUint(start, 16, 64)
	}
	return id, bias
}

// Token returns the token of the caller's stack, without the innermost skip functions.
func Token(skip int) string {
	pcs := make([]uintptr, frames)
	pcs = pcs[:runtime.Callers(skip+2, pcs)]
	id, bias := buildID()
	text := "h" + characters(id<<2, 7) // one module; the first address is a return address, too
	previous := uint64(0)
	list, inlined := runtime.CallersFrames(pcs), false
	for _, pc := range pcs {
		frame, _ := list.Next()
		skipped := inlined
		inlined = frame.Func == nil // the next frame is its caller, at the same address
		if skipped {
			continue
		}
		address := uint64(pc) - bias
		first, magnitude := 0, address-previous
		if address < previous {
			first, magnitude = 16, previous-address
		}
		previous = address
		code := 0
		for code < 7 && magnitude>>(6*lengths[code]) >= 2 {
			code++
		}
		high := int(magnitude >> (6 * lengths[code]))
		text += characters(uint64(first|code<<1|high), 1) + characters(magnitude, lengths[code])
	}
	check := uint32(0x811C9DC5)
	for _, value := range []byte(text) {
		check = (check ^ uint32(value)) * 0x01000193
	}
	return "wst1." + text + characters(uint64(check^check>>12^check>>24)&0xFFF, 2)
}
