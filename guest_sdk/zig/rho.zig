//! rho.zig: write a tool for rho_wasm in Zig. One file; README.md beside this shows how.
//!
//!     const rho = @import("rho");
//!     const Hello = struct { name: []const u8 };
//!     fn hello(arguments: Hello) !rho.Answer {
//!         if (arguments.name.len == 0) return rho.failed("name is empty");
//!         return rho.ok(.{ .hello = arguments.name });
//!     }
//!     pub const tools = [_]rho.Tool{rho.tool("hello", hello, .{ .description = "Says hello." })};
//!
//! This file is the root module of a guest, the author's is its module "guest". Memory is never freed: the host drops
//! the whole instance after the call. A panic, as where memory runs out, writes a line to the call's log and traps.
const std = @import("std");
const guest = @import("guest");

/// Nesting of plain data that the host sends and takes.
pub const max_depth = 64;

// ---- plain values ----

/// -2^64 .. 2^64-1 are the integers of plain data, and of this type.
pub const Int = i65;
/// One item of plain data that was read. Texts are valid UTF-8; they and bytes lie in the request.
pub const Value = union(enum) {
    null,
    bool: bool,
    int: Int,
    float: f64,
    text: []const u8,
    bytes: []const u8,
    list: []const Value,
    map: []const Entry,

    /// What a map has under `key`; null where it has not, and of all that is no map.
    pub fn get(self: Value, key: []const u8) ?Value {
        if (self == .map) for (self.map) |entry| if (std.mem.eql(u8, entry.key, key)) return entry.value;
        return null;
    }
    /// This as a `T`, by the rules of arguments. error.Mismatch where it is none, and `rho.mismatch` then says why.
    pub fn as(self: Value, comptime T: type) Error!T {
        return convert(T, self, "value");
    }
};
pub const Entry = struct { key: []const u8, value: Value };
/// Bytes in an argument, where base64 text is taken for them as JSON has none, or in an answer: a `[]const u8` is text.
pub const Bytes = struct { bytes: []const u8 };
/// One item that is plain CBOR already: `rho.encode` makes it, an answer takes it anywhere.
pub const Encoded = struct { cbor: []const u8 };
pub const empty_map: Value = .{ .map = &.{} };

pub const Error = error{ OutOfMemory, Malformed, TooDeep, NotUtf8, KeyTwice, NotPlain, Mismatch };
/// Why the latest error.Mismatch was one.
pub var mismatch: []const u8 = "";

// ---- reading plain CBOR (RFC 8949, the part that ABI.md allows) ----

const Reader = struct {
    data: []const u8,

    fn take(self: *Reader, size: u64) Error![]const u8 {
        if (size > self.data.len) return error.Malformed;
        const taken = self.data[0..@intCast(size)];
        self.data = self.data[@intCast(size)..];
        return taken;
    }
    fn item(self: *Reader, depth: usize) Error!Value {
        const head = (try self.take(1))[0];
        const major = head >> 5;
        const info = head & 31;
        if (info > 27) return error.Malformed; // Reserved, or of indefinite length.
        var number: u64 = info;
        if (info >= 24) {
            number = 0;
            for (try self.take(@as(u64, 1) << @intCast(info - 24))) |byte| number = number << 8 | byte;
        }
        switch (major) {
            0 => return .{ .int = number },
            1 => return .{ .int = -1 - @as(Int, number) },
            2 => return .{ .bytes = try self.take(number) },
            3 => {
                const text = try self.take(number);
                return if (std.unicode.utf8ValidateSlice(text)) .{ .text = text } else error.NotUtf8;
            },
            4 => {
                const list = try allocator.alloc(Value, try self.count(number, depth));
                for (list) |*each| each.* = try self.item(depth + 1);
                return .{ .list = list };
            },
            5 => {
                const map = try allocator.alloc(Entry, try self.count(number, depth));
                for (map) |*entry| {
                    const key = try self.item(depth + 1);
                    if (key != .text) return error.Malformed;
                    entry.* = .{ .key = key.text, .value = try self.item(depth + 1) };
                }
                return if (try hasKeyTwice(map)) error.KeyTwice else .{ .map = map };
            },
            7 => return switch (info) {
                20, 21 => .{ .bool = info == 21 },
                22 => .null,
                25 => .{ .float = @as(f16, @bitCast(@as(u16, @intCast(number)))) },
                26 => .{ .float = @as(f32, @bitCast(@as(u32, @intCast(number)))) },
                27 => .{ .float = @bitCast(number) },
                else => error.Malformed,
            },
            else => return error.Malformed, // Tags.
        }
    }
    /// Each item takes a byte at least, so a length over what is left is a lie.
    fn count(self: *Reader, number: u64, depth: usize) Error!usize {
        if (depth >= max_depth) return error.TooDeep;
        return if (number > self.data.len) error.Malformed else @intCast(number);
    }
};

fn before(_: void, left: []const u8, right: []const u8) bool {
    return if (left.len != right.len) left.len < right.len else std.mem.lessThan(u8, left, right);
}
/// A host sends keys in ascending order; only where they are not does it take a sort to know.
fn hasKeyTwice(map: []const Entry) Error!bool {
    for (map[@min(1, map.len)..], 0..) |entry, last| {
        if (!before({}, map[last].key, entry.key)) break;
    } else return false;
    const keys = try allocator.alloc([]const u8, map.len);
    for (keys, map) |*key, entry| key.* = entry.key;
    std.sort.heap([]const u8, keys, {}, before);
    for (keys[1..], 0..) |key, last| if (std.mem.eql(u8, keys[last], key)) return true;
    return false;
}

/// The one item that `data` is. Texts and bytes of it lie in `data`.
pub fn decode(data: []const u8) Error!Value {
    var reader: Reader = .{ .data = data };
    const value = try reader.item(0);
    return if (reader.data.len == 0) value else error.Malformed;
}

// ---- from a value to a type ----

fn wrong(where: []const u8, comptime T: type) Error {
    mismatch = try std.mem.concat(allocator, u8, &.{ where, " is no ", comptime expected(T) });
    return error.Mismatch;
}
fn expected(comptime T: type) []const u8 {
    return switch (@typeInfo(T)) {
        .bool => "boolean",
        .int => |int| std.fmt.comptimePrint("integer of {d} to {d}", .{ minimum(int), maximum(int) }),
        .float => "number",
        .@"enum" => "name that is allowed here",
        .@"struct" => if (T == Bytes) "base64 text and no bytes" else "object",
        .array => |array| std.fmt.comptimePrint("{s} of {d}", .{
            if (array.child == u8) "text" else "list",
            array.len,
        }),
        .optional => |optional| expected(optional.child),
        else => if (T == []const u8) "text" else if (T == []const Entry) "object" else "list",
    };
}
fn minimum(comptime int: std.lang.Type.Int) comptime_int {
    return if (int.signedness == .unsigned) 0 else -(1 << (int.bits - 1));
}
fn maximum(comptime int: std.lang.Type.Int) comptime_int {
    return (1 << (if (int.signedness == .unsigned) int.bits else int.bits - 1)) - 1;
}

fn convert(comptime T: type, value: Value, where: []const u8) Error!T {
    if (T == Value) return value;
    if (T == []const u8) return if (value == .text) value.text else wrong(where, T);
    if (T == []const Entry) return if (value == .map) value.map else wrong(where, T);
    if (T == Bytes) return switch (value) {
        .bytes => |bytes| .{ .bytes = bytes },
        .text => |text| .{ .bytes = try fromBase64(text) orelse return wrong(where, T) },
        else => wrong(where, T),
    };
    switch (@typeInfo(T)) {
        .bool => return if (value == .bool) value.bool else wrong(where, T),
        .int => {
            const int = switch (value) {
                .int => |int| int,
                // JSON has one kind of number: 3.0 is an integer.
                .float => |float| if (@trunc(float) == float and @abs(float) < 0x1p63) @as(Int, @trunc(float)) else null,
                else => null,
            };
            return std.math.cast(T, int orelse return wrong(where, T)) orelse wrong(where, T);
        },
        .float => return switch (value) {
            .int => |int| @floatFromInt(int),
            .float => |float| @floatCast(float),
            else => wrong(where, T),
        },
        .@"enum" => {
            if (value != .text) return wrong(where, T);
            return std.meta.stringToEnum(T, value.text) orelse wrong(where, T);
        },
        .optional => |optional| return if (value == .null) null else try convert(optional.child, value, where),
        .pointer => |pointer| {
            if (pointer.size != .slice or value != .list) return wrong(where, T);
            const items = try allocator.alloc(pointer.child, value.list.len);
            for (items, value.list) |*item, from| item.* = try convert(pointer.child, from, where);
            return items;
        },
        .array => |array| {
            var items: T = undefined;
            if (array.child == u8) {
                if (value != .text or value.text.len != array.len) return wrong(where, T);
                @memcpy(&items, value.text);
                return items;
            }
            if (value != .list or value.list.len != array.len) return wrong(where, T);
            for (&items, value.list) |*item, from| item.* = try convert(array.child, from, where);
            return items;
        },
        .@"struct" => |info| {
            if (value != .map) return wrong(where, T);
            var made: T = undefined;
            inline for (info.field_names, info.field_types, info.field_attrs) |name, Field, attributes| {
                if (value.get(name)) |found| {
                    @field(made, name) = try convert(Field, found, name);
                } else if (comptime attributes.defaultValue(Field)) |default| {
                    @field(made, name) = default;
                } else if (comptime @typeInfo(Field) == .optional) {
                    @field(made, name) = null;
                } else {
                    mismatch = name ++ " is missing";
                    return error.Mismatch;
                }
            }
            return made;
        },
        else => @compileError("an argument cannot be a " ++ @typeName(T)),
    }
}

/// The bytes of base64 text in either alphabet, padded or not; null where it is none.
fn fromBase64(text: []const u8) Error!?[]const u8 {
    var digits = text;
    if (text.len % 4 == 0) for (0..2) |_| {
        if (std.mem.endsWith(u8, digits, "=")) digits.len -= 1;
    };
    if (digits.len % 4 == 1) return null;
    const bytes = try allocator.alloc(u8, digits.len / 4 * 3 + (digits.len % 4 -| 1));
    var bits: u32 = 0;
    var size: usize = 0;
    for (digits, 0..) |digit, at| {
        bits = bits << 6 | (sixBits(digit) orelse return null);
        if (at % 4 == 0) continue;
        bytes[size] = @truncate(bits >> @intCast(6 - 2 * (at % 4)));
        size += 1;
    }
    return bytes;
}
fn sixBits(digit: u8) ?u6 {
    return @intCast(switch (digit) {
        'A'...'Z' => digit - 'A',
        'a'...'z' => digit - 'a' + 26,
        '0'...'9' => digit - '0' + 52,
        '+', '-' => 62,
        '/', '_' => 63,
        else => return null,
    });
}

// ---- writing plain CBOR: any plain Zig value ----

/// Where encoded bytes go at run time; at compile time a `Constant` takes its place.
const Buffer = struct {
    bytes: std.ArrayList(u8) = .empty,
    fn put(self: *Buffer, bytes: []const u8) Error!void {
        try self.bytes.appendSlice(allocator, bytes);
    }
};

fn putHead(to: anytype, major: u8, number: u64) Error!void {
    var head: [9]u8 = undefined;
    std.mem.writeInt(u64, head[1..9], number, .big);
    const from: usize, const info: u8 = switch (number) {
        0...23 => .{ 9, @intCast(number) },
        24...0xFF => .{ 8, 24 },
        0x100...0xFFFF => .{ 7, 25 },
        0x1_0000...0xFFFF_FFFF => .{ 5, 26 },
        else => .{ 1, 27 },
    };
    head[from - 1] = major << 5 | info;
    try to.put(head[from - 1 ..]);
}
fn putText(to: anytype, text: []const u8) Error!void {
    if (!std.unicode.utf8ValidateSlice(text)) return error.NotUtf8;
    try putHead(to, 3, text.len);
    try to.put(text);
}
/// `depth` is of the maps and lists around `value`.
fn put(to: anytype, value: anytype, depth: usize) Error!void {
    const T = @TypeOf(value);
    if (T == Encoded) return to.put(value.cbor);
    if (T == Bytes) {
        try putHead(to, 2, value.bytes.len);
        return to.put(value.bytes);
    }
    if (T == Value) return switch (value) {
        .null => put(to, null, depth),
        .bytes => |bytes| put(to, Bytes{ .bytes = bytes }, depth),
        inline else => |inner| put(to, inner, depth),
    };
    switch (@typeInfo(T)) {
        .null, .void => try to.put(&.{0xF6}),
        .bool => try to.put(&.{if (value) 0xF5 else 0xF4}),
        .int, .comptime_int => {
            const int = std.math.cast(Int, value) orelse return error.NotPlain;
            if (int < 0) try putHead(to, 1, @intCast(-1 - int)) else try putHead(to, 0, @intCast(int));
        },
        .float, .comptime_float => {
            var bytes: [9]u8 = undefined;
            bytes[0] = 0xFB;
            std.mem.writeInt(u64, bytes[1..], @bitCast(@as(f64, value)), .big);
            try to.put(&bytes);
        },
        .optional => if (value) |inner| try put(to, inner, depth) else try put(to, null, depth),
        .@"enum", .enum_literal => try putText(to, @tagName(value)),
        .array => |array| if (array.child == u8) try putText(to, &value) else try putList(to, &value, depth),
        .pointer => |pointer| if (T == []const u8 or T == []u8 or T == [:0]const u8 or T == [:0]u8) {
            try putText(to, value);
        } else if (pointer.size == .slice) {
            if (pointer.child == Entry) try putMap(to, value, depth) else try putList(to, value, depth);
        } else if (pointer.size == .one) {
            const is_array = @typeInfo(pointer.child) == .array;
            try put(to, if (is_array) @as([]const std.meta.Elem(T), value) else value.*, depth);
        } else @compileError("not plain: " ++ @typeName(T)),
        .@"struct" => |info| {
            if (depth >= max_depth) return error.TooDeep;
            try putHead(to, if (info.is_tuple) 4 else 5, info.field_names.len);
            inline for (info.field_names) |name| {
                if (!info.is_tuple) try putText(to, name);
                try put(to, @field(value, name), depth + 1);
            }
        },
        else => @compileError("not plain: " ++ @typeName(T)),
    }
}
fn putList(to: anytype, list: anytype, depth: usize) Error!void {
    if (depth >= max_depth) return error.TooDeep;
    try putHead(to, 4, list.len);
    for (list) |item| try put(to, item, depth + 1);
}
fn putMap(to: anytype, map: []const Entry, depth: usize) Error!void {
    if (depth >= max_depth) return error.TooDeep;
    try putHead(to, 5, map.len);
    for (map) |entry| {
        try putText(to, entry.key);
        try put(to, entry.value, depth + 1);
    }
}

/// Any plain Zig value as plain CBOR: null, bools, integers, floats, `[]const u8` (text), `Bytes`, enums (their names),
/// optionals, slices, arrays and tuples (lists), structs and `[]const Entry` (maps), `Value`, `Encoded`.
pub fn encode(value: anytype) Error!Encoded {
    return encodeWithin(value, 1);
}
fn encodeWithin(value: anytype, depth: usize) Error!Encoded {
    var buffer: Buffer = .{};
    try put(&buffer, value, depth);
    return .{ .cbor = buffer.bytes.items };
}

// ---- answers ----

/// What a handler returns, made by one of the functions below. One that returns another type answers `ok` with it.
pub const Answer = struct { fields: []const Part };
const Part = struct { key: []const u8, value: Encoded };
pub const Image = struct { mime_type: []const u8, data: []const u8 };

fn answer(fields: []const Part) Error!Answer {
    return .{ .fields = try allocator.dupe(Part, fields) };
}
pub fn ok(value: anytype) Error!Answer {
    return answer(&.{.{ .key = "ok", .value = try encode(value) }});
}
/// The tool could not do what was asked: say what the model should do, as text or any plain value. No crash, no strike.
pub fn failed(reason: anytype) Error!Answer {
    return answer(&.{.{ .key = "error", .value = try encode(reason) }});
}
pub const Crash = struct { type: ?[]const u8 = null, trace: []const []const u8 = &.{} };
/// The tool itself is at fault: counts as a crash, as an error that a handler returns does.
pub fn raised(message: []const u8, about: Crash) Error!Answer {
    const map = [_]Entry{
        .{ .key = "message", .value = .{ .text = message } },
        .{ .key = "type", .value = .{ .text = about.type orelse "error" } },
        .{ .key = "trace", .value = .{ .list = try texts(about.trace) } },
    };
    return answer(&.{.{ .key = "raised", .value = try encode(@as([]const Entry, &map)) }});
}
fn texts(from: []const []const u8) Error![]const Value {
    const list = try allocator.alloc(Value, from.len);
    for (list, from) |*value, text| value.* = .{ .text = text };
    return list;
}
/// `options` is a struct or a map, or null.
pub fn askUser(question: []const u8, options: anytype) Error!Answer {
    const asked: Part = .{ .key = "ask_user", .value = try encode(question) };
    if (@TypeOf(options) == @TypeOf(null)) return answer(&.{asked});
    return answer(&.{ asked, .{ .key = "options", .value = try encode(options) } });
}
pub fn halt(reason: []const u8, value: anytype) Error!Answer {
    const why: Part = .{ .key = "halt", .value = try encode(reason) };
    return answer(&.{ why, .{ .key = "value", .value = try encode(value) } });
}
/// Details go to the host's screens, never to the model; with `ok` and `failed`.
pub fn withDetails(given: Answer, details: anytype) Error!Answer {
    return with(given, "details", try encode(details));
}
/// Each a png, jpeg, webp or gif, 1 to 16 of them; with `ok`.
pub fn withImages(given: Answer, images: []const Image) Error!Answer {
    const list = try allocator.alloc(struct { mime_type: []const u8, data: Bytes }, images.len);
    for (list, images) |*to, from| to.* = .{ .mime_type = from.mime_type, .data = .{ .bytes = from.data } };
    return with(given, "images", try encode(list));
}
fn with(given: Answer, key: []const u8, value: Encoded) Error!Answer {
    return answer(try std.mem.concat(allocator, Part, &.{ given.fields, &.{.{ .key = key, .value = value }} }));
}

// ---- the host: log, context, capabilities; an import is there only in a guest that uses it ----

const host = struct {
    extern "rho" fn log(level: i32, text: [*]const u8, size: usize) void;
    extern "rho" fn host_call(request: [*]const u8, size: usize) usize;
    extern "rho" fn host_take(reply: [*]u8, size: usize) usize;
};
pub const Level = enum(i32) { debug = 10, info = 20, warning = 30, @"error" = 40, _ };
/// One line of the call's log. `std.log.info` and its kin come here too, formatted.
pub fn log(level: Level, text: []const u8) void {
    host.log(@backingInt(level), text.ptr, text.len);
}
/// Tells how far the tool is: a line of the log.
pub fn progress(done: u64, total: u64, what: []const u8) void {
    log(.info, print("{d} of {d} {s}", .{ done, total, what }));
}
/// A text by the rules of `std.fmt`. Panics where no memory is left.
pub fn print(comptime format: []const u8, arguments: anytype) []const u8 {
    return std.fmt.allocPrint(allocator, format, arguments) catch @panic("no memory left");
}

/// What the host says of a call.
pub const Context = struct {
    tool: []const u8,
    /// A map: "call_id", "session_id", "request_id", "values" and what else there is.
    facts: Value,
    allocator: std.mem.Allocator = allocator,

    pub fn callId(self: *const Context) ?[]const u8 {
        const found = self.facts.get("call_id") orelse return null;
        return if (found == .text) found.text else null;
    }
    /// What the operator of the host gives to tools under this name.
    pub fn value(self: *const Context, name: []const u8) ?Value {
        return (self.facts.get("values") orelse return null).get(name);
    }
};

pub const Refusal = struct { kind: []const u8, message: []const u8 };
pub const Reply = union(enum) { ok: Value, refused: Refusal };
/// Asks the host for a capability that `pub const capabilities` names. `arguments` is a struct or a map. A refusal has
/// a kind: "denied", "undeclared", "quota" ...
pub fn hostCall(capability: []const u8, arguments: anytype) Error!Reply {
    const given = if (@TypeOf(arguments) == @TypeOf(.{})) empty_map else arguments;
    const request = try encodeWithin(.{ .capability = capability, .arguments = given }, 0);
    const reply = try allocator.alloc(u8, host.host_call(request.cbor.ptr, request.cbor.len));
    if (host.host_take(reply.ptr, reply.len) != reply.len) return error.Malformed;
    const whole = try decode(reply);
    if (whole != .map or whole.map.len != 1) return error.Malformed;
    if (whole.get("ok")) |found| return .{ .ok = found };
    const refusal = whole.get("error") orelse return error.Malformed;
    return .{ .refused = refusal.as(Refusal) catch return error.Malformed };
}

// ---- memory: grows, is never given back but for the newest piece ----

pub const allocator: std.mem.Allocator = .{ .ptr = undefined, .vtable = &.{
    .alloc = Bump.alloc,
    .resize = Bump.resize,
    .remap = Bump.remap,
    .free = Bump.free,
} };
const Bump = struct {
    var top: usize = 0;
    const page = std.wasm.page_size;

    fn reach(end: u64) bool {
        const have = @as(u64, @wasmMemorySize(0)) * page;
        if (end > std.math.maxInt(usize)) return false;
        if (end > have and @wasmMemoryGrow(0, @intCast((end - have + page - 1) / page)) < 0) return false;
        top = @intCast(end);
        return true;
    }
    fn alloc(_: *anyopaque, size: usize, alignment: std.mem.Alignment, _: usize) ?[*]u8 {
        if (top == 0) top = @wasmMemorySize(0) * page;
        const start = std.mem.alignForward(u64, top, alignment.toByteUnits());
        return if (reach(start + size)) @ptrFromInt(@as(usize, @intCast(start))) else null;
    }
    fn resize(_: *anyopaque, memory: []u8, _: std.mem.Alignment, size: usize, _: usize) bool {
        const start = @intFromPtr(memory.ptr);
        return if (start + memory.len == top) reach(@as(u64, start) + size) else size <= memory.len;
    }
    fn remap(context: *anyopaque, memory: []u8, alignment: std.mem.Alignment, size: usize, from: usize) ?[*]u8 {
        return if (resize(context, memory, alignment, size, from)) memory.ptr else null;
    }
    fn free(_: *anyopaque, memory: []u8, _: std.mem.Alignment, _: usize) void {
        if (@intFromPtr(memory.ptr) + memory.len == top) top = @intFromPtr(memory.ptr);
    }
};

// ---- tools: declared by a type and a function; the manifest is made of them at compile time ----

pub const Tool = struct { name: []const u8, manifest: Value, call: *const fn (Value, *const Context) anyerror!Answer };

/// A tool, of which the type of `handler`'s first argument is the schema: a struct whose fields are bools, integers,
/// floats, `[]const u8`, enums, slices, arrays, structs, `Bytes`, `Value`, or optionals of these. A field with a default, or an
/// optional one, may be left out. `pub const about = .{ .field = .{ .description = "...", .minimum = 1 } };` in the
/// struct says more of it, in the words of JSON Schema; a text alone is a description.
///
/// `handler` may take a `*const rho.Context` too. It returns an `Answer`, or a value of which the type is the output
/// schema; an error that it returns counts as a crash.
///
/// `options`: `description` (needed), `input_schema`, `output_schema`, `timeout_ms`, `read_only`, `destructive`,
/// `idempotent`, `metadata`, and `examples`, a tuple of `.{ .arguments = .{...}, .answer = .{ .ok = ... } }`, with
/// `.host = .{.{ .{ .capability = "kv.get", .arguments = .{ .key = "a" } }, .{ .ok = ... } }}` where it asks the host.
pub fn tool(comptime name: []const u8, comptime handler: anytype, comptime options: anytype) Tool {
    const parameters = @typeInfo(@TypeOf(handler)).@"fn".param_types;
    const Arguments = if (parameters.len > 0) parameters[0].? else struct {};
    const Result = returned(@TypeOf(handler));
    comptime var declared: []const Entry = &.{.{ .key = "name", .value = .{ .text = name } }};
    if (!@hasField(@TypeOf(options), "description")) @compileError("the tool " ++ name ++ " has no description");
    if (!@hasField(@TypeOf(options), "input_schema"))
        declared = declared ++ [_]Entry{.{ .key = "input_schema", .value = comptime schema(Arguments) }};
    if (Result != Answer and Result != Value and Result != Encoded and !@hasField(@TypeOf(options), "output_schema"))
        declared = declared ++ [_]Entry{.{ .key = "output_schema", .value = comptime schema(Result) }};
    inline for (comptime std.meta.fieldNames(@TypeOf(options))) |key| {
        comptime var is_known = false;
        inline for (known_options) |each| is_known = is_known or comptime std.mem.eql(u8, each, key);
        if (!is_known) @compileError("the tool " ++ name ++ " has an option that is none: " ++ key);
        declared = declared ++ [_]Entry{.{ .key = key, .value = comptime plain(@field(options, key), key) }};
    }
    const Call = struct {
        fn call(arguments: Value, context: *const Context) anyerror!Answer {
            const given = convert(Arguments, arguments, "arguments") catch |err| switch (err) {
                // For the caller to mend: no crash, as a Mismatch of the handler's own would be.
                error.Mismatch => return failed(mismatch),
                else => return err,
            };
            // Never inlined, so that a backtrace names it.
            const result = switch (parameters.len) {
                0 => @call(.never_inline, handler, .{}),
                1 => @call(.never_inline, handler, .{given}),
                else => @call(.never_inline, handler, .{ given, context }),
            };
            const value = if (@typeInfo(@TypeOf(result)) == .error_union) try result else result;
            return if (@TypeOf(value) == Answer) value else ok(value);
        }
    };
    return .{ .name = name, .manifest = .{ .map = declared }, .call = Call.call };
}
const known_options = .{
    "description",
    "input_schema",
    "output_schema",
    "timeout_ms",
    "read_only",
    "destructive",
    "idempotent",
    "metadata",
    "examples",
};
fn returned(comptime Handler: type) type {
    const Result = @typeInfo(Handler).@"fn".return_type.?;
    return if (@typeInfo(Result) == .error_union) @typeInfo(Result).error_union.payload else Result;
}

/// The JSON Schema of a type.
fn schema(comptime T: type) Value {
    const of = struct {
        fn kind(comptime name: []const u8) []const Entry {
            return &.{.{ .key = "type", .value = .{ .text = name } }};
        }
    };
    const entries: []const Entry = switch (@typeInfo(T)) {
        .bool => of.kind("boolean"),
        .int => |int| of.kind("integer") ++ [_]Entry{
            .{ .key = "minimum", .value = .{ .int = minimum(int) } },
            .{ .key = "maximum", .value = .{ .int = maximum(int) } },
        },
        .float => of.kind("number"),
        .void => of.kind("null"),
        .@"enum" => |info| of.kind("string") ++ [_]Entry{
            .{ .key = "enum", .value = .{ .list = listed(info.field_names) } },
        },
        .optional => |optional| &.{.{
            .key = "anyOf",
            .value = .{ .list = &.{ schema(optional.child), .{ .map = of.kind("null") } } },
        }},
        .array => |array| if (array.child == u8) of.kind("string") else of.kind("array") ++ [_]Entry{
            .{ .key = "items", .value = schema(array.child) },
            .{ .key = "minItems", .value = .{ .int = array.len } },
            .{ .key = "maxItems", .value = .{ .int = array.len } },
        },
        .pointer => |pointer| if (T == []const u8)
            of.kind("string")
        else if (T == []const Entry)
            of.kind("object")
        else if (pointer.size == .slice)
            of.kind("array") ++ [_]Entry{.{ .key = "items", .value = schema(pointer.child) }}
        else
            schema(pointer.child).map,
        .@"struct" => if (T == Bytes) of.kind("string") ++ [_]Entry{
            .{ .key = "contentEncoding", .value = .{ .text = "base64" } },
        } else if (T == Encoded) &.{} else object(T),
        else => if (T == Value) &.{} else @compileError("a tool's data cannot be a " ++ @typeName(T)),
    };
    return .{ .map = entries };
}
fn listed(comptime names: []const [:0]const u8) []const Value {
    var list: [names.len]Value = undefined;
    for (&list, names) |*value, name| value.* = .{ .text = name };
    const done = list;
    return &done;
}
fn object(comptime T: type) []const Entry {
    const info = @typeInfo(T).@"struct";
    const about = if (@hasDecl(T, "about")) T.about else .{};
    for (std.meta.fieldNames(@TypeOf(about))) |name|
        if (!@hasField(T, name)) @compileError("about names a field that " ++ @typeName(T) ++ " has not: " ++ name);
    var properties: []const Entry = &.{};
    var required: []const Value = &.{};
    for (info.field_names, info.field_types, info.field_attrs) |name, Field, attributes| {
        const default = attributes.defaultValue(Field);
        if (default == null and @typeInfo(Field) != .optional) required = required ++ [_]Value{.{ .text = name }};
        var facts: []const Entry = schema(Field).map;
        if (default) |value| if (Field != []const Entry and isJson(plain(value, name))) {
            facts = facts ++ [_]Entry{.{ .key = "default", .value = plain(value, name) }};
        };
        if (@hasField(@TypeOf(about), name)) facts = merged(facts, plain(@field(about, name), name));
        properties = properties ++ [_]Entry{.{ .key = name, .value = .{ .map = facts } }};
    }
    const whole = [_]Entry{
        .{ .key = "type", .value = .{ .text = "object" } },
        .{ .key = "properties", .value = .{ .map = properties } },
        .{ .key = "required", .value = .{ .list = required } },
        .{ .key = "additionalProperties", .value = .{ .bool = false } },
    };
    return &whole;
}
/// Bytes, NaN and infinities have no place in a schema.
fn isJson(comptime value: Value) bool {
    switch (value) {
        .bytes => return false,
        .float => |float| return std.math.isFinite(float),
        .list => |list| for (list) |each| if (!isJson(each)) return false,
        .map => |map| for (map) |each| if (!isJson(each.value)) return false,
        else => {},
    }
    return true;
}
/// What an author says holds over what his types say.
fn merged(comptime facts: []const Entry, comptime said: Value) []const Entry {
    const over: []const Entry = if (said == .map) said.map else &.{.{ .key = "description", .value = said }};
    var kept: []const Entry = over;
    for (facts) |fact| if ((Value{ .map = over }).get(fact.key) == null) {
        kept = kept ++ [_]Entry{fact};
    };
    return kept;
}

/// A constant as a `Value`. `.{}` is a list, but a map where only one can be.
fn plain(comptime value: anytype, comptime key: []const u8) Value {
    const T = @TypeOf(value);
    if (T == Value) return value;
    if (T == Bytes) return .{ .bytes = value.bytes };
    if (T == []const Entry) return .{ .map = value };
    switch (@typeInfo(T)) {
        .null => return .null,
        .bool => return .{ .bool = value },
        .int, .comptime_int => return .{ .int = value },
        .float, .comptime_float => return .{ .float = value },
        .optional => return if (value) |inner| plain(inner, key) else .null,
        .@"enum", .enum_literal => return .{ .text = @tagName(value) },
        .array => |array| if (array.child == u8) return .{ .text = &value },
        .pointer => |pointer| if (pointer.child == u8) {
            return .{ .text = value };
        } else if (pointer.size == .one) return plain(value.*, key),
        .@"struct" => |info| if (!info.is_tuple or (value.len == 0 and isMapKey(key))) {
            var entries: []const Entry = &.{};
            for (info.field_names) |name|
                entries = entries ++ [_]Entry{.{ .key = name, .value = plain(@field(value, name), name) }};
            return .{ .map = entries };
        },
        else => @compileError("not plain: " ++ @typeName(T)),
    }
    var list: []const Value = &.{};
    for (value) |item| list = list ++ [_]Value{plain(item, "")};
    return .{ .list = list };
}
fn isMapKey(comptime key: []const u8) bool {
    for (.{ "arguments", "input_schema", "output_schema", "metadata", "properties", "options" }) |each|
        if (std.mem.eql(u8, each, key)) return true;
    return false;
}

// ---- the guest: its manifest and its calls ----

const manifest = made: {
    @setEvalBranchQuota(10_000_000);
    if (!@hasDecl(guest, "tools") or guest.tools.len == 0)
        @compileError("no tool is declared: " ++
            "pub const tools = [_]rho.Tool{rho.tool(name, function, .{ .description = ... })};");
    var declared: []const Value = &.{};
    for (guest.tools) |each| declared = declared ++ [_]Value{each.manifest};
    var entries: []const Entry = &.{.{ .key = "tools", .value = .{ .list = declared } }};
    if (@hasDecl(guest, "capabilities"))
        entries = entries ++ [_]Entry{.{ .key = "capabilities", .value = plain(guest.capabilities, "") }};
    var constant: Constant = .{};
    put(&constant, @as([]const Entry, entries), 0) catch |err|
        @compileError("the manifest cannot be made: " ++ @errorName(err));
    const bytes = constant.bytes[0..constant.size].*;
    break :made bytes;
};
const Constant = struct {
    bytes: [64 * 1024]u8 = undefined,
    size: usize = 0,
    fn put(self: *Constant, bytes: []const u8) Error!void {
        if (bytes.len > self.bytes.len - self.size) return error.TooDeep;
        @memcpy(self.bytes[self.size..][0..bytes.len], bytes);
        self.size += bytes.len;
    }
};

fn dispatch(request: []const u8) anyerror!Answer {
    const whole = try decode(request);
    const abi = whole.get("abi") orelse .null;
    if (abi != .int or abi.int != 1) return raised("the request is not of ABI 1", .{});
    const name = whole.get("tool") orelse .null;
    if (name != .text) return raised("the request names no tool", .{});
    const arguments = whole.get("arguments") orelse .null;
    if (arguments != .map) return raised("the request has no arguments", .{});
    const context: Context = .{ .tool = name.text, .facts = whole.get("context") orelse empty_map };
    inline for (guest.tools) |each| if (std.mem.eql(u8, each.name, name.text)) return each.call(arguments, &context);
    return raised("this guest has no tool of that name: its manifest was made for another", .{});
}
fn encoded(given: Answer) Error![]const u8 {
    var buffer: Buffer = .{};
    try putHead(&buffer, 5, given.fields.len);
    for (given.fields) |field| {
        try putText(&buffer, field.key);
        try buffer.put(field.value.cbor);
    }
    return buffer.bytes.items;
}
fn call(request: []const u8) Error![]const u8 {
    return encoded(dispatch(request) catch |err| switch (err) {
        error.OutOfMemory => return error.OutOfMemory,
        error.Mismatch => try raised(mismatch, .{ .type = "Mismatch" }),
        else => try raised(@errorName(err), .{}),
    });
}

fn packedSpan(bytes: []const u8) u64 {
    return @as(u64, @intFromPtr(bytes.ptr)) << 32 | bytes.len;
}
const exported = struct {
    fn alloc(size: usize) callconv(.c) ?[*]u8 {
        return allocator.rawAlloc(@max(size, 1), .@"16", 0);
    }
    fn callOnce(request: [*]const u8, size: usize) callconv(.c) u64 {
        return packedSpan(call(request[0..size]) catch |err| @panic(@errorName(err)));
    }
    fn manifestOnce() callconv(.c) u64 {
        return packedSpan(&manifest);
    }
};
comptime {
    if (@import("root") == @This()) {
        @export(&exported.alloc, .{ .name = "rho_alloc" });
        @export(&exported.callOnce, .{ .name = "rho_call" });
        @export(&exported.manifestOnce, .{ .name = "rho_manifest" });
    }
}

pub const panic = std.debug.FullPanic(panicked);
fn panicked(message: []const u8, _: ?usize) noreturn {
    log(.@"error", message);
    @trap();
}
pub const std_options: std.Options = .{ .logFn = logged, .log_level = .debug };
fn logged(
    comptime level: std.log.Level,
    comptime scope: @EnumLiteral(),
    comptime format: []const u8,
    arguments: anytype,
) void {
    const prefix = if (scope == .default) "" else @tagName(scope) ++ ": ";
    log(switch (level) {
        .debug => .debug,
        .info => .info,
        .warn => .warning,
        .err => .@"error",
    }, print(prefix ++ format, arguments));
}
