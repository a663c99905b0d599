//! Named converters: their text, and their results for values and numbers.

use holdall_schema::{Chain, Scalar};
use serde_json::{Value, json};

fn value(chain: &str, value: Value) -> Result<Value, String> {
    let chain: Chain = chain.parse().map_err(|e: holdall_schema::Error| e.code().to_owned())?;
    chain.value(value).map_err(|e| format!("{}: {e}", e.code()))
}

#[test]
fn values() {
    let cases = [
        ("map(cat=0, dog=1, *=2)", json!("dog"), json!(1)),
        ("map(cat=0, dog=1, *=2)", json!("cow"), json!(2)),
        ("map(1=one, 2=\"t w o\")", json!(2), json!("t w o")),
        ("map(1=one, 2=\"t w o\")", json!(1.0), json!("one")),
        ("map(true=yes, false=no)", json!(false), json!("no")),
        ("map(\"a,b\"=[1, 2])", json!("a,b"), json!([1, 2])),
        ("const({\"a\": [1]})", json!(null), json!({"a": [1]})),
        ("const(text)", json!(5), json!("text")),
        ("parse", json!(" 12 "), json!(12)),
        ("parse", json!("-1.5e3"), json!(-1500.0)),
        ("parse", json!("nan"), json!({"$float": "nan"})),
        ("parse", json!("true"), json!(true)),
        ("parse", json!("18446744073709551615"), json!(u64::MAX)),
        ("parse|scale(2)|text", json!("4"), json!("8")),
        ("text", json!(0.5), json!("0.5")),
        ("text", json!({"$float": "-inf"}), json!("-inf")),
        ("text", json!(["a"]), json!("[\"a\"]")),
        ("split(x)", json!("3x4"), json!(["3", "4"])),
        ("split(\", \")", json!(""), json!([])),
        ("join(\"-\")", json!(["a", 1, true]), json!("a-1-true")),
        ("join(\" \", first, last)", json!({"last": "B", "first": "A", "x": 1}), json!("A B")),
        ("join(\" \", first, last)", json!({"last": "B"}), json!("B")),
        ("member(at.x)", json!({"at": {"x": 3}}), json!(3)),
        ("member(at.x) | scale(0.5)", json!({"at": {"x": 3}}), json!(1.5)),
        ("scale(3)", json!(i64::MAX / 4), json!(i64::MAX / 4 * 3)),
        ("offset(-1)", json!(u64::MAX), json!(u64::MAX - 1)),
        ("round", json!(2.5), json!(2)),
        ("round", json!(-3.5), json!(-4)),
        ("clamp(0, 1)", json!(7), json!(1)),
        ("clamp(0, 1)", json!(0.25), json!(0.25)),
        ("cast", json!({"$float": "inf"}), json!({"$float": "inf"})),
    ];
    for (chain, from, to) in cases {
        assert_eq!(value(chain, from.clone()), Ok(to), "{chain} of {from}");
    }
}

#[test]
fn values_that_are_refused() {
    let cases = [
        ("map(cat=0)", json!("dog")),
        ("parse", json!("seven")),
        ("parse", json!("18446744073709551616")),
        ("parse", json!(["1"])),
        ("split(x)", json!(3)),
        ("join(x)", json!("abc")),
        ("join(x, a)", json!(["a"])),
        ("member(a)", json!({"b": 1})),
        ("member(a)", json!(1)),
        ("scale(2)", json!("2")),
        ("scale(2)", json!([2])),
        ("scale(2)", json!(u64::MAX)),
        ("reshape", json!(1)),
    ];
    for (chain, from) in cases {
        let found = value(chain, from.clone()).unwrap_err();
        assert!(found.starts_with("evolve/value: "), "{chain} of {from}: {found}");
    }
}

#[test]
fn invalid_converters_are_refused() {
    for wrong in [
        "",
        "|",
        "cast|",
        "nope",
        "cast(",
        "cast()x",
        "cast(1)",
        "scale",
        "scale(a)",
        "scale(1,2)",
        "scale(1=2)",
        "clamp(2,1)",
        "clamp(1)",
        "map()",
        "map(a)",
        "const()",
        "split(\"\")",
        "split(,)",
        "join()",
        "member()",
        "const({)",
        "round(1)",
        "scale(1) cast",
        "cast)",
    ] {
        let found = wrong.parse::<Chain>().map(|_| ()).map_err(|e| e.code());
        assert_eq!(found, Err("evolve/converter"), "{wrong}");
    }
    for right in ["cast", " cast ", "cast( saturate )", "cast()", "scale(1e3)", "cast | round|text"]
    {
        right.parse::<Chain>().unwrap();
    }
    // Long or deeply nested texts are refused or accepted, but never crash.
    for deep in
        ["[".repeat(100_000), format!("const({})", "[".repeat(1000)), "cast|".repeat(10_000)]
    {
        assert!(deep.parse::<Chain>().is_err());
    }
}

fn elements(chain: &str, from: (Scalar, &[u8]), to: Scalar) -> Result<Vec<u8>, String> {
    let chain: Chain = chain.parse().unwrap();
    let count = from.1.len() / from.0.size() as usize;
    let mut out = vec![0; count * to.size() as usize];
    let made = chain.elements(10, from, (to, &mut out));
    made.map(|()| out).map_err(|e| e.to_string())
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn numbers_are_rounded_once_to_nearest_and_even() {
    use Scalar::{BFloat16, Float16, Float32, Float64, Int8, Int64, Uint8};
    // Every 257th float, among them ties, subnormals and NaN.
    for bits in (0..=u32::MAX).step_by(0x1_0101) {
        let x = f32::from_bits(bits);
        let bytes = floats(&[x]);
        for (to, wanted, is_finite) in [
            (BFloat16, half::bf16::from_f32(x).to_bits(), half::bf16::from_f32(x).is_finite()),
            (Float16, half::f16::from_f32(x).to_bits(), half::f16::from_f32(x).is_finite()),
        ] {
            let found = elements("cast", (Float32, &bytes), to);
            match x.is_nan() || is_finite || x.is_infinite() {
                true if x.is_nan() => assert!(found.is_ok()),
                true => assert_eq!(found.unwrap(), wanted.to_le_bytes(), "{x:e} {to:?}"),
                false => assert!(found.unwrap_err().contains("out of range"), "{x:e}"),
            }
        }
    }
    let doubles = |x: f64| x.to_le_bytes().to_vec();
    // A tie of f32 that only the double decides, and a number that is out of range for it.
    let tie = 1.0 + 2f64.powi(-24) + 2f64.powi(-53) * 2.0;
    assert_eq!(elements("cast", (Float64, &doubles(tie)), Float32).unwrap(), floats(&[tie as f32]));
    assert!(elements("cast", (Float64, &doubles(1e39)), Float32).is_err());
    assert_eq!(
        elements("cast(saturate)", (Float64, &doubles(-1e39)), Float32).unwrap(),
        floats(&[f32::MIN])
    );
    let bytes = floats(&[300.0, -5.0, f32::INFINITY]);
    assert_eq!(elements("cast(saturate)", (Float32, &bytes), Uint8).unwrap(), [255, 0, 255]);
    assert_eq!(
        elements("scale(0.1)|round", (Float32, &floats(&[25.0, 35.0])), Int8).unwrap(),
        [2, 4]
    );
    let e = elements("cast", (Float32, &floats(&[1.0, 2.5])), Int8).unwrap_err();
    assert!(e.contains("element 11") && e.contains("2.5"), "{e}");
    let most = i64::MAX.to_le_bytes();
    assert_eq!(elements("cast", (Int64, &most), Int64).unwrap(), most);
    assert!(elements("offset(1)", (Int64, &most), Int64).is_err());
    assert_eq!(elements("offset(1)|offset(-1)", (Int64, &most), Int64).unwrap(), most);
    assert_eq!(elements("map(0=1, *=0)", (Uint8, &[0, 1, 7]), Scalar::Boolean).unwrap(), [1, 0, 0]);
    assert!(elements("cast", (Uint8, &[2]), Scalar::Boolean).is_err());
}
