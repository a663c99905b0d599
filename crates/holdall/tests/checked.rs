//! Checked reads: any read of all of a component compares it with its digest, mapped or read; and a file that
//! is verified as sound can be read.

use crate::corpus_files;
use holdall::layout::Grouping;
use holdall::{
    Check, Component, Convert, DiffOptions, ErrorKind, File, FloatType, Io, LoadOptions,
    OpenOptions, Result, Role, Select, StatsOptions, Tensor, TensorForm, TensorRecords as _,
    VerifyOptions, WriteOptions, convert_to, diff, formats, stats, verify,
};
use std::path::Path;

/// Larger files test nothing that smaller ones do not.
const MAX_LEN: u64 = 30_000;

/// A way to read all of a component of a tensor, or all components of the tensor.
type Reading<'a> = Box<dyn Fn(&Tensor, &Role) -> Result<()> + 'a>;

fn drained<T>(pieces: impl IntoIterator<Item = Result<T>>) -> Result<()> {
    pieces.into_iter().try_for_each(|piece| piece.map(drop))
}

fn whole(c: &Component) -> std::ops::Range<u64> {
    0..c.decoded_len.unwrap_or(0)
}

/// Returns all ways, by name.
fn readings(sound: &File) -> Vec<(&'static str, Reading<'_>)> {
    fn own<'a>(
        name: &'static str,
        read: impl Fn(&Tensor, &Role) -> Result<()> + 'a,
    ) -> (&'static str, Reading<'a>) {
        (name, Box::new(read))
    }
    let mut all = vec![
        own("load", |t, _| t.file().load([t.name()], &LoadOptions::new()).map(drop)),
        own("memory", |t, role| t.memory(role).map(drop)),
        own("read_into", |t, role| {
            let len = t.require(role)?.decoded_len.unwrap_or(0);
            t.read_into(role, &mut vec![0; len as usize])
        }),
        own("checked", |t, role| t.checked().bytes(role).map(drop)),
        own("pieces", |t, role| drained(t.pieces(role)?)),
        own("range", |t, role| t.bytes_range(role, whole(&t.require(role)?)).map(drop)),
        own("ranges", |t, role| {
            let end = whole(&t.require(role)?).end;
            // A whole number of elements of every width.
            let middle = end / 2 / 16 * 16;
            t.bytes_ranges(role, &[0..middle, middle..end]).map(drop)
        }),
        own("pieces_range", |t, role| drained(t.pieces_range(role, whole(&t.require(role)?))?)),
        own("rows", |t, _| t.rows(0..t.shape().first().copied().unwrap_or(0)).map(drop)),
        own("to_dense", |t, _| t.to_dense().map(drop)),
        own("csr", |t, _| t.csr().map(drop)),
        own("coo", |t, _| t.coo().map(drop)),
        own("tiles", |t, _| t.tiles().map(drop)),
        own("computed", |t, _| t.computed().map(drop)),
        own("dense_pieces", |t, _| drained(t.dense_pieces(Check::Read)?)),
        own("stats", |t, _| stats(t, &StatsOptions::new()).map(drop)),
        own("records", |t, _| drained(t.records()?.iter(0..t.records()?.len())?)),
        own("records in runs", |t, _| {
            t.records()?.par_chunks(&holdall::Work::new(), |_, _| Ok(()))
        }),
        own("blob", |t, _| drained(t.blob()?.at((0..t.blob()?.len()).collect()))),
        own("diff", |t, _| {
            let options = DiffOptions::new().with_select(only(t));
            let found = diff(sound, t.file(), &options)?;
            assert!(found.changed.is_empty(), "{:?}", found.changed);
            Ok(())
        }),
        own("diff of the other side", |t, _| {
            let options = DiffOptions::new().with_select(only(t));
            diff(t.file(), sound, &options).map(drop)
        }),
    ];
    let convert = |make: fn(Convert) -> Convert| {
        move |t: &Tensor, _: &Role| {
            let write = WriteOptions::new().with_format(formats::by_name("ztensor").unwrap());
            let options = make(Convert::new(write).with_select(only(t)).with_drop_attributes());
            convert_to(t.file(), Vec::new(), &options).map(drop)
        }
    };
    all.push(own("convert", convert(|c| c)));
    all.push(own("convert --encoding", convert(Convert::reencode)));
    all.push(own("convert --dense", convert(Convert::with_dense)));
    all.push(own("convert --sparse csr", convert(|c| c.with_dense().with_form(TensorForm::Csr))));
    all.push(own("convert --sparse coo", convert(|c| c.with_dense().with_form(TensorForm::Coo))));
    all.push(own(
        "convert --quantize",
        convert(|c| c.with_dense().with_form(TensorForm::Group(Grouping::new(4, None).unwrap()))),
    ));
    all.push(own(
        "convert --quantize q8_0",
        convert(|c| c.with_dense().with_form(TensorForm::new("q8_0").unwrap())),
    ));
    all.push(own("convert --dtype", convert(|c| c.with_dtype(FloatType::F32))));
    all.push(own("convert --sharing", convert(|c| c.with_sharing(holdall::Sharing::Dedupe))));
    all
}

fn only(t: &Tensor) -> Select {
    let others = t.file().names().filter(|name| *name != t.name());
    Select::all().without(others.map(str::to_owned))
}

fn open(path: &Path, io: Io) -> Result<File> {
    OpenOptions::new().with_io(io).open(path)
}

/// Returns the components to damage: each with a digest, and with bytes in the file itself.
fn damageable(file: &File) -> Vec<(Tensor, Component)> {
    let mut all = Vec::new();
    for t in file.tensors() {
        let own = t.components().filter(|c| {
            // An empty component has no bytes to return; a range of all bytes needs a known length.
            let has_bytes = c.decoded_len.is_some_and(|len| len > 0);
            let is_stored = c.stored.source == 0 && !c.stored.is_empty();
            is_stored
                && has_bytes
                && c.digest.as_ref().is_some_and(|digest| digest.algorithm().is_some())
        });
        all.extend(own.map(|c| (t.clone(), c)));
    }
    all
}

/// Returns the files of the corpus that are models in one short file.
fn accepted() -> Vec<std::path::PathBuf> {
    let mut all = corpus_files::files("accept");
    all.retain(|path| path.metadata().unwrap().len() <= MAX_LEN);
    all
}

#[test]
fn one_changed_bit_is_found_by_every_way_of_reading_all_of_a_component() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for path in accepted() {
        let Ok(sound) = holdall::open(&path) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let target = dir.path().join(path.file_name().unwrap());
        let all = damageable(&sound);
        let readings = readings(&sound);
        for (tensor, c) in all {
            let mut changed = bytes.clone();
            changed[(c.stored.start + c.stored.len() / 2) as usize] ^= 0x04;
            std::fs::write(&target, &changed).unwrap();
            for io in [Io::Map, Io::Read] {
                // Opening detects some of the damage.
                let Ok(damaged) = open(&target, io) else { continue };
                let Ok(t) = damaged.tensor(tensor.name()) else { continue };
                if t.fault().is_some() {
                    continue;
                }
                for (name, read) in &readings {
                    // Only reads that work on a sound file are meaningful.
                    if read(&tensor, &c.role).is_err() {
                        continue;
                    }
                    tried += 1;
                    let found = read(&t, &c.role).map_err(|e| (e.code(), e.kind()));
                    let is_found = match found {
                        Err(("file/digest", _)) => true,
                        // Compressed bytes may be found damaged before their digest is known.
                        Err((_, ErrorKind::Malformed | ErrorKind::Integrity)) => {
                            c.encoding != holdall::Encoding::Raw
                        }
                        _ => false,
                    };
                    if !is_found {
                        let place = format!("{} {} {}", path.display(), t.name(), c.role);
                        wrong.push(format!("{name} of {place} by {io:?}: {found:?}"));
                    }
                }
                let report = verify(&damaged, &VerifyOptions::new()).unwrap();
                if report.is_sound() {
                    wrong.push(format!("verify of {} {}", path.display(), t.name()));
                }
            }
        }
    }
    assert!(tried > 5_000, "{tried}");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A checksum over several components is compared by verifying and by copying.
#[test]
fn one_changed_bit_under_a_checksum_of_more_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for path in accepted() {
        let Ok(sound) = holdall::open(&path) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let target = dir.path().join(path.file_name().unwrap());
        for (number, checksum) in sound.checksums().enumerate() {
            let is_covered = |c: Component| sound.checksums_of(&c).contains(&number);
            let covered = |t: &Tensor| t.components().any(|c| c.digest.is_none() && is_covered(c));
            if checksum.stored().source != 0 {
                continue;
            }
            let Some(t) = sound.tensors().find(covered) else { continue };
            let Some(c) = t.components().find(|c| c.stored.chunked().is_none()) else { continue };
            let mut changed = bytes.clone();
            changed[(c.stored.start + c.stored.len() / 2) as usize] ^= 0x04;
            std::fs::write(&target, &changed).unwrap();
            for io in [Io::Map, Io::Read] {
                let damaged = open(&target, io).unwrap();
                tried += 1;
                let report = verify(&damaged, &VerifyOptions::new()).unwrap();
                if !report.findings.iter().any(|e| e.code() == "file/digest") {
                    wrong.push(format!("verify of {}", path.display()));
                }
                let write = WriteOptions::new().with_format(formats::by_name("ztensor").unwrap());
                let plain = Convert::new(write).with_select(only(&t)).with_drop_attributes();
                for options in [plain.clone(), plain.with_dense()] {
                    let found = convert_to(&damaged, Vec::new(), &options).map_err(|e| e.code());
                    if !matches!(found, Err("file/digest")) {
                        let found = found.map(drop);
                        wrong.push(format!("convert of {}: {found:?}", path.display()));
                    }
                }
            }
        }
    }
    assert!(tried > 0);
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Reads everything of a tensor that its layout has.
fn read_all(t: &Tensor) -> Result<()> {
    for c in t.components() {
        t.bytes(&c.role)?;
    }
    match *t.layout() {
        holdall::Layout::Records => t.records().map(drop),
        holdall::Layout::Blob => t.blob().map(drop),
        _ => t.to_dense().map(drop),
    }
}

#[test]
fn a_file_that_is_verified_as_sound_can_be_read() {
    let (mut wrong, mut sound) = (Vec::new(), 0);
    for path in accepted() {
        let bytes = std::fs::read(&path).unwrap();
        let mut state = (bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for number in 0..24 {
            let mut mutant = bytes.clone();
            if number > 0 && !mutant.is_empty() {
                for _ in 0..number % 3 + 1 {
                    let at = (next() % mutant.len() as u64) as usize;
                    mutant[at] = match next() % 3 {
                        0 => mutant[at] ^ 1 << (next() % 8),
                        1 => 0,
                        _ => next() as u8,
                    };
                }
            }
            let Ok(file) = OpenOptions::new().open_bytes(mutant, "mutant") else { continue };
            let Ok(report) = verify(&file, &VerifyOptions::new()) else { continue };
            if !report.is_sound() {
                continue;
            }
            sound += 1;
            for t in file.tensors() {
                let found = read_all(&t);
                let is_known = |e: &holdall::Error| {
                    matches!(
                        e.kind(),
                        ErrorKind::Unsupported | ErrorKind::Limit | ErrorKind::Misuse
                    )
                };
                if let Err(e) = found
                    && !is_known(&e)
                {
                    wrong.push(format!("{} mutant {number}: {e}", path.display()));
                }
            }
        }
    }
    assert!(sound > 1_000, "{sound}");
    assert!(wrong.is_empty(), "{} of {sound}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files of the corpus with one key of a chunk index changed: the dataset is a fault, and all others can be
/// read.
#[test]
fn wrong_keys_of_chunk_indexes_are_faults() {
    type Case = (&'static str, &'static [(usize, u8)], &'static str, &'static str);
    let cases: [Case; 4] = [
        ("h5py_sparse-earliest.h5", &[(40437, 2)], "early", "hdf5/chunk"),
        ("h5py_chunks-earliest.h5", &[(26769, 0), (26982, 16)], "c07", "hdf5/structure"),
        ("h5_chunked.h5", &[(29370, 4)], "sparse_chunks", "hdf5/chunk"),
        // With the matching checksum.
        (
            "h5py_chunks-v110.h5",
            &[
                (4162, 240),
                (4163, 255),
                (4164, 43),
                (4259, 240),
                (4260, 11),
                (4356, 159),
                (4357, 151),
                (4358, 255),
            ],
            "c02",
            "hdf5/structure",
        ),
    ];
    for (name, changes, tensor, code) in cases {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/hdf5");
        let mut bytes = std::fs::read(folder.join(name)).unwrap();
        changes.iter().for_each(|(at, value)| bytes[*at] = *value);
        let file = OpenOptions::new().open_bytes(bytes, name).unwrap();
        let report = verify(&file, &VerifyOptions::new()).unwrap();
        let codes: Vec<_> = report.findings.iter().map(|e| (e.tensor(), e.code())).collect();
        assert_eq!(codes, [(Some(tensor), code)], "{name}");
        let others = file.tensors().filter(|t| t.name() != tensor);
        others.for_each(|t| {
            assert!(t.fault().is_some() || read_all(&t).is_ok(), "{name} {}", t.name())
        });
    }
}
