//! Requirements and recommendations of the specification whose violation does not prevent a package from
//! being opened: verifying the package reports them.

use crate::description::{Description, Example};
use crate::fields::Warnings;
use crate::markdown::Markup;
use crate::rules::*;
use holdall_collections::HashSet;
use holdall_core::error::Escape as _;
use holdall_core::model::Warning;
use holdall_json::percent_decoded;

/// The prefixes of architectures in target triples.
const ARCHITECTURES: [&str; 30] = [
    "x86_64",
    "i386",
    "i486",
    "i586",
    "i686",
    "aarch64",
    "arm",
    "thumb",
    "riscv",
    "powerpc",
    "ppc",
    "mips",
    "sparc",
    "s390x",
    "loongarch",
    "wasm",
    "nvptx",
    "amdgcn",
    "hexagon",
    "m68k",
    "csky",
    "avr",
    "msp430",
    "bpf",
    "xtensa",
    "spirv",
    "alpha",
    "hppa",
    "ia64",
    "e2k",
];

/// Returns the requirements that a package does not meet, at most one warning for each rule. `has_model` says
/// whether there is a folder `model`; `has_file` returns whether there is a file at a path. The codes are
/// those of rules.
pub fn unmet_requirements(
    d: &Description,
    has_model: bool,
    has_file: &dyn Fn(&str) -> bool,
) -> Vec<Warning> {
    let mut found = Warnings::default();
    if !has_model {
        found.add(NO_MODEL.code, || "there is no folder `model`".to_owned());
    }
    declarations(d, &mut found);
    for platform in d.required_platforms.iter().filter(|platform| !is_triple(platform)) {
        found.add(PLATFORM.code, || {
            let platform = platform.escaped();
            format!("`{platform}` of `required_platforms` is not a target triple, as `x86_64-unknown-linux-gnu` is")
        });
    }
    let markup = d.model_description.as_deref().map(Markup::parse).unwrap_or_default();
    for address in &markup.addresses {
        if let Some(what) = misled(address, has_file) {
            let message =
                || format!("`model_description` leads to `{}`, {what}", address.escaped());
            found.add(DESCRIPTION_LINK.code, message);
        }
    }
    for tag in &markup.html {
        let message =
            || format!("`model_description` has HTML, `{}`: it is shown as text", tag.escaped());
        found.add(DESCRIPTION_HTML.code, message);
    }
    found.0
}

/// Checks that inputs and outputs are declared, and that examples agree with them. Self-tests are checked
/// when the package is opened.
fn declarations(d: &Description, found: &mut Warnings) {
    let (no_inputs, no_outputs) = (d.inputs.is_empty(), d.outputs.is_empty());
    if no_outputs && !no_inputs {
        found.add(NO_OUTPUTS.code, || {
            let input =
                d.inputs.first().map(|spec| spec.name.escaped().to_string()).unwrap_or_default();
            format!("the input `{input}` is declared, and no output is")
        });
    }
    if no_outputs && no_inputs {
        let tables = [("self-test", d.self_tests.len()), ("example", d.examples.len())];
        for (what, count) in tables.into_iter().filter(|(_, count)| *count > 0) {
            found.add_many(NOTHING_DECLARED.code, count as u64, || {
                let article = if what == "example" { "an" } else { "a" };
                format!("there is {article} {what}, and neither an input nor an output is declared")
            });
        }
    }
    let [inputs, outputs] = [&d.inputs, &d.outputs]
        .map(|specs| specs.iter().map(|spec| spec.name.as_str()).collect::<HashSet<_>>());
    // If nothing is declared, that was reported already.
    let inputs = (!(no_inputs && no_outputs)).then_some(inputs);
    let outputs = (!no_outputs).then_some(outputs);
    for (at, example) in d.examples.iter().enumerate() {
        let mut note = |what: String| {
            found.add(EXAMPLE.code, || match &example.name {
                Some(name) => format!("example `{}`: {what}", name.escaped()),
                None => format!("example {}: {what}", at.saturating_add(1)),
            });
        };
        let Example { inputs: given, outputs: shown, .. } = example;
        if given.is_empty() && shown.is_empty() {
            note("it has neither `inputs` nor `sample_out`".to_owned());
        }
        for (side, declared, named) in [("input", &inputs, given), ("output", &outputs, shown)] {
            let Some(declared) = declared else { continue };
            for (name, _) in named.iter().filter(|(name, _)| !declared.contains(name.as_str())) {
                note(format!("{side} `{}` is not declared", name.escaped()));
            }
        }
    }
}

/// Returns `true` if the text looks like a target triple: an architecture, then vendor, system and
/// environment, or some of them.
fn is_triple(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_part = |part: &&str| {
        let is_sign =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.');
        !part.is_empty() && part.bytes().all(is_sign)
    };
    let starts = |architecture: &&str| text.starts_with(architecture);
    (2..=5).contains(&parts.len()) && parts.iter().all(is_part) && ARCHITECTURES.iter().any(starts)
}

/// Returns a description of the error in an address.
fn misled(address: &str, has_file: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    const HTTPS: &str = "https://";
    if let Some(path) = address.strip_prefix("@misc/") {
        let file = |path: &str| has_file(&format!("misc/{path}"));
        // Writers encode characters that Markdown would interpret.
        let is_in_package =
            |path: &str| file(path) || percent_decoded(path).is_some_and(|path| file(&path));
        let bare = path.split(['#', '?']).next().unwrap_or_default();
        return (!is_in_package(path) && !is_in_package(bare))
            .then_some("which is not in the package");
    }
    let is_https =
        address.get(..HTTPS.len()).is_some_and(|start| start.eq_ignore_ascii_case(HTTPS));
    let has_host = || {
        let rest = address.get(HTTPS.len()..).unwrap_or_default();
        !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':'])
    };
    // An anchor in the description itself.
    let is_right = address.starts_with('#') || (is_https && has_host());
    (!is_right).then_some("which is neither a whole `https` address nor `@misc/` and a path")
}

#[cfg(test)]
mod tests {
    use super::{is_triple, misled};

    #[test]
    fn targets_are_distinguished_from_other_names() {
        for name in [
            "x86_64-unknown-linux-gnu",
            "aarch64-apple-darwin",
            "armv7-unknown-linux-gnueabihf",
            "thumbv8m.main-none-eabihf",
            "wasm32-wasip1",
            "i686-pc-windows-msvc",
            "arm64_32-apple-watchos",
            "riscv64gc-unknown-linux-musl",
            "x86_64-fortanix-unknown-sgx",
            "aarch64-apple-ios-sim",
        ] {
            assert!(is_triple(name), "{name}");
        }
        for name in [
            "",
            "linux",
            "x86_64",
            "linux-x86_64",
            "any",
            "macos-arm64",
            "X86_64-unknown-linux-gnu",
            "x86_64--linux",
            "x86_64-linux-",
            "x86_64 linux",
            "manylinux_2_17_x86_64",
            "x86_64-a-b-c-d-e",
            "windows-latest",
        ] {
            assert!(!is_triple(name), "{name}");
        }
    }

    #[test]
    fn addresses_are_whole_or_of_a_file() {
        let has = |path: &str| {
            matches!(path, "misc/a b.png" | "misc/c.pdf" | "misc/d%20#.png" | "misc/ä")
        };
        for right in [
            "https://a.org",
            "HTTPS://a.org/b?c#d",
            "@misc/a%20b.png",
            "@misc/a b.png",
            "@misc/c.pdf#page=2",
            "@misc/d%20#.png",
            "@misc/%C3%A4",
            "#usage",
        ] {
            assert_eq!(misled(right, &has), None, "{right}");
        }
        for wrong in [
            "http://a.org",
            "https://",
            "https:///a",
            "https:a.org",
            "a.png",
            "/a.png",
            "misc/c.pdf",
            "@misc/e.png",
            "@misc/",
            "@misc/%C3",
            "@misc/%zz",
            "@misc/%c",
            "@tensor_data/x",
            "ftp://a.org",
            "mailto:a@b.org",
            "",
            "//a.org",
            "@misc",
            "ähttps://",
        ] {
            assert!(misled(wrong, &has).is_some(), "{wrong}");
        }
    }
}
