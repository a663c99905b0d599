//! Decoding with nothing at hand but what was asked for, one range at a time, is decoding of the whole
//! file: the same index, or the same error.

mod corpus_files;

use corpus_files::files;
use holdall::{Bytes, Error, Index, Limits, Stop, Window, formats};

/// Ranges that a decoder may ask for one after the other before it is done. Each is a round trip.
const MOST_RANGES: usize = 4;

fn whole(bytes: &Bytes) -> Result<Index, Error> {
    match formats::decode(&Window::whole(bytes.clone()), &Limits::default()) {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    }
}

/// Feeds the decoder what it asks for, and nothing else; what it came to, and the lengths asked for.
fn windowed(bytes: &Bytes) -> (Result<Index, Error>, Vec<u64>) {
    let mut window = Window::new(bytes.len() as u64);
    let mut asked: Vec<u64> = Vec::new();
    loop {
        match formats::decode(&window, &Limits::default()) {
            Ok(index) => return (Ok(index), asked),
            Err(Stop::Fail(e)) => return (Err(e), asked),
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    assert!(!range.is_empty(), "it asks for nothing");
                    assert!(range.end <= bytes.len() as u64, "it asks for {range:?}");
                    asked.push(range.end - range.start);
                    assert!(asked.len() < 100, "it asks on and on: {asked:?}");
                    window.add(range.start, bytes.slice(range.start as usize..range.end as usize));
                }
            }
        }
    }
}

/// Everything that an index says.
fn said(index: &Index) -> String {
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
        match (whole(&bytes), found) {
            (Ok(whole), Ok(found)) => assert_eq!(said(&whole), said(&found), "{place}"),
            (Err(whole), Err(found)) => assert_eq!(whole.to_string(), found.to_string(), "{place}"),
            (whole, found) => panic!("{place}: whole {whole:?}, by ranges {found:?}"),
        }
        assert!(asked.len() <= MOST_RANGES, "{place}: {asked:?}");
    }
}

/// Data is not asked for to know what is in a file.
#[test]
fn an_index_needs_no_data() {
    for path in files("accept") {
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let (found, asked) = windowed(&bytes);
        let data: u64 = {
            let index = found.unwrap();
            let mut ranges: Vec<_> =
                index.tensors().flat_map(|t| t.components().collect::<Vec<_>>()).collect();
            ranges.sort_by_key(|c| c.stored.start);
            ranges.dedup_by_key(|c| c.stored.clone());
            ranges.iter().map(|c| c.stored_len()).sum()
        };
        let asked: u64 = asked.iter().sum();
        // The ends may be asked for twice: as what they are, and as part of what they tell of.
        let rest = bytes.len() as u64 - data + 64;
        assert!(asked <= rest, "{}: {asked} bytes of {}", path.display(), bytes.len());
    }
}
