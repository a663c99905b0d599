//! Renders a page as HTML.

use super::{
    example_references, facts, is_allowed_link, line, misc, numbered, options, tables, tensor_of,
    title,
};
use crate::{FileLocation, Package, Reference};
use data_encoding::BASE64;
use holdall_core::Result;
use holdall_package::sha256;
use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};

/// Maximum length of a file embedded in a page, in bytes.
const LARGEST: u64 = 16 << 20;
/// Maximum total length of embedded files, in bytes.
const MAX_EMBEDDED_LEN: u64 = 64 << 20;

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}\
table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.2rem .6rem;text-align:left;vertical-align:top}\
img,video{max-width:100%}pre{overflow-x:auto}";

pub(super) fn page(package: &Package) -> Result<String> {
    let mut files = Files { package, left: MAX_EMBEDDED_LEN };
    let d = package.description();
    let title = escaped(&title(package));
    let style = BASE64.encode(&sha256(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; img-src data:; media-src data:; style-src 'sha256-{style}'; base-uri 'none'; \
         form-action 'none'"
    );
    let mut out = String::new();
    line(&mut out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">");
    line(
        &mut out,
        format_args!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">"),
    );
    line(&mut out, "<meta name=\"referrer\" content=\"no-referrer\">");
    line(&mut out, format_args!("<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>"));
    line(&mut out, format_args!("<h1>{title}</h1>"));
    if let Some(text) = &d.short_description {
        line(&mut out, format_args!("<p>{}</p>", escaped(text)));
    }
    line(&mut out, "<table>");
    for (key, value) in facts(package) {
        let (key, value) = (escaped(&key), escaped(&value));
        line(&mut out, format_args!("<tr><th>{key}</th><td>{value}</td></tr>"));
    }
    line(&mut out, "</table>");
    if let Some(text) = &d.model_description {
        description(&mut out, text, &mut files)?;
    }
    let tables = tables(package);
    for (name, (columns, rows)) in tables.iter().filter(|(name, _)| *name != "Files") {
        table(&mut out, name, columns, rows);
    }
    examples(&mut out, package, &mut files)?;
    for (name, (columns, rows)) in tables.iter().filter(|(name, _)| *name == "Files") {
        table(&mut out, name, columns, rows);
    }
    line(&mut out, "</body>\n</html>");
    Ok(out)
}

fn table(out: &mut String, name: &str, columns: &[&str], rows: &[Vec<String>]) {
    line(out, format_args!("<h2>{name}</h2>\n<table>"));
    let cells = |tag: &str, texts: &mut dyn Iterator<Item = &str>| -> String {
        texts.map(|text| format!("<{tag}>{}</{tag}>", escaped(text))).collect()
    };
    line(out, format_args!("<tr>{}</tr>", cells("th", &mut columns.iter().copied())));
    for row in rows {
        line(out, format_args!("<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str))));
    }
    line(out, "</table>");
}

fn examples(out: &mut String, package: &Package, files: &mut Files<'_>) -> Result<()> {
    let examples = &package.description().examples;
    if !examples.is_empty() {
        line(out, "<h2>Examples</h2>");
    }
    for (at, example) in examples.iter().enumerate() {
        line(out, format_args!("<h3>{}</h3>", escaped(&numbered(at, example.name.as_deref()))));
        if let Some(about) = &example.description {
            line(out, format_args!("<p>{}</p>", escaped(about)));
        }
        for (what, name, to) in example_references(example) {
            let content = match to {
                Reference::Tensor(tensor) => escaped(&tensor_of(package, tensor)),
                Reference::Misc(path) => files.embedded_file(&format!("misc/{path}"), name)?,
            };
            line(out, format_args!("<p>{what} <b>{}</b>: {content}</p>", escaped(name)));
        }
    }
    Ok(())
}

/// How an open Markdown tag is rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Kept,
    /// A link instead of a picture that is elsewhere.
    Link,
    Dropped,
}

/// Appends Markdown as HTML: HTML in it as text, pictures of the package embedded, no other pictures.
fn description(out: &mut String, text: &str, files: &mut Files<'_>) -> Result<()> {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => events.push(Event::Text(html)),
            Event::Start(Tag::HtmlBlock) => events.push(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => events.push(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Link { ref dest_url, link_type, .. }) => {
                let is_kept = is_allowed_link(dest_url, link_type);
                open.push(if is_kept { Open::Kept } else { Open::Dropped });
                events.extend(is_kept.then_some(event));
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let data = match misc(&dest_url) {
                    Some(path) => files.data(&path)?.filter(|data| data.starts_with("data:image/")),
                    None => None,
                };
                let (as_what, tag) = match data {
                    Some(data) => {
                        let dest_url = CowStr::from(data);
                        (Open::Kept, Some(Tag::Image { link_type, dest_url, title, id }))
                    }
                    None if is_allowed_link(&dest_url, link_type) => {
                        (Open::Link, Some(Tag::Link { link_type, dest_url, title, id }))
                    }
                    None => (Open::Dropped, None),
                };
                open.push(as_what);
                events.extend(tag.map(Event::Start));
                if as_what != Open::Kept {
                    events.push(Event::Text("picture: ".into()));
                }
            }
            Event::End(TagEnd::Link | TagEnd::Image) => match open.pop() {
                Some(Open::Kept) => events.push(event),
                Some(Open::Link) => events.push(Event::End(TagEnd::Link)),
                _ => {}
            },
            other => events.push(other),
        }
    }
    html::push_html(out, events.into_iter());
    Ok(())
}

/// Files of a package to embed in a page.
struct Files<'a> {
    package: &'a Package,
    /// Remaining bytes that may be embedded.
    left: u64,
}

impl Files<'_> {
    /// Returns the file as a `data:` address, if its type can be shown, it is in the package and not too
    /// large.
    fn data(&mut self, path: &str) -> Result<Option<String>> {
        let is_here = |path: &str| {
            let file = self.package.file(path)?;
            let file = file.target.as_deref().map_or(Some(file), |to| self.package.file(to))?;
            file.len.filter(|_| file.location != FileLocation::Links)
        };
        let Some(len) = is_here(path).filter(|len| *len <= LARGEST.min(self.left)) else {
            return Ok(None);
        };
        let bytes = self.package.read(path)?;
        let Some(ty) = media(&bytes) else { return Ok(None) };
        self.left -= len;
        Ok(Some(format!("data:{ty};base64,{}", BASE64.encode(&bytes))))
    }

    /// Returns the file as a picture, audio or video element; otherwise its path.
    fn embedded_file(&mut self, path: &str, name: &str) -> Result<String> {
        let name = escaped(name);
        let Some(data) = self.data(path)? else { return Ok(escaped(path)) };
        Ok(match data.as_str() {
            picture if picture.starts_with("data:image/") => {
                format!("<img src=\"{data}\" alt=\"{name}\">")
            }
            sound if sound.starts_with("data:audio/") => {
                format!("<audio controls src=\"{data}\"></audio>")
            }
            _ => format!("<video controls src=\"{data}\"></video>"),
        })
    }
}

/// Returns the media type of a file by its first bytes: one of the four that the specification names.
fn media(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'I', b'D', b'3', ..] | [0xff, 0xe2..=0xff, ..] => Some("audio/mpeg"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("video/mp4"),
        _ => None,
    }
}

/// Escapes a text for HTML, including attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
