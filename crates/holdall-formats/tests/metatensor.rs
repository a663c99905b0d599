//! Metatensor: reading and writing files.

use crate::metatensor_files::accepts::accepts;
use crate::metatensor_files::*;
use holdall_core::{
    Attributes, Bytes, ComponentRef, ComponentSpec, DType, Encode, EncodeOptions, Encoding, Error,
    ErrorKind, Index, Layout, Limits, LogicalType, Remedy, Result, Role, Stop, Stored, TensorSpec,
    Value, Window,
};
use holdall_formats::metatensor::{FORMAT, SCHEMA_ATTRIBUTE, TENSOR_SCHEMA_ATTRIBUTE, infer};
use holdall_formats::safetensors;

fn decode(bytes: &[u8]) -> Result<Index> {
    decode_under(bytes, &Limits::default())
}

fn decode_under(bytes: &[u8], limits: &Limits) -> Result<Index> {
    match holdall_formats::decode(&Window::whole(Bytes::copy_from_slice(bytes)), limits) {
        Ok(index) => index.sound(),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole file lacks {range:?}"),
    }
}

fn accepted(name: &str) -> Vec<u8> {
    accepts().into_iter().find(|(n, _)| *n == name).unwrap().1
}

fn encoder(options: &EncodeOptions) -> Result<Box<dyn Encode>> {
    FORMAT.encode.unwrap()(options)
}

/// Writes tensors whose components hold these bytes.
fn write(
    attributes: &Attributes,
    tensors: &[TensorSpec],
    bytes: impl Fn(usize, usize) -> Vec<u8>,
    options: &EncodeOptions,
) -> Result<Vec<u8>> {
    let mut encoder = encoder(options)?;
    encoder.check_attributes(attributes)?;
    tensors.iter().try_for_each(|t| encoder.check_tensor(t))?;
    let mut out = encoder.begin(attributes, tensors)?.to_vec();
    let mut placed: Vec<(ComponentRef, Stored)> = Vec::new();
    for (t, tensor) in tensors.iter().enumerate() {
        for (c, spec) in tensor.components.iter().enumerate() {
            let stored = match &spec.shares {
                Some(of) => placed.iter().find(|(r, _)| r == of).unwrap().1.clone(),
                None => {
                    let start = encoder.next_offset(out.len() as u64, tensor, c)?;
                    out.resize(start as usize, 0);
                    out.extend(bytes(t, c));
                    let range = start..out.len() as u64;
                    Stored { range, encoding: Encoding::Raw, digest: None }
                }
            };
            let name = ComponentRef { tensor: tensor.name.clone(), role: spec.role.clone() };
            placed.push((name, stored.clone()));
            encoder.component_written(tensor, c, stored)?;
        }
    }
    out.extend(encoder.finish(out.len() as u64)?);
    Ok(out)
}

/// The same tensors and attributes written anew, from the bytes that have them.
fn rewritten(bytes: &[u8], attributes: &Attributes, options: &EncodeOptions) -> Result<Vec<u8>> {
    let index = decode(bytes)?;
    // In the order of their bytes, as conversions and edits write them.
    let mut tensors: Vec<_> = index.tensors().collect();
    tensors.sort_by_key(|t| t.components().map(|c| c.stored.start).min());
    let specs: Vec<TensorSpec> =
        tensors.iter().map(|t| TensorSpec::from_info(t).unwrap()).collect();
    let get = |t: usize, c: usize| {
        let stored = tensors[t].components().nth(c).unwrap().stored;
        bytes[stored.start as usize..stored.end as usize].to_vec()
    };
    write(attributes, &specs, get, options)
}

fn dense(name: &str, dtype: DType, shape: &[u64]) -> TensorSpec {
    TensorSpec::dense(name, dtype, shape)
}

/// Zeros for each component, as many as there should be.
fn zeros(tensors: &[TensorSpec]) -> impl Fn(usize, usize) -> Vec<u8> {
    let lens: Vec<Vec<usize>> = tensors
        .iter()
        .map(|t| t.components.iter().map(|c| c.decoded_len as usize).collect())
        .collect();
    move |t, c| vec![0; lens[t][c]]
}

fn written(tensors: &[TensorSpec]) -> Vec<u8> {
    write(&Attributes::new(), tensors, zeros(tensors), &EncodeOptions::new()).unwrap()
}

fn header_of(bytes: &[u8]) -> serde_json::Value {
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    serde_json::from_slice(&bytes[8..8 + len]).unwrap()
}

fn describe(index: &Index) -> String {
    let tensors: Vec<String> = index
        .tensors()
        .map(|t| {
            let components: Vec<_> = t.components().map(|c| (c.role, c.dtype, c.stored)).collect();
            format!(
                "{} {:?} {} {} {components:?}",
                t.name(),
                t.shape(),
                t.layout(),
                t.attributes().to_json()
            )
        })
        .collect();
    format!("{} {} {tensors:#?}", index.version(), index.attributes().to_json())
}

#[test]
fn every_accepted_file_is_read_in_ranges_too() {
    for (name, bytes) in accepts() {
        let whole = decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(whole.format(), "metatensor", "{name}");
        let mut window = Window::new(bytes.len() as u64);
        let windowed = loop {
            match holdall_formats::decode(&window, &Limits::default()) {
                Err(Stop::Need(ranges)) => {
                    for range in ranges {
                        let found = &bytes[range.start as usize..range.end as usize];
                        window.add(range.start, Bytes::copy_from_slice(found));
                    }
                }
                other => break other.unwrap(),
            }
        };
        assert_eq!(describe(&whole), describe(&windowed), "{name}");
    }
}

/// A file read and written again says the same, and once written it stays as it is.
#[test]
fn every_accepted_file_comes_back() {
    for (name, bytes) in accepts() {
        if name == "restored" {
            continue; // Its metadata speaks of a tensor that is not there, with a warning.
        }
        let index = decode(&bytes).unwrap();
        let again = rewritten(&bytes, index.attributes(), &EncodeOptions::new());
        let again = again.unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = decode(&again).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(back.attributes().to_json(), index.attributes().to_json(), "{name}");
        assert_eq!(back.len(), index.len(), "{name}");
        for a in index.tensors() {
            let b = back.get(a.name()).unwrap_or_else(|| panic!("{name} lost {}", a.name()));
            assert_eq!((a.shape(), a.layout()), (b.shape(), b.layout()), "{name}");
            assert_eq!(a.attributes().to_json(), b.attributes().to_json(), "{name}");
            for (x, y) in a.components().zip(b.components()) {
                let of = |bytes: &[u8], r: std::ops::Range<u64>| {
                    bytes[r.start as usize..r.end as usize].to_vec()
                };
                assert_eq!(of(&bytes, x.stored.range()), of(&again, y.stored.range()), "{name}");
            }
        }
        let third = rewritten(&again, back.attributes(), &EncodeOptions::new()).unwrap();
        assert!(third == again, "{name} is another file when it is written again");
    }
}

/// Without its schema a file gets one of its own, which is not shown, and made anew each time.
#[test]
fn schemas_are_made_where_there_is_none() {
    for (name, bytes) in accepts() {
        let index = decode(&bytes).unwrap();
        let mut attributes = index.attributes().clone();
        attributes.remove(SCHEMA_ATTRIBUTE);
        let again = rewritten(&bytes, &attributes, &EncodeOptions::new());
        let again = again.unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = decode(&again).unwrap();
        assert!(back.attributes().get(SCHEMA_ATTRIBUTE).is_none(), "{name}");
        assert_eq!(back.attributes().to_json(), attributes.to_json(), "{name}");
        let names = |index: &Index| {
            let mut all: Vec<String> = index.names().map(str::to_owned).collect();
            all.sort();
            all
        };
        assert_eq!(names(&index), names(&back), "{name}");
        let third = rewritten(&again, back.attributes(), &EncodeOptions::new()).unwrap();
        assert!(third == again, "{name} is another file when it is written again");
    }
}

#[test]
fn a_file_decodes_to_the_expected_index() {
    let index = decode(&accepted("nested")).unwrap();
    let names: Vec<&str> = index.names().collect();
    assert_eq!(names, ["layers[0].w", "layers[0].b", "layers[1].w", "layers[1].b", "head"]);
    let index = decode(&accepted("paths")).unwrap();
    let names: Vec<&str> = index.names().collect();
    assert_eq!(names, [r"a\.b", r"a\[0]", r"a\\b", r"\_", "é", " ", "a]"]);
    let index = decode(&accepted("strings")).unwrap();
    let people = index.get("people").unwrap();
    assert_eq!((people.shape(), people.layout()), (&[4][..], &Layout::Records));
    let roles: Vec<(Role, DType)> = people.components().map(|c| (c.role, c.dtype)).collect();
    assert_eq!(roles, [(Role::Data, DType::U8), (Role::BlobData, DType::U8)]);
    let index = decode(&accepted("values")).unwrap();
    assert_eq!(
        index.attributes().get("metatensor.values").and_then(Value::as_text),
        Some(
            r#"{"config":{ "heads": 8, "eps": 1e-5 },"free":[null,"\u00e9"],"layers[0].name":"first","steps":-3}"#
        )
    );
    // Symbols are numbers in what records are.
    let index = decode(&accepted("symbols")).unwrap();
    let all = index.get("all").unwrap();
    let kind = all.attributes().get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text).unwrap();
    assert!(kind.contains(r#""shape":[3]"#), "{kind}");
    // What a kind refers to comes with it, and nothing else.
    let index = decode(&accepted("inline")).unwrap();
    let all = index.get("all").unwrap();
    let kind = all.attributes().get(TENSOR_SCHEMA_ATTRIBUTE).and_then(Value::as_text).unwrap();
    assert!(kind.contains("image") && kind.contains("item") && !kind.contains("unused"), "{kind}");
    let index = decode(&accepted("metadata")).unwrap();
    let attribute = |key: &str| index.attributes().get(key).unwrap().clone();
    assert_eq!(attribute("bytes"), Value::Bytes(vec![0, 255]));
    assert_eq!(attribute("big"), Value::Integer(u64::MAX.into()));
    assert!(matches!(attribute("schema"), Value::Map(pairs) if pairs.len() == 2));
    let index = decode(&accepted("restored")).unwrap();
    let names: Vec<&str> = index.names().collect();
    assert_eq!(names, ["s", "a", "a.b", "t"]);
    assert_eq!(index.get("a.b").unwrap().attributes().to_json(), r#"{"unit":"m"}"#);
    assert_eq!(index.get("s").unwrap().attributes().len(), 2);
    assert_eq!(index.attributes().get("holdall.x"), Some(&Value::Integer(1)));
    assert!(index.warnings().is_empty());
    let index = decode(&accepted("unknown-key")).unwrap();
    assert_eq!(index.warnings()[0].code, "metatensor/unknown-key");
    let odd = with(TENSORS, "{}", r#","metadata":{"holdall.names":{"x":"y"},"holdall.schema":1}"#);
    let index = decode(&file(&odd, &[])).unwrap();
    assert_eq!((index.warnings()[0].code, index.warnings()[0].count), ("metatensor/restore", 2));
}

#[test]
fn only_a_string_under_the_key_makes_it_metatensor() {
    let st = |text: &str, data: usize| {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    };
    let entry = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let plain = st(&format!(r#"{{"metatensor":{entry}}}"#), 1);
    assert_eq!(decode(&plain).unwrap().format(), "safetensors");
    let inside = st(&format!(r#"{{"__metadata__":{{"metatensor":"1.0"}},"w":{entry}}}"#), 1);
    assert_eq!(decode(&inside).unwrap().format(), "safetensors");
    let escaped = st(r#"{"\u006detatensor":"1.0"}"#, 0);
    assert_eq!(decode(&escaped).unwrap_err().code(), "json/type");
    let late = st(r#"{"a":1,"metatensor":"1.0"}"#, 0);
    assert_eq!(decode(&late).unwrap_err().code(), "metatensor/header");
    let cut = &accepted("flat")[..40];
    assert_eq!(decode(cut).unwrap_err().code(), "metatensor/header-bounds");
    let e = decode(&st(r#"{"metatensor":"1.0","endian":"little"}"#, 0)).unwrap_err();
    assert_eq!(e.code(), "metatensor/padding");
}

#[test]
fn every_limit_is_kept() {
    let bytes = accepted("nested");
    let code = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        let e = decode_under(&bytes, &limits).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Limit, "{e}");
        e.code()
    };
    assert_eq!(code(|l| l.header_len = 100), "metatensor/header-limit");
    assert_eq!(code(|l| l.schema_nodes = 3), "schema/too-large");
    // Values of metadata, and plain values, all of them together.
    let parts = [
        with("{}", "1", r#","metadata":{"a":[1,2,3,{"b":[]}]}"#),
        with(
            r#"{"properties":{"w":{"TypeDef:Tensor":{}}}}"#,
            r#"{"a":[1,2,3],"b":[4,5,6,7,"[:,"]}"#,
            "",
        ),
    ];
    for (header, count) in parts.iter().zip([10, 10]) {
        let of = |attribute_values: u64| {
            let mut limits = Limits::default();
            limits.attribute_values = attribute_values;
            decode_under(&file(header, &[]), &limits).err().map(|e| e.code())
        };
        assert_eq!(of(count - 1), Some("metatensor/too-many-values"), "{header}");
        assert_eq!(of(count), None, "{header}");
    }
    assert_eq!(code(|l| l.tensors = 4), "index/too-many-tensors");
    assert_eq!(code(|l| l.rank = 0), "index/rank");
    assert_eq!(code(|l| l.depth = 3), "json/depth");
    // And of schemas, of which few are nodes.
    let values = |count: usize| {
        let list = vec!["1"; count].join(",");
        let own =
            format!(r#"{{"properties":{{"w":{{"TypeDef:Tensor":{{}}}}}},"examples":[{list}]}}"#);
        let mut limits = Limits::default();
        limits.schema_nodes = 100;
        decode_under(&file(&header(&own, "{}"), &[]), &limits).err().map(|e| e.code())
    };
    assert_eq!((values(390), values(391)), (None, Some("schema/too-large")));
    // What kinds take together, written out for each node.
    let big = format!(r#"{{"type":"integer","TypeDef:Uint8":true,"title":"{}"}}"#, "x".repeat(500));
    let names: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
    let items = array(r##"{"$ref":"#/$defs/big"}"##);
    let all: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), items.as_str())).collect();
    let schema = format!(r#"{{"$defs":{{"big":{big}}},{}"#, &object(&all)[1..]);
    let tensors: Vec<String> =
        names.iter().map(|n| format!(r#""{n}":{}"#, dataset(0, 0, None))).collect();
    let bytes = file(&header(&schema, &format!("{{{}}}", tensors.join(","))), &[]);
    assert!(decode(&bytes).is_ok());
    let mut limits = Limits::default();
    limits.header_len = bytes.len() as u64;
    assert_eq!(decode_under(&bytes, &limits).unwrap_err().code(), "metatensor/header-limit");
}

#[test]
fn tensors_of_one_kind_share_its_text() {
    // A kind of 30 kB for each of 3000 datasets would be 90 MB.
    let big =
        format!(r#"{{"type":"integer","TypeDef:Uint8":true,"title":"{}"}}"#, "x".repeat(30_000));
    let schema = format!(r#"{{"type":"object","additionalProperties":{}}}"#, array(&big));
    let tensors: Vec<String> =
        (0..3000).map(|n| format!(r#""t{n}":{}"#, dataset(0, 0, None))).collect();
    let bytes = file(&header(&schema, &format!("{{{}}}", tensors.join(","))), &[]);
    let mut limits = Limits::default();
    limits.header_len = bytes.len() as u64;
    let index = decode_under(&bytes, &limits).unwrap();
    let of = |name: &str| index.get(name).unwrap().attributes().clone();
    assert_eq!(of("t0"), of("t2999"));
}

#[test]
fn names_become_objects_where_they_come_back() {
    let names = [
        "model.layers.0.w",
        "model.layers.0.b",
        "model.layers.1.w",
        "model.layers.1.b",
        "a",
        "a.b",
        "list[0]",
        "list[1]",
        "gap[0]",
        "gap[2]",
        "mixed[0]",
        "mixed.x",
        "",
        "..",
        "x[",
        r"esc\.aped",
        r"a\.b",
        "trailing.",
        "[0]",
    ];
    let tensors: Vec<TensorSpec> = names.iter().map(|n| dense(n, DType::U8, &[2])).collect();
    let bytes = written(&tensors);
    let index = decode(&bytes).unwrap();
    let mut found: Vec<&str> = index.names().collect();
    let mut wanted = names.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert!(index.warnings().is_empty() && index.attributes().is_empty());
    let header = header_of(&bytes);
    let tensors = &header["tensors"];
    assert!(tensors["model"]["layers"]["1"]["b"]["dtype"] == "U8");
    assert!(tensors["list"].as_array().is_some_and(|l| l.len() == 2));
    assert!(tensors["esc.aped"]["dtype"] == "U8" && tensors["mixed"]["x"]["dtype"] == "U8");
    assert!(tensors["a"]["dtype"] == "U8");
    // `a.b` next to `a` and the one member called `a.b` cannot both be that.
    assert!(tensors["a.b"]["dtype"] == "U8" && tensors["a.b#2"]["dtype"] == "U8");
    let restored = header["metadata"]["holdall.names"].as_object().unwrap();
    assert_eq!(restored[r"a\.b#2"], "a.b");
    assert_eq!(restored[r"gap\[2]"], "gap[2]");
    assert_eq!(restored[r"\_"], "");
    assert!(!restored.contains_key("a") && !restored.contains_key("list[0]"));
    // The same for the only tensor of a file.
    let alone = written(&[dense("", DType::U8, &[2])]);
    assert_eq!(header_of(&alone)["tensors"]["dtype"], "U8");
    assert_eq!(decode(&alone).unwrap().names().collect::<Vec<_>>(), [""]);
}

#[test]
fn repeated_warnings_are_given_once() {
    let of = |layers: u64| -> Vec<TensorSpec> {
        let tensor =
            |n: u64, name: &str| dense(&format!("layers.{n}.{name}.weight"), DType::F32, &[4, 4]);
        (0..layers).flat_map(|n| ["q", "k", "v"].map(|name| tensor(n, name))).collect()
    };
    let schema = infer(&of(8), None).unwrap();
    let json: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let layers = &json["properties"]["layers"]["properties"];
    let first = layers["0"]["$ref"].as_str().unwrap();
    assert!((1..8).all(|n| layers[n.to_string()]["$ref"] == first), "{schema}");
    let name = first.rsplit('/').next().unwrap();
    assert!(json["$defs"][name]["properties"]["q"].is_object(), "{schema}");
    // It grows by little for each layer more.
    let more = infer(&of(9), None).unwrap().len() - schema.len();
    assert!(more < 60, "{more}");
    // Where nothing repeats, nothing is defined.
    let once = infer(&[dense("w", DType::U8, &[1])], None).unwrap();
    assert!(!once.contains("$defs"), "{once}");
    // The order of tensors is that of the schema, and the same every time.
    assert_eq!(infer(&of(8), None).unwrap(), schema);
}

#[test]
fn an_alignment_is_stated_and_kept() {
    let tensors = [
        dense("a", DType::U8, &[3]),
        dense("b", DType::F32, &[2]),
        TensorSpec { attributes: Attributes::new(), ..dense("c", DType::F64, &[1]) },
    ];
    let options = EncodeOptions::new().with_align(4096);
    let bytes = write(&Attributes::new(), &tensors, zeros(&tensors), &options).unwrap();
    let index = decode(&bytes).unwrap();
    for t in index.tensors() {
        assert!(t.components().all(|c| c.stored.start.is_multiple_of(4096)), "{t:?}");
    }
    assert_eq!(header_of(&bytes)["data_align"], 4096);
    // A schema that was given is raised where it needs to be.
    for name in ["nested", "strings", "tied", "symbols"] {
        let bytes = accepted(name);
        let index = decode(&bytes).unwrap();
        let again = rewritten(&bytes, index.attributes(), &EncodeOptions::new().with_align(512));
        let index = decode(&again.unwrap_or_else(|e| panic!("{name}: {e}"))).unwrap();
        for c in index.tensors().filter_map(|t| t.component(&Role::Data)) {
            assert!(c.stored.start.is_multiple_of(512), "{name}: {c:?}");
        }
    }
    for align in [3, 1 << 17] {
        let e = encoder(&EncodeOptions::new().with_align(align)).err().unwrap();
        assert_eq!(e.code(), "metatensor/write-align");
    }
    let e = encoder(&EncodeOptions::new().with_version("2.0")).err().unwrap();
    assert_eq!(e.code(), "format/unknown-version");
}

#[test]
fn components_that_share_bytes_do_in_the_file() {
    let mut tied = dense("z.tied", DType::F32, &[2]);
    tied.components[0].shares = Some(ComponentRef { tensor: "w".into(), role: Role::Data });
    let tensors = [dense("w", DType::F32, &[2]), tied];
    let index = decode(&written(&tensors)).unwrap();
    let ranges: Vec<_> = index.tensors().map(|t| t.components().next().unwrap().stored).collect();
    assert_eq!(ranges[0], ranges[1]);
    let mut none = tensors.clone();
    none[1].components[0].shares = Some(ComponentRef { tensor: "x".into(), role: Role::Data });
    let e = encoder(&EncodeOptions::new()).unwrap().begin(&Attributes::new(), &none).unwrap_err();
    assert_eq!(e.code(), "metatensor/declared");
}

fn with_kind(mut tensor: TensorSpec, kind: &str) -> TensorSpec {
    tensor.attributes.set(TENSOR_SCHEMA_ATTRIBUTE, Value::Text(kind.into()));
    tensor
}

fn records(name: &str, kind: &str, count: u64, len: u64) -> TensorSpec {
    let components = vec![ComponentSpec::new(Role::Data, DType::U8, len)];
    let (layout, attributes) = (Layout::Records, Attributes::new());
    let spec = TensorSpec { name: name.into(), shape: vec![count], layout, attributes, components };
    with_kind(spec, kind)
}

#[test]
fn definitions_of_kinds_do_not_get_mixed_up() {
    let of = |scalar: &str| {
        format!(
            r##"{{"$ref":"#/$defs/x","$defs":{{"x":{{"$ref":"#/$defs/1"}},"1":{{"TypeDef:{scalar}":true}}}}}}"##
        )
    };
    let tensors = [
        records("a", &of("Uint8"), 4, 4),
        records("b", &of("Uint32"), 1, 4),
        records("c", &of("Uint8"), 2, 2),
    ];
    let bytes = written(&tensors);
    let index = decode(&bytes).unwrap();
    let kind = |name: &str| index.get(name).unwrap().attributes().to_json();
    assert!(kind("a").contains("Uint8") && !kind("a").contains("Uint32"), "{}", kind("a"));
    assert!(kind("b").contains("Uint32") && !kind("b").contains("Uint8"), "{}", kind("b"));
    assert_eq!(kind("a"), kind("c"));
    let again = rewritten(&bytes, index.attributes(), &EncodeOptions::new()).unwrap();
    assert!(again == bytes);
}

#[test]
fn unsupported_tensors_are_refused() {
    let check = |tensor: &TensorSpec| -> (&'static str, Vec<Remedy>) {
        let e: Error = encoder(&EncodeOptions::new()).unwrap().check_tensor(tensor).unwrap_err();
        assert_eq!(e.tensor(), Some(tensor.name.as_str()));
        (e.code(), e.remedies().to_vec())
    };
    let sparse = TensorSpec { layout: Layout::SparseCsr, ..dense("w", DType::F32, &[1]) };
    assert_eq!(check(&sparse), ("metatensor/layout", vec![Remedy::MakeDense]));
    let other = TensorSpec { layout: Layout::Other("x".into()), ..dense("w", DType::F32, &[1]) };
    assert_eq!(check(&other), ("metatensor/layout", vec![Remedy::LeaveOut]));
    let mut two = dense("w", DType::F32, &[1]);
    two.components.push(ComponentSpec::new(Role::Scales, DType::F32, 4));
    assert_eq!(check(&two).0, "metatensor/components");
    let mut complex = dense("w", DType::F64, &[1]);
    complex.components[0].logical_type = Some(LogicalType::Complex128);
    assert_eq!(check(&complex).0, "metatensor/logical-type");
    let mut long = dense("w", DType::F32, &[1]);
    long.components[0].decoded_len = 8;
    assert_eq!(check(&long).0, "metatensor/declared");
    let mut bare = records("r", UINT32, 1, 4);
    bare.attributes = Attributes::new();
    assert_eq!(check(&bare).0, "metatensor/kind");
    assert_eq!(check(&records("r", UINT32, 2, 4)).0, "metatensor/kind");
    assert_eq!(check(&records("r", "{}", 1, 4)).0, "metatensor/kind");
    assert_eq!(check(&records("r", STRING, 1, 16)).0, "metatensor/components");
    let blob =
        TensorSpec { layout: Layout::Blob, ..records("b", &blob_with_content("utf-8"), 1, 16) };
    assert_eq!(check(&blob).0, "metatensor/components");
    let odd = TensorSpec { layout: Layout::Blob, ..records("b", UINT32, 1, 16) };
    assert_eq!(check(&odd).0, "metatensor/kind");
}

#[test]
fn contradictory_attributes_are_refused() {
    let of = |key: &str, value: Value| Attributes::from_iter([(key.to_owned(), value)]);
    let text = |text: &str| Value::Text(text.into());
    let check = |attributes: &Attributes| {
        encoder(&EncodeOptions::new()).unwrap().check_attributes(attributes).unwrap_err().code()
    };
    let schema = SCHEMA_ATTRIBUTE;
    assert_eq!(check(&of(schema, Value::Integer(1))), "metatensor/attribute");
    assert_eq!(check(&of(schema, text("{"))), "metatensor/attribute");
    assert_eq!(check(&of(schema, text(r#"{"TypeDef:X":1}"#))), "metatensor/attribute");
    assert_eq!(check(&of("metatensor.values", text("[]"))), "metatensor/attribute");
    assert_eq!(check(&of("metatensor.values", text(r#"{"a":1,"a":2}"#))), "metatensor/attribute");
    // A schema of other tensors.
    let tensors = [dense("w", DType::F32, &[2])];
    let fit = |own: &str| {
        let attributes = of(schema, text(own));
        write(&attributes, &tensors, zeros(&tensors), &EncodeOptions::new()).map_err(|e| e.code())
    };
    assert!(fit(&object(&[("w", &tensor("F32", "2"))])).is_ok());
    assert_eq!(fit(&object(&[("w", &tensor("F32", "3"))])), Err("metatensor/schema-fit"));
    assert_eq!(fit(&object(&[("w", &array(UINT32))])), Err("metatensor/schema-fit"));
    let two = [("v", tensor("F32", "2")), ("w", tensor("F32", "2"))];
    let two = two.each_ref().map(|(k, v)| (*k, v.as_str()));
    assert_eq!(fit(&object(&two)), Err("metatensor/schema-fit"));
    // A value where a tensor is.
    let attributes = of("metatensor.values", text(r#"{"w.x":1}"#));
    let e = write(&attributes, &tensors, zeros(&tensors), &EncodeOptions::new()).unwrap_err();
    assert_eq!(e.code(), "metatensor/attribute");
    // Values that a schema made from the tensors has no place for: they would come back as others.
    let values = |own: &str, tensors: &[TensorSpec]| {
        let attributes = of("metatensor.values", text(own));
        write(&attributes, tensors, zeros(tensors), &EncodeOptions::new()).map_err(|e| e.code())
    };
    assert!(values(r#"{"v":{"x":1},"y":[2]}"#, &tensors).is_ok());
    assert_eq!(values(r#"{"v.x":1}"#, &tensors), Err("metatensor/attribute"));
    assert_eq!(values(r#"{"v":1}"#, &[]), Err("metatensor/attribute"));
    assert_eq!(values(r#"{"":{}}"#, &[]), Err("metatensor/attribute"));
    // Keys that are ours keep their values.
    let odd = Attributes::from_iter([
        ("holdall.names".to_owned(), Value::Integer(1)),
        ("metatensor.x".to_owned(), text("y")),
        ("$ref".to_owned(), Value::Bytes(vec![1])),
        ("nan".to_owned(), Value::Float(f64::NAN)),
    ]);
    let bytes = write(&odd, &tensors, zeros(&tensors), &EncodeOptions::new()).unwrap();
    let back = decode(&bytes).unwrap();
    for (key, value) in odd.iter() {
        assert_eq!(back.attributes().get(key).map(Value::to_json), Some(value.to_json()), "{key}");
    }
}

#[test]
fn writing_must_match_the_declaration() {
    let tensors = [dense("a", DType::U8, &[3]), dense("b", DType::F32, &[1])];
    let mut e = encoder(&EncodeOptions::new()).unwrap();
    let head = e.begin(&Attributes::new(), &tensors).unwrap().len() as u64;
    let raw = |range| Stored { range, encoding: Encoding::Raw, digest: None };
    let [a, b] = &tensors;
    let code = |result: Result<()>| result.unwrap_err().code();
    assert_eq!(code(e.next_offset(head, b, 0).map(drop)), "metatensor/declared");
    assert_eq!(code(e.next_offset(head, a, 1).map(drop)), "metatensor/declared");
    assert_eq!(code(e.next_offset(head + 1, a, 0).map(drop)), "metatensor/declared");
    assert_eq!(e.next_offset(head, a, 0).unwrap(), head);
    assert_eq!(code(e.component_written(a, 0, raw(head..head + 2))), "metatensor/declared");
    let zstd = Stored { encoding: Encoding::ZSTD, ..raw(head..head + 3) };
    assert_eq!(code(e.component_written(a, 0, zstd)), "metatensor/encoding");
    e.component_written(a, 0, raw(head..head + 3)).unwrap();
    assert_eq!(code(e.finish(head + 3).map(drop)), "metatensor/declared");
    assert_eq!(e.next_offset(head + 3, b, 0).unwrap(), head + 4);
    e.component_written(b, 0, raw(head + 4..head + 8)).unwrap();
    assert_eq!(code(e.finish(head + 9).map(drop)), "metatensor/declared");
    assert!(e.finish(head + 8).unwrap().is_empty());
    assert_eq!(code(e.next_offset(head + 8, b, 0).map(drop)), "metatensor/declared");
    let twice = [a.clone(), a.clone()];
    assert_eq!(code(e.begin(&Attributes::new(), &twice).map(drop)), "metatensor/declared");
}

#[test]
fn safetensors_says_that_it_lacks_records() {
    let encoder = safetensors::FORMAT.encode.unwrap()(&EncodeOptions::new()).unwrap();
    let e = encoder.check_tensor(&records("r", UINT32, 1, 4)).unwrap_err();
    assert_eq!(e.code(), "safetensors/layout");
    assert!(e.remedies().contains(&Remedy::LeaveOut), "{:?}", e.remedies());
}

/// Deep names are members of the root: a header nests no deeper than readers read.
#[test]
fn deep_names_come_back() {
    let name = vec!["a"; 300].join(".");
    let tensors = [dense(&name, DType::U8, &[1]), dense(&vec!["b"; 40].join("."), DType::U8, &[1])];
    let index = decode(&written(&tensors)).unwrap();
    assert!(index.get(&name).is_some() && index.get(&vec!["b"; 40].join(".")).is_some());
}
