//! What may stand as the default of an argument: a value of its type, or what is written in place of one.

/// How a default in a declaration becomes a `T`. There are few of these, so that the type of a literal is known: of the
/// default of a `u32`, `0` is one.
pub trait IntoDefault<T> {
    /// The value.
    fn into_default(self) -> T;
}

impl<T> IntoDefault<T> for T {
    fn into_default(self) -> T {
        self
    }
}
impl IntoDefault<String> for &str {
    fn into_default(self) -> String {
        self.to_owned()
    }
}
/// The value of an `Option` that is there.
impl<T> IntoDefault<Option<T>> for T {
    fn into_default(self) -> Option<T> {
        Some(self)
    }
}
impl<T, const N: usize> IntoDefault<Vec<T>> for [T; N] {
    fn into_default(self) -> Vec<T> {
        self.into()
    }
}
/// A whole number as the default of a float.
impl IntoDefault<f32> for i16 {
    fn into_default(self) -> f32 {
        self.into()
    }
}
/// A whole number as the default of a float.
impl IntoDefault<f64> for i32 {
    fn into_default(self) -> f64 {
        self.into()
    }
}
