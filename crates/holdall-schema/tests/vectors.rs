//! Runs the vectors of `corpus/vectors/metatensor`, which other implementations can run too.

use holdall_json::parse;
use holdall_schema::{
    Accessor, AdditionalMembers, Dim, Encoder, Error, Kind, Node, NodeId, Path, Presence,
    ReadScalar, Root, Scalar, Schema, SchemaLimits, Symbols, TypeId,
};
use serde_json::{Value, json};
use std::path::PathBuf;

fn vectors(name: &str) -> Vec<Value> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/vectors/metatensor");
    let text = std::fs::read(root.join(name)).unwrap();
    let Value::Array(all) = parse(&text, 100).unwrap() else { panic!("{name}: not an array") };
    all
}

fn limits() -> SchemaLimits {
    SchemaLimits::default()
}

/// Runs every vector of a file and reports all that differ.
fn run(name: &str, least: usize, found: impl Fn(&Value) -> Result<Value, Error>) {
    let all = vectors(name);
    assert!(all.len() >= least, "{name} has {} vectors", all.len());
    let mut wrong = Vec::new();
    for vector in &all {
        let wanted = match vector.get("error") {
            Some(code) => Err(code.as_str().unwrap().to_owned()),
            None => Ok(vector["expect"].clone()),
        };
        let result = found(vector);
        let text = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let got = result.map_err(|e| e.code().to_owned());
        if got != wanted {
            wrong.push(format!("{}\n  wanted {wanted:?}\n  found  {got:?} {text}", vector["name"]));
        }
    }
    assert!(wrong.is_empty(), "{name}: {} differ\n{}", wrong.len(), wrong.join("\n"));
}

fn record_schema(vector: &Value) -> Result<(Schema, TypeId), Error> {
    let mut schema = Schema::compile_record(&vector["schema"], &limits())?;
    if let Some(symbols) = vector.get("symbols").and_then(Value::as_object) {
        let symbols: Symbols =
            symbols.iter().map(|(k, v)| (k.as_str().into(), v.as_u64().unwrap())).collect();
        schema = schema.bind(&symbols)?;
    }
    let ty = schema.record().unwrap();
    Ok((schema, ty))
}

fn hex(text: &Value) -> Vec<u8> {
    let text: String = text.as_str().unwrap_or_default().split_whitespace().collect();
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
}

fn unhex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[test]
fn layouts() {
    run("layout.json", 120, |vector| {
        let (schema, ty) = record_schema(vector)?;
        let extent = schema.extent(ty)?;
        let mut paths = Vec::new();
        for item in schema.layout(ty, &limits())? {
            let item = item?;
            let range = [item.range.start, item.range.end];
            let mut path = json!({
                "path": item.path.to_string(),
                "range": range,
                "stride": item.stride,
                "align": item.align,
            });
            if let Some(presence) = item.presence {
                path["presence"] = json!([presence.byte, presence.bit]);
            }
            // Every path is parsed back.
            assert_eq!(item.path.to_string().parse::<Path>().unwrap(), item.path);
            paths.push(path);
        }
        Ok(json!({
            "size": extent.size,
            "align": extent.align,
            "stride": extent.stride,
            "heap_align": schema.ty(ty).heap_align,
            "paths": paths,
        }))
    });
}

/// Converts JSON to bytes by text and by value, and back to JSON in both ways; or checks that bytes break a rule.
fn record(vector: &Value) -> Result<Value, Error> {
    let (schema, ty) = record_schema(vector)?;
    if vector.get("record").is_some() {
        let (record, heap) = (hex(&vector["record"]), hex(&vector["heap"]));
        let checked = schema.check_record(ty, &record, &heap, &limits());
        let shown = schema.record_value(ty, &record, &heap, &limits());
        assert_eq!(checked.as_ref().err().map(Error::code), shown.as_ref().err().map(Error::code));
        return checked.map(|()| shown.unwrap());
    }
    let mut encoder = Encoder::new(&schema, ty, &limits())?;
    let (mut record, mut heap) = (vec![0xaa; encoder.size()], Vec::new());
    let text = match vector.get("text") {
        Some(text) => text.as_str().unwrap().to_owned(),
        None => vector["json"].to_string(),
    };
    let by_text = encoder.text(text.as_bytes(), &mut record, &mut heap);
    if let Ok(value) = parse(text.as_bytes(), 64) {
        let (mut record2, mut heap2) = (vec![0x55; encoder.size()], Vec::new());
        let by_value = encoder.value(&value, &mut record2, &mut heap2);
        let codes = [&by_text, &by_value].map(|r| r.as_ref().err().map(Error::code));
        assert_eq!(codes[0], codes[1], "{}", vector["name"]);
        if by_text.is_ok() {
            assert_eq!((&record, &heap), (&record2, &heap2), "{}", vector["name"]);
        }
    }
    by_text?;
    schema.check_record(ty, &record, &heap, &limits())?;
    let json = schema.record_value(ty, &record, &heap, &limits())?;
    Ok(json!({"record": unhex(&record), "heap": unhex(&heap), "json": json}))
}

#[test]
fn records() {
    run("records.json", 120, record);
}

/// Returns the value that an accessor reads, as the README of the vectors describes for each kind.
fn read(a: &Accessor, kind: &Kind, record: &[u8], heap: &[u8]) -> Result<Value, Error> {
    fn number<T: ReadScalar + Into<Value>>(a: &Accessor, record: &[u8]) -> Result<Value, Error> {
        Ok(a.typed::<T>()?.read(record)?.map_or(Value::Null, Into::into))
    }
    match kind {
        Kind::Scalar(scalar) => match scalar {
            Scalar::Int8 => number::<i8>(a, record),
            Scalar::Int16 => number::<i16>(a, record),
            Scalar::Int32 => number::<i32>(a, record),
            Scalar::Int64 | Scalar::Timestamp => number::<i64>(a, record),
            Scalar::Uint8 => number::<u8>(a, record),
            Scalar::Uint16 => number::<u16>(a, record),
            Scalar::Uint32 => number::<u32>(a, record),
            Scalar::Uint64 => number::<u64>(a, record),
            Scalar::Boolean => number::<bool>(a, record),
            Scalar::Complex64 => {
                Ok(a.typed::<[f32; 2]>()?.read(record)?.map_or(Value::Null, |x| json!(x)))
            }
            Scalar::Complex128 => {
                Ok(a.typed::<[f64; 2]>()?.read(record)?.map_or(Value::Null, |x| json!(x)))
            }
            _ => number::<f64>(a, record),
        },
        Kind::Enum(_) => Ok(json!(a.enum_value(record)?)),
        Kind::Union(_) => Ok(json!(a.variant(record)?)),
        Kind::String => Ok(json!(a.string(record, heap)?)),
        Kind::Bytes => {
            let bytes = a.bytes(record, heap)?;
            Ok(json!(bytes.map(|b| data_encoding::BASE64.encode(b))))
        }
        Kind::Record => {
            let text = a.json(record, heap, &limits())?;
            Ok(text.map_or(Value::Null, |t| parse(t.as_bytes(), 64).unwrap()))
        }
        Kind::Array(_) => {
            let elements = a.elements(record, heap)?;
            Ok(json!(elements.map(|e| e.iter().map(unhex).collect::<Vec<_>>())))
        }
        _ => Ok(json!(a.raw(record)?.map(unhex))),
    }
}

#[test]
fn accessors() {
    run("accessors.json", 30, |vector| {
        let (schema, ty) = record_schema(vector)?;
        let path: Path = vector["path"].as_str().unwrap().parse()?;
        let a = schema.accessor(ty, &path)?;
        let (record, heap) = (hex(&vector["record"]), hex(&vector["heap"]));
        let value = read(&a, &schema.ty(a.ty()).kind, &record, &heap)?;
        let column = a.column(1);
        Ok(json!({
            "offset": column.offset,
            "size": column.size,
            "stride": column.stride,
            "value": value,
        }))
    });
}

fn node(schema: &Schema, id: NodeId) -> Value {
    match schema.node(id) {
        Node::Flat { tensor, align } => {
            let dim = |d: &Dim| match d {
                Dim::Known(n) => json!(n),
                Dim::Symbol(name) => json!(**name),
                _ => Value::Null,
            };
            let shape = tensor.shape.as_ref().map(|s| s.iter().map(dim).collect::<Vec<_>>());
            json!({"flat": [tensor.dtype.map(|d| d.as_str()), shape, align]})
        }
        Node::Dataset { items, align, .. } => {
            let stride = schema.extent(*items).unwrap().stride;
            let heap_align = schema.ty(*items).heap_align;
            json!({"dataset": {"stride": stride, "align": align, "heap_align": heap_align}})
        }
        Node::Blob { content, .. } => json!({"blob": content.to_string()}),
        Node::Object(object) => {
            let property = |p: &holdall_schema::Property| {
                let presence = match p.presence {
                    Presence::Required => "required",
                    Presence::Optional => "optional",
                };
                json!([*p.name, node(schema, p.node), presence])
            };
            let additional = match object.additional {
                AdditionalMembers::Forbidden => json!("forbidden"),
                AdditionalMembers::Anything => json!("any"),
                AdditionalMembers::Node(id) => node(schema, id),
            };
            let properties: Vec<Value> = object.properties.iter().map(property).collect();
            let mut found = json!({"object": properties, "additional": additional});
            if !object.required_others.is_empty() {
                let others: Vec<&str> = object.required_others.iter().map(|n| &**n).collect();
                found["others"] = json!(others);
            }
            found
        }
        Node::List { items, min, max } => {
            json!({"list": node(schema, *items), "min": min, "max": max})
        }
        _ => json!("plain"),
    }
}

#[test]
fn references() {
    run("references.json", 30, |vector| {
        let schema = Schema::compile(&vector["schema"], &limits())?;
        let Root::References(root) = schema.root() else { panic!("a record") };
        Ok(node(&schema, root))
    });
}
