//! What a tool answers.

use crate::{value, Bytes, IntoValue, Map, Value};
use std::error::Error;
use std::panic::Location;

/// An answer, made by [`ok`], [`failed`], [`raised`], [`ask_user`] or [`halt`]. As the error of a `Result` it takes any
/// [`std::error::Error`] by `?`, as a crash with the line of the `?`.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Answer {
    shape: Shape,
    map: Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Ok,
    Failed,
    Raised,
    AskUser,
    Halt,
}

fn answer(shape: Shape, key: &str, value: impl IntoValue) -> Answer {
    let mut map = Map::new();
    map.insert(key, value);
    Answer { shape, map }
}

/// The tool did it.
pub fn ok(value: impl IntoValue) -> Answer {
    answer(Shape::Ok, "ok", value)
}
/// The tool could not do what was asked: say what the model should do, as text or as any value. No crash, no strike.
pub fn failed(reason: impl IntoValue) -> Answer {
    answer(Shape::Failed, "error", reason)
}
/// The tool itself is at fault: counts as a crash.
pub fn raised(message: impl Into<String>) -> Answer {
    answer(Shape::Raised, "raised", value!({"message": Into::<String>::into(message)}))
}
/// The user must choose.
pub fn ask_user(question: impl Into<String>) -> Answer {
    answer(Shape::AskUser, "ask_user", Into::<String>::into(question))
}
/// The agent should stop, with `value`.
pub fn halt(reason: impl Into<String>, value: impl IntoValue) -> Answer {
    let mut halt = answer(Shape::Halt, "halt", Into::<String>::into(reason));
    halt.map.insert("value", value);
    halt
}

impl Answer {
    #[track_caller]
    fn expect(self, shapes: &[Shape], what: &str) -> Self {
        assert!(shapes.contains(&self.shape), "{what}");
        self
    }
    /// For the host's screens, never for the model. Panics but on [`ok`] and [`failed`].
    #[track_caller]
    pub fn details(self, details: impl IntoValue) -> Self {
        let mut this = self.expect(&[Shape::Ok, Shape::Failed], "details go with ok and failed only");
        this.map.insert("details", details);
        this
    }
    /// A png, jpeg, webp or gif, at most 16 of them. Panics but on [`ok`].
    #[track_caller]
    pub fn image(self, mime_type: &str, data: impl Into<Vec<u8>>) -> Self {
        let mut this = self.expect(&[Shape::Ok], "images go with ok only");
        let image = value!({"mime_type": mime_type, "data": Bytes(data.into())});
        let mut images = match this.map.remove("images") {
            Some(Value::List(images)) => images,
            _ => Vec::new(),
        };
        images.push(image);
        this.map.insert("images", images);
        this
    }
    /// What the user may choose, a map. Panics but on [`ask_user`].
    #[track_caller]
    pub fn options(self, options: impl IntoValue) -> Self {
        let mut this = self.expect(&[Shape::AskUser], "options go with ask_user only");
        match options.into_value() {
            Value::Map(options) => this.map.insert("options", options),
            _ => panic!("options are a map"),
        }
        this
    }
    /// The kind of the crash. Panics but on [`raised`].
    #[track_caller]
    pub fn kind(self, kind: &str) -> Self {
        self.of_crash("type", kind)
    }
    /// Where it crashed, from the innermost out. Panics but on [`raised`].
    #[track_caller]
    pub fn trace(self, lines: impl IntoIterator<Item = String>) -> Self {
        self.of_crash("trace", lines.into_iter().collect::<Vec<_>>())
    }
    #[track_caller]
    fn of_crash(self, key: &str, value: impl IntoValue) -> Self {
        let mut this = self.expect(&[Shape::Raised], "a kind and a trace go with raised only");
        if let Some(Value::Map(mut about)) = this.map.remove("raised") {
            about.insert(key, value);
            this.map.insert("raised", about);
        }
        this
    }
    /// The answer as the host gets it.
    pub fn into_value(self) -> Value {
        Value::Map(self.map)
    }
}

impl<E: Error> From<E> for Answer {
    #[track_caller]
    fn from(error: E) -> Self {
        let kind = std::any::type_name::<E>().rsplit("::").next().unwrap_or_default();
        let mut lines = vec![Location::caller().to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            lines.push(format!("caused by: {cause}"));
            source = cause.source();
        }
        raised(error.to_string()).kind(kind).trace(lines)
    }
}

/// What a tool may return: an [`Answer`], a value (which is then `ok`), or a `Result` of such a one and of text
/// (which is then `failed`) or an [`Answer`].
pub trait IntoAnswer {
    /// This as an answer.
    fn into_answer(self) -> Answer;
    /// The schema of the value of an `ok`, where its type says it.
    fn schema() -> Option<Value>;
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Answer {
        self
    }
    fn schema() -> Option<Value> {
        None
    }
}
impl<T: IntoValue + crate::Schema> IntoAnswer for T {
    fn into_answer(self) -> Answer {
        ok(self)
    }
    fn schema() -> Option<Value> {
        match T::schema() {
            Value::Map(map) if map.is_empty() => None,
            schema => Some(schema),
        }
    }
}
impl<T: IntoAnswer, E: IntoFailure> IntoAnswer for Result<T, E> {
    fn into_answer(self) -> Answer {
        match self {
            Ok(value) => value.into_answer(),
            Err(failure) => failure.into_failure(),
        }
    }
    fn schema() -> Option<Value> {
        T::schema()
    }
}

/// What may stand as the error of a tool's `Result`.
pub trait IntoFailure {
    /// This as an answer.
    fn into_failure(self) -> Answer;
}
impl IntoFailure for Answer {
    fn into_failure(self) -> Answer {
        self
    }
}
impl IntoFailure for String {
    fn into_failure(self) -> Answer {
        failed(self)
    }
}
impl IntoFailure for &str {
    fn into_failure(self) -> Answer {
        failed(self)
    }
}
