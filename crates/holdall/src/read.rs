//! How stored bytes become elements: a plan of the ranges to fetch, and its execution with bytes that arrive
//! in any order.
//!
//! [`File::plan`](crate::File::plan) returns the ranges that a load will fetch. An [`Assembly`] executes a
//! plan for callers that fetch the bytes themselves.

pub use holdall_core::read::{
    Assembly, Decoded, DecodedPart, Fetch, FetchPart, FetchSizing, PartDecoder, Purpose, Want,
};
