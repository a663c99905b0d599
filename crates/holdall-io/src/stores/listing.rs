//! What is below a prefix.

use super::rules::ANSWER;
use super::xml;
use holdall_core::Result;
use holdall_json::{Reader, Token};

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its address.
    pub address: String,
    /// Its bytes.
    pub len: u64,
}

/// A part of a listing.
#[derive(Default)]
pub(super) struct Page {
    /// Keys and lengths.
    pub(super) objects: Vec<(String, u64)>,
    /// What asks for the next part.
    pub(super) next: Option<String>,
}

/// `ListObjectsV2`, of S3 and of Google.
pub(super) fn of_s3(body: &[u8]) -> Result<Page> {
    of_xml(body, ["Contents", "Key", "Size", "NextContinuationToken"])
}

/// `List Blobs`, of Azure.
pub(super) fn of_azure(body: &[u8]) -> Result<Page> {
    of_xml(body, ["Blob", "Name", "Content-Length", "NextMarker"])
}

fn of_xml(body: &[u8], [object, key, size, next]: [&str; 4]) -> Result<Page> {
    let mut page = Page::default();
    let (mut name, mut len) = (None, None);
    xml::read(body, |path, text| match (path, text) {
        ([.., last], None) if *last == object => {
            if let (Some(name), Some(len)) = (name.take(), len.take()) {
                page.objects.push((name, len));
            }
        }
        ([.., outer, last], Some(text)) if *outer == object && *last == key => name = Some(text),
        ([.., last], Some(text)) if *last == size => len = text.parse().ok(),
        ([_, last], Some(text)) if *last == next && !text.is_empty() => page.next = Some(text),
        _ => {}
    })?;
    Ok(page)
}

/// The tree of a repository of the hub.
pub(super) fn of_hub(body: &[u8]) -> Result<Vec<(String, u64)>> {
    tree(body).map_err(|e| ANSWER.broken("the list of files of the repository").because(e))
}

fn tree(body: &[u8]) -> Result<Vec<(String, u64)>> {
    let mut reader = Reader::new(body, 0, 16)?;
    let mut all = Vec::new();
    let mut scratch = String::new();
    reader.begin_array()?;
    while reader.next_item()? {
        let (mut path, mut len, mut is_file) = (String::new(), 0, false);
        reader.begin_object()?;
        while let Some(key) = reader.next_key(&mut scratch)?.map(str::to_owned) {
            let token = reader.peek()?;
            match (key.as_str(), token) {
                ("type", Token::String) => is_file = reader.string(&mut scratch)? == "file",
                ("path", Token::String) => path = reader.string(&mut scratch)?.to_owned(),
                ("size", Token::Number) => len = reader.u64()?,
                _ => reader.skip()?,
            }
        }
        if is_file {
            all.push((path, len));
        }
    }
    reader.end()?;
    Ok(all)
}
