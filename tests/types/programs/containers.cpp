#include <array>
#include <atomic>
#include <bitset>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace shop {
enum class Col { red, green };
enum Plain { small_size, large_size = 7 };
struct Base {
    int id = 3;
    virtual ~Base() = default;
    virtual int cost() const { return id; }
};
struct Left : virtual Base {
    int left = 1;
};
struct Right : virtual Base {
    int right = 2;
};
struct Item : Left, Right {
    std::string label = "item";
    Col colour = Col::green;
    static int made;
};
int Item::made = 0;
struct Point {
    int x, y;
};
struct Empty {};
struct Slot : Empty {
    Point at{1, 2};
    bool used : 1 = true;
    unsigned kind : 4 = 9;
};
}  // namespace shop

volatile int sink;

template <typename T> [[gnu::noinline]] int fill(T value, int n) {
    using namespace std;
    string short_text = "short", empty_text, long_text(40, 'x');
    long_text += "tail";
    string_view view = long_text;
    wstring wide = L"w\u00e4ide";
    vector<int> numbers = {1, 2, 3}, no_numbers;
    vector<string> words = {"one", "two"};
    vector<bool> bits = {true, false, true};
    vector<shop::Point> points = {{1, 2}, {3, 4}};
    array<int, 3> fixed = {7, 8, 9};
    map<int, string> by_number = {{1, "one"}, {2, "two"}, {3, "three"}};
    map<string, vector<int>> nested = {{"a", {1, 2}}, {"b", {}}};
    set<int> ordered = {3, 1, 2};
    multimap<int, int> several = {{1, 1}, {1, 2}};
    unordered_map<string, int> hashed = {{"k", 5}};
    unordered_set<int> unique = {42};
    list<int> linked = {4, 5};
    atomic<int> counter{7};
    atomic<double> level{2.5};
    bitset<100> flags_set;
    flags_set.set(3).set(99);
    stack<int, vector<int>> piled;
    piled.push(1);
    priority_queue<int> largest_first;
    largest_first.push(3);
    initializer_list<int> listed = {1, 2};
    span<int> seen(numbers);
    span<int, 2> two_seen(seen.first<2>());
    filesystem::path path = "/usr/é";
    deque<int> queue = {6, 7, 8};
    for (int i = 0; i < 200; i++)
        queue.push_back(i % 7);
    unique_ptr<int> owned(new int(11)), nothing;
    unique_ptr<shop::Point> owned_point(new shop::Point{5, 6});
    shared_ptr<int> shared = make_shared<int>(12), other = shared, no_shared;
    weak_ptr<int> weak = shared;
    optional<int> some = 7, none;
    optional<string> some_text = "text";
    variant<int, string> either = string("hey"), number = 5;
    pair<int, string> both = {1, "p"};
    tuple<int, char, double> three = {1, 'c', 2.5};
    shop::Item item;
    shop::Base &base = item;
    const string &reference = short_text;
    string &&moved = std::move(empty_text);
    shop::Slot slot;
    shop::Col colour = shop::Col::red;
    shop::Plain plain = shop::large_size;
    int shop::Point::*member = &shop::Point::y;
    char16_t sixteen = u'q';
    wchar_t broad = L'z';
    bool yes = true;
    T copy = value;
    auto lambda = [&numbers, n](int k) { return k + n + (int)numbers.size(); };
    function<int(int)> called = lambda;
    nullptr_t null = nullptr;
    sink = called(3) + base.cost() + (int)reference.size() + (int)moved.size() + (int)view.size() + (int)copy;
    sink += (int)wide.size() + (int)bits.size() + slot.at.x + broad + sixteen + (int)colour + plain + yes;
    sink += points[0].*member + fixed[1] + (int)words.size() + get<0>(three) + both.first + (null == nullptr);
    if (n)
        abort();
    return sink;
}

int main(int argc, char **) { return fill(2.5f, argc); }
