//! Self-tests: run a model on the inputs in its package, and compare its outputs with the expected ones.

use crate::model::Model;
use crate::runner::NamedValues;
use holdall::carton::{Comparison, compare};
use holdall::carton::{SelfTest, TensorValue, Tolerance};
use holdall::plain::{Plain, ToPlain};
use holdall::{Error, Result, fields};
use std::time::{Duration, Instant};

/// The result of one self-test.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TestReport {
    /// The name; `test N`, counted from 1, if it has none.
    pub name: String,
    /// The expected outputs, in the declared order.
    pub outputs: Vec<OutputReport>,
    /// The error, if the test could not be completed.
    pub error: Option<Error>,
    /// The tolerance of the comparison.
    pub tolerance: Tolerance,
    /// How long the model ran.
    pub elapsed: Duration,
}

/// The comparison of one output of a self-test.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OutputReport {
    /// The output's name.
    pub name: String,
    /// The comparison with the expected value.
    pub comparison: Comparison,
}

impl TestReport {
    /// Returns `true` if the model ran, and all outputs were as expected.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.outputs.iter().all(|o| o.comparison.is_close())
    }
}

impl ToPlain for TestReport {
    fn to_plain(&self) -> Plain<'_> {
        fields!(self =>
            name,
            passed: self.passed(),
            seconds: self.elapsed.as_secs_f64(),
            rtol: self.tolerance.rtol,
            atol: self.tolerance.atol,
            equal_nan: self.tolerance.equal_nan,
            error, outputs,
        )
    }
}

impl ToPlain for OutputReport {
    fn to_plain(&self) -> Plain<'_> {
        let c = &self.comparison;
        fields! {
            name: &self.name,
            close: c.is_close(),
            mismatch: &c.mismatch,
            elements: c.count,
            differ: c.differ,
            max_abs: c.max_abs,
            max_rel: c.max_rel,
            first: c.first.as_ref().map(
                |first| fields!(first => part, index, found, expected)
            ),
        }
    }
}

/// Overrides of the self-tests' tolerance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ToleranceOverride {
    /// The relative tolerance, instead of the package's.
    pub rtol: Option<f64>,
    /// The absolute tolerance, instead of the package's.
    pub atol: Option<f64>,
    /// Whether NaN equals NaN, instead of the package's setting.
    pub equal_nan: Option<bool>,
}

impl ToleranceOverride {
    fn apply(self, tolerance: Tolerance) -> Tolerance {
        Tolerance {
            rtol: self.rtol.unwrap_or(tolerance.rtol),
            atol: self.atol.unwrap_or(tolerance.atol),
            equal_nan: self.equal_nan.unwrap_or(tolerance.equal_nan),
            // The caller's tolerance applies to integer outputs, too.
            integers: tolerance.integers || self.rtol.is_some() || self.atol.is_some(),
        }
    }
}

/// Runs every self-test of the model's package, one after the other. `value` returns a tensor of the package by name;
/// `each` is called after every test.
///
/// # Errors
/// Returns no error: errors are in the tests' reports. After a failure of the runner itself, all further tests fail because the
/// runner has ended.
pub fn self_tests(
    model: &mut Model,
    value: &dyn Fn(&str) -> Result<TensorValue>,
    change: ToleranceOverride,
    each: &mut dyn FnMut(&TestReport),
) -> Vec<TestReport> {
    let tests = model.description().self_tests.clone();
    let mut reports = Vec::with_capacity(tests.len());
    for (at, test) in tests.iter().enumerate() {
        let mut report = TestReport {
            name: test.name.clone().filter(|n| !n.is_empty()).unwrap_or(format!("test {}", at + 1)),
            outputs: Vec::new(),
            error: None,
            tolerance: change.apply(test.tolerance),
            elapsed: Duration::ZERO,
        };
        if let Err(e) = one(model, test, value, &mut report) {
            report.error = Some(e);
        }
        each(&report);
        reports.push(report);
    }
    reports
}

fn one(
    model: &mut Model,
    test: &SelfTest,
    value: &dyn Fn(&str) -> Result<TensorValue>,
    report: &mut TestReport,
) -> Result<()> {
    let all = |named: &[(String, String)]| -> Result<NamedValues> {
        named.iter().map(|(name, tensor)| Ok((name.clone(), value(tensor)?))).collect()
    };
    let inputs = all(&test.inputs)?;
    let expected = test.expected.as_deref().map(all).transpose()?.unwrap_or_default();
    let start = Instant::now();
    let outputs = model.run(inputs);
    report.elapsed = start.elapsed();
    let outputs = outputs?;
    let index_of = |name: &str| outputs.iter().position(|(n, _)| n == name);
    for (name, expected) in expected {
        let comparison = match index_of(&name) {
            Some(at) => compare(&outputs[at].1, &expected, &report.tolerance),
            None => {
                let mut none = Comparison::default();
                none.mismatch = Some("the model did not return it".to_owned());
                none
            }
        };
        report.outputs.push(OutputReport { name, comparison });
    }
    report.outputs.sort_by_key(|o| index_of(&o.name).unwrap_or(usize::MAX));
    Ok(())
}
