#include "box.hh"
namespace shop {
Box::~Box() {}
struct Gift : Box {
  using Box::Box;
  int price() const override { return Box::price() + Fold<5>::of(3); }
  std::map<std::string, int> tags;
};
std::unique_ptr<Box> gift(int n) { auto g = std::make_unique<Gift>(n); g->tags["x"] = n; return g; }
}
