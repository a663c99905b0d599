//! Runs models that are packed as Cartons, and their self-tests.
//!
//! Nothing here happens by itself: a model's code runs only when the caller asks for it.
#![deny(unsafe_code)]
