#include "box.hh"
#include <iostream>
#include <functional>
namespace shop { std::unique_ptr<Box> gift(int n); }
static std::vector<std::function<int(int)>> work;
struct Guard { int &x; Guard(int &y) : x(y) { x++; } ~Guard() { x--; } };
static int guarded(int n) { int k = n; Guard g(k); if (n > 3) throw std::string("no"); return k; }
int main(int argc, char **argv) {
  auto g = shop::gift(argc);
  std::vector<int> v(100);
  std::iota(v.begin(), v.end(), argc);
  std::sort(v.begin(), v.end(), [&](int a, int b) { return (a ^ argc) < (b ^ argc); });
  work.push_back([=](int x) { return x + argc; });
  int s = 0;
  for (auto &w : work) s += w(v[3]);
  try { g->at(argc * 3).name = "hello"; s += guarded(argc); } catch (size_t i) { std::cerr << i; } catch (std::string &t) { s = t.size(); }
  std::cout << g->price() + s << std::endl;
}
