//! The inputs of a target, by number. They are always the same for one seed.

use crate::mutate::mutate;
use crate::random::Random;
use holdall_fuzz::{Form, Target};
use std::path::{Path, PathBuf};

/// The files that inputs are made from.
pub(crate) struct Inputs {
    target: &'static Target,
    regressions: Vec<Vec<u8>>,
    seeds: Vec<Vec<u8>>,
}

impl Inputs {
    /// Reads the regressions and seeds of a target.
    pub(crate) fn for_target(target: &'static Target) -> Result<Inputs, String> {
        let regressions = files(&root().join("fuzz/regressions").join(target.name))?;
        let mut seeds = Vec::new();
        for folder in target.seeds.iter() {
            for file in files(&root().join(folder))? {
                seeds.extend((target.seeds_of_file)(&file));
            }
        }
        // Many files of the corpus are alike in what a target reads.
        seeds.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        seeds.dedup();
        if seeds.is_empty() {
            return Err(format!("no file of {:?} gives a seed for {}", target.seeds, target.name));
        }
        Ok(Inputs { target, regressions, seeds })
    }

    /// Returns the number of inputs that precede the generated ones: regressions, then seeds.
    pub(crate) fn known(&self) -> u64 {
        (self.regressions.len() + self.seeds.len()) as u64
    }

    /// Returns the numbers of the first few seeds.
    pub(crate) fn first_seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let start = self.regressions.len() as u64;
        start..start + self.seeds.len().min(4) as u64
    }

    /// Returns the input `number` under `seed`.
    pub(crate) fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        let known = self.regressions.iter().chain(&self.seeds).nth(number as usize);
        if let Some(known) = known {
            return known.clone();
        }
        let mut random = Random::new(self.target.name, seed, number - self.known());
        let regressions = if random.below(8) == 0 { self.regressions.as_slice() } else { &[] };
        let base = match regressions {
            [] => &self.seeds[random.below(self.seeds.len())],
            some => &some[random.below(some.len())],
        };
        let other = self.seeds[random.below(self.seeds.len())].as_slice();
        match self.target.form {
            Form::Bytes => {
                let mut bytes = base.clone();
                mutate(&mut random, &mut bytes, other);
                bytes
            }
            Form::File => file(&mut random, base, other),
            Form::Pair => {
                let (a, b) = pair(base);
                let other = pair(other).0;
                let (a, b) = match random.below(8) {
                    0 => (file(&mut random, a, other), file(&mut random, b, other)),
                    1 => (a.to_vec(), other.to_vec()),
                    2..=4 => (a.to_vec(), file(&mut random, b, other)),
                    _ => (file(&mut random, a, other), b.to_vec()),
                };
                [&(a.len() as u32).to_le_bytes(), &a[..], &b[..]].concat()
            }
        }
    }
}

/// Returns a mutated file. In half of the cases the number that gives the length of the manifest or header is adjusted.
fn file(random: &mut Random, base: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = base.to_vec();
    mutate(random, &mut bytes, other);
    if random.below(2) == 0 {
        let more = (bytes.len() as u64).wrapping_sub(base.len() as u64);
        let at = match base {
            [b'Z', b'T', ..] if base.ends_with(b"ZTEN1000") => bytes.len().checked_sub(16),
            [b'Z', b'T', ..] => bytes.len().checked_sub(8),
            _ => Some(0),
        };
        if let Some(word) = at.and_then(|at| bytes.get_mut(at..)?.first_chunk_mut::<8>()) {
            *word = u64::from_le_bytes(*word).wrapping_add(more).to_le_bytes();
        }
    }
    bytes
}

fn pair(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return (bytes, &[]) };
    rest.split_at((u32::from_le_bytes(*len) as usize).min(rest.len()))
}

/// Returns the files of a folder, sorted by name; empty if there is no such folder.
fn files(folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let paths = entries.filter_map(|e| e.ok().map(|e| e.path()));
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let read = |path: PathBuf| std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()));
    paths.into_iter().map(read).collect()
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    // This crate is directly below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
