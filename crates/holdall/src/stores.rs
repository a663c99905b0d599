//! Object stores and hubs: files at `s3://`, `gs://`, `az://` and `hf://`, opened like files on the web.
//!
//! Credentials are looked up where each store's own programs look for them, or given by [`StoreOptions`];
//! messages never contain them.

#[cfg(feature = "stores")]
pub use holdall_io::stores::{Listed, NON_SECRET_OPTIONS, Staged, StagedFolder, StoreOptions};
pub use holdall_io::stores::{is_address, rules};
