//! ONNX models run by the built-in engine, compared with the reference evaluator of the `onnx` package. The files are
//! made by `interop/onnx/small.py`.
#![cfg(feature = "run-onnx")]

mod graphs;
mod models;

use graphs::{close, declared, expected, files, folder};
use holdall::Result;
use holdall::carton::{Description, OptionValue, TensorValue, ValueType};
use holdall_run::{Model, NamedValues, Settings};
use models::{description, value};

fn load(name: &str, d: Description) -> Result<Model> {
    // A loaded model is in memory, so the folder may be deleted.
    Model::load_folder(d, folder(name).path(), &Settings::default())
}

#[test]
fn models_return_the_reference_outputs() {
    for name in ["xor", "tokens"] {
        let (inputs, outputs) = expected(name);
        let d = declared(&inputs, &outputs);
        for options in [vec![], vec![("optimize", OptionValue::Boolean(false))]] {
            let mut d = d.clone();
            d.runner.options = options.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            d.runner.options.push(("num_threads".to_owned(), OptionValue::Integer(1)));
            let mut model = load(name, d).unwrap();
            assert!(model.warnings().is_empty());
            close(&model.run(inputs.clone()).unwrap(), &outputs);
            close(&model.run(inputs.clone()).unwrap(), &outputs);
        }
    }
}

#[test]
fn nothing_declared_gives_the_graphs_names_and_the_engines_types() {
    let (inputs, outputs) = expected("xor");
    let mut model = load("xor", description("onnx", &[], &[])).unwrap();
    let given = model.run(inputs).unwrap();
    assert_eq!(given[0].0, "p");
    let p: NamedValues = outputs.into_iter().filter(|(name, _)| name == "p").collect();
    close(&given[..1].to_vec(), &p);
    assert_eq!((given[1].0.as_str(), given[1].1.ty()), ("label", Some(ValueType::Int32)));
}

#[test]
fn internal_names_are_the_graphs() {
    let mut d = description("onnx", &[("pair", "n 2")], &[("likely", "n 2")]);
    d.inputs[0].internal_name = Some("x".to_owned());
    d.outputs[0].internal_name = Some("p".to_owned());
    let mut model = load("xor", d).unwrap();
    // An output that is not declared is not returned.
    let out = model.run(vec![("pair".to_owned(), value(&[1, 2]))]).unwrap();
    assert_eq!((out.len(), out[0].0.as_str()), (1, "likely"));
}

fn code(name: &str, d: Description) -> (&'static str, String) {
    let e = load(name, d).map(|_| ()).unwrap_err();
    (e.code(), e.message().to_owned())
}

#[test]
fn models_that_cannot_be_loaded_are_errors() {
    let plain = || description("onnx", &[], &[]);
    let (rule, says) = code("unsupported", plain());
    assert_eq!(rule, "onnx/operator");
    assert!(says.contains("Frobnicate"), "{says}");
    // The engine would round the graph's numbers.
    let (rule, says) = code("double", plain());
    assert_eq!((rule, says.as_str()), ("onnx/width", "the graph computes in 64-bit floats"));
    let (rule, says) = code("xor", description("onnx", &[("z", "*")], &[("p", "*")]));
    assert_eq!((rule, says.as_str()), ("onnx/name", "the graph has no input `z`, only `x`"));
    let (rule, says) = code("xor", description("onnx", &[("x", "*")], &[("q", "*")]));
    assert_eq!(
        (rule, says.as_str()),
        ("onnx/name", "the graph has no output `q`, only `p`, `label`")
    );
    let (rule, says) = code("tokens", description("onnx", &[("ids", "*")], &[("sum", "*")]));
    assert_eq!((rule, says.as_str()), ("onnx/name", "the graph's input `mask` is not declared"));
    let mut d = plain();
    d.runner.framework_version = "=2.0".to_owned();
    assert_eq!(code("xor", d).0, "run/framework-version");
    for option in [("num_threads", OptionValue::Integer(0)), ("optimize", OptionValue::Integer(1))]
    {
        let mut d = plain();
        d.runner.options.push((option.0.to_owned(), option.1));
        assert_eq!(code("xor", d).0, "run/option");
    }

    let dir = tempfile::tempdir().unwrap();
    let in_folder = || {
        Model::load_folder(plain(), dir.path(), &Settings::default())
            .map(|_| ())
            .unwrap_err()
            .code()
    };
    assert_eq!(in_folder(), "onnx/file");
    std::fs::copy(files().join("xor.onnx"), dir.path().join("a.onnx")).unwrap();
    Model::load_folder(plain(), dir.path(), &Settings::default()).unwrap();
    std::fs::copy(files().join("xor.onnx"), dir.path().join("b.onnx")).unwrap();
    assert_eq!(in_folder(), "onnx/file");
    // Garbage, and every prefix of a model: an error or a model, never a crash.
    let whole = std::fs::read(files().join("xor.onnx")).unwrap();
    let at = dir.path().join("model.onnx");
    std::fs::write(&at, b"no protobuf at all").unwrap();
    assert!(in_folder().starts_with("onnx/"));
    // A varint without an end, which would make the engine loop.
    std::fs::write(&at, [0xff; 11]).unwrap();
    assert_eq!(in_folder(), "onnx/model");
    for len in 0..whole.len() {
        std::fs::write(&at, &whole[..len]).unwrap();
        if let Err(e) = Model::load_folder(plain(), dir.path(), &Settings::default()) {
            assert!(e.code().starts_with("onnx/"), "{len}: {e}");
        }
    }
}

#[test]
fn models_that_cannot_be_run_are_errors() {
    let (inputs, outputs) = expected("tokens");
    let mut model = load("tokens", declared(&inputs, &outputs)).unwrap();
    let with = |ids: TensorValue| {
        let mut inputs = inputs.clone();
        inputs.iter_mut().find(|(n, _)| n == "ids").unwrap().1 = ids;
        inputs
    };
    let ids = |n: i64| TensorValue::from_elements(vec![2, 3], &[n; 6]).unwrap();
    // More than 32 bits; outside the table.
    assert_eq!(model.run(with(ids(1 << 40))).unwrap_err().code(), "onnx/range");
    assert_eq!(model.run(with(ids(10))).unwrap_err().code(), "onnx/run");
    assert_eq!(
        model
            .run(with(TensorValue::from_elements(vec![2, 2], &[1i64; 4]).unwrap()))
            .unwrap_err()
            .code(),
        "onnx/run"
    );
    // The model can still be run.
    close(&model.run(inputs.clone()).unwrap(), &outputs);

    let mut model = load("reshape", description("onnx", &[], &[])).unwrap();
    let shape = |to: &[i64]| {
        let to = TensorValue::from_elements(vec![to.len() as u64], to).unwrap();
        vec![("x".to_owned(), value(&[6])), ("shape".to_owned(), to)]
    };
    assert_eq!(model.run(shape(&[2, 3])).unwrap()[0].1.shape(), Some(&[2, 3][..]));
    assert_eq!(model.run(shape(&[4, 2])).unwrap_err().code(), "onnx/run");
    assert_eq!(model.run(shape(&[-1, -1])).unwrap_err().code(), "onnx/run");

    let mut model = load("xor", description("onnx", &[], &[])).unwrap();
    for (value, rule) in [
        (TensorValue::strings(vec![1], vec!["a".to_owned()]).unwrap(), "onnx/type"),
        (TensorValue::nested(vec![value(&[2])]).unwrap(), "onnx/type"),
        (TensorValue::from_elements(vec![1, 2], &[1i32, 2]).unwrap(), "onnx/type"),
        (value(&[1, 3]), "onnx/run"),
    ] {
        assert_eq!(model.run(vec![("x".to_owned(), value)]).unwrap_err().code(), rule);
    }
    assert_eq!(model.run(vec![("y".to_owned(), value(&[1, 2]))]).unwrap_err().code(), "onnx/name");
    assert_eq!(model.run(Vec::new()).unwrap_err().code(), "onnx/run");
    // A graph of strings can be loaded, but cannot be run.
    let mut model = load("texts", description("onnx", &[], &[])).unwrap();
    let text = TensorValue::strings(vec![1], vec!["a".to_owned()]).unwrap();
    assert_eq!(model.run(vec![("x".to_owned(), text)]).unwrap_err().code(), "onnx/type");
}

/// A declared type that differs from the graph's is an error; values are not converted.
#[test]
fn declared_types_must_match_the_graph() {
    let mut d = description("onnx", &[("x", "n 2")], &[("p", "n 2")]);
    d.outputs[0].ty = ValueType::Int64;
    let mut model = load("xor", d).unwrap();
    let e = model.run(vec![("x".to_owned(), value(&[1, 2]))]).unwrap_err();
    assert_eq!(e.code(), "signature/output-type");
}

#[test]
fn a_graph_without_an_end_is_given_up() {
    let settings = Settings::default().with_timeout(std::time::Duration::from_secs(2));
    let d = description("onnx", &[("x", "n")], &[("y", "n")]);
    let mut model = Model::load_folder(d, folder("endless").path(), &settings).unwrap();
    let input = || vec![("x".to_owned(), value(&[1]))];
    assert_eq!(model.run(input()).unwrap_err().code(), "runner/timeout");
    assert_eq!(model.run(input()).unwrap_err().code(), "run/closed");
}

#[test]
fn a_graph_that_is_no_longer_wanted_is_given_up() {
    let start = std::time::Instant::now();
    let late = move || start.elapsed() > std::time::Duration::from_millis(500);
    let settings = Settings::default().with_cancelled(late);
    let mut d = description("onnx", &[("x", "n")], &[("y", "n")]);
    // A separate thread pool: the abandoned call keeps its threads busy, and other tests use the shared ones.
    d.runner.options.push(("num_threads".to_owned(), OptionValue::Integer(1)));
    let mut model = Model::load_folder(d, folder("endless").path(), &settings).unwrap();
    let input = || vec![("x".to_owned(), value(&[1]))];
    assert_eq!(model.run(input()).unwrap_err().code(), "work/cancelled");
    assert!(start.elapsed() < std::time::Duration::from_secs(60));
    assert_eq!(model.run(input()).unwrap_err().code(), "run/closed");
}
