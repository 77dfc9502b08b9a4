#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>
namespace shop {
struct Item { std::string name; int price; };
class Box {
public:
  virtual ~Box();
  explicit Box(int n) : items(n) {}
  template <typename F> int each(F f) const { int t = 0; for (auto &i : items) t += f(i); return t; }
  virtual int price() const { return each([](const Item &i) { return i.price * 2; }); }
  Item &at(size_t i) { if (i >= items.size()) throw i; return items[i]; }
protected:
  std::vector<Item> items;
};
inline namespace v1 { namespace { struct Local { int operator()(int x) const { return x + 1; } }; } }
template <int N> struct Fold { static int of(int x) { return Fold<N - 1>::of(x) * 3 + Local()(x); } };
template <> struct Fold<0> { static int of(int x) { return x; } };
}
