//! ONNX models run by ONNX Runtime. The variable `HOLDALL_ONNXRUNTIME` names its library; `cargo xtask interop` sets
//! it.
#![cfg(feature = "run-onnxruntime")]

mod graphs;
mod models;

use graphs::{close, declared, expected, files, folder};
use holdall::Result;
use holdall::carton::{Description, OptionValue, Package, TensorValue, ValueType};
use holdall_run::onnx::OnnxRuntime;
use holdall_run::self_test::{ToleranceOverride, self_tests};
use holdall_run::{Model, Runners, Settings};
use models::{description, value};
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the engine; `None` if none is named, so that tests are skipped.
fn engine() -> Option<OnnxRuntime> {
    let Some(library) = std::env::var_os("HOLDALL_ONNXRUNTIME") else {
        eprintln!("SKIPPED: HOLDALL_ONNXRUNTIME names no library of ONNX Runtime");
        return None;
    };
    Some(OnnxRuntime::load(library).unwrap())
}

fn settings(engine: OnnxRuntime) -> Settings {
    Settings::default().with_runners(Runners::none().with(engine))
}

fn load(engine: &OnnxRuntime, name: &str, d: Description) -> Result<Model> {
    Model::load_folder(d, folder(name).path(), &settings(engine.clone()))
}

#[test]
fn models_return_the_reference_outputs() {
    let Some(engine) = engine() else { return };
    for name in ["xor", "tokens", "double"] {
        let (inputs, outputs) = expected(name);
        for optimize in [true, false] {
            let mut d = declared(&inputs, &outputs);
            d.runner.options.push(("optimize".to_owned(), OptionValue::Boolean(optimize)));
            d.runner.options.push(("num_threads".to_owned(), OptionValue::Integer(1)));
            let mut model = load(&engine, name, d).unwrap();
            assert!(model.warnings().is_empty());
            close(&model.run(inputs.clone()).unwrap(), &outputs);
            close(&model.run(inputs.clone()).unwrap(), &outputs);
        }
    }
}

#[test]
fn types_are_the_graphs() {
    let Some(engine) = engine() else { return };
    let (inputs, _) = expected("xor");
    let mut model = load(&engine, "xor", description("onnx", &[], &[])).unwrap();
    let given = model.run(inputs).unwrap();
    let types: Vec<_> = given.iter().map(|(name, v)| (name.as_str(), v.ty())).collect();
    assert_eq!(types, [("p", Some(ValueType::Float32)), ("label", Some(ValueType::Int64))]);

    // 64-bit floats are rounded if the graph expects 32 bits; integers are not converted to floats.
    let wide = TensorValue::from_elements(vec![1, 2], &[1f64, 0.0]).unwrap();
    let narrow = TensorValue::from_elements(vec![1, 2], &[1f32, 0.0]).unwrap();
    let mut run = |v: &TensorValue| model.run(vec![("x".to_owned(), v.clone())]);
    assert_eq!(run(&wide).unwrap(), run(&narrow).unwrap());
    for (value, rule) in [
        (TensorValue::from_elements(vec![1, 2], &[1i32, 2]).unwrap(), "onnx/type"),
        (TensorValue::strings(vec![1], vec!["a".to_owned()]).unwrap(), "onnx/type"),
        (TensorValue::nested(vec![value(&[2])]).unwrap(), "onnx/type"),
        (value(&[1, 3]), "onnx/run"),
    ] {
        assert_eq!(run(&value).unwrap_err().code(), rule);
    }
    // No rows.
    let none = TensorValue::from_elements::<f32>(vec![0, 2], &[]).unwrap();
    assert_eq!(run(&none).unwrap()[0].1.shape().map(|s| s[0]), Some(0));
}

#[test]
fn whole_numbers_have_all_their_bits() {
    let Some(engine) = engine() else { return };
    let (inputs, outputs) = expected("tokens");
    let mut model = load(&engine, "tokens", declared(&inputs, &outputs)).unwrap();
    let with = |ids: TensorValue| {
        let mut inputs = inputs.clone();
        inputs.iter_mut().find(|(n, _)| n == "ids").unwrap().1 = ids;
        inputs
    };
    // Outside the table, by an index of more than 32 bits.
    let ids = TensorValue::from_elements(vec![2, 3], &[1i64 << 40; 6]).unwrap();
    assert_eq!(model.run(with(ids)).unwrap_err().code(), "onnx/run");
    close(&model.run(inputs.clone()).unwrap(), &outputs);
}

#[test]
fn texts_go_in_and_out() {
    let Some(engine) = engine() else { return };
    let mut model = load(&engine, "texts", description("onnx", &[], &[])).unwrap();
    let text = TensorValue::strings(vec![2], vec!["a".to_owned(), "βß".to_owned()]).unwrap();
    let given = model.run(vec![("x".to_owned(), text.clone())]).unwrap();
    assert_eq!(given[0].1, text);
    let nul = TensorValue::strings(vec![1], vec!["a\0b".to_owned()]).unwrap();
    assert_eq!(model.run(vec![("x".to_owned(), nul)]).unwrap_err().code(), "onnx/type");
}

#[test]
fn models_that_cannot_be_loaded_are_errors() {
    let Some(engine) = engine() else { return };
    let code = |name: &str, d| {
        let e = load(&engine, name, d).map(|_| ()).unwrap_err();
        (e.code(), e.message().to_owned())
    };
    let (rule, says) = code("unsupported", description("onnx", &[], &[]));
    assert_eq!(rule, "onnx/operator");
    assert!(says.contains("Frobnicate"), "{says}");
    let (rule, _) = code("xor", description("onnx", &[("z", "*")], &[("p", "*")]));
    assert_eq!(rule, "onnx/name");
    let (rule, _) = code("tokens", description("onnx", &[("ids", "*")], &[("sum", "*")]));
    assert_eq!(rule, "onnx/name");

    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(files().join("xor.onnx")).unwrap();
    let at = dir.path().join("model.onnx");
    for len in (0..whole.len()).step_by(7) {
        std::fs::write(&at, &whole[..len]).unwrap();
        let d = description("onnx", &[], &[]);
        if let Err(e) = Model::load_folder(d, dir.path(), &settings(engine.clone())) {
            assert!(e.code().starts_with("onnx/"), "{len}: {e}");
        }
    }
}

/// A network of six layers with real weights, whose self-test was computed with NumPy.
#[test]
#[ignore = "`cargo xtask interop` makes the package and names it"]
fn a_real_model_passes_its_self_tests() {
    let Some(engine) = engine() else { return };
    let package = Package::open(std::env::var_os("HOLDALL_MINILM").unwrap()).unwrap();
    let mut model = Model::load(&package, &settings(engine)).unwrap();
    let value = |name: &str| package.value(name);
    let reports = self_tests(&mut model, &value, ToleranceOverride::default(), &mut |_| ());
    assert!(!reports.is_empty());
    for report in reports {
        assert!(report.passed(), "{report:?}");
    }
}

/// A graph with an endless loop is requested to stop.
#[test]
fn a_call_that_takes_too_long_is_given_up() {
    let Some(engine) = engine() else { return };
    let settings = settings(engine).with_timeout(Duration::from_millis(500));
    let d = description("onnx", &[], &[]);
    let mut model = Model::load_folder(d, folder("endless").path(), &settings).unwrap();
    let start = Instant::now();
    let e = model.run(vec![("x".to_owned(), value(&[1]))]).unwrap_err();
    assert_eq!(e.code(), "runner/timeout");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn one_library_is_loaded_in_a_process() {
    let Some(_) = engine() else { return };
    let no_library = files().join("xor.onnx");
    let code = |path: &Path| OnnxRuntime::load(path).unwrap_err().code();
    assert_eq!(code(&no_library), "onnx/library");
    assert_eq!(code(Path::new("no-such-library")), "onnx/library");
}
