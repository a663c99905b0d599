//! Headers of `.npy` files.

pub use holdall_core::wire::npy::{
    Element, Field, Fields, HEADER_MAX, Header, Of, header, header_len, header_of, read,
};
