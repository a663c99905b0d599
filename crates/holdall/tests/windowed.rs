//! Decoding with only the requested ranges, one at a time, gives the same result as decoding the whole file:
//! the same index, or the same error.

mod corpus_files;

use corpus_files::files;
use holdall::{Bytes, Error, Index, Limits, Stop, Window, formats};
use std::ops::Range;

/// Maximum number of requests of a decoder. Each is a round trip.
const MAX_ROUNDS: usize = 4;
/// The same for a package: the other formats check the start; then the end, the zip64 end, the directory, the
/// texts, and the headers of the tensors.
const MAX_OF_PACKAGES: usize = 11;
/// Bytes of a graph that are read together.
const CHUNK: u64 = 32 << 10;
/// Bytes that are read after the header of an entry, which may be data.
const BEYOND_HEADERS: u64 = 128;

fn whole(bytes: &Bytes) -> Result<Index, Error> {
    match formats::decode(&Window::whole(bytes.clone()), &Limits::default()) {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

/// Passes the decoder the ranges that it requests, and nothing else. Returns its result, and the ranges of
/// each request.
fn windowed(bytes: &Bytes) -> (Result<Index, Error>, Vec<Vec<Range<u64>>>) {
    let mut window = Window::new(bytes.len() as u64);
    let mut asked: Vec<Vec<Range<u64>>> = Vec::new();
    loop {
        match formats::decode(&window, &Limits::default()) {
            Ok(index) => return (Ok(index), asked),
            Err(Stop::Fail(e)) => return (Err(e), asked),
            Err(Stop::Need(ranges)) => {
                asked.push(ranges.clone());
                assert!(asked.len() < 100, "it asks on and on: {asked:?}");
                for range in ranges {
                    assert!(!range.is_empty(), "it asks for nothing");
                    assert!(range.end <= bytes.len() as u64, "it asks for {range:?}");
                    window.add(range.start, bytes.slice(range.start as usize..range.end as usize));
                }
            }
        }
    }
}

/// Returns all contents of an index.
fn describe(index: &Index) -> String {
    let tensors: Vec<String> = index
        .tensors()
        .map(|t| {
            let components: Vec<_> = t.components().collect();
            format!(
                "{:?} {:?} {:?} {:?} {components:?}",
                t.name(),
                t.shape(),
                t.layout(),
                t.attributes()
            )
        })
        .collect();
    let (attributes, warnings) = (index.attributes(), index.warnings());
    format!("{} {} {attributes:?} {warnings:?} {tensors:#?}", index.format(), index.version())
}

#[test]
fn a_range_at_a_time_is_the_whole() {
    for path in files("accept").into_iter().chain(files("reject")) {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let (found, asked) = windowed(&bytes);
        let place = path.display();
        // The bytes after a NumPy array are known once the array is.
        let behind =
            found.as_ref().map_or(0, |i| if i.format() == "npy" { i.len() - 1 } else { 0 });
        match (whole(&bytes), found) {
            (Ok(whole), Ok(found)) => assert_eq!(describe(&whole), describe(&found), "{place}"),
            (Err(whole), Err(found)) => assert_eq!(whole.to_string(), found.to_string(), "{place}"),
            (whole, found) => panic!("{place}: whole {whole:?}, by ranges {found:?}"),
        }
        let is_package = path.extension().is_some_and(|e| {
            ["carton", "pt", "pt2", "keras", "npz", "onnx", "tflite", "index"]
                .iter()
                .any(|own| e == *own)
        });
        let most = if is_package { MAX_OF_PACKAGES } else { MAX_ROUNDS };
        assert!(asked.len() <= most + behind, "{place}: {asked:?}");
    }
}

/// Data is not read to list the contents of a file.
#[test]
fn an_index_needs_no_data() {
    for path in files("accept") {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let (found, asked) = windowed(&bytes);
        let index = found.unwrap();
        let is_package = matches!(index.format(), "carton" | "pytorch");
        let data: u64 = {
            let mut ranges: Vec<_> =
                index.tensors().flat_map(|t| t.components().collect::<Vec<_>>()).collect();
            ranges.retain(|c| !c.stored.is_stated() && c.stored.chunked().is_none());
            ranges.sort_by_key(|c| c.stored.start);
            ranges.dedup_by_key(|c| c.stored);
            ranges.iter().map(|c| c.stored_len()).sum()
        };
        // In a package only the directory tells where data is, and texts are data too.
        let beyond = match index.format() {
            // The length of its header is unknown: reads grow eightfold. Its blocks may be anywhere, so a
            // small file is read as a whole.
            "hdf5" | "keras" => 2 * bytes.len() as u64,
            "gguf" => 8 * (bytes.len() as u64 - data),
            // The header of a compressed array is the start of its data.
            "npz" => (index.len() as u64 + 4) * 5 * BEYOND_HEADERS,
            // The positions are unknown too: chunks are read.
            "onnx" | "flax" | "tflite" => (index.len() as u64 + 4) * CHUNK,
            _ if is_package => (index.len() as u64 + 4) * BEYOND_HEADERS,
            _ => 0,
        };
        let asked: u64 = asked.iter().flatten().map(|range| range.end - range.start).sum();
        // The ends may be read twice: for themselves, and as part of the ranges that they give.
        let rest = bytes.len() as u64 - data + 64 + beyond;
        assert!(asked <= rest, "{}: {asked} bytes of {}", path.display(), bytes.len());
    }
}
