//! A package as JSON.

use crate::output::json::{push_error, push_f64, push_optional, push_string, push_warnings};
use holdall::carton::{
    DimSpec, Example, OptionValue, Package, PackageDiff, PackageReport, Place, Reference, SelfTest,
    ShapeSpec, TensorKind, TensorSpec, hex,
};

/// Everything that a package says of itself.
pub(super) fn package(package: &Package) -> String {
    let d = package.description();
    let mut out = String::from("{\"source\":");
    push_string(package.name(), &mut out);
    out.push_str(",\"format\":\"carton\",\"version\":\"1\",\"hash\":");
    push_optional(package.hash().map(|hash| hex(&hash)).as_deref(), &mut out);
    for (key, value) in [
        ("name", &d.model_name),
        ("short_description", &d.short_description),
        ("description", &d.model_description),
        ("license", &d.license),
        ("repository", &d.repository),
        ("homepage", &d.homepage),
    ] {
        out.push_str(&format!(",\"{key}\":"));
        push_optional(value.as_deref(), &mut out);
    }
    out.push_str(",\"required_platforms\":");
    list(&d.required_platforms, &mut out, |p, out| push_string(p, out));
    out.push_str(",\"inputs\":");
    list(&d.inputs, &mut out, spec);
    out.push_str(",\"outputs\":");
    list(&d.outputs, &mut out, spec);
    out.push_str(",\"self_tests\":");
    list(&d.self_tests, &mut out, self_test);
    out.push_str(",\"examples\":");
    list(&d.examples, &mut out, example);
    out.push_str(",\"runner\":{\"name\":");
    push_string(&d.runner.name, &mut out);
    out.push_str(",\"required_framework_version\":");
    push_string(&d.runner.framework_version, &mut out);
    out.push_str(&format!(",\"compat_version\":{},\"options\":", d.runner.compat_version));
    map(&d.runner.options, &mut out, option);
    out.push_str("},\"card\":");
    map(&d.card, &mut out, |text, out| push_string(text, out));
    out.push_str(",\"base_models\":");
    list(&d.base_models, &mut out, |b, out| push_string(b, out));
    out.push_str(",\"sbom\":");
    push_optional(d.sbom.as_deref(), &mut out);
    out.push_str(",\"files\":");
    list(package.files(), &mut out, |file, out| {
        out.push_str("{\"path\":");
        push_string(&file.path, out);
        out.push_str(",\"len\":");
        out.push_str(&file.len.map_or("null".to_owned(), |len| len.to_string()));
        out.push_str(",\"sha256\":");
        push_optional(file.sha256.map(|hash| hex(&hash)).as_deref(), out);
        let place = match file.place {
            Place::Zip => "zip",
            Place::Disk => "disk",
            _ => "links",
        };
        out.push_str(&format!(",\"place\":\"{place}\",\"target\":"));
        push_optional(file.target.as_deref(), out);
        out.push('}');
    });
    out.push_str(",\"links\":");
    let links: Vec<(String, &Vec<String>)> =
        package.links().urls.iter().map(|(hash, urls)| (hex(hash), urls)).collect();
    map(&links, &mut out, |urls, out| list(urls, out, |url, out| push_string(url, out)));
    out.push_str(",\"tensors\":");
    list(package.tensors(), &mut out, |row, out| {
        out.push_str("{\"name\":");
        push_string(&row.name, out);
        match &row.kind {
            TensorKind::Plain { ty, shape, file } => {
                let dtype = ty.as_str();
                out.push_str(&format!(",\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"file\":"));
                push_string(file, out);
            }
            TensorKind::Nested { inner } => {
                out.push_str(",\"dtype\":\"nested\",\"inner\":");
                list(inner, out, |name, out| push_string(name, out));
            }
        }
        out.push('}');
    });
    out.push_str(",\"warnings\":");
    push_warnings(package.warnings(), &mut out);
    out.push('}');
    out
}

fn list<T>(all: &[T], out: &mut String, each: impl Fn(&T, &mut String)) {
    out.push('[');
    for (at, one) in all.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        each(one, out);
    }
    out.push(']');
}

fn map<T>(all: &[(String, T)], out: &mut String, each: impl Fn(&T, &mut String)) {
    out.push('{');
    for (at, (key, value)) in all.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        push_string(key, out);
        out.push(':');
        each(value, out);
    }
    out.push('}');
}

fn spec(spec: &TensorSpec, out: &mut String) {
    out.push_str("{\"name\":");
    push_string(&spec.name, out);
    out.push_str(&format!(",\"dtype\":\"{}\",\"shape\":", spec.ty.as_str()));
    match &spec.shape {
        ShapeSpec::Any => push_string("*", out),
        ShapeSpec::Symbol(symbol) => push_string(symbol, out),
        ShapeSpec::Dims(dims) => list(dims, out, |dim, out| match dim {
            DimSpec::Size(n) => out.push_str(&n.to_string()),
            DimSpec::Symbol(symbol) => push_string(symbol, out),
            DimSpec::Any => push_string("*", out),
        }),
    }
    out.push_str(",\"description\":");
    push_optional(spec.description.as_deref(), out);
    out.push_str(",\"internal_name\":");
    push_optional(spec.internal_name.as_deref(), out);
    out.push('}');
}

fn self_test(test: &SelfTest, out: &mut String) {
    let names = |pairs: &[(String, String)], out: &mut String| {
        map(pairs, out, |t, out| push_string(t, out))
    };
    out.push_str("{\"name\":");
    push_optional(test.name.as_deref(), out);
    out.push_str(",\"description\":");
    push_optional(test.description.as_deref(), out);
    out.push_str(",\"inputs\":");
    names(&test.inputs, out);
    out.push_str(",\"expected\":");
    match &test.expected {
        Some(expected) => names(expected, out),
        None => out.push_str("null"),
    }
    out.push_str(",\"rtol\":");
    push_f64(test.tolerance.rtol, out);
    out.push_str(",\"atol\":");
    push_f64(test.tolerance.atol, out);
    out.push_str(&format!(",\"equal_nan\":{}}}", test.tolerance.equal_nan));
}

fn example(example: &Example, out: &mut String) {
    let shown = |to: &Reference, out: &mut String| match to {
        Reference::Tensor(name) => push_string(&format!("@tensor_data/{name}"), out),
        Reference::Misc(path) => push_string(&format!("@misc/{path}"), out),
    };
    out.push_str("{\"name\":");
    push_optional(example.name.as_deref(), out);
    out.push_str(",\"description\":");
    push_optional(example.description.as_deref(), out);
    out.push_str(",\"inputs\":");
    map(&example.inputs, out, shown);
    out.push_str(",\"outputs\":");
    map(&example.outputs, out, shown);
    out.push('}');
}

fn option(value: &OptionValue, out: &mut String) {
    match value {
        OptionValue::Integer(n) => out.push_str(&n.to_string()),
        OptionValue::Double(n) => push_f64(*n, out),
        OptionValue::Boolean(b) => out.push_str(&b.to_string()),
        OptionValue::String(s) => push_string(s, out),
    }
}

/// What verifying a package came to.
pub(super) fn report(package: &Package, report: &PackageReport) -> String {
    let mut out = String::from("{\"source\":");
    push_string(package.name(), &mut out);
    let verdict = report.verdict();
    let sound = verdict == holdall::verify::Verdict::Sound;
    out.push_str(&format!(
        ",\"format\":\"carton\",\"version\":\"1\",\"sound\":{sound},\"verdict\":\"{}\",\"hash\":",
        verdict.as_str()
    ));
    push_optional(package.hash().map(|hash| hex(&hash)).as_deref(), &mut out);
    for (key, n) in [
        ("files", report.files),
        ("hashed", report.hashed),
        ("unhashed", report.unhashed),
        ("linked", report.linked),
        ("read_len", report.read_len),
        ("tensors", report.tensors),
        ("finding_count", report.finding_count),
    ] {
        out.push_str(&format!(",\"{key}\":{n}"));
    }
    out.push_str(",\"findings\":");
    list(&report.findings, &mut out, push_error);
    out.push_str(&format!(",\"over_limit_count\":{},\"over_limit\":", report.over_limit_count));
    list(&report.over_limit, &mut out, push_error);
    out.push_str(",\"warnings\":");
    push_warnings(&report.warnings, &mut out);
    out.push('}');
    out
}

/// What is different between two packages.
pub(super) fn diff(a: &Package, b: &Package, diff: &PackageDiff) -> String {
    let mut out = String::from("{\"a\":");
    push_string(a.name(), &mut out);
    out.push_str(",\"b\":");
    push_string(b.name(), &mut out);
    out.push_str(&format!(",\"same\":{}", diff.is_same()));
    for (key, all) in [("fields", &diff.fields), ("files", &diff.files), ("tensors", &diff.tensors)]
    {
        out.push_str(&format!(",\"{key}\":"));
        list(all, &mut out, |one, out| {
            out.push_str("{\"name\":");
            push_string(&one.name, out);
            out.push_str(",\"a\":");
            push_optional(one.a.as_deref(), out);
            out.push_str(",\"b\":");
            push_optional(one.b.as_deref(), out);
            out.push('}');
        });
    }
    out.push('}');
    out
}
