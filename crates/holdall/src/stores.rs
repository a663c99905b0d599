//! Object stores and hubs: files at `s3://`, `gs://`, `az://` and `hf://`, opened as files on the web are.
//!
//! Credentials are found where each store's own programs look for them, or said by [`StoreOptions`]; they stand in no message.

#[cfg(feature = "stores")]
pub use holdall_io::stores::{Listed, NON_SECRET_OPTIONS, Staged, StagedFolder, StoreOptions};
pub use holdall_io::stores::{is_address, rules};
