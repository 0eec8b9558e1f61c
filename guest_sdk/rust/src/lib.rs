//! Write tools for rho_wasm in Rust: a function inside [`tool!`] is a tool, its parameters are the schema.
//!
//! ```
//! rho::tool! {
//!     /// Greets somebody.
//!     fn greet(
//!         /// Who is greeted.
//!         name: String,
//!         times: u8 = 1,
//!     ) -> Result<Vec<String>, &'static str> {
//!         if times > 10 {
//!             return Err("times must be 10 at most");
//!         }
//!         Ok(vec![format!("hello {name}"); times.into()])
//!     }
//! }
//! rho::tools![greet];
//! ```
//!
//! Memory is never given back: the host drops the whole instance after the call. A panic writes its message, file and
//! line to the call's log and traps, because WebAssembly cannot unwind; so does memory that runs out.
//! Compiled for another machine (`cargo test`), the log is standard error and every host call is denied.

#![forbid(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

mod answer;
mod base64;
mod cbor;
mod convert;
mod declare;
mod default;
#[doc(hidden)]
pub mod guest;
mod host;
#[cfg(feature = "serde")]
mod serde_value;
mod value;
mod web;

pub use answer::{ask_user, failed, halt, ok, raised, Answer, IntoAnswer};
pub use cbor::{decode, encode, Malformed, NotPlain, MAX_DEPTH};
pub use convert::{FromValue, IntoValue, Mismatch, Schema};
pub use default::IntoDefault;
pub use host::{context, host_call, log, progress, Context, HostError, Level};
pub use value::{Bytes, Map, Value};
pub use web::{read_json, url_part};
