#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#ifndef PART
#define PART words
#endif
namespace PART {  // programs of several parts have these types and functions several times
struct Word {
    std::string text;
    bool operator<(const Word& other) const { return text < other.text; }
};
namespace shapes {
struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
struct Square : Shape {
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side; }
    double side;
};
template <int N> struct Polygon : Shape {
    explicit Polygon(double side) : side(side) {}
    double area() const override {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += side * i / (N + sum);
        return sum;
    }
    double side;
};
}  // namespace shapes

using Words = std::map<Word, std::vector<int>>;

static Words words_of(const std::string& text) {
    Words out;
    std::istringstream stream(text);
    std::string word;
    for (int line = 1; stream >> word; line++) out[Word{word}].push_back(line);
    return out;
}

static std::string joined(const Words& words) {
    std::ostringstream out;
    for (const auto& [word, lines] : words) {
        out << word.text << ':';
        for (int line : lines) out << ' ' << line;
        out << '\n';
    }
    return out.str();
}

static Word operator+(const Word& a, const Word& b) { return {a.text + b.text}; }

template <typename T> static T sorted_sum(std::vector<T> values) {
    std::sort(values.begin(), values.end(), [](const T& a, const T& b) { return b < a; });
    std::stable_sort(values.begin(), values.end());
    std::partial_sum(values.begin(), values.end(), values.begin());
    return std::accumulate(values.begin(), values.end(), T{});
}

int run(int argc, char** argv) {
    std::string text;
    for (int i = 0; i < argc; i++) text += std::string(argv[i]) + " ";
    std::vector<std::unique_ptr<shapes::Shape>> all;
    all.push_back(std::make_unique<shapes::Square>(argc));
    all.push_back(std::make_unique<shapes::Polygon<5>>(argc));
    all.push_back(std::make_unique<shapes::Polygon<6>>(argc));
    std::unordered_map<std::string, std::function<double(double)>> functions;
    functions["double"] = [](double x) { return 2 * x; };
    functions["shape"] = [&](double x) { return all[argc % 3]->area() + x; };
    std::set<Word> seen;
    double total = sorted_sum(std::vector<int>(argc, 3)) + sorted_sum(std::vector<double>(argc, 2.5));
    for (const auto& [name, function] : functions) {
        seen.insert({name});
        total += function(total);
    }
    for (const Word& word : seen) text += word.text + " ";
    const std::string last = sorted_sum(std::vector<Word>{{text}, {"b"}}).text;
    const std::string out = joined(words_of(text)) + std::to_string(total) + std::to_string(last.size());
    std::puts(out.c_str());
    return 0;
}
}  // namespace PART
#ifndef LIBRARY
int main(int argc, char** argv) { return PART::run(argc, argv); }
#endif
