//! What a host in JavaScript would call, so that nothing of it is left out: it puts a file into memory, asks what is in
//! it, and takes the elements of a component.

use holdall_core::read::{Decoded, Want};
use holdall_core::{Bytes, Component, Error, Index, Limits, Window, formats};

/// An open file, which the host holds by its address.
pub struct Opened {
    bytes: Bytes,
    index: Index,
}

/// Sets what nobody can guess of hashes: see `holdall_core::error::hash`.
#[unsafe(no_mangle)]
pub extern "C" fn seed(a: u64, b: u64) {
    #[cfg(target_family = "wasm")]
    holdall_core::error::hash::seed([a, b]);
    let _ = (a, b);
}

/// Memory for `len` bytes of the host's.
#[unsafe(no_mangle)]
pub extern "C" fn room(len: usize) -> *mut Vec<u8> {
    Box::into_raw(Box::new(vec![0; len]))
}

/// Opens the file whose bytes are in `room`. If that fails the result is null, and `room` holds the text of the error.
///
/// # Safety
/// `room` is what the function `room` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(room: *mut Vec<u8>) -> *mut Opened {
    // SAFETY: said above.
    let room = unsafe { &mut *room };
    let bytes = Bytes::from(std::mem::take(room));
    match formats::decode(&Window::whole(bytes.clone()), &Limits::default()) {
        Ok(index) => Box::into_raw(Box::new(Opened { bytes, index })),
        Err(e) => {
            *room = format!("{e:?}").into_bytes();
            std::ptr::null_mut()
        }
    }
}

/// The decoded bytes of a component, or the text of the error.
///
/// # Safety
/// `opened` is what [`open`] gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn component(opened: *const Opened, tensor: u32, at: usize) -> *mut Vec<u8> {
    // SAFETY: said above.
    let opened = unsafe { &*opened };
    let found = opened.index.tensors().nth(tensor as usize);
    let out = match found.and_then(|tensor| tensor.components().nth(at)) {
        Some(found) => decode(opened, tensor, found).unwrap_or_else(|e| format!("{e:?}").into()),
        None => b"there is no such component".to_vec(),
    };
    Box::into_raw(Box::new(out))
}

fn decode(opened: &Opened, tensor: u32, component: Component) -> Result<Vec<u8>, Error> {
    let stored = component.stored.range();
    let want = Want::new(tensor, component);
    let mut decoder = want.decoder(&Limits::default())?;
    decoder.push(opened.bytes.slice(stored.start as usize..stored.end as usize));
    let mut out = Vec::new();
    loop {
        match decoder.next()? {
            Decoded::Piece(piece) => out.extend_from_slice(&piece),
            Decoded::Need | Decoded::End => return Ok(out),
        }
    }
}
