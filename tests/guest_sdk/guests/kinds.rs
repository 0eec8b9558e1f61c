//! What the crate rho makes of types, of errors and of misuse.
use rho::{Answer, Bytes, Map, Value};
use std::collections::BTreeMap;

rho::choice! {
    #[derive(Clone, Copy)]
    pub enum Unit {
        Celsius = "celsius",
        Fahrenheit = "fahrenheit",
    }
}

rho::record! {
    #[derive(Clone)]
    pub struct Place {
        /// What it is called.
        pub name: String,
        people: Option<u64>,
        height: f32 = 0.5,
    }
}

rho::tool! {
    /// Gives back
    /// what it is given.
    ///
    /// In one map.
    #[timeout_ms(2000)]
    #[idempotent]
    #[metadata({"version": 2, "tags": ["a", "b"]})]
    #[example({} => {"halt": "done", "value": null})]
    #[name("all-kinds")]
    pub fn kinds(
        /// A small one.
        small: i8,
        #[schema({"description": "How many.", "maximum": 9})]
        whole: u64 = 7,
        number: f64,
        yes: bool,
        text: String = "none",
        unit: Unit = Unit::Celsius,
        maybe: Option<u16>,
        list: Vec<Place>,
        any: Value = Value::Null,
        map: BTreeMap<String, i32>,
        data: Bytes = Bytes(Vec::new()),
    ) -> Map {
        let mut all = Map::new();
        all.insert("small", small);
        all.insert("whole", whole);
        all.insert("number", number);
        all.insert("yes", yes);
        all.insert("text", text);
        all.insert("unit", unit);
        all.insert("maybe", maybe);
        all.insert("list", list);
        all.insert("any", any);
        all.insert("map", map);
        all.insert("data", data);
        all
    }
}

rho::tool! {
    /// Has a default of each type that a literal may be.
    fn defaults(
        a: u8 = 1,
        b: u16 = 2,
        c: u32 = 3,
        d: u64 = 1 << 40,
        e: usize = 5,
        f: i8 = -6,
        g: i16 = -7,
        h: i32 = -8,
        i: i64 = -9,
        j: isize = -10,
        k: f32 = 11,
        l: f64 = 12,
        m: Option<u32> = 13,
        n: Vec<u64> = [14],
        o: Option<u16> = None,
    ) -> Value {
        rho::value!([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o])
    }
}

rho::tool! {
    /// Does nothing.
    fn nothing() {}
}

mod part {
    fn parsed(text: &str) -> Result<u8, rho::Answer> {
        Ok(text.parse()?)
    }

    rho::tool! {
        /// Fails as it is told.
        pub fn fails(how: String) -> Result<u8, rho::Answer> {
            let one = [255u8];
            let some = how.len(); // Not known when this is compiled.
            match how.as_str() {
                "returned" => parsed("many"),
                "failed" => Err(rho::failed(rho::value!({"field": "city"})).details(1)),
                "index" => Ok(one[some]),
                "overflow" => Ok(one[0] + some as u8),
                "panicked" => panic!("no city of {some} letters"),
                "misused" => Err(rho::failed("no").image("image/png", [])),
                "memory" => {
                    let mut kept = Vec::new();
                    loop {
                        kept.push(vec![1u8; 1 << 20]);
                    }
                }
                _ => Ok(0),
            }
        }
    }
}

rho::tool! {
    /// Answers what is no plain data.
    fn not_plain(depth: u8) -> Answer {
        if depth == 0 {
            return rho::ok(1i128 << 64);
        }
        rho::ok((0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner])))
    }
}

rho::tool! {
    /// Tells of the call.
    #[input_schema({"type": "object"})]
    fn facts() -> Value {
        rho::progress(1, 3, "pages");
        rho::warning!("half {:.2}", 0.5);
        let context = rho::context();
        rho::value!({"id": context.call_id.clone(), "unit": context.values.get("unit").cloned()})
    }
}

rho::tool! {
    /// Reads JSON.
    fn reads(json: String) -> Result<Value, &'static str> {
        rho::read_json(&json).ok_or("no JSON")
    }
}

rho::tool! {
    /// Makes a part of a URL.
    fn url_part(text: String) -> String {
        rho::url_part(&text)
    }
}

rho::tools![kinds, defaults, nothing, part::fails, not_plain, facts, reads, url_part];
