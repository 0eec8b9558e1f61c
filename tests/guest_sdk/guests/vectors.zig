//! The tools that the vector guests of all SDKs share (guest_sdk/vectors/README.md).
const std = @import("std");
const rho = @import("rho");

const Echo = struct { value: rho.Value };
fn echo(arguments: Echo) rho.Value {
    return arguments.value;
}

const Shape = enum { ok, ok_images, ok_details, failed, failed_details, raised, ask, ask_options, halt };
fn answer(arguments: struct { shape: Shape }) !rho.Answer {
    const png: rho.Image = .{ .mime_type = "image/png", .data = "\x89PNG\r\n\x1a\n" };
    return switch (arguments.shape) {
        .ok => rho.ok(42),
        .ok_images => rho.withImages(try rho.ok(42), &.{png}),
        .ok_details => rho.withDetails(try rho.ok(42), .{ .n = 1 }),
        .failed => rho.failed("no such user"),
        .failed_details => rho.withDetails(try rho.failed("no such user"), .{ .n = 1 }),
        .raised => rho.raised("broken", .{ .type = "Broken", .trace = &.{"line 1"} }),
        .ask => rho.askUser("which one?", null),
        .ask_options => rho.askUser("which one?", .{ .a = 1 }),
        .halt => rho.halt("done", 7),
    };
}

const AskHost = struct { capability: []const u8, arguments: []const rho.Entry };
fn askHost(arguments: AskHost) !rho.Answer {
    return switch (try rho.hostCall(arguments.capability, arguments.arguments)) {
        .ok => |value| rho.ok(.{ .ok = value }),
        .refused => |refusal| rho.ok(.{ .@"error" = refusal }),
    };
}

const Log = struct { level: i32, text: []const u8 };
fn log(arguments: Log) void {
    rho.log(@fromBackingInt(arguments.level), arguments.text);
}

const WordCount = struct {
    text: []const u8,
    top: i64 = 5,

    pub const about = .{
        .text = "The text to count.",
        .top = .{ .description = "How many of the most frequent words to list.", .minimum = 0, .maximum = 100 },
    };
};
const Frequent = struct { word: []const u8, count: u64 };

fn isLetter(byte: u8) bool {
    return std.ascii.isAlphanumeric(byte) or byte >= 0x80;
}
/// The most frequent first, of equals the one that came first.
fn takeTop(frequent: []Frequent, top: usize) void {
    for (0..top) |place| {
        var best = place;
        for (frequent[place..], place..) |each, at| if (each.count > frequent[best].count) {
            best = at;
        };
        const found = frequent[best];
        @memmove(frequent[place + 1 .. best + 1], frequent[place..best]);
        frequent[place] = found;
    }
}

fn wordCount(arguments: WordCount, context: *const rho.Context) !rho.Answer {
    if (arguments.top < 0 or arguments.top > 100) return rho.failed("top is out of range: give 0 to 100");
    const text = arguments.text;
    var lines = std.mem.countScalar(u8, text, '\n');
    if (text.len > 0 and text[text.len - 1] != '\n') lines += 1;
    const lower = try std.ascii.allocLowerString(context.allocator, text);
    var counts: std.array_hash_map.String(u64) = .empty;
    var total: u64 = 0;
    var at: usize = 0;
    while (at < lower.len) {
        const start = at;
        while (at < lower.len and (isLetter(lower[at]) or (at > start and lower[at] == '\''))) at += 1;
        if (at == start) {
            at += 1;
            continue;
        }
        total += 1;
        const found = try counts.getOrPutValue(context.allocator, lower[start..at], 0);
        found.value_ptr.* += 1;
    }
    const frequent = try context.allocator.alloc(Frequent, counts.count());
    for (frequent, counts.keys(), counts.values()) |*each, word, count| each.* = .{ .word = word, .count = count };
    const top = @min(frequent.len, @as(usize, @intCast(arguments.top)));
    takeTop(frequent, top);
    return rho.ok(.{
        .words = total,
        .lines = lines,
        .characters = try std.unicode.utf8CountCodepoints(text),
        .distinct = frequent.len,
        .top = frequent[0..top],
    });
}

fn sha256(arguments: struct { text: []const u8 }) [64]u8 {
    var digest: [32]u8 = undefined;
    std.crypto.hash.sha2.Sha256.hash(arguments.text, &digest, .{});
    return std.fmt.bytesToHex(digest, .lower);
}

pub const capabilities = .{ "clock.now", "kv.get" };
pub const tools = [_]rho.Tool{
    rho.tool("echo", echo, .{ .description = "Answers the value that it is given." }),
    rho.tool("answer", answer, .{ .description = "Answers in the shape that is asked for." }),
    rho.tool("ask_host", askHost, .{
        .description = "Asks for a capability and answers the reply.",
        .examples = .{.{
            .arguments = .{ .capability = "kv.get", .arguments = .{ .key = "a" } },
            .answer = .{ .ok = .{ .ok = .{ .value = 1 } } },
            .host = .{.{
                .{ .capability = "kv.get", .arguments = .{ .key = "a" } },
                .{ .ok = .{ .value = 1 } },
            }},
        }},
    }),
    rho.tool("log", log, .{ .description = "Writes a line to the log." }),
    rho.tool("word_count", wordCount, .{
        .description = "Counts the words, lines and characters of a text and lists its most frequent words.",
        .read_only = true,
    }),
    rho.tool("sha256", sha256, .{ .description = "The SHA-256 of a text, in hex." }),
};
