//! Decoding with nothing at hand but what was asked for, one range at a time, is decoding of the whole
//! file: the same index, or the same error.

mod corpus_files;

use corpus_files::files;
use holdall::{Bytes, Error, Index, Limits, Stop, Window, formats};
use std::ops::Range;

/// How often a decoder may ask before it is done. Each time is a round trip.
const MOST_ROUNDS: usize = 4;
/// The same of a package: the other formats look at the start; then the end, the zip64 end, the
/// directory, the texts, and the headers of the tensors.
const MOST_OF_PACKAGES: usize = 11;
/// Bytes of a graph that are looked at together.
const CHUNK: u64 = 32 << 10;
/// Bytes that are asked for beyond the header of an entry, which may be data.
const BEYOND_HEADERS: u64 = 128;

fn whole(bytes: &Bytes) -> Result<Index, Error> {
    match formats::decode(&Window::whole(bytes.clone()), &Limits::default()) {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

/// Feeds the decoder what it asks for, and nothing else; what it came to, and the ranges asked for each
/// time.
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

/// Everything that an index says.
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
        // What stands behind an array of NumPy is known once that is.
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
        let most = if is_package { MOST_OF_PACKAGES } else { MOST_ROUNDS };
        assert!(asked.len() <= most + behind, "{place}: {asked:?}");
    }
}

/// Data is not asked for to know what is in a file.
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
        // Of a package the directory alone says where data is not, and texts are data too.
        let beyond = match index.format() {
            // Nothing tells how long its header is: looks grow eightfold.
            // Its blocks are anywhere, so a small file is looked at as a whole.
            "hdf5" | "keras" => 2 * bytes.len() as u64,
            "gguf" => 8 * (bytes.len() as u64 - data),
            // The header of a compressed array is the start of its data.
            "npz" => (index.len() as u64 + 4) * 5 * BEYOND_HEADERS,
            // Nor where anything is: chunks are looked at.
            "onnx" | "flax" | "tflite" => (index.len() as u64 + 4) * CHUNK,
            _ if is_package => (index.len() as u64 + 4) * BEYOND_HEADERS,
            _ => 0,
        };
        let asked: u64 = asked.iter().flatten().map(|range| range.end - range.start).sum();
        // The ends may be asked for twice: as what they are, and as part of what they tell of.
        let rest = bytes.len() as u64 - data + 64 + beyond;
        assert!(asked <= rest, "{}: {asked} bytes of {}", path.display(), bytes.len());
    }
}
