//! Declaring: tools, and the types of their arguments. The comments above a thing are its description.

/// A function that is a tool. Its comment is the description, its parameters are the arguments; their comments describe
/// them, `= value` makes one optional, as `Option` does. It stays a function that a test can call.
///
/// Attributes of the tool: `#[name("other-name")]`, `#[read_only]`, `#[destructive]`, `#[idempotent]`,
/// `#[timeout_ms(2000)]`, `#[example({"name": "Ada"} => {"ok": "hello Ada"})]` (with `, host: [[request, reply]]` where it
/// asks the host), `#[metadata({...})]`, `#[input_schema({...})]`, `#[output_schema({...})]`. Of a parameter: `#[schema({"minimum": 1})]`, in the words of JSON
/// Schema, which hold over what the type says.
#[macro_export]
macro_rules! tool {
    (
        $(#[$($about:tt)*])*
        $visible:vis fn $name:ident(
            $($(#[$($fact:tt)*])* $argument:ident : $type:ty $(= $default:expr)?),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $visible fn $name($($argument: $type),*) $(-> $result)? $body

        #[doc(hidden)]
        #[allow(unused_imports, unused_mut, unused_variables)]
        $visible mod $name {
            use super::*;
            pub const TOOL: $crate::guest::Tool = $crate::guest::Tool { name: NAME, call };
            const NAME: &str = $crate::__name!($name, $([$($about)*])*);

            pub fn manifest() -> $crate::Map {
                let mut said = $crate::Map::new();
                $($crate::__of_tool!(said, $($about)*);)*
                let mut fields = $crate::guest::Fields::default();
                $($crate::__field!(fields, $argument, $type, [$($default)?], $([$($fact)*])*);)*
                $crate::guest::declared(NAME, said, fields, $crate::__output!($($result)?))
            }
            fn call(mut given: $crate::Map) -> $crate::Answer {
                $(
                    let $argument: $type = match $crate::guest::field(
                        &mut given, ::std::stringify!($argument), $crate::__default!($type $(, $default)?)
                    ) {
                        Ok(taken) => taken,
                        Err(wrong) => return $crate::guest::mismatched(&wrong),
                    };
                )*
                $crate::IntoAnswer::into_answer(super::$name($($argument),*))
            }
        }
    };
}

/// The tools of this guest, once, and the capabilities that they may ask for:
/// `rho::tools![greet, part; capabilities: ["clock.now"]];`
#[macro_export]
macro_rules! tools {
    ($(; $($rest:tt)*)?) => {
        ::std::compile_error!("no tool is declared: rho::tools![greet] names the functions inside rho::tool! that are tools");
    };
    ($($($tool:ident)::+),+ $(,)? $(; capabilities: [$($capability:literal),* $(,)?])? $(;)?) => {
        #[no_mangle]
        extern "C" fn rho_alloc(size: usize) -> *mut u8 {
            $crate::guest::alloc(size)
        }
        #[no_mangle]
        unsafe extern "C" fn rho_call(request: *const u8, size: usize) -> u64 {
            unsafe { $crate::guest::call(request, size, &[$($($tool)::+::TOOL),+]) }
        }
        #[no_mangle]
        extern "C" fn rho_manifest() -> u64 {
            $crate::guest::manifest(::std::vec![$($($tool)::+::manifest()),+], &[$($($capability),*)?])
        }
    };
}

/// A struct as an argument, as a part of one, or in an answer: `record! { struct City { name: String, people: u64 = 0 } }`.
/// Comments, defaults and `#[schema({...})]` are as those of a [`tool!`]'s parameters.
#[macro_export]
macro_rules! record {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$($fact:tt)*])* $field_visible:vis $field:ident : $type:ty $(= $default:expr)?),* $(,)?
        }
    ) => {
        $(#[$about])*
        $visible struct $name { $($field_visible $field: $type),* }

        impl $crate::FromValue for $name {
            #[allow(unused_mut, unused_variables)]
            fn from_value(value: $crate::Value) -> ::std::result::Result<Self, $crate::Mismatch> {
                let mut given = <$crate::Map as $crate::FromValue>::from_value(value)?;
                ::std::result::Result::Ok($name {
                    $($field: $crate::guest::field(
                        &mut given, ::std::stringify!($field), $crate::__default!($type $(, $default)?)
                    )?),*
                })
            }
        }
        impl $crate::IntoValue for $name {
            #[allow(unused_mut)]
            fn into_value(self) -> $crate::Value {
                let mut map = $crate::Map::new();
                $(map.insert(::std::stringify!($field), self.$field);)*
                $crate::Value::Map(map)
            }
        }
        impl $crate::Schema for $name {
            #[allow(unused_mut)]
            fn schema() -> $crate::Value {
                let mut fields = $crate::guest::Fields::default();
                $($crate::__field!(fields, $field, $type, [$($default)?], $([$($fact)*])*);)*
                fields.schema()
            }
        }
    };
}

/// One of several names: `choice! { enum Unit { Celsius = "celsius", Fahrenheit = "fahrenheit" } }`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$about:meta])*
        $visible:vis enum $name:ident { $($(#[$of:meta])* $case:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$about])*
        $visible enum $name { $($(#[$of])* $case),+ }

        impl $crate::FromValue for $name {
            fn from_value(value: $crate::Value) -> ::std::result::Result<Self, $crate::Mismatch> {
                match value.as_str() {
                    $(Some($text) => Ok($name::$case),)+
                    _ => Err($crate::Mismatch::new(::std::concat!("must be one of" $(, " ", $text)+))),
                }
            }
        }
        impl $crate::IntoValue for $name {
            fn into_value(self) -> $crate::Value {
                $crate::IntoValue::into_value(match self { $($name::$case => $text),+ })
            }
        }
        impl $crate::Schema for $name {
            fn schema() -> $crate::Value {
                $crate::value!({"type": "string", "enum": [$($text),+]})
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($name:ident,) => { ::std::stringify!($name) };
    ($name:ident, [name($other:literal)] $($rest:tt)*) => { $other };
    ($name:ident, [$($about:tt)*] $($rest:tt)*) => { $crate::__name!($name, $($rest)*) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __of_tool {
    ($to:ident, doc = $line:literal) => { $crate::guest::describe(&mut $to, $line) };
    ($to:ident, name($name:literal)) => {};
    ($to:ident, read_only) => { $to.insert("read_only", true) };
    ($to:ident, destructive) => { $to.insert("destructive", true) };
    ($to:ident, idempotent) => { $to.insert("idempotent", true) };
    ($to:ident, timeout_ms($number:expr)) => { $to.insert("timeout_ms", $number) };
    ($to:ident, metadata($value:tt)) => { $to.insert("metadata", $crate::value!($value)) };
    ($to:ident, input_schema($value:tt)) => { $to.insert("input_schema", $crate::value!($value)) };
    ($to:ident, output_schema($value:tt)) => { $to.insert("output_schema", $crate::value!($value)) };
    ($to:ident, example($arguments:tt => $answer:tt)) => {
        $crate::guest::example(&mut $to, $crate::value!({"arguments": $arguments, "answer": $answer}))
    };
    ($to:ident, example($arguments:tt => $answer:tt, host: $host:tt)) => {
        $crate::guest::example(&mut $to, $crate::value!({"arguments": $arguments, "answer": $answer, "host": $host}))
    };
    ($to:ident, $($other:tt)*) => {
        ::std::compile_error!(::std::concat!("no attribute of a tool: ", ::std::stringify!($($other)*)))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    ($fields:ident, $name:ident, $type:ty, [$($default:expr)?], $([$($fact:tt)*])*) => {{
        let mut facts = $crate::Map::new();
        $($crate::__of_field!(facts, $($fact)*);)*
        let default: ::std::option::Option<$type> = $crate::__default!($type $(, $default)?);
        let needed = default.is_none() && $crate::guest::needed::<$type>();
        let default = default.map($crate::IntoValue::into_value);
        $fields.add(::std::stringify!($name), <$type as $crate::Schema>::schema(), default, needed, facts);
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __of_field {
    ($to:ident, doc = $line:literal) => { $crate::guest::describe(&mut $to, $line) };
    ($to:ident, schema($facts:tt)) => { $crate::guest::extend(&mut $to, $crate::value!($facts)) };
    ($to:ident, $($other:tt)*) => {
        ::std::compile_error!(::std::concat!("no attribute of an argument: ", ::std::stringify!($($other)*)))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __default {
    ($type:ty) => {
        ::std::option::Option::None::<$type>
    };
    ($type:ty, $default:expr) => {
        ::std::option::Option::Some($crate::guest::default::<_, $type>($default))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __output {
    () => {
        ::std::option::Option::None
    };
    ($result:ty) => {
        <$result as $crate::IntoAnswer>::schema()
    };
}
