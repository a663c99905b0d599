//! Properties of every two schemas, and of every record that is converted from one to the other.

use crate::generators::{Dice, leaf, noise, schema, value};
use holdall_schema::{
    Change, ChangeKind, Converters, Encoder, Kind, ResolveOptions, Scalar, Schema, SchemaLimits,
    TypeId, Verdict, diff, resolve,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn limits() -> SchemaLimits {
    SchemaLimits::default().with_nodes(5000)
}

/// Writes a record of a type, with members in their order.
fn encode(schema: &Schema, ty: TypeId, dice: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let json = value(schema, ty, &mut Dice(dice.iter().cycle()));
    let mut encoder = Encoder::new(schema, ty, &limits()).unwrap();
    let (mut record, mut heap) = (vec![0; encoder.size()], Vec::new());
    encoder.value(&json, &mut record, &mut heap).unwrap();
    let mut text = String::new();
    schema.record_text(ty, &record, &heap, &limits(), &mut text).unwrap();
    heap.clear();
    encoder.text(text.as_bytes(), &mut record, &mut heap).unwrap();
    (record, heap)
}

type Migrated = Result<(Vec<u8>, Vec<u8>), holdall_schema::Error>;

fn migrate(writer: &Schema, reader: &Schema, record: &[u8], heap: &[u8]) -> Migrated {
    let (from, to) = (writer.record().unwrap(), reader.record().unwrap());
    let options = ResolveOptions::default().with_limits(limits().with_decoded_len(1 << 20));
    let resolution = resolve(writer, from, reader, to, &options)?;
    let (mut out, mut out_heap) = (vec![0xee; resolution.to_size()], Vec::new());
    let converters = Converters::new();
    resolution.migrator(&converters)?.record(record, heap, &mut out, &mut out_heap)?;
    Ok((out, out_heap))
}

/// Returns the same schema after random changes.
fn edited(schema: &Value, dice: &mut Dice<'_>, spare: &[Value]) -> Value {
    let pick = |dice: &mut Dice<'_>| spare[dice.below(spare.len() as u64) as usize].clone();
    let mut schema = schema.clone();
    if dice.below(12) == 0 {
        schema["align"] = json!(1u64 << dice.below(5));
    }
    let at = dice.below(40);
    if let Some(items) = schema.get("items").cloned() {
        schema["items"] = edited(&items, dice, spare);
        match at {
            0 => schema["maxItems"] = json!(7),
            1 => drop(schema.as_object_mut().unwrap().remove("minItems")),
            _ => {}
        }
    } else if schema.get("mapping").is_some() {
        let mapping = schema["mapping"].as_object_mut().unwrap();
        for variant in mapping.values_mut() {
            *variant = edited(variant, dice, spare);
        }
        match at {
            0..4 => {
                let other = mapping.values().next().unwrap().clone();
                mapping.insert("a0".into(), other);
            }
            4 if mapping.len() > 1 => drop(mapping.remove("v0")),
            _ => {}
        }
    } else if let Some(names) = schema.get("TypeDef:Struct").cloned() {
        let mut names: Vec<Value> = names.as_array().unwrap().clone();
        let mut required = schema["required"].as_array().unwrap().clone();
        let properties = schema["properties"].as_object_mut().unwrap();
        for member in properties.values_mut() {
            *member = edited(member, dice, spare);
        }
        match at {
            0 => names.reverse(),
            1 | 2 => {
                let name = names.pop().unwrap();
                required.retain(|n| *n != name);
                properties.remove(name.as_str().unwrap());
            }
            3..6 => required.truncate(required.len() / 2),
            6 => required = names.clone(),
            7 => {
                required = names.clone();
                for member in properties.values_mut().filter(|m| m.get("TypeDef:Int8").is_some()) {
                    member["default"] = json!(3);
                }
            }
            8..14 => {
                names.insert(names.len() / 2, json!("new"));
                let mut member = pick(dice);
                for (kind, default) in [
                    ("TypeDef:Int8", json!(-1)),
                    ("TypeDef:String", json!("new")),
                    ("TypeDef:Bytes", json!("AAEC")),
                    ("TypeDef:Float32", json!(0.5)),
                ] {
                    if member.get(kind).is_some() && at < 12 {
                        member["default"] = default;
                        required.push(json!("new"));
                    }
                }
                if at == 13 && !required.contains(&json!("new")) {
                    required.push(json!("new"));
                }
                properties.insert("new".into(), member);
            }
            _ => {}
        }
        schema["TypeDef:Struct"] = json!(names);
        schema["required"] = json!(required);
    } else if let Some(values) = schema.get_mut("enum") {
        let values = values.as_array_mut().unwrap();
        match at {
            0..6 => values.push(json!("new")),
            6..12 => values.reverse(),
            12 if values.len() > 1 => drop(values.pop()),
            _ => {}
        }
    } else if at < 2 {
        schema = pick(dice);
    } else if let Some(scalar) = scalar(&schema).filter(|_| at < 25) {
        let to = Scalar::ALL[dice.below(18) as usize];
        let small = [Scalar::Int8, Scalar::Uint8, Scalar::Float16, Scalar::Float32];
        if at > 4 || small.contains(&scalar) && [Scalar::Float64].contains(&to) {
            schema = json!({format!("TypeDef:{}", wider(scalar).as_str()): true});
        } else {
            schema = json!({format!("TypeDef:{}", to.as_str()): true});
        }
    }
    schema
}

fn scalar(schema: &Value) -> Option<Scalar> {
    let kind = schema.as_object()?.keys().find_map(|k| k.strip_prefix("TypeDef:"))?;
    Scalar::from_name(kind)
}

fn wider(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Int8 => Scalar::BFloat16,
        Scalar::Uint8 => Scalar::Int16,
        Scalar::Int16 | Scalar::Uint16 => Scalar::Int32,
        Scalar::Int32 | Scalar::Uint32 | Scalar::Float32 => Scalar::Float64,
        Scalar::Float16 | Scalar::BFloat16 => Scalar::Float32,
        Scalar::Float8E4M3 | Scalar::Float8E5M2 => Scalar::Float16,
        Scalar::Complex64 => Scalar::Complex128,
        other => other,
    }
}

/// Compares the JSON that a reader sees with the JSON that was written: everything that the reader has a member for,
/// and nothing else except defaults.
fn holds(w: &Schema, from: TypeId, old: &Value, r: &Schema, to: TypeId, new: &Value) {
    match (&w.ty(from).kind, &r.ty(to).kind) {
        (Kind::Struct(a), Kind::Struct(b)) => {
            for member in &b.members {
                let seen = new.get(&*member.name);
                let place = a.index_of(&member.name);
                match place.and_then(|p| Some((p, old.get(&*member.name)?))) {
                    Some((place, written)) => {
                        holds(w, a.members[place].ty, written, r, member.ty, seen.unwrap());
                    }
                    None if place.is_none() || member.presence.is_none() => {
                        assert_eq!(seen.is_some(), member.default.is_some());
                    }
                    None => assert_eq!(seen, None),
                }
            }
            let known = |name: &String| b.index_of(name).is_some() || name == "kind";
            assert!(new.as_object().unwrap().keys().all(known));
        }
        (Kind::Union(a), Kind::Union(b)) => {
            let key = old["kind"].as_str().unwrap();
            assert_eq!(new["kind"], key);
            let types = [(a, key), (b, key)].map(|(u, key)| u.variants[u.tag(key).unwrap()].ty);
            holds(w, types[0], old, r, types[1], new);
        }
        (Kind::Array(a), Kind::Array(b)) => {
            let [old, new] = [old, new].map(|v| v.as_array().unwrap());
            assert_eq!(old.len(), new.len());
            for (old, new) in old.iter().zip(new) {
                holds(w, a.items, old, r, b.items, new);
            }
        }
        (Kind::Scalar(_), Kind::Scalar(_)) => {
            // The shortest decimal depends on the kind, but the number of the narrower kind is the same.
            let mut encoder = Encoder::new(w, from, &limits()).unwrap();
            let bytes = [old, new].map(|v| {
                let mut bytes = vec![0; encoder.size()];
                let whole = v.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 1e9);
                let whole = whole.filter(|x| *x != 0.0).map(|x| json!(x as i64));
                encoder.value(whole.as_ref().unwrap_or(v), &mut bytes, &mut Vec::new()).unwrap();
                bytes
            });
            assert_eq!(bytes[0], bytes[1], "{old} {new}");
        }
        _ => assert_eq!(old, new),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 4000, failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_schema_against_itself_changes_nothing(json in schema(), dice in prop::collection::vec(any::<u64>(), 1..60)) {
        let schema = Schema::compile_record(&json, &limits());
        prop_assume!(schema.is_ok());
        let schema = schema.unwrap();
        prop_assert_eq!(diff((&schema, &json), (&schema, &json), &limits()).unwrap(), []);
        let (record, heap) = encode(&schema, schema.record().unwrap(), &dice);
        prop_assert_eq!(migrate(&schema, &schema, &record, &heap).unwrap(), (record, heap));
    }

    #[test]
    fn verdicts_agree_with_migrations(
        json in schema(),
        spare in prop::collection::vec(leaf(), 1..6),
        dice in prop::collection::vec(any::<u64>(), 20..80),
    ) {
        let next = edited(&json, &mut Dice(dice.iter().cycle()), &spare);
        let [writer, reader] = [&json, &next].map(|s| Schema::compile_record(s, &limits()));
        prop_assume!(writer.is_ok() && reader.is_ok());
        let (writer, reader) = (writer.unwrap(), reader.unwrap());
        let changes = diff((&writer, &json), (&reader, &next), &limits()).unwrap();
        let (from, to) = (writer.record().unwrap(), reader.record().unwrap());
        let (record, heap) = encode(&writer, from, &dice);
        let found = migrate(&writer, &reader, &record, &heap);
        // Bounds restrict values, not bytes.
        let is_aside = |c: &Change| matches!(c.what, ChangeKind::Removed | ChangeKind::Bounds | ChangeKind::Keywords);
        let is_read = changes.iter().all(|c| c.verdict == Verdict::Compatible || is_aside(c));
        prop_assert_eq!(found.is_ok(), is_read, "{:?} {:?}", changes, found);
        let Ok((out, out_heap)) = found else { return Ok(()) };
        reader.check_record(to, &out, &out_heap, &limits()).unwrap();
        let old = writer.record_value(from, &record, &heap, &limits()).unwrap();
        let new = reader.record_value(to, &out, &out_heap, &limits()).unwrap();
        holds(&writer, from, &old, &reader, to, &new);
    }

    #[test]
    fn any_bytes_become_a_record_or_break_a_rule(
        json in schema(),
        spare in prop::collection::vec(leaf(), 1..6),
        dice in prop::collection::vec(any::<u64>(), 20..80),
        noise in prop::collection::vec(any::<u8>(), 1..64),
        heap in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let next = edited(&json, &mut Dice(dice.iter().cycle()), &spare);
        let [writer, reader] = [&json, &next].map(|s| Schema::compile_record(s, &limits()));
        prop_assume!(writer.is_ok() && reader.is_ok());
        let (writer, reader) = (writer.unwrap(), reader.unwrap());
        let size = writer.extent(writer.record().unwrap()).unwrap().size as usize;
        let record: Vec<u8> = noise.iter().cycle().take(size).copied().collect();
        let sound = writer.check_record(writer.record().unwrap(), &record, &heap, &limits());
        if let Ok((out, out_heap)) = migrate(&writer, &reader, &record, &heap)
            && sound.is_ok()
        {
            reader.check_record(reader.record().unwrap(), &out, &out_heap, &limits()).unwrap();
        }
    }
}

/// Returns the schema of a header with records of this kind in several places.
fn header(record: &Value) -> Value {
    json!({"properties": {"a": record, "b": {"TypeDef:Tensor": {"dtype": "F32"}}},
           "additionalProperties": {"TypeDef:Array": true, "items": record}})
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn any_two_schemas_are_compared(
        noise in prop::collection::vec(noise(), 2),
        record in schema(),
        spare in prop::collection::vec(leaf(), 1..6),
        dice in prop::collection::vec(any::<u64>(), 20..40),
    ) {
        let limits = SchemaLimits::default().with_nodes(200);
        let next = edited(&record, &mut Dice(dice.iter().cycle()), &spare);
        let all = [noise[0].clone(), noise[1].clone(), header(&record), header(&next), record, next];
        for compile in [Schema::compile, Schema::compile_record] {
            let all: Vec<_> = all.iter().filter_map(|s| Some((compile(s, &limits).ok()?, s))).collect();
            for (old, old_json) in &all {
                if let Ok(changes) = diff((old, *old_json), (old, *old_json), &limits) {
                    prop_assert_eq!(changes, []);
                }
                for (new, new_json) in &all {
                    let _ = diff(old, new, &limits);
                    let _ = diff((old, *old_json), (new, *new_json), &limits);
                    // The JSON of an unrelated schema must not lead to a crash.
                    let _ = diff((old, *new_json), (new, *old_json), &limits);
                    if let (Some(from), Some(to)) = (old.record(), new.record()) {
                        let options = ResolveOptions::default().with_limits(limits.clone());
                        let _ = resolve(old, from, new, to, &options);
                    }
                }
            }
        }
    }
}

/// A number of any kind, without rounding.
fn exact(scalar: Scalar, bytes: &[u8]) -> Option<f64> {
    let two = || [bytes[0], bytes[1]];
    Some(match scalar {
        Scalar::Int8 => f64::from(bytes[0].cast_signed()),
        Scalar::Uint8 => f64::from(bytes[0]),
        Scalar::Int16 => f64::from(i16::from_le_bytes(two())),
        Scalar::Uint16 => f64::from(u16::from_le_bytes(two())),
        Scalar::Int32 => f64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        Scalar::Uint32 => f64::from(u32::from_le_bytes(bytes.try_into().unwrap())),
        Scalar::Int64 => i64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        Scalar::Uint64 => u64::from_le_bytes(bytes.try_into().unwrap()) as f64,
        Scalar::Float16 => half::f16::from_le_bytes(two()).to_f64(),
        Scalar::BFloat16 => half::bf16::from_le_bytes(two()).to_f64(),
        Scalar::Float32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        Scalar::Float64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        Scalar::Float8E4M3 => f64::from(microfloat::f8e4m3fn::from_bits(bytes[0]).to_f32()),
        Scalar::Float8E5M2 => f64::from(microfloat::f8e5m2::from_bits(bytes[0]).to_f32()),
        _ => return None,
    })
}

#[test]
fn widening_keeps_every_number() {
    let compile = |scalar: Scalar| {
        let json = json!({format!("TypeDef:{}", scalar.as_str()): true});
        Schema::compile_record(&json, &limits()).unwrap()
    };
    let mut pairs = 0;
    for (from, to) in Scalar::ALL.into_iter().flat_map(|a| Scalar::ALL.map(|b| (a, b))) {
        let (writer, reader) = (compile(from), compile(to));
        let types = (writer.record().unwrap(), reader.record().unwrap());
        let options = ResolveOptions::default();
        let Ok(resolution) = resolve(&writer, types.0, &reader, types.1, &options) else {
            continue;
        };
        if from == to || from == Scalar::Complex64 {
            continue;
        }
        pairs += 1;
        let converters = Converters::new();
        let mut migrator = resolution.migrator(&converters).unwrap();
        // All codes of up to 16 bits; for wider kinds, numbers spread over all codes.
        for code in 0..=u32::from(u16::MAX) {
            let code = if from.size() > 2 { code.wrapping_mul(0x9e37_79b1) } else { code };
            let bytes = &code.to_le_bytes()[..from.size() as usize];
            let mut out = vec![0; to.size() as usize];
            migrator.record(bytes, &[], &mut out, &mut Vec::new()).unwrap();
            let (a, b) = (exact(from, bytes).unwrap(), exact(to, &out).unwrap());
            let is_same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(is_same, "{from:?} {bytes:x?} is {a}, {to:?} {out:x?} is {b}");
        }
    }
    // As many as in the table of section 8.2.
    assert_eq!(pairs, 45);
}

/// A schema that is nested as deeply as any limit allows.
#[test]
fn the_deepest_schemas_fit_the_stack() {
    let limits = SchemaLimits::default().with_depth(usize::MAX);
    let mut shells: Vec<fn(Value) -> Value> = Vec::new();
    shells
        .push(|inner| json!({"TypeDef:Array": true, "minItems": 1, "maxItems": 1, "items": inner}));
    shells.push(|inner| json!({"TypeDef:Array": true, "items": inner}));
    shells.push(|inner| {
        json!({"TypeDef:Struct": ["a"], "properties": {"a": inner}, "required": ["a"], "align": 1})
    });
    for shell in shells {
        let nested = |leaf: &str| {
            let leaf = json!({format!("TypeDef:{leaf}"): true});
            (0..250).fold(leaf, |inner, _| shell(inner))
        };
        let json = [nested("Int8"), nested("Int16")];
        let [old, new] = json.each_ref().map(|s| Schema::compile_record(s, &limits).unwrap());
        let changes = diff((&old, &json[0]), (&new, &json[1]), &limits).unwrap();
        assert_eq!(changes.len(), 1);
        let options = ResolveOptions::default().with_limits(limits.clone());
        let types = (old.record().unwrap(), new.record().unwrap());
        let resolution = resolve(&old, types.0, &new, types.1, &options).unwrap();
        // A chain of entries that refer to themselves ends with the types.
        let record = vec![1u8; resolution.from_size()];
        let mut heap = vec![0u8; 16];
        heap[8] = 16;
        let record = if record.len() == 16 { heap.clone() } else { record };
        let mut out = vec![0; resolution.to_size()];
        let converters = Converters::new();
        let mut migrator = resolution.migrator(&converters).unwrap();
        migrator.record(&record, &heap, &mut out, &mut Vec::new()).unwrap();
    }
}
