//! Compares every code of the small floats with crates for floats, and tests every day in the range of 64-bit
//! nanoseconds.

use holdall_schema::{Encoder, Path, Schema, SchemaLimits};
use proptest::prelude::*;
use serde_json::{Value, json};

struct Kind {
    schema: Schema,
}

impl Kind {
    fn new(schema: Value) -> Kind {
        Kind { schema: Schema::compile_record(&schema, &SchemaLimits::default()).unwrap() }
    }

    fn scalar(name: &str) -> Kind {
        Kind::new(json!({format!("TypeDef:{name}"): true}))
    }

    fn encode(&self, json: &Value) -> Result<Vec<u8>, &'static str> {
        let ty = self.schema.record().unwrap();
        let mut encoder = Encoder::new(&self.schema, ty, &SchemaLimits::default()).unwrap();
        let mut bytes = vec![0; encoder.size()];
        encoder.value(json, &mut bytes, &mut Vec::new()).map_err(|e| e.code())?;
        Ok(bytes)
    }

    fn encode_text(&self, json: &str) -> Result<Vec<u8>, String> {
        let ty = self.schema.record().unwrap();
        let mut encoder = Encoder::new(&self.schema, ty, &SchemaLimits::default()).unwrap();
        let mut bytes = vec![0; encoder.size()];
        let shown = |e: holdall_error::Error| format!("{} {}", e.code(), e.message());
        encoder.text(json.as_bytes(), &mut bytes, &mut Vec::new()).map_err(shown)?;
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Value {
        let ty = self.schema.record().unwrap();
        self.schema.record_value(ty, bytes, &[], &SchemaLimits::default()).unwrap()
    }

    fn number(&self, bytes: &[u8]) -> f64 {
        let accessor = self.schema.accessor(self.schema.record().unwrap(), &Path::root()).unwrap();
        accessor.typed::<f64>().unwrap().read(bytes).unwrap().unwrap()
    }
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn every_float_of_16_bits() {
    let (f16, bf16) = (Kind::scalar("Float16"), Kind::scalar("BFloat16"));
    for code in 0..=u16::MAX {
        let bytes = code.to_le_bytes();
        assert!(same(f16.number(&bytes), half::f16::from_bits(code).to_f64()), "{code:#x}");
        assert!(same(bf16.number(&bytes), half::bf16::from_bits(code).to_f64()), "{code:#x}");
        for kind in [&f16, &bf16] {
            if !kind.number(&bytes).is_nan() {
                assert_eq!(kind.encode(&kind.decode(&bytes)).unwrap(), bytes, "{code:#x}");
            }
        }
    }
}

#[test]
fn every_float_of_8_bits() {
    let (e4m3, e5m2) = (Kind::scalar("Float8E4M3"), Kind::scalar("Float8E5M2"));
    for code in 0..=u8::MAX {
        let wanted = f64::from(microfloat::f8e4m3fn::from_bits(code).to_f32());
        assert!(same(e4m3.number(&[code]), wanted), "{code:#x}");
        let wanted = f64::from(microfloat::f8e5m2::from_bits(code).to_f32());
        assert!(same(e5m2.number(&[code]), wanted), "{code:#x}");
        for kind in [&e4m3, &e5m2] {
            if !kind.number(&[code]).is_nan() {
                assert_eq!(kind.encode(&kind.decode(&[code])).unwrap(), [code], "{code:#x}");
            }
        }
    }
}

/// Integers are read from their text, digit by digit, not through a double.
#[test]
fn integers_are_exact_or_refused() {
    let taken = |kind: &str, text: &str, n: i128| {
        let bytes = Kind::scalar(kind).encode_text(text);
        assert_eq!(bytes, Ok(n.to_le_bytes()[..8].to_vec()), "{kind} {text}");
    };
    let refused = |kind: &str, text: &str| {
        let message = Kind::scalar(kind).encode_text(text).unwrap_err();
        let shown = text.get(..40).unwrap_or(text);
        assert!(message.starts_with(&format!("record/range {shown}")), "{kind} {text}: {message}");
        assert!(message.contains("is not a whole number from"), "{message}");
    };
    let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
    taken("Int64", "-9223372036854775808", least);
    taken("Int64", "9223372036854775807", most);
    taken("Uint64", "18446744073709551615", i128::from(u64::MAX));
    for text in [
        "-9223372036854775809",
        "9223372036854775808",
        "-99999999999999999999999",
        "18446744073709551616",
    ] {
        refused("Int64", text);
    }
    for text in ["18446744073709551616", "-1", "18446744073709551615.5", "1.8446744073709551616e19"]
    {
        refused("Uint64", text);
    }
    // Numbers with a point or an exponent are integers only if they are exactly whole.
    taken("Int64", "9007199254740993.0", 9_007_199_254_740_993);
    taken("Int64", "9223372036854775807.000", most);
    taken("Int64", "-9.223372036854775808e18", least);
    taken("Int64", "-92233720368547758080E-1", least);
    taken("Int64", "1e3", 1000);
    taken("Int64", "1500e-2", 15);
    taken("Int64", "0.0e99", 0);
    taken("Int64", "-0", 0);
    taken("Int64", "-0.0", 0);
    taken("Uint64", "1.8446744073709551615e19", i128::from(u64::MAX));
    for text in [
        "0.99999999999999999999",
        "9223372036854775807.1",
        "-9223372036854775808.5",
        "1e-1",
        "1e20",
        "5.5",
        "1.00000000000000000000000000000000000000000000000000001",
    ] {
        refused("Int64", text);
    }
    let far = Kind::scalar("Int64").encode_text("1e999").unwrap_err();
    assert!(far.starts_with("json/number"), "{far}");
    // The same for elements of a tensor, and for a value that was parsed from text.
    let kind = Kind::new(json!({"TypeDef:Tensor": {"dtype": "I64", "shape": [1]}}));
    assert!(kind.encode_text(r#"{"data":[-9223372036854775809]}"#).is_err());
    let value: Value = serde_json::from_str("-9223372036854775809").unwrap();
    assert_eq!(Kind::scalar("Int64").encode(&value), Err("record/range"));
    assert_eq!(
        Kind::scalar("Int64").encode(&json!(1e18)),
        Ok(10i64.pow(18).to_le_bytes().to_vec())
    );
}

/// Codes of all kinds of tensor element that are not kinds of records.
#[test]
fn every_code_of_tensor_elements_comes_back() {
    for dtype in ["F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4"] {
        // 256 bytes contain every code of each kind.
        let (shape, count) = match dtype {
            "F4" => (512, 16u32),
            "F6_E2M3" | "F6_E3M2" => (64, 64),
            _ => (256, 256),
        };
        let kind = Kind::new(json!({"TypeDef:Tensor": {"dtype": dtype, "shape": [shape]}}));
        let bits = match count {
            16 => 4,
            64 => 6,
            _ => 8,
        };
        let mut bytes = vec![0u8; shape * bits / 8];
        for at in 0..shape {
            let code = at as u32 % count;
            for bit in 0..bits {
                if code >> bit & 1 == 1 {
                    bytes[(at * bits + bit) / 8] |= 1 << ((at * bits + bit) % 8);
                }
            }
        }
        let json = kind.decode(&bytes);
        assert_eq!(kind.encode(&json).unwrap(), bytes, "{dtype}");
    }
}

/// The shortest decimals of powers of two, where the next number above is farther away than the one below. The expected
/// results come from trying every number with that many digits.
#[test]
fn no_shorter_decimal_reads_back() {
    let kind = Kind::scalar("Float16");
    for code in (0..0x7c00u16).step_by(7).chain((0..31).map(|e| e << 10)) {
        let text = kind.decode(&code.to_le_bytes()).to_string();
        let x: f64 = text.parse().unwrap();
        let shown = format!("{x:e}");
        let digits = shown.split('e').next().unwrap().replace('.', "").len();
        if digits < 2 {
            continue;
        }
        let exponent: i32 = shown.split('e').nth(1).unwrap().parse().unwrap();
        let scale = exponent - (digits as i32 - 2);
        for n in 10i64.pow(digits as u32 - 2)..=10i64.pow(digits as u32 - 1) {
            let shorter: f64 = format!("{n}e{scale}").parse().unwrap();
            if half::f16::from_f64(shorter).to_bits() == code {
                panic!("{code:#x} is {text}, and {shorter} reads back too");
            }
        }
    }
}

/// Returns the nearest bfloat16, ties to even. `half` only uses the upper half of a double, so its result can be one
/// code too low or too high.
fn nearest_bf16(x: f64) -> half::bf16 {
    let near = half::bf16::from_f64(x);
    if !near.is_finite() || near.to_bits() & 0x7fff == 0 {
        return near;
    }
    let around = [near.to_bits() - 1, near.to_bits(), near.to_bits() + 1];
    let around = around.map(half::bf16::from_bits).into_iter().filter(|code| code.is_finite());
    let away = |code: &half::bf16| ((code.to_f64() - x).abs(), code.to_bits() & 1);
    around.min_by(|a, b| away(a).partial_cmp(&away(b)).unwrap()).unwrap()
}

/// Returns the nearest 16-bit float, as for bf16: `half` only uses the upper half of a double.
fn nearest_f16(x: f64) -> half::f16 {
    let near = half::f16::from_f64(x);
    if !near.is_finite() || near.to_bits() & 0x7fff == 0 {
        return near;
    }
    let around = [near.to_bits() - 1, near.to_bits(), near.to_bits() + 1];
    let around = around.map(half::f16::from_bits).into_iter().filter(|code| code.is_finite());
    let away = |code: &half::f16| ((code.to_f64() - x).abs(), code.to_bits() & 1);
    around.min_by(|a, b| away(a).partial_cmp(&away(b)).unwrap()).unwrap()
}

#[test]
fn the_nearest_is_taken_beyond_the_upper_half_of_a_double() {
    let x = 0.02593995080262716;
    assert_eq!(nearest_bf16(x).to_bits(), 0x3cd5);
    let found = Kind::scalar("BFloat16").encode(&json!(x));
    assert_eq!(found, Ok(0x3cd5u16.to_le_bytes().to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn floats_are_rounded_as_others_round_them(x in any::<f64>(), y in -70000.0f64..70000.0) {
        for x in [x, y, y / 1e6, y / 1e9] {
            let code = nearest_f16(x);
            let found = Kind::scalar("Float16").encode(&json!(x));
            match code.is_finite() {
                true => prop_assert_eq!(found, Ok(code.to_le_bytes().to_vec())),
                false => prop_assert_eq!(found, Err("record/range")),
            }
            let code = nearest_bf16(x);
            let found = Kind::scalar("BFloat16").encode(&json!(x));
            match code.is_finite() {
                true => prop_assert_eq!(found, Ok(code.to_le_bytes().to_vec())),
                false => prop_assert_eq!(found, Err("record/range")),
            }
        }
    }

    #[test]
    fn every_number_of_32_and_64_bits_comes_back(a in any::<f32>(), b in any::<f64>(), n in any::<i64>()) {
        for (name, bytes) in [("Float32", a.to_le_bytes().to_vec()), ("Float64", b.to_le_bytes().to_vec()), ("Timestamp", n.to_le_bytes().to_vec())] {
            let kind = Kind::scalar(name);
            prop_assert_eq!(kind.encode(&kind.decode(&bytes)).unwrap(), bytes);
        }
    }
}

#[test]
fn every_day_follows_the_one_before() {
    let kind = Kind::scalar("Timestamp");
    let second = |days: i64| (days * 86_400 * 1_000_000_000).to_le_bytes();
    let (mut year, mut month, mut day) = (1678, 1, 1);
    // Days from 1678-01-01 to 1970-01-01.
    let mut days: i64 = -106_650;
    assert_eq!(kind.decode(&second(0)), json!("1970-01-01T00:00:00Z"));
    while year < 2262 {
        let text = json!(format!("{year:04}-{month:02}-{day:02}T00:00:00Z"));
        assert_eq!(kind.decode(&second(days)), text);
        assert_eq!(kind.encode(&text).unwrap(), second(days));
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let last = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        (year, month, day) = match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (m, d) if d == last[m - 1] => (year, m + 1, 1),
            (m, d) => (year, m, d + 1),
        };
        days += 1;
    }
}
