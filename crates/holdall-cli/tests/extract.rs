//! `extract`: `.npy`, raw bytes, rows, components, conversions.

use crate::command::{accept, holdall};

const DENSE: &str = "ztensor/v1.2-dense_all.zt";

/// Returns the output of `extract` to a pipe.
fn raw(file: &str, args: &[&str]) -> Vec<u8> {
    let path = accept(file);
    let all = [&["extract", &path], args, &["-o", "-", "--format", "raw"]].concat();
    holdall(all).ends_with(0).raw
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn raw_bytes_are_those_of_the_component() {
    let all = raw(DENSE, &["t_i16"]);
    assert_eq!(all.len(), 30);
    assert_eq!(raw(DENSE, &["t_i16", "--rows", "1..2"]), all[10..20]);
    assert_eq!(raw(DENSE, &["t_i16", "--rows", "..1"]), all[..10]);
    assert_eq!(raw(DENSE, &["t_i16", "--rows", "3.."]), b"");
    // Compressed components too.
    let (zstd, name) = ("ztensor/v1.1-zstd.zt", "z_f32");
    let listed = holdall(["inspect", "--plain", &accept(zstd)]).out;
    let name = listed
        .lines()
        .find(|l| l.contains("\tzstd\t"))
        .map_or(name, |l| l.split('\t').next().unwrap());
    let all = raw(zstd, &[name]);
    let found = holdall(["inspect", "--json", &accept(zstd), "-t", name]).json();
    let tensor = &found["tensors"][0];
    assert_eq!(tensor["components"]["data"]["decoded_len"], all.len() as u64);
    if let Some(rows) = tensor["shape"][0].as_u64().filter(|r| *r > 1) {
        let row = all.len() / rows as usize;
        assert_eq!(raw(zstd, &[name, "--rows", "1..2"]), all[row..2 * row]);
    }
}

#[test]
fn npy_files_have_a_header_and_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("t.npy");
    let out = out.to_str().unwrap();
    let found = holdall(["extract", &accept(DENSE), "t_u16", "-o", out]).ends_with(0);
    assert!(found.err.ends_with("t.npy: u16 [3, 5], 158 B\n"), "{found:?}");
    let bytes = std::fs::read(out).unwrap();
    let (header, elements) = bytes.split_at(128);
    assert!(header.starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<u2', "));
    assert_eq!(elements, raw(DENSE, &["t_u16"]));
    // An existing file is kept.
    holdall(["extract", &accept(DENSE), "t_u8", "-o", out]).ends_with(2);
    assert_eq!(std::fs::read(out).unwrap(), bytes);
    let report = holdall(["extract", &accept(DENSE), "t_u8", "-o", out, "-f", "--json"]);
    let report = report.ends_with(0).json();
    assert_eq!((&report["dtype"], &report["len"]), (&"u8".into(), &(128 + 15).into()));
}

#[test]
fn types_that_numpy_lacks_are_converted_when_asked() {
    let path = accept(DENSE);
    let args = ["extract", &path, "t_bf16", "-o", "-", "--format", "npy"];
    let found = holdall([&args[..], &["--json"]].concat()).ends_with(4);
    assert_eq!(found.error()["code"], "npy/no-such-type");
    assert!(found.raw.is_empty());
    let found = holdall([&args[..], &["--as", "f32"]].concat()).ends_with(0);
    assert!(found.raw[..128].windows(3).any(|w| w == b"<f4"));
    // A bf16 is the upper half of an f32.
    let halves = raw(DENSE, &["t_bf16"]);
    let expected: Vec<f32> = halves
        .chunks_exact(2)
        .map(|b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16))
        .collect();
    let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&f32s(&found.raw[128..])), bits(&expected));
}

#[test]
fn components_and_dense_forms_of_sparse_tensors() {
    let sparse = "ztensor/v1.2-sparse.zt";
    let error = holdall(["extract", &accept(sparse), "csr_f32", "-o", "x.npy", "--json"]);
    assert_eq!(error.ends_with(2).error()["code"], "extract/which-component");
    let indices = raw(sparse, &["csr_f32", "--component", "indices"]);
    let columns: Vec<u64> =
        indices.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(columns, [1, 4, 0, 2, 5]);
    let dense = f32s(&raw(sparse, &["csr_f32", "--dense"]));
    assert_eq!(
        (dense.len(), dense[12], dense[20], dense[23]),
        (24, 1.5, f32::INFINITY, f32::NEG_INFINITY)
    );
    assert_eq!(f32s(&raw(sparse, &["csr_f32", "--dense", "--rows", "2..3"])), dense[12..18]);
    let error = holdall([
        "extract",
        &accept(sparse),
        "csr_f32",
        "--component",
        "x",
        "-o",
        "x.raw",
        "--json",
    ]);
    assert_eq!(error.ends_with(2).error()["code"], "file/no-component");
}

#[test]
fn impossible_options_are_misuse() {
    for (args, code) in [
        (&["t_f32", "-o", "-"][..], "extract/which-format"),
        (&["t_f32", "-o", "x.txt"], "extract/which-format"),
        (&["t_f33", "-o", "x.npy"], "file/no-tensor"),
        (&["t_f32", "-o", "x.npy", "--rows", "2..4"], "layout/rows"),
        (&["t_f32", "-o", "x.npy", "--rows", "2..1"], "usage/arguments"),
        (&["t_f32", "-o", "x.npy", "--rows", "2"], "usage/arguments"),
        (&["t_f32"], "usage/arguments"),
    ] {
        let path = accept(DENSE);
        let all = [&["extract", &path, "--json"], args].concat();
        assert_eq!(holdall(all).ends_with(2).error()["code"], code, "{args:?}");
    }
}

/// Values of unknown types are not converted to numbers, and no hint suggests it.
#[test]
fn unknown_types_are_not_made_numbers() {
    let file = accept("ztensor/made-1.2-logical_types.zt");
    let dir = tempfile::tempdir().unwrap();
    let name = "unknown";
    for format in ["npy", "raw"] {
        let out = dir.path().join(format!("x.{format}"));
        for to in ["f32", "f64"] {
            let out = out.to_str().unwrap();
            let found = holdall(["extract", &file, name, "--as", to, "-o", out, "--json"]);
            let error = found.ends_with(4).error();
            assert_eq!(
                (error["code"].as_str(), error["tensor"].as_str()),
                (Some("layout/unknown-type"), Some(name))
            );
            assert!(error["hint"].as_str().unwrap().contains("omit `--as`"), "{error}");
        }
        assert!(!out.exists());
    }
    let out = dir.path().join("x.npy");
    // If the type's name equals the dtype, it is not repeated.
    let own = ["extract", &file, "itself", "--as", "f32", "-o", out.to_str().unwrap(), "--json"];
    assert_eq!(holdall(own).json()["dtype"], "f32");
    std::fs::remove_file(&out).unwrap();
    let found = holdall(["extract", &file, "unknown", "-o", out.to_str().unwrap(), "--json"]);
    let error = found.ends_with(4).error();
    assert_eq!(error["code"], "npy/no-such-type");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--format raw") && !hint.contains("--as"), "{hint}");
    assert_eq!(raw("ztensor/made-1.2-logical_types.zt", &["unknown"]).len(), 8);
    // Statistics of it are refused too.
    let stats =
        holdall(["inspect", &file, "--stats", "--json", "-s", "unknown"]).ends_with(0).json();
    assert_eq!(stats["tensors"][0]["stats"], serde_json::Value::Null);
}

/// Components with elements smaller than a byte have as many elements as fit into their bytes.
#[test]
fn headers_fit_their_elements() {
    let file = accept("ztensor/made-1.2-logical_types.zt");
    for name in ["t_f4_e2m1", "t_f6_e2m3", "t_f6_e3m2", "t_f8_e4m3fn", "t_f8_e8m0"] {
        for part in [&[][..], &["--component", "data"]] {
            let args = ["extract", &file, name, "--as", "f64", "-o", "-", "--format", "npy"];
            let found = holdall([&args[..], part].concat()).ends_with(0);
            let header = String::from_utf8_lossy(&found.raw[..128]).into_owned();
            assert!(header.contains("(2, 4)"), "{header}");
            assert_eq!(found.raw.len(), 128 + 8 * 8, "{name}");
        }
    }
}

#[test]
fn pairs_of_numbers_are_not_made_one() {
    let file = accept("ztensor/made-1.2-logical_types.zt");
    let all = holdall(["inspect", &file, "--json"]).json();
    let tensors = all["tensors"].as_array().unwrap();
    let name_of = |logical_type: &str| {
        let is_it =
            |t: &&serde_json::Value| t["components"]["data"]["logical_type"] == logical_type;
        tensors.iter().find(is_it).unwrap()["name"].as_str().unwrap()
    };
    let name = name_of("complex64");
    for format in ["npy", "raw"] {
        let args = ["extract", &file, name, "--as", "f32", "-o", "-", "--json", "--format", format];
        let found = holdall(args).ends_with(2);
        let error = found.error();
        assert_eq!(error["code"], "layout/not-a-number");
        assert_eq!(
            (error["source"].as_str(), error["tensor"].as_str()),
            (Some(&*file), Some(name))
        );
        assert!(error["hint"].as_str().unwrap().contains("omit `--as`"), "{error}");
        assert_eq!(found.out, "");
    }
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    holdall(["extract", &file, name, "-o", &out("c.npy")]).ends_with(0);
    // NumPy has no half-precision complex type, and a pair is not converted to one number.
    let half = ["extract", &file, name_of("complex32"), "-o", &out("h.npy"), "--json"];
    let hint = holdall(half).ends_with(4).error()["hint"].clone();
    assert_eq!(hint, "`--format raw` writes the bytes as they are");
    let again = ["extract", &file, name, "-o", &out("./c.npy"), "--json"];
    assert_eq!(holdall(again).ends_with(2).error()["source"], out("./c.npy"));
}

/// A dense copy is written in pieces, with less memory than its length; if only some rows are requested, only those are
/// converted.
#[cfg(target_os = "linux")]
#[test]
fn dense_copies_are_made_in_pieces() {
    use holdall::{ComponentSpec, DType, Layout, Role, TensorSpec, WriteOptions, Writer};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (rows, columns) = (9u64 << 10, 2u64 << 10);
    let words = |words: &mut dyn Iterator<Item = u64>| words.flat_map(u64::to_le_bytes).collect();
    let indptr: Vec<u8> = words(&mut (0..=rows));
    let indices: Vec<u8> = words(&mut (0..rows).map(|row| row * 7 % columns));
    let values: Vec<u8> = (0..rows).flat_map(|row| (row as f32 + 1.0).to_le_bytes()).collect();
    let mut spec = TensorSpec::dense("w", DType::F32, [rows, columns]);
    spec.layout = Layout::SparseCsr;
    spec.components = vec![
        ComponentSpec::new(Role::Values, DType::F32, values.len() as u64),
        ComponentSpec::new(Role::Indices, DType::U64, indices.len() as u64),
        ComponentSpec::new(Role::Indptr, DType::U64, indptr.len() as u64),
    ];
    let mut writer = Writer::create(path("w.zt"), &WriteOptions::new()).unwrap();
    writer.add(spec, &[&values, &indices, &indptr]).unwrap();
    writer.finish().unwrap();
    // 72 MiB of elements.
    let status = std::process::Command::new("sh")
        .args(["-c", "ulimit -d 65536 && exec \"$0\" \"$@\""])
        .args(crate::command::words())
        .args(["extract", &path("w.zt"), "w", "--dense", "-o", &path("w.raw"), "--quiet"])
        .env("MALLOC_ARENA_MAX", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let wanted = |row: u64| {
        let mut out = vec![0.0; columns as usize];
        out[(row * 7 % columns) as usize] = row as f32 + 1.0;
        out
    };
    let whole = std::fs::read(path("w.raw")).unwrap();
    let row = columns as usize * 4;
    assert_eq!(whole.len(), rows as usize * row);
    assert!((0..rows).zip(whole.chunks(row)).all(|(at, row)| f32s(row) == wanted(at)));
    let args = ["extract", &path("w.zt"), "w", "--dense", "--rows", "9000..9002"];
    holdall([&args[..], &["-o", &path("rows.raw")]].concat()).ends_with(0);
    let some = f32s(&std::fs::read(path("rows.raw")).unwrap());
    assert_eq!(some, [wanted(9000), wanted(9001)].concat());
    let args = ["extract", &path("w.zt"), "w", "--dense", "--rows", "9216..9217"];
    let e = holdall([&args[..], &["-o", &path("none.raw"), "--json"]].concat()).ends_with(2);
    assert_eq!(e.error()["code"], "layout/rows");
}

/// Returns the header of an `.npy` file and the bytes after it.
fn npy(path: &str) -> (String, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let len = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    (String::from_utf8(bytes[10..len].to_vec()).unwrap(), bytes[len..].to_vec())
}

/// Every dense or strided tensor written by PyTorch and NumPy is extracted in row-major order, as an independent reader
/// has it.
#[test]
fn extracted_files_are_read_by_other_libraries() {
    use sha2::Digest as _;
    let dir = tempfile::tempdir().unwrap();
    let (out, mut seen) = (dir.path().join("x.npy").to_str().unwrap().to_owned(), [0, 0]);
    for (path, expected) in crate::command::golden() {
        let path = path.to_str().unwrap();
        if !path.contains("/pytorch/") && !path.contains("/numpy/") {
            continue;
        }
        let listed = holdall(["inspect", "--json", path]).ends_with(0).json();
        for tensor in listed["tensors"].as_array().unwrap() {
            let wanted = expected["tensors"].as_array().unwrap();
            let wanted = wanted.iter().find(|t| t["name"] == tensor["name"]).unwrap();
            let is_strided = tensor["layout"] == "strided";
            let sum = match &wanted["dense_sha256"] {
                // For NumPy files, the description contains the elements in stored order.
                serde_json::Value::Null if !is_strided => &wanted["components"]["data"]["sha256"],
                sum => sum,
            };
            if !(is_strided || tensor["layout"] == "dense") || sum.is_null() {
                continue;
            }
            let name = tensor["name"].as_str().unwrap();
            let ran = holdall(["extract", path, name, "-o", &out, "--force"]);
            // Types that NumPy does not have.
            if ran.status != 0 {
                assert!(ran.err.contains("npy/no-such-type"), "{path} {name}: {}", ran.err);
                continue;
            }
            let (header, bytes) = npy(&out);
            let digest = sha2::Sha256::digest(&bytes);
            let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(found, sum.as_str().unwrap(), "{path} {name}");
            assert!(header.contains("'fortran_order': False"), "{path} {name}");
            seen[usize::from(is_strided)] += 1;
        }
    }
    assert!(seen[0] > 20 && seen[1] > 3, "{seen:?}");
}

/// Records have the type of a structured array, and rows are records.
#[test]
fn records_of_numpy_come_out_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.npy").to_str().unwrap().to_owned();
    let source = accept("numpy/npy_records_big.npy");
    holdall(["extract", &source, "data", "-o", &out]).ends_with(0);
    let (header, all) = npy(&out);
    assert!(header.contains("'descr': [("), "{header}");
    let found = holdall(["inspect", "--json", &source]).json();
    let count = found["tensors"][0]["shape"][0].as_u64().unwrap() as usize;
    let row = all.len() / count;
    holdall(["extract", &source, "data", "-o", &out, "-f", "--rows", "1..2"]).ends_with(0);
    assert_eq!(npy(&out).1, all[row..2 * row]);
    assert_eq!(raw("numpy/npy_records_big.npy", &["data", "--rows", "1..2"]), all[row..2 * row]);
    let error = holdall(["extract", &source, "data", "-o", &out, "-f", "--as", "f32", "--json"]);
    assert_eq!(error.ends_with(2).error()["code"], "layout/not-a-number");
}

/// A file larger than the available address space can be read.
#[test]
#[cfg(target_os = "linux")]
fn a_file_larger_than_the_address_space_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.safetensors");
    // 64 GiB of zeros in a sparse file, which takes no disk space.
    let len: u64 = 64 << 30;
    let header =
        format!("{{\"w\":{{\"dtype\":\"U8\",\"shape\":[{len}],\"data_offsets\":[0,{len}]}}}}");
    let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(&path, &start).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    if file.set_len(start.len() as u64 + len).is_err() {
        return;
    }
    let ran = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 16777216; exec \"$0\" \"$@\""])
        .args(crate::command::words())
        .args(["extract", path.to_str().unwrap(), "w", "--rows", "5..9"])
        .args(["-o", "-", "--format", "raw"])
        .output()
        .unwrap();
    assert_eq!(
        (ran.status.code(), ran.stdout),
        (Some(0), vec![0; 4]),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
