//! Pages of packages: their contents, and which contents of a hostile description are left out.
#![cfg(feature = "carton")]

use bytes::Bytes;
use holdall::carton::{
    Description, DimSpec, Example, FileContent, Package, Packer, PageForm, Reference, ShapeSpec,
    TensorValue, ValueSpec, ValueType,
};
use std::path::Path;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nnot much of a picture";

fn packed(dir: &Path, text: &str) -> Package {
    let mut d = Description::default();
    d.model_name = Some("A <b>name</b> | of it".into());
    d.short_description = Some("\"quoted\" & short".into());
    d.model_description = Some(text.into());
    d.license = Some("MIT".into());
    d.runner.name = "noop".into();
    d.runner.framework_version = "=1.0.0".into();
    d.runner.compat_version = 1;
    d.card.push(("author".into(), "<script>alert(1)</script>".into()));
    let shape = ShapeSpec::Dims(vec![DimSpec::Symbol("n".into()), DimSpec::Size(3)]);
    let mut spec = ValueSpec::new("x", ValueType::Float32, shape);
    spec.description = Some("rows | of three".into());
    d.inputs.push(spec);
    let mut example = Example::default();
    example.name = Some("seen".into());
    example.inputs.push(("x".into(), Reference::Misc("a picture.png".into())));
    example.inputs.push(("z".into(), Reference::Misc("evil.png".into())));
    example.outputs.push(("y".into(), Reference::Tensor("t".into())));
    example.outputs.push(("s".into(), Reference::Misc("song.mp3".into())));
    d.examples.push(example);
    let file = |bytes: &'static [u8]| FileContent::Bytes(Bytes::from_static(bytes));
    let to = dir.join("page.carton");
    Packer::new(d)
        .with_file("model/w", file(b"w"))
        .with_file("misc/a picture.png", file(PNG))
        .with_file("misc/evil.png", file(b"<svg onload=alert(1)>"))
        .with_file("misc/song.mp3", file(b"ID3 and so on"))
        .with_tensor("t", TensorValue::from_elements(vec![2], &[1u8, 2]).unwrap())
        .write(&to, true)
        .unwrap();
    Package::open(to).unwrap()
}

const TEXT: &str = "# How\n\nSee [the paper](https://example.com/a?b=1&c), ![a picture](@misc/a%20picture.png),\n\
    ![far](https://example.com/far.png) and [more](@misc/evil.png).\n\n\
    <script>alert(1)</script>\n\n<img src=x onerror=alert(1)> [bad](javascript:alert(1)) \
    ![worse](javascript:alert(2)) [mail](mailto:a@b.c) <javascript:alert(3)>\n\n\
    [ref]: data:text/html,x\n\n[a][ref] `<b>code</b>`\n\n| a | b |\n| - | - |\n| 1 | *2* |\n";

#[test]
fn a_page_is_self_contained() {
    let dir = tempfile::tempdir().unwrap();
    let page = packed(dir.path(), TEXT).page(PageForm::Html).unwrap();
    for there in [
        "<h1>A &lt;b&gt;name&lt;/b&gt; | of it</h1>",
        "<p>&quot;quoted&quot; &amp; short</p>",
        "<tr><th>license</th><td>MIT</td></tr>",
        "<td>x</td><td>float32</td><td>[n, 3]</td><td>rows | of three</td>",
        "<h1>How</h1>",
        "<a href=\"https://example.com/a?b=1&amp;c\">the paper</a>",
        "alt=\"a picture\"",
        // Pictures that are elsewhere become links.
        "<a href=\"https://example.com/far.png\">picture: far</a>",
        "<code>&lt;b&gt;code&lt;/b&gt;</code>",
        "<td><em>2</em></td>",
        "<img src=\"data:image/png;base64,",
        "<audio controls src=\"data:audio/mpeg;base64,",
        "output <b>y</b>: uint8 [2]",
        "misc/evil.png",
        "default-src 'none'; img-src data:; media-src data:; style-src 'sha256-",
    ] {
        assert!(page.contains(there), "{there}: {page}");
    }
    let lower = page.to_lowercase();
    for never in [
        "<script",
        "<svg",
        "onerror=alert(1)>\n",
        "href=\"javascript",
        "src=\"javascript",
        "href=\"data:",
        "mailto:a@b.c\"",
        "src=\"http",
        "@import",
        "url(",
    ] {
        assert!(!lower.contains(never), "{never}: {page}");
    }
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "{page}");
    // Viewing the page fetches no address.
    let sources = page.match_indices("src=\"").map(|(at, _)| &page[at + 5..at + 10]);
    assert!(sources.clone().count() == 3 && sources.into_iter().all(|to| to == "data:"), "{page}");
}

#[test]
fn a_page_is_markdown_too() {
    let dir = tempfile::tempdir().unwrap();
    let page = packed(dir.path(), TEXT).page(PageForm::Markdown).unwrap();
    for there in [
        "# A &lt;b\\>name&lt;/b\\> \\| of it\n",
        "| license | MIT |\n",
        "| x | float32 | \\[n, 3\\] | rows \\| of three |\n",
        "[the paper](https://example.com/a?b=1&c), [a picture](@misc/a%20picture.png),\n",
        "[far](https://example.com/far.png)",
        "&lt;script>alert(1)&lt;/script>",
        "&lt;img src=x onerror=alert(1)>",
        "\\[bad](javascript:alert(1)) \\[worse](javascript:alert(2)) \\[mail](mailto:a@b.c) &lt;javascript:alert(3)>",
        "\\[a][ref] `<b>code</b>`",
        "- input **x**: misc/a picture.png\n- input **z**: misc/evil.png\n- output **y**: uint8 \\[2\\]\n",
    ] {
        assert!(page.contains(there), "{there}: {page}");
    }
}

#[test]
fn a_changed_picture_is_no_page() {
    let dir = tempfile::tempdir().unwrap();
    let package = packed(dir.path(), "![a](@misc/none.png) ![b](@misc/%zz)");
    assert!(package.page(PageForm::Html).unwrap().contains("picture: a"));
    let folder = dir.path().join("folder");
    package.unpack(&folder).unwrap();
    std::fs::write(folder.join("misc/a picture.png"), [PNG, b"!"].concat()).unwrap();
    let e = Package::open(&folder).unwrap().page(PageForm::Html).unwrap_err();
    assert_eq!(e.code(), "carton/hash");
}

/// Texts for which repeated scanning would take quadratic time.
#[test]
fn long_descriptions_are_shown_in_linear_time() {
    let dir = tempfile::tempdir().unwrap();
    for part in [
        "![a](b",
        "![a](https://b.c) ",
        "<a ",
        "[",
        "![",
        "[a][b]",
        "> ",
        "*a_",
        "`",
        "| a ",
        "<!--",
        "- ",
    ] {
        let start = std::time::Instant::now();
        let package = packed(dir.path(), &part.repeat(100_000 / part.len()));
        package.page(PageForm::Html).unwrap();
        package.page(PageForm::Markdown).unwrap();
        assert!(start.elapsed().as_secs() < 20, "{part:?}: {:?}", start.elapsed());
    }
}
