//! What rho.zig makes of types, of errors and of misuse.
const std = @import("std");
const rho = @import("rho");

const Unit = enum { celsius, fahrenheit };
const Place = struct { name: []const u8, at: [2]f64 = .{ 0, 0.5 } };
const Kinds = struct {
    small: i8,
    whole: u64 = 7,
    number: f32,
    yes: bool,
    text: []const u8 = "none",
    unit: Unit = .celsius,
    maybe: ?u16,
    list: []const Place,
    any: rho.Value = .null,
    map: []const rho.Entry,
    data: rho.Bytes = .{ .bytes = "" },

    pub const about = .{
        .small = "A small one.",
        .whole = .{ .description = "How many.", .maximum = 9, .examples = .{ 1, 2 } },
    };
};

fn kinds(arguments: Kinds) Kinds {
    return arguments;
}
fn nothing() void {}

const How = struct { how: enum { returned, index, overflow, text, integer, depth, memory, unreachable_code } };

fn fails(arguments: How, context: *const rho.Context) !rho.Answer {
    var one: [1]u8 = .{255};
    const some = context.tool.len; // Not known when this is compiled.
    switch (arguments.how) {
        .returned => return error.NoSuchCity,
        .index => one[some] = 1,
        .overflow => one[0] += @intCast(some),
        .text => return rho.ok(@as([]const u8, "\xff")),
        .integer => return rho.ok(@as(u128, some) << 64),
        .depth => {
            var value: rho.Value = .null;
            for (0..64) |_| {
                const inner = try context.allocator.dupe(rho.Value, &.{value});
                value = .{ .list = inner };
            }
            return rho.ok(value);
        },
        .memory => while (true) {
            @memset(try context.allocator.alloc(u8, 1 << 20), 1);
        },
        .unreachable_code => if (some > 0) unreachable,
    }
    return rho.ok(one[0]);
}

fn facts(_: struct {}, context: *const rho.Context) !rho.Answer {
    rho.progress(1, 3, "pages");
    std.log.scoped(.facts).warn("half {d:.2}", .{0.5});
    return rho.ok(.{ .id = context.callId(), .tool = context.tool, .unit = context.value("unit") });
}

pub const tools = [_]rho.Tool{
    rho.tool("kinds", kinds, .{
        .description = "Gives back what it is given.",
        .timeout_ms = 2000,
        .idempotent = true,
        .destructive = false,
        .metadata = .{ .version = 2, .tags = .{ "a", "b" } },
        .examples = .{.{ .arguments = .{}, .answer = .{ .halt = "done", .value = null } }},
    }),
    rho.tool("nothing", nothing, .{ .description = "Does nothing.", .output_schema = .{} }),
    rho.tool("fails", fails, .{ .description = "Fails as it is told." }),
    rho.tool("facts", facts, .{ .description = "Tells of the call.", .input_schema = .{ .type = "object" } }),
};
