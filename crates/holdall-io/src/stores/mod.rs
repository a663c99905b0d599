//! Object stores and hubs: files at `s3://`, `gs://`, `az://` and `hf://`.
//!
//! Each store is HTTP plus four things: the URL of an object, the signature of a request, the header that pins a
//! version, and the meaning of error responses. These are a [`Service`](crate::http::Service) of the HTTP client, so
//! that every request runs under its policy and with its retries. Credentials are looked up where each store's own
//! tools look for them, and never appear in messages.
//!
//! # How stores are read and written
//!
//! A service signs requests to its host, learns from responses (the region of a bucket, the commit of a branch),
//! names the header that pins a version, and explains error responses. Source, batches, retries and the policy are the
//! same as for the web. This is about 1,700 lines of our own over the blocking client, because the crate
//! `object_store`, which we tried, adds 55 crates and an asynchronous runtime to a build, has its own retries,
//! and returns errors as text. Output for a store is `Staged`: a temporary file whose path is passed to any
//! writer, and which is uploaded when it is complete. Uploading parts as they are written would need no disk
//! space, but packages are patched after their end is written, and a failed part is sent again from the file.

pub mod rules;

#[cfg(feature = "stores")]
mod address;
#[cfg(feature = "stores")]
mod azure;
#[cfg(feature = "stores")]
mod credentials;
#[cfg(feature = "stores")]
mod folder;
#[cfg(feature = "stores")]
mod google;
#[cfg(feature = "stores")]
mod hub;
#[cfg(feature = "stores")]
mod listing;
#[cfg(feature = "stores")]
mod open;
#[cfg(feature = "stores")]
mod options;
#[cfg(feature = "stores")]
mod profiles;
#[cfg(feature = "stores")]
mod refusals;
#[cfg(feature = "stores")]
mod s3;
#[cfg(feature = "stores")]
mod signing;
#[cfg(feature = "stores")]
mod upload;
#[cfg(feature = "stores")]
mod xml;

#[cfg(feature = "stores")]
use address::Address;
#[cfg(feature = "stores")]
pub(crate) use address::redacted;
#[cfg(feature = "stores")]
pub use folder::StagedFolder;
#[cfg(feature = "stores")]
pub use listing::Listed;
#[cfg(feature = "stores")]
pub use open::Stores;
#[cfg(feature = "stores")]
use open::{Expiring, Held, Store, fields, fields_in};
#[cfg(feature = "stores")]
pub use options::{NON_SECRET_OPTIONS, StoreOptions};
#[cfg(feature = "stores")]
pub use upload::Staged;

/// Returns `true` if an address can only be that of a folder: a bucket, or an address that ends with a slash.
#[cfg(feature = "stores")]
pub(crate) fn is_folder(text: &str) -> bool {
    Address::parse(text).is_ok_and(|address| address.is_folder())
}

/// The schemes of addresses that builds with the feature `stores` can open.
const SCHEMES: [&str; 9] = ["s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "hf"];

/// Returns `true` if a text is an address of an object store.
pub fn is_address(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Returns `true` if addresses with this scheme are those of an object store.
pub(crate) fn is_scheme(scheme: &str) -> bool {
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns an address in a form that may be displayed.
#[cfg(not(feature = "stores"))]
pub(crate) fn redacted(text: &str) -> String {
    text.to_owned()
}
