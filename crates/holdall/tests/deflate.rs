//! A Deflate component is read like any other: at once, in pieces, by ranges, from a map and by reads.

use crate::carton_files::{Package, noise, tensor};
use holdall::{
    Check, Convert, Digest, Encoding, File, Io, LoadOptions, OpenOptions, Role, VerifyOptions,
    WriteOptions, convert_to, formats, verify,
};

/// More than one piece, and more than one job of a load.
const LEN: usize = 4_300_001;

fn package(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut p = Package::minimal();
    p.add("tensor_data/index.toml", tensor("x", "uint8", &format!("[{LEN}]"), "x.bin"));
    let entry = p.add("tensor_data/x.bin", noise(LEN));
    entry.deflate();
    change(&mut entry.stored);
    p.bytes()
}

fn open(bytes: &[u8], io: Io) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.carton");
    std::fs::write(&path, bytes).unwrap();
    OpenOptions::new().with_io(io).with_check(Check::All).open(&path).unwrap()
}

#[test]
fn every_way_gives_the_same_bytes() {
    let (bytes, content) = (package(|_| {}), noise(LEN));
    for io in [Io::Map, Io::Read] {
        let file = open(&bytes, io);
        let x = file.tensor("x").unwrap();
        let c = x.components().next().unwrap();
        assert_eq!((c.encoding, c.decoded_len), (Encoding::DEFLATE, Some(LEN as u64)));
        assert!(matches!(c.digest, Some(Digest::Sha256Decoded(_))), "{:?}", c.digest);
        assert!(x.bytes(&Role::Data).unwrap() == content);
        let mut pieces = Vec::new();
        x.pieces(&Role::Data).unwrap().for_each(|piece| pieces.extend_from_slice(&piece.unwrap()));
        assert!(pieces == content);
        let loaded = file.load(["x"], &LoadOptions::new()).unwrap();
        assert!(*loaded.get("x").unwrap().bytes(&Role::Data).unwrap() == content);
        for range in [0..1, 4_194_300..4_194_310, 4_299_999..LEN as u64, 5..5, 0..LEN as u64] {
            let found = x.bytes_range(&Role::Data, range.clone()).unwrap();
            assert!(found == content[range.start as usize..range.end as usize], "{range:?}");
        }
        assert!(
            x.rows(4_000_000..4_000_003).unwrap().into_bytes() == content[4_000_000..4_000_003]
        );
        assert!(verify(&file, &VerifyOptions::new()).unwrap().is_sound());
    }
}

/// No format that is written supports Deflate: copies are raw, even if encodings are kept.
#[test]
fn copies_are_decoded() {
    let file = open(&package(|_| {}), Io::Map);
    let options = WriteOptions::new().with_format(formats::by_name("ztensor").unwrap());
    let (_, bytes) = convert_to(&file, Vec::new(), &Convert::new(options)).unwrap();
    let copy = OpenOptions::new().open_bytes(bytes, "copy").unwrap();
    let x = copy.tensor("x").unwrap();
    assert_eq!(x.components().next().unwrap().encoding, Encoding::Raw);
    assert!(x.bytes(&Role::Data).unwrap() == noise(LEN));
}

#[test]
fn late_errors_are_found_in_every_way() {
    // The last block is not marked as the last; the stream ends before its declared length.
    let last = LEN / 0xffff * (0xffff + 5);
    type Change = fn(&mut Vec<u8>, usize);
    let cases: [(&str, Change); 3] = [
        ("deflate/broken", |stored, last| stored[last] = 0),
        ("deflate/broken", |stored, _| stored.push(0)),
        ("deflate/length", |stored, last| {
            stored.truncate(last);
            stored.extend([1, 0, 0, 0xff, 0xff]);
        }),
    ];
    for (code, change) in cases {
        let bytes = package(|stored| change(stored, last));
        for io in [Io::Map, Io::Read] {
            let file = open(&bytes, io);
            let x = file.tensor("x").unwrap();
            let at_once = x.bytes(&Role::Data).map(drop).map_err(|e| e.code());
            assert_eq!(at_once, Err(code));
            let pieces = x.pieces(&Role::Data).unwrap().try_for_each(|piece| piece.map(drop));
            assert_eq!(pieces.map_err(|e| e.code()), Err(code));
            let report = verify(&file, &VerifyOptions::new()).unwrap();
            assert_eq!(report.findings.iter().map(|e| e.code()).collect::<Vec<_>>(), [code]);
            // The start is valid.
            assert_eq!(x.bytes_range(&Role::Data, 0..3).unwrap(), noise(3));
        }
    }
}
