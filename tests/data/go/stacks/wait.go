//go:build !cgo

package main

import "syscall"

//go:noinline
func wait() { syscall.Pause() }
