import tables, strutils, sequtils, os
type Shape = ref object of RootObj
  w: int
method area(s: Shape): int {.base.} = s.w * s.w
proc fact(n: int): int = (if n < 2: 1 else: n * fact(n - 1))
iterator odds(n: int): int =
  for i in 0..n:
    if i mod 2 == 1: yield i
var t = initTable[string, int]()
for p in commandLineParams(): t[p] = p.len
for o in odds(10): t[$o] = fact(o)
echo t, Shape(w: 3).area(), toSeq(1..5).mapIt(it * 2)
