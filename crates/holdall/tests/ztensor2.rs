//! zTensor 2: what the published package wrote is read as it is.

mod described;
#[path = "../../holdall-core/tests/ztensor2_files/mod.rs"]
mod ztensor2_files;

use described::{code, dtype, hex, open};
use holdall::{Convert, Role, Value, WriteOptions, convert, verify};
use ztensor2_files::{array, map, object, of_object, of_part, part, rejects, text, uint, with};

/// Every part of every file that ztensor 2.1.2 wrote has its bytes, under its digests; what zTensor 1.2 holds is the same there.
#[test]
fn files_of_ztensor_have_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let files = described::files("ztensor2");
    for (path, wanted) in &files {
        let file = holdall::open(path).unwrap();
        assert_eq!((file.format(), file.version()), ("ztensor2", "2"));
        assert_eq!(file.len(), wanted.len(), "{}", path.display());
        let report = verify(&file, &Default::default()).unwrap();
        assert!(report.is_sound(), "{}: {:?}", path.display(), report.findings);
        let checked: u64 = report.digests.iter().map(|(_, count)| count).sum();
        assert_eq!(checked, report.components, "{}", path.display());
        let target = dir.path().join("out.zt");
        convert(&file, &target, &Convert::new(WriteOptions::new().with_overwrite(true))).unwrap();
        let converted = holdall::open(&target).unwrap();
        for wanted in wanted {
            let name = wanted["name"].as_str().unwrap();
            let tensor = file.tensor(name).unwrap();
            assert_eq!(tensor.layout().as_str(), wanted["layout"], "{name}");
            assert_eq!(serde_json::json!(tensor.shape()), wanted["shape"], "{name}");
            for (role, of) in wanted["components"].as_object().unwrap() {
                let role = Role::from_name(role);
                let place = format!("{} {name} {role}", path.display());
                let c = tensor.component(&role).unwrap();
                assert_eq!(dtype(&c), of["dtype"], "{place}");
                // Indices have 64 bits in zTensor 1.2.
                let is_widened = matches!(c.dtype, holdall::DType::U32)
                    && matches!(role, Role::Indices | Role::Indptr | Role::Coords);
                let both = [&tensor, &converted.tensor(name).unwrap()];
                for tensor in &both[..if is_widened { 1 } else { 2 }] {
                    assert_eq!(hex(&tensor.bytes(&role).unwrap()), of["sha256"], "{place}");
                    let pieces = tensor.pieces(&role).unwrap();
                    let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
                    assert_eq!(hex(&pieces.concat()), of["sha256"], "{place}");
                }
            }
        }
        assert!(file.load_all().is_ok(), "{}", path.display());
    }
    assert_eq!(files.len(), 5);
}

#[test]
fn every_reject_fails_with_its_code() {
    described::all_fail(rejects());
    assert_eq!(code(of_part(&part())), "");
}

#[test]
fn what_is_not_known_is_kept() {
    let attributes =
        map(&[("n", uint(300)), ("x", vec![0xf9, 0x3c, 0]), ("l", array(&[text("a")]))]);
    let fields = with(with(object(&part()), "layout", text("my.own/1")), "later", uint(1));
    let file = open(of_object(&fields, vec![("attributes", attributes)])).unwrap();
    assert_eq!(file.attributes().get("n"), Some(&Value::Integer(300)));
    assert_eq!(file.attributes().get("x"), Some(&Value::Float(1.0)));
    assert_eq!(file.tensor("w").unwrap().layout().as_str(), "my.own/1");
    assert!(file.index().unkept().join(" ").contains("`later`"));
    let typed = with(with(part(), "dtype", text("u8")), "type", text("my.type"));
    let fields = with(object(&typed), "shape", array(&[uint(16)]));
    let file = open(of_object(&fields, Vec::new())).unwrap();
    assert_eq!(file.warnings().first().map(|w| w.code), Some("index/logical-type"));
}
