//! Loading and running models: checks beforehand, `noop`, and checks against the description.

mod models;

use holdall::Result;
use holdall::carton::{OptionValue, TensorValue};
use holdall_run::runner::OutputSink;
use holdall_run::{Load, Loaded, Model, NamedValues, Runner, Runners, Settings};
use models::{description, value};
use semver::VersionReq;

#[test]
fn noop_returns_its_inputs() {
    let mut d = description("noop", &[("x", "n 2"), ("y", "n")], &[("a", "n 2"), ("y", "*")]);
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::load_folder(d.clone(), folder.path(), &Settings::default()).unwrap();
    let (x, y) = (value(&[3, 2]), value(&[3]));
    let named = model.in_order(vec![x.clone(), y.clone()]).unwrap();
    let out = model.run(named).unwrap();
    assert_eq!(out, [("a".to_owned(), x.clone()), ("y".to_owned(), y.clone())]);

    let e = model.run(vec![("x".to_owned(), x.clone())]).unwrap_err();
    assert_eq!(e.code(), "signature/input-missing");
    let e = model.run(vec![("x".to_owned(), value(&[3])), ("z".to_owned(), y)]).unwrap_err();
    assert_eq!(e.code(), "signature/input-rank");
    assert!(e.message().contains("; there is no input `z`; input `y`"), "{e}");

    // Without declarations, nothing is checked.
    (d.inputs, d.outputs) = (Vec::new(), Vec::new());
    let mut model = Model::load_folder(d, folder.path(), &Settings::default()).unwrap();
    let out = model.run(vec![("q".to_owned(), x.clone())]).unwrap();
    assert_eq!(out, [("q".to_owned(), x)]);
}

#[test]
fn requirements_are_checked_before_running() {
    let folder = tempfile::tempdir().unwrap();
    let load = |change: &dyn Fn(&mut holdall::carton::Description)| {
        let mut d = description("noop", &[], &[]);
        change(&mut d);
        Model::load_folder(d, folder.path(), &Settings::default()).map(|_| ())
    };
    let code =
        |change: &dyn Fn(&mut holdall::carton::Description)| load(change).unwrap_err().code();
    load(&|_| {}).unwrap();
    let e = load(&|d| d.runner.name = "/tmp/evil".to_owned()).unwrap_err();
    assert_eq!(
        (e.code(), e.hint().unwrap().starts_with("available runners: ")),
        ("run/no-runner", true)
    );
    assert_eq!(code(&|d| d.runner.framework_version = "seven".to_owned()), "run/requirement");
    assert_eq!(code(&|d| d.runner.compat_version = 99), "run/compat-version");
    assert_eq!(code(&|d| d.required_platforms = vec!["wasm".to_owned()]), "run/platform");
    let here = holdall_run::requirements::platform();
    load(&|d| d.required_platforms = vec!["wasm".to_owned(), here.clone()]).unwrap();
}

#[test]
fn unknown_options_give_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut d = description("noop", &[], &[]);
    d.runner.options = vec![("threads".to_owned(), OptionValue::Integer(3))];
    let settings = Settings::default().with_option("threads", OptionValue::Integer(1));
    let model = Model::load_folder(d, folder.path(), &settings).unwrap();
    assert_eq!(model.warnings(), ["the runner `noop` takes no options, `threads` is ignored"]);
}

/// Returns the outputs it was made with, whatever the inputs.
struct Fixed(Vec<NamedValues>);

impl Runner for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    fn options(&self) -> Option<&[&str]> {
        Some(&["number"])
    }
    fn satisfies(&self, requirement: &VersionReq) -> Result<(), String> {
        match requirement.matches(&semver::Version::new(2, 1, 0)) {
            true => Ok(()),
            false => Err("2.1.0".to_owned()),
        }
    }
    fn load(&self, load: &Load<'_>) -> Result<Box<dyn Loaded>> {
        // The caller's option overrides the package's.
        assert!(matches!(load.option("number"), None | Some(OptionValue::Integer(7))));
        Ok(Box::new(Fixed(self.0.clone())))
    }
}

impl Loaded for Fixed {
    fn run(&mut self, _: &NamedValues, each: OutputSink<'_>) -> Result<()> {
        self.0.iter().try_for_each(|out| each(out.clone()))
    }
}

fn fixed(outputs: Vec<NamedValues>) -> Settings {
    Settings::default().with_runners(Runners::none().with(Fixed(outputs)))
}

fn named(of: &[(&str, TensorValue)]) -> NamedValues {
    of.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

#[test]
fn outputs_are_held_against_the_description() {
    let folder = tempfile::tempdir().unwrap();
    let mut d = description("fixed", &[("x", "n")], &[("a", "n"), ("b", "*")]);
    d.runner.framework_version = "=2.1".to_owned();
    d.runner.options = vec![("number".to_owned(), OptionValue::String("?".to_owned()))];
    let run = |outputs: Vec<NamedValues>| {
        let settings = fixed(outputs).with_option("number", OptionValue::Integer(7));
        let mut model = Model::load_folder(d.clone(), folder.path(), &settings).unwrap();
        assert!(model.warnings().is_empty());
        model.run(named(&[("x", value(&[2]))]))
    };
    let (two, three) = (value(&[2]), value(&[3]));
    let sound = named(&[("b", three.clone()), ("a", two.clone())]);
    // In the declared order.
    let out = run(vec![sound.clone()]).unwrap();
    assert_eq!(out, named(&[("a", two.clone()), ("b", three.clone())]));
    for (outputs, code) in [
        (vec![], "run/nothing"),
        (vec![named(&[("a", two.clone())])], "signature/output-missing"),
        (vec![named(&[("a", three.clone()), ("b", two.clone())])], "signature/output-symbol"),
        (
            vec![named(&[("a", two.clone()), ("b", two.clone()), ("c", two.clone())])],
            "signature/output-unknown",
        ),
        (vec![sound.clone(), named(&[])], "signature/output-missing"),
        (
            vec![named(&[
                ("a", TensorValue::from_elements(vec![2], &[1i8, 2]).unwrap()),
                ("b", two.clone()),
            ])],
            "signature/output-type",
        ),
        (vec![named(&[("a", value(&[2, 1])), ("b", two.clone())])], "signature/output-rank"),
    ] {
        assert_eq!(run(outputs).unwrap_err().code(), code);
    }

    let e = Model::load_folder(
        {
            let mut d = d.clone();
            d.runner.framework_version = "=2.0.1".to_owned();
            d
        },
        folder.path(),
        &fixed(Vec::new()),
    );
    let e = e.unwrap_err();
    assert_eq!(e.code(), "run/framework-version");
    assert_eq!(e.message(), "the package requires `=2.0.1`, the runner `fixed` has 2.1.0");
}

#[test]
fn streamed_items_are_returned_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut d = description("fixed", &[("x", "n")], &[("a", "k")]);
    d.runner.framework_version = "*".to_owned();
    // `k` may have a different size in each item.
    let outs: Vec<NamedValues> = (1..4).map(|n| named(&[("a", value(&[n]))])).collect();
    let mut model = Model::load_folder(d, folder.path(), &fixed(outs.clone())).unwrap();
    let input = named(&[("x", value(&[2]))]);
    let mut seen = Vec::new();
    model
        .run_streaming(input.clone(), &mut |out| {
            seen.push(out);
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, outs);
    assert_eq!(model.run(input.clone()).unwrap(), outs[2]);
    // The receiver may stop.
    let mut count = 0;
    let stopped = model.run_streaming(input, &mut |_| {
        count += 1;
        Err(holdall_run::rules::NOTHING.broken("enough"))
    });
    assert_eq!((count, stopped.unwrap_err().message()), (1, "enough"));
}

#[test]
fn a_stream_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut d = description("fixed", &[("x", "n")], &[("a", "k")]);
    d.runner.framework_version = "*".to_owned();
    let mut model = Model::load_folder(d, folder.path(), &fixed(Vec::new())).unwrap();
    // Twice, because the model can be run again after this error.
    for _ in 0..2 {
        let input = named(&[("x", value(&[2]))]);
        let e = model.run_streaming(input, &mut |_| panic!("there are none")).unwrap_err();
        assert_eq!((e.code(), e.message()), ("run/nothing", "the model returned no outputs"));
    }
}

#[test]
fn every_rule_is_in_the_specification_and_there_once() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/runner.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut codes: Vec<&str> = holdall_run::rules::RULES
        .iter()
        .chain(holdall::carton::signature::RULES)
        .chain(holdall::carton::value::RULES)
        .map(|r| r.code)
        .collect();
    let missing: Vec<&&str> = codes.iter().filter(|c| !page.contains(&format!("`{c}`"))).collect();
    assert!(missing.is_empty(), "docs/spec/runner.md does not speak of {missing:?}");
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count, "a code stands twice");
    // And it mentions no rules that do not exist.
    for code in page.split('`').skip(1).step_by(2) {
        let area = code.split_once('/').map(|(area, _)| area);
        if matches!(area, Some("run" | "runner" | "python" | "onnx" | "signature"))
            && !code.ends_with('…')
        {
            assert!(codes.contains(&code), "there is no rule {code}");
        }
    }
}

#[test]
fn self_tests_compare_and_go_on() {
    use holdall::carton::{SelfTest, Tolerance};
    use holdall_run::self_test::{ToleranceOverride, self_tests};
    let folder = tempfile::tempdir().unwrap();
    let mut d = description("noop", &[("x", "n")], &[("a", "n")]);
    let pairs = |of: &[(&str, &str)]| -> Vec<(String, String)> {
        of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    let test = |input: &str, expected: Option<&str>| {
        let mut test = SelfTest::default();
        test.inputs = pairs(&[("x", input)]);
        test.expected = expected.map(|e| pairs(&[("a", e)]));
        test
    };
    d.self_tests = vec![
        test("one", Some("one")),
        test("one", Some("near")),
        test("one", None),
        test("gone", None),
        test("wide", Some("wide")),
        test("one", Some("two")),
    ];
    d.self_tests[1].name = Some("is near".to_owned());
    let mut model = Model::load_folder(d, folder.path(), &Settings::default()).unwrap();
    let tensor = |name: &str| {
        Ok(match name {
            "one" => TensorValue::from_elements(vec![2], &[1f32, 2.0]).unwrap(),
            "near" => TensorValue::from_elements(vec![2], &[1f32, 2.001]).unwrap(),
            "two" => TensorValue::from_elements(vec![1], &[1f32]).unwrap(),
            "wide" => TensorValue::from_elements(vec![1, 1], &[1f32]).unwrap(),
            _ => {
                return Err(
                    holdall_run::rules::TENSOR.broken(format!("there is no tensor `{name}`"))
                );
            }
        })
    };
    let mut calls = 0;
    let reports =
        self_tests(&mut model, &tensor, ToleranceOverride::default(), &mut |_| calls += 1);
    let passed: Vec<bool> = reports.iter().map(|r| r.passed()).collect();
    assert_eq!((calls, passed), (6, vec![true, false, true, false, false, false]));
    assert_eq!((reports[0].name.as_str(), reports[1].name.as_str()), ("test 1", "is near"));
    let c = &reports[1].outputs[0].comparison;
    assert_eq!((c.differ, c.first.as_ref().unwrap().index.as_slice()), (1, &[1][..]));
    assert_eq!(reports[3].error.as_ref().unwrap().code(), "run/no-tensor");
    assert_eq!(reports[4].error.as_ref().unwrap().code(), "signature/input-rank");
    assert!(reports[5].outputs[0].comparison.mismatch.is_some());

    let loose = ToleranceOverride { atol: Some(0.01), ..ToleranceOverride::default() };
    let reports = self_tests(&mut model, &tensor, loose, &mut |_| ());
    assert!(reports[1].passed());
    assert_eq!(
        reports[1].tolerance,
        Tolerance { atol: 0.01, integers: true, ..Tolerance::default() }
    );
}
