//! The guest: its manifest and its calls. What [`tools!`](crate::tools) writes stands on this; no author needs it.

use crate::{
    decode, encode, failed, raised, value, Answer, Context, FromValue, IntoDefault, Level, Map, Mismatch, Value,
};

/// A tool of this guest.
pub struct Tool {
    pub name: &'static str,
    pub call: fn(Map) -> Answer,
}

/// What the manifest says of a tool. `said` are its attributes, which hold over what its types say.
pub fn declared(name: &str, mut said: Map, arguments: Fields, output: Option<Value>) -> Map {
    said.insert("name", name);
    if said.get("description").is_none() {
        said.insert("description", "");
    }
    if said.get("input_schema").is_none() {
        said.insert("input_schema", arguments.schema());
    }
    if let (Some(output), None) = (output, said.get("output_schema")) {
        said.insert("output_schema", output);
    }
    said
}

pub fn example(said: &mut Map, example: Value) {
    let mut examples = match said.remove("examples") {
        Some(Value::List(examples)) => examples,
        _ => Vec::new(),
    };
    examples.push(example);
    said.insert("examples", examples);
}

/// The fields of a struct, or the parameters of a tool, as a schema.
#[derive(Default)]
pub struct Fields {
    properties: Vec<(String, Value)>,
    required: Vec<Value>,
}

impl Fields {
    /// `facts` hold over what the type says.
    pub fn add(&mut self, name: &str, schema: Value, default: Option<Value>, needed: bool, facts: Map) {
        let mut map = facts;
        if let Value::Map(of_type) = schema {
            for (key, value) in of_type {
                if map.get(&key).is_none() {
                    map.insert(key, value);
                }
            }
        }
        if let Some(default) = default.filter(is_json) {
            map.insert("default", default);
        }
        if needed {
            self.required.push(Value::Text(name.to_owned()));
        }
        self.properties.push((name.to_owned(), Value::Map(map)));
    }
    pub fn schema(self) -> Value {
        let properties = Map::of_distinct(self.properties);
        value!({"type": "object", "properties": properties, "required": self.required, "additionalProperties": false})
    }
}

/// Bytes, NaN and infinities have no place in a schema.
fn is_json(value: &Value) -> bool {
    match value {
        Value::Bytes(_) => false,
        Value::Float(number) => number.is_finite(),
        Value::List(list) => list.iter().all(is_json),
        Value::Map(map) => map.iter().all(|(_, each)| is_json(each)),
        _ => true,
    }
}

/// One more line of a comment. Lines make one text; paragraphs stay.
pub fn describe(map: &mut Map, line: &str) {
    let line = line.trim();
    let text = match map.remove("description") {
        Some(Value::Text(text)) if line.is_empty() => text + "\n\n",
        Some(Value::Text(text)) if text.ends_with('\n') || text.is_empty() => text + line,
        Some(Value::Text(text)) => text + " " + line,
        _ => line.to_owned(),
    };
    map.insert("description", text);
}

pub fn extend(map: &mut Map, facts: Value) {
    match facts {
        Value::Map(facts) => facts.into_iter().for_each(|(key, value)| map.insert(key, value)),
        _ => panic!("#[schema(...)] wants a map"),
    }
}

/// Takes a field out of what was given.
pub fn field<T: FromValue>(given: &mut Map, name: &str, default: Option<T>) -> Result<T, Mismatch> {
    match given.remove(name) {
        Some(value) => T::from_value(value).map_err(|wrong| wrong.inside(name)),
        None => default.or_else(T::absent).ok_or_else(|| Mismatch::new("is missing").inside(name)),
    }
}

/// Whether a field of this type may be left out.
pub fn needed<T: FromValue>() -> bool {
    T::absent().is_none()
}

/// The default that stands as `given` in a declaration.
pub fn default<G: IntoDefault<T>, T>(given: G) -> T {
    given.into_default()
}

/// Arguments that do not fit are for the caller to mend.
pub fn mismatched(wrong: &Mismatch) -> Answer {
    failed(wrong.to_string())
}

fn dispatch(request: &[u8], tools: &[Tool]) -> Answer {
    let mut whole = match decode(request) {
        Ok(Value::Map(whole)) => whole,
        Ok(_) => return raised("the request is not a map"),
        Err(wrong) => return raised(format!("the request is {wrong}")),
    };
    if whole.remove("abi") != Some(Value::Int(1)) {
        return raised("the request is not of ABI 1");
    }
    let name = match whole.remove("tool") {
        Some(Value::Text(name)) => name,
        _ => return raised("the request names no tool"),
    };
    let arguments = match whole.remove("arguments") {
        Some(Value::Map(arguments)) => arguments,
        _ => return raised("the request has no arguments"),
    };
    if let Some(Value::Map(context)) = whole.remove("context") {
        Context::of(context).enter();
    }
    match tools.iter().find(|tool| tool.name == name) {
        Some(tool) => (tool.call)(arguments),
        None => raised("this guest has no tool of that name: its manifest was made for another"),
    }
}

fn panics_are_logged() {
    std::panic::set_hook(Box::new(|about| {
        let payload = about.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let place = about.location().map(ToString::to_string).unwrap_or_default();
        crate::log(Level::Error, &format!("panicked at {place}: {}", text.unwrap_or("no message")));
    }));
}

/// The address and the length of bytes that are never given back, as the host reads them.
fn packed(bytes: Vec<u8>) -> u64 {
    let bytes = bytes.leak();
    (bytes.as_ptr() as u64) << 32 | bytes.len() as u64
}

pub fn alloc(size: usize) -> *mut u8 {
    let mut room = Vec::<u8>::new();
    match room.try_reserve_exact(size.max(1)) {
        Ok(()) => std::mem::ManuallyDrop::new(room).as_mut_ptr(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// `size` bytes at `request` are the request.
pub unsafe fn call(request: *const u8, size: usize, tools: &[Tool]) -> u64 {
    panics_are_logged();
    // SAFETY: as this function asks.
    let request = unsafe { std::slice::from_raw_parts(request, size) };
    let answer = dispatch(request, tools).into_value();
    packed(encode(&answer).unwrap_or_else(|wrong| {
        let told = raised(format!("the answer is {wrong}")).kind("NotPlain").into_value();
        encode(&told).unwrap_or_default()
    }))
}

pub fn manifest(tools: Vec<Map>, capabilities: &[&str]) -> u64 {
    panics_are_logged();
    let mut map = Map::new();
    map.insert("tools", tools.into_iter().map(Value::Map).collect::<Vec<_>>());
    if !capabilities.is_empty() {
        map.insert("capabilities", capabilities.to_vec());
    }
    packed(encode(&Value::Map(map)).unwrap_or_else(|wrong| panic!("the manifest is {wrong}")))
}
