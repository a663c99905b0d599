//! Decoding a file range by range gives the same index as decoding the whole file, or the same error.

use crate::limits;
use crate::walk::describe;
use holdall::{Bytes, Error, Index, Limits, Stop, Window, formats};

/// The most requests that a decoder may make. Each is a round trip; packages in zips need the most.
const MAX_ROUNDS: usize = 10;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let limits = limits::tight();
    let whole = match formats::decode(&Window::whole(bytes.clone()), &limits) {
        Ok(index) => Ok(index),
        Err(Stop::Fail(e)) => Err(e),
        Err(Stop::Need(range)) => panic!("a whole window lacks {range:?}"),
    };
    match (whole, by_ranges(&bytes, &limits)) {
        (Ok(whole), Ok(found)) => assert_eq!(describe(&whole), describe(&found)),
        (Err(whole), Err(found)) => assert_eq!(whole.to_string(), found.to_string()),
        (whole, found) => panic!("whole {whole:?}, by ranges {found:?}"),
    }
}

fn by_ranges(bytes: &Bytes, limits: &Limits) -> Result<Index, Error> {
    let mut window = Window::new(bytes.len() as u64);
    for _ in 0..=MAX_ROUNDS {
        match formats::decode(&window, limits) {
            Ok(index) => return Ok(index),
            Err(Stop::Fail(e)) => return Err(e),
            Err(Stop::Need(ranges)) => {
                for range in ranges {
                    assert!(!range.is_empty(), "the requested range is empty");
                    assert!(range.end <= bytes.len() as u64, "it requests {range:?}");
                    window.add(range.start, bytes.slice(range.start as usize..range.end as usize));
                }
            }
        }
    }
    panic!("more than {MAX_ROUNDS} requests");
}
