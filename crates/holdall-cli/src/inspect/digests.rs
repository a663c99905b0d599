//! Properties of components that require reading them completely: the SHA-256 of the decoded bytes, and the decoded
//! length if the file does not store it. Components are read on several threads.

use crate::exit::Failure;
use crate::output::text::printable;
use crate::session::Session;
use holdall::{Algorithm, ByteOrder, Component, Digest, Encoding, Error, Extent, Hasher, Tensor};
use std::collections::HashMap;
use std::sync::Mutex;

/// The code of errors about linked files that are not available.
const NOT_HERE: &str = "package/not-here";

/// The result of reading a component.
#[derive(Debug, Clone, Default)]
pub(super) struct ComponentReading {
    pub(super) decoded_len: u64,
    /// The SHA-256, if it was requested.
    pub(super) digest: Option<Digest>,
}

/// Two components with equal keys have the same decoded bytes.
type Key = (Extent, Encoding, ByteOrder, u64, Option<u64>);

fn key(c: &Component) -> Key {
    // Reversing the byte order depends on the width; otherwise the dtype does not matter.
    (c.stored, c.encoding, c.byte_order, c.swap_unit_len(), c.decoded_len)
}

/// The results for components of one file.
pub(super) struct Digests(HashMap<Key, ComponentReading>);

impl Digests {
    /// Reads the components of `tensors` whose decoded length is unknown; with `with_sha256`, all of them.
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
                let result = match read(tensor, &c, with_sha256) {
                    // A linked file that cannot be fetched has no digest.
                    Err(e) if e.code() == NOT_HERE => {
                        away.lock().unwrap_or_else(|p| p.into_inner()).push(e);
                        ComponentReading { decoded_len: c.decoded_len.unwrap_or(0), digest: None }
                    }
                    read => read?,
                };
                // A panic cannot leave the data here inconsistent.
                results.lock().unwrap_or_else(|p| p.into_inner()).insert(key(&c), result);
                work.advance(c.stored_len())
            },
        )?;
        if !session.json() {
            let away = away.into_inner().unwrap_or_else(|p| p.into_inner());
            away.iter().for_each(|e| session.warn(printable(&e.to_string())));
        }
        Ok(Digests(results.into_inner().unwrap_or_else(|p| p.into_inner())))
    }

    /// Returns the result for a component, if it was read.
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
