//! What a tool may ask of its host: the log, the context of the call, capabilities.

use crate::{decode, encode, value, IntoValue, Map, Value};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For who looks for a mistake.
    Debug,
    /// What happens.
    Info,
    /// What may be wrong.
    Warning,
    /// What is wrong.
    Error,
    /// Any other, by the numbers of Python's logging, where the four above are 10, 20, 30 and 40.
    Number(i32),
}

impl Level {
    fn number(self) -> i32 {
        match self {
            Level::Debug => 10,
            Level::Info => 20,
            Level::Warning => 30,
            Level::Error => 40,
            Level::Number(number) => number,
        }
    }
}

/// One line of the call's log. `rho::info!("{} rows", count)` and its kin format it.
pub fn log(level: Level, text: &str) {
    abi::log(level.number(), text.as_bytes());
}
/// Tells how far the tool is: a line of the log.
pub fn progress(done: u64, total: u64, what: &str) {
    log(Level::Info, &format!("{done} of {total} {what}"));
}

/// A line of the log, for who looks for a mistake.
#[macro_export]
macro_rules! debug { ($($text:tt)*) => { $crate::log($crate::Level::Debug, &::std::format!($($text)*)) }; }
/// A line of the log.
#[macro_export]
macro_rules! info { ($($text:tt)*) => { $crate::log($crate::Level::Info, &::std::format!($($text)*)) }; }
/// A line of the log, of what may be wrong.
#[macro_export]
macro_rules! warning { ($($text:tt)*) => { $crate::log($crate::Level::Warning, &::std::format!($($text)*)) }; }
/// A line of the log, of what is wrong.
#[macro_export]
macro_rules! error { ($($text:tt)*) => { $crate::log($crate::Level::Error, &::std::format!($($text)*)) }; }

/// What the host says of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Of this call.
    pub call_id: Option<String>,
    /// Of the conversation that it is in.
    pub session_id: Option<String>,
    /// Of the turn that it is in.
    pub request_id: Option<String>,
    /// What the operator of the host gives to tools.
    pub values: Map,
}

impl Context {
    pub(crate) fn of(mut map: Map) -> Self {
        let mut text = |key| match map.remove(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        Context {
            call_id: text("call_id"),
            session_id: text("session_id"),
            request_id: text("request_id"),
            values: match map.remove("values") {
                Some(Value::Map(values)) => values,
                _ => Map::new(),
            },
        }
    }
    pub(crate) fn enter(self) {
        CONTEXT.with(|context| *context.borrow_mut() = Rc::new(self));
    }
}

thread_local! {
    static CONTEXT: RefCell<Rc<Context>> = RefCell::default();
}

/// The context of this call.
pub fn context() -> Rc<Context> {
    CONTEXT.with(|context| context.borrow().clone())
}

/// A refusal of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    /// `denied`, `undeclared`, `quota`, `invalid_arguments`, `unavailable` ...
    pub kind: String,
    /// What to do about it.
    pub message: String,
}

impl fmt::Display for HostError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.kind, self.message)
    }
}
impl std::error::Error for HostError {}

/// Asks the host for a capability, which `rho::tools!` must declare. `arguments` is a map.
///
/// Panics for arguments that are no map or no plain data, and for a reply that is none.
#[track_caller]
pub fn host_call(capability: &str, arguments: impl IntoValue) -> Result<Value, HostError> {
    let arguments = arguments.into_value();
    assert!(matches!(arguments, Value::Map(_)), "the arguments of a host call are a map");
    let request = match encode(&value!({"capability": capability, "arguments": arguments})) {
        Ok(request) => request,
        Err(wrong) => panic!("the arguments of a host call are {wrong}"),
    };
    match decode(&abi::host_call(&request)).map(read_reply) {
        Ok(Some(reply)) => reply,
        Ok(None) => panic!("the reply of the host is neither ok nor an error"),
        Err(wrong) => panic!("the reply of the host is {wrong}"),
    }
}

fn read_reply(reply: Value) -> Option<Result<Value, HostError>> {
    let mut whole = match reply {
        Value::Map(whole) if whole.len() == 1 => whole,
        _ => return None,
    };
    if let Some(value) = whole.remove("ok") {
        return Some(Ok(value));
    }
    match whole.remove("error")? {
        Value::Map(mut error) => match (error.remove("kind")?, error.remove("message")?) {
            (Value::Text(kind), Value::Text(message)) => Some(Err(HostError { kind, message })),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(target_arch = "wasm32")]
mod abi {
    mod imported {
        #[link(wasm_import_module = "rho")]
        extern "C" {
            pub fn log(level: i32, text: *const u8, size: usize);
            pub fn host_call(request: *const u8, size: usize) -> usize;
            pub fn host_take(reply: *mut u8, size: usize) -> usize;
        }
    }
    pub fn log(level: i32, text: &[u8]) {
        // SAFETY: the host reads `text` before it returns.
        unsafe { imported::log(level, text.as_ptr(), text.len()) }
    }
    pub fn host_call(request: &[u8]) -> Vec<u8> {
        // SAFETY: the host reads `request`, and writes at most as much as `reply` has room for.
        unsafe {
            let mut reply = vec![0; imported::host_call(request.as_ptr(), request.len())];
            let taken = imported::host_take(reply.as_mut_ptr(), reply.len());
            reply.truncate(taken);
            reply
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod abi {
    pub fn log(level: i32, text: &[u8]) {
        eprintln!("[{level}] {}", String::from_utf8_lossy(text));
    }
    pub fn host_call(_: &[u8]) -> Vec<u8> {
        let error = crate::value!({"kind": "denied", "message": "there is no host here"});
        crate::encode(&crate::value!({"error": error})).unwrap_or_default()
    }
}
