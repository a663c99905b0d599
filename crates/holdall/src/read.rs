//! How stored bytes become elements: a plan of what to fetch, and its execution with bytes that arrive in any order.
//!
//! [`File::plan`](crate::File::plan) returns what a load will fetch. An [`Assembly`] carries out a plan for callers
//! who fetch the bytes themselves.

pub use holdall_core::read::{
    Assembly, Decoded, DecodedPart, Fetch, FetchPart, FetchSizing, PartDecoder, Purpose, Want,
};
