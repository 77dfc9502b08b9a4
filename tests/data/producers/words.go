package main
import ("fmt"; "os"; "sort"; "strings")
type T struct{ n int }
func (t *T) f(k int) int { return t.n*k + g(k) }
func g(k int) int { return k ^ 77 }
func main() { w := append([]string{}, os.Args...); sort.Strings(w); t := &T{len(w)}; defer func() { recover() }(); fmt.Println(strings.ToUpper(w[0]), t.f(3)); ch := make(chan int); go func() { ch <- t.f(9) }(); fmt.Println(<-ch) }
