// C++: namespaces (one without a name), templates, a class hierarchy, lambdas, members inlined into each other.
extern "C" {
#include "plain.h"
extern volatile unsigned sink;
}

namespace geometry {

template <typename Number, int Sides>
struct Polygon {
    Number lengths[Sides];

    Number around() const
    {
        Number total{};
        for (const Number &length : lengths)
            total += weighed(length);
        return total;
    }

    static Number weighed(Number length) { return static_cast<Number>(mixed(static_cast<unsigned>(length), Sides)); }
};

namespace {

struct Shape {
    virtual unsigned area(unsigned scale) const = 0;
    unsigned twice(unsigned scale) const { return area(scale) + area(scale + 1); }
};

struct Square final : Shape {
    explicit Square(unsigned side) : polygon{{side, side, side, side}} {}
    unsigned area(unsigned scale) const override { return polygon.around() * scale; }
    Polygon<unsigned, 4> polygon;
};

struct Triangle final : Shape {
    explicit Triangle(unsigned short side) : polygon{{side, side, side}} {}
    unsigned area(unsigned scale) const override { return polygon.around() / (scale | 1); }
    Polygon<unsigned short, 3> polygon;
};

template <typename Function>
unsigned applied(unsigned count, Function function)
{
    unsigned total = 0;
    for (unsigned i = 0; i < count; i++)
        total ^= function(i);
    return total;
}

}  // namespace

inline namespace v2 {

__attribute__((noinline)) unsigned measure(const Shape &shape, unsigned scale)
{
    return applied(scale & 7, [&](unsigned i) { return shape.twice(i) + twice_mixed(scale); });
}

}  // namespace v2
}  // namespace geometry

extern "C" unsigned shapes(unsigned seed)
{
    geometry::Square square(seed);
    geometry::Triangle triangle(static_cast<unsigned short>(seed));
    auto both = [&](unsigned scale) { return geometry::measure(square, scale) ^ geometry::measure(triangle, scale); };
    sink = both(seed);
    return both(seed + 1) + geometry::Polygon<unsigned, 2>{{seed, 1}}.around();
}
