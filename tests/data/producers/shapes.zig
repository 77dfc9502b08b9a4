const std = @import("std");
fn fact(n: u64) u64 { return if (n < 2) 1 else n * fact(n - 1); }
const S = struct { w: u32, fn area(self: S) u32 { return self.w * self.w; } };
pub fn main() void {
    var t: u64 = 0;
    for (0..10) |i| { t += fact(i); t += (S{ .w = @intCast(i) }).area(); }
    std.debug.print("{d}\n", .{t});
}
