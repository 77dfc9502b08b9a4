import std.stdio, std.algorithm, std.range, std.conv;
struct P(T) { T x, y; T dot(P o) const { return x * o.x + y * o.y; } }
class A { int v; this(int n) { v = n; } int f(int k) { auto g = (int z) => z * v; return g(k); } }
class B : A { this(int n) { super(n + 1); } override int f(int k) { return super.f(k) + 1; } }
unittest { assert(1); }
void main(string[] args) {
  A a = new B(cast(int) args.length);
  auto s = iota(100).filter!(i => i % 3 == 0).map!(i => a.f(i)).sum;
  auto p = P!double(1, 2);
  writeln(s, " ", p.dot(P!double(s, 3)), " ", args.map!(to!string).array.sort());
}
