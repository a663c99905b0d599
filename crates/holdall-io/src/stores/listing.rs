//! Listing the objects below a prefix.

use super::rules::ANSWER;
use super::xml;
use holdall_core::Result;
use holdall_json::{Reader, Token};

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The address of the object.
    pub address: String,
    /// The length in bytes.
    pub len: u64,
}

/// One page of a listing.
#[derive(Default)]
pub(super) struct Page {
    /// The keys and lengths of the objects.
    pub(super) objects: Vec<(String, u64)>,
    /// The token or URL of the next page. `None` for the last page.
    pub(super) next: Option<String>,
}

/// Parses a page of `ListObjectsV2`, as S3 and Google Cloud Storage return it.
pub(super) fn parse_s3(body: &[u8]) -> Result<Page> {
    parse_xml(body, ["Contents", "Key", "Size", "NextContinuationToken"])
}

/// Parses a page of `List Blobs`, as Azure returns it.
pub(super) fn parse_azure(body: &[u8]) -> Result<Page> {
    parse_xml(body, ["Blob", "Name", "Content-Length", "NextMarker"])
}

fn parse_xml(body: &[u8], [object, key, size, next]: [&str; 4]) -> Result<Page> {
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

/// Parses the file tree of a repository on the Hugging Face hub.
pub(super) fn parse_hub_listing(body: &[u8]) -> Result<Vec<(String, u64)>> {
    tree(body).map_err(|e| ANSWER.broken("cannot parse the file list of the repository").because(e))
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
