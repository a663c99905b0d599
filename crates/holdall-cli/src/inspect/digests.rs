//! What only reading whole components tells: SHA-256 of their decoded bytes, and how many there are
//! where the file does not say. Components are read on several threads.

use crate::exit::Failure;
use crate::output::text::printable;
use crate::session::Session;
use holdall::{Algorithm, ByteOrder, Component, Digest, Encoding, Error, Extent, Hasher, Tensor};
use std::collections::HashMap;
use std::sync::Mutex;

/// The code for a file that is only linked to.
const NOT_HERE: &str = "package/not-here";

/// What reading one component told.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentReading {
    pub(super) decoded_len: u64,
    /// SHA-256, where it was asked for.
    pub(super) digest: Option<Digest>,
}

/// What makes the decoded bytes of two components the same: equal keys.
type Key = (Extent, Encoding, ByteOrder, u64, Option<u64>);

fn key(c: &Component) -> Key {
    // Swapping bytes depends on the width; nothing else about the dtype matters.
    (c.stored, c.encoding, c.byte_order, c.turned_len(), c.decoded_len)
}

/// What was found, for components of any tensors of one file.
pub(super) struct Digests(HashMap<Key, ComponentReading>);

impl Digests {
    /// Reads every component of `tensors` whose digest is asked for (all of them, `with_sha256`) or
    /// whose decoded length is not known.
    pub(super) fn compute(
        session: &Session,
        tensors: &[Tensor],
        with_sha256: bool,
    ) -> Result<Digests, Failure> {
        let mut jobs = Vec::new();
        let mut found = HashMap::new();
        let mut total = 0;
        for tensor in tensors {
            for c in tensor.components() {
                let wanted = with_sha256 || c.decoded_len.is_none();
                if wanted && found.insert(key(&c), ComponentReading::default()).is_none() {
                    total += c.stored_len();
                    jobs.push((tensor, c));
                }
            }
        }
        if jobs.is_empty() {
            return Ok(Digests(found));
        }
        let work = session.work("reading");
        work.begin(total);
        let results = Mutex::new(found);
        let away = Mutex::new(Vec::new());
        work.for_each(
            jobs,
            || (),
            |(), (tensor, c)| {
                let told = match read(tensor, &c, with_sha256) {
                    // A file that a package links to, and that cannot be fetched, has no digest here.
                    Err(e) if e.code() == NOT_HERE => {
                        away.lock().unwrap_or_else(|p| p.into_inner()).push(e);
                        ComponentReading { decoded_len: c.decoded_len.unwrap_or(0), digest: None }
                    }
                    read => read?,
                };
                // A thread that panicked poisons nothing worth protecting here.
                results.lock().unwrap_or_else(|p| p.into_inner()).insert(key(&c), told);
                work.advance(c.stored_len())
            },
        )?;
        if !session.json() {
            let away = away.into_inner().unwrap_or_else(|p| p.into_inner());
            away.iter().for_each(|e| session.warn(printable(&e.to_string())));
        }
        Ok(Digests(results.into_inner().unwrap_or_else(|p| p.into_inner())))
    }

    /// What was found for `c`, if it was read.
    pub(super) fn get(&self, c: &Component) -> Option<&ComponentReading> {
        if self.0.is_empty() { None } else { self.0.get(&key(c)) }
    }
}

fn read(tensor: &Tensor, c: &Component, with_sha256: bool) -> Result<ComponentReading, Error> {
    let mut hasher = with_sha256.then(|| Hasher::new(Algorithm::Sha256));
    let mut decoded_len = 0;
    for piece in tensor.pieces(&c.role)? {
        let piece = piece?;
        decoded_len += piece.len() as u64;
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece);
        }
    }
    Ok(ComponentReading { decoded_len, digest: hasher.map(Hasher::finish) })
}
