//! Parquet and Arrow files on the command line: read and written, checked against pyarrow where it is installed; and
//! the errors of a build without these formats.

mod command;

use command::{holdall, holdall_with};
use std::path::PathBuf;

/// The schema of records with members of several types.
const SCHEMA: &str = r#"{"TypeDef:Struct": ["id", "name", "kind", "v", "tags", "raw", "at"], "required": ["id", "kind", "v", "tags"],
    "properties": {"id": {"TypeDef:Int64": true}, "name": {"TypeDef:String": true}, "kind": {"enum": ["a", "b"], "TypeDef:Enum": true},
    "v": {"type": "array", "items": {"TypeDef:Float32": true}, "minItems": 2, "maxItems": 2, "TypeDef:Array": true},
    "tags": {"type": "array", "items": {"TypeDef:String": true}, "TypeDef:Array": true},
    "raw": {"TypeDef:Bytes": true}, "at": {"TypeDef:Timestamp": true}}}"#;

struct Folder(tempfile::TempDir);

impl Folder {
    /// Creates a temporary folder with `d.mt`, a file of 50 records.
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let lines: String = (0..50)
            .map(|i| {
                let name = if i % 5 == 0 { String::new() } else { format!(r#""name": "n{i} ü", "#) };
                let kind = if i % 2 == 0 { "a" } else { "b" };
                format!(
                    r#"{{"id": {i}, {name}"kind": "{kind}", "v": [{i}.5, -1], "tags": ["t", "{i}"], "raw": "AQI=", "at": "2024-05-01T00:00:{i:02}Z"}}"#
                ) + "\n"
            })
            .collect();
        std::fs::write(folder.path("s.json"), SCHEMA).unwrap();
        let (schema, out) = (folder.at("s.json"), folder.at("d.mt"));
        let args = ["build", "--schema", &schema, "--records", "-", "-o", &out, "-q"];
        holdall_with(args, lines.as_bytes()).ends_with(0);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn records_without_types_want_a_schema() {
    let folder = Folder::new();
    std::fs::write(folder.path("x.csv"), "id\n1\n").unwrap();
    let (table, out) = (folder.at("x.csv"), folder.at("x.mt"));
    let ran = holdall(["build", "--records", &table, "-o", &out]).ends_with(2);
    assert!(ran.err.contains("holdall schema infer FILE"), "{}", ran.err);
    assert!(!folder.path("x.mt").exists());
}

#[test]
fn text_is_written_by_another_command() {
    let folder = Folder::new();
    for (name, option) in
        [("d.csv", "`holdall records IN --csv`"), ("d.ndjson", "`holdall records IN --json`")]
    {
        let ran = holdall(["convert", &folder.at("d.mt"), &folder.at(name)]).ends_with(2);
        assert!(ran.err.contains(option), "{}", ran.err);
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_them_says_so() {
    let folder = Folder::new();
    let (data, out) = (folder.at("d.mt"), folder.at("d.parquet"));
    std::fs::write(folder.path("x.parquet"), b"PAR1").unwrap();
    let (table, made) = (folder.at("x.parquet"), folder.at("x.mt"));
    for args in [
        &["convert", &data, &out][..],
        &["records", &data, "--parquet", &out],
        &["records", &data, "--arrow", &out],
        &["convert", &table, &made],
        &["build", "--records", &table, "-o", &made],
        &["schema", "infer", &table],
    ] {
        let ran = holdall(args).ends_with(4);
        assert!(
            ran.err.contains("`parquet`") || ran.err.contains("this build does not"),
            "{ran:?}"
        );
        assert!(ran.err.contains("pyarrow") && ran.err.contains("records/no-parquet"), "{ran:?}");
    }
    assert!(!folder.path("d.parquet").exists() && !folder.path("x.mt").exists());
}

#[cfg(feature = "parquet")]
mod built {
    use super::*;
    use serde_json::{Value, json};
    use std::process::Command;

    fn records(file: &str) -> Vec<Value> {
        let found = holdall(["records", file, "--json"]).ends_with(0).out;
        found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_dataset_goes_out_and_comes_back() {
        let folder = Folder::new();
        let (data, schema) = (folder.at("d.mt"), folder.at("s.json"));
        for name in ["d.parquet", "d.arrow"] {
            let (out, back, under) = (folder.at(name), folder.at("b.mt"), folder.at("u.mt"));
            let report = holdall(["convert", &data, &out, "--json"]).ends_with(0).json();
            let len = std::fs::metadata(&out).unwrap().len();
            assert_eq!(report["target_len"], len);
            assert_eq!((&report["records"], &report["target"]), (&json!(50), &json!(out)));
            // Without a schema, an enum is read as text; with its original schema, the file is the same as before.
            holdall(["convert", &out, &back, "-f"]).ends_with(0);
            assert_eq!(records(&back), records(&data));
            holdall(["convert", &out, &under, "-f", "--schema", &schema]).ends_with(0);
            holdall(["diff", &data, &under]).ends_with(0);
            holdall(["schema", "check", &schema, &out]).ends_with(0);
            let e = holdall(["convert", &data, &out]).ends_with(2);
            assert!(e.err.contains("write/exists"), "{}", e.err);
            // From a pipe, which has no file name extension.
            let form = if name == "d.arrow" { "arrow" } else { "parquet" };
            let args = ["build", "--records", "-", "--form", form, "-o", &back, "-f"];
            holdall_with(args, &std::fs::read(&out).unwrap()).ends_with(0);
            assert_eq!(records(&back), records(&data));
            let ran = holdall(["inspect", &out]).ends_with(4);
            assert!(ran.err.contains("holdall build"), "{}", ran.err);
        }
    }

    #[test]
    fn chosen_records_and_members_go_out() {
        let folder = Folder::new();
        let (data, out) = (folder.at("d.mt"), folder.at("few.parquet"));
        let args = ["records", &data, "--where", "kind=b", "--sort", "-id", "--columns", "id,v[0]"];
        let args = [&args[..], &["--range", "..10", "--parquet", &out]].concat();
        let ran = holdall(&args).ends_with(0);
        assert!(ran.err.contains("few.parquet: Parquet, 5 records, "), "{}", ran.err);
        let back = folder.at("few.mt");
        holdall(["build", "--records", &out, "-o", &back]).ends_with(0);
        let first = json!({"id": 9, "v[0]": 9.5});
        assert_eq!((records(&back).len(), &records(&back)[0]), (5, &first));
    }

    #[test]
    fn impossible_options_are_refused() {
        let folder = Folder::new();
        let (data, out, other) = (folder.at("d.mt"), folder.at("o.parquet"), folder.at("o.arrow"));
        let no = |args: &[&str], status: i32, says: &str| {
            let ran = holdall(args).ends_with(status);
            assert!(ran.err.contains(says), "{}", ran.err);
        };
        no(&["convert", &data, &out, "--dtype", "f16"], 2, "`--dtype` applies to tensors");
        no(
            &["convert", &data, &out, "--encoding", "zstd"],
            2,
            "`--encoding` does not apply to files of columns",
        );
        no(&["records", &data, "--parquet", "-"], 2, "cannot be written to standard output");
        no(&["records", &data, "--parquet", &out, "--csv"], 2, "cannot be used with");
        no(&["records", &data, "--force"], 2, "--parquet");
        assert!(!folder.path("o.parquet").exists());
        holdall(["convert", &data, &out]).ends_with(0);
        no(&["convert", &out, &other], 2, "are both files of columns");
        let cut = std::fs::read(&out).unwrap();
        std::fs::write(folder.path("cut.parquet"), &cut[..cut.len() - 3]).unwrap();
        let (cut, made) = (folder.at("cut.parquet"), folder.at("cut.mt"));
        no(&["convert", &cut, &made], 1, "input/columns");
        assert!(!folder.path("cut.mt").exists());
    }

    /// Files that pyarrow wrote: decimals, and pages of gzip.
    #[test]
    fn decimals_and_pages_of_gzip_are_read_and_come_back() {
        let folder = Folder::new();
        for (name, bytes) in [
            ("dec", &include_bytes!("columns_files/dec.parquet")[..]),
            ("gzip", include_bytes!("columns_files/gzip.parquet")),
            ("types", include_bytes!("columns_files/types.parquet")),
        ] {
            std::fs::write(folder.path(&format!("{name}.parquet")), bytes).unwrap();
            let (from, to) =
                (folder.at(&format!("{name}.parquet")), folder.at(&format!("{name}.mt")));
            holdall(["convert", &from, &to]).ends_with(0);
        }
        let dec = json!([{"id": 1, "d": "12.34", "s": "a"}, {"id": 2, "s": "b"}, {"d": "-0.05"}]);
        assert_eq!(json!(records(&folder.at("dec.mt"))), dec);
        let gzip = json!([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}, {}]);
        assert_eq!(json!(records(&folder.at("gzip.mt"))), gzip);
        let types = json!([
            {"d": "1.50", "big": "1.50", "m": [{"key": "a", "value": 1}, {"key": "b"}], "n": 10, "x": 1.5,
             "s": "x", "list": ["1.10"], "in": {"k": "1.0"}},
            {"m": [], "n": 20, "x": 1.5, "s": "y", "list": [], "in": {}},
            {"d": "-2.25", "big": "-2.25", "x": 2.5, "s": "x", "list": ["9.99"], "in": {"k": "3.5"}},
        ]);
        assert_eq!(json!(records(&folder.at("types.mt"))), types);
        let ran = holdall(["records", &folder.at("dec.mt"), "--where", "d>0.5", "--count"]);
        assert_eq!(ran.ends_with(0).out.trim(), "1");
        // They come back as decimals and maps: the schema of the written file is the same.
        for name in ["dec", "types"] {
            let (made, out) = (folder.at(&format!("{name}.mt")), folder.at("back.parquet"));
            holdall(["convert", &made, &out, "-f"]).ends_with(0);
            let back = folder.at("back.mt");
            holdall(["convert", &out, &back, "-f"]).ends_with(0);
            assert_eq!(records(&back), records(&made));
            if name == "dec" {
                holdall(["diff", &back, &made]).ends_with(0);
            }
        }
        // A schema may want floats instead.
        let schema = r#"{"TypeDef:Struct": ["d"], "properties": {"d": {"TypeDef:Float64": true}}}"#;
        std::fs::write(folder.path("f.json"), schema).unwrap();
        let (from, to, schema) = (folder.at("dec.parquet"), folder.at("f.mt"), folder.at("f.json"));
        let args = ["build", "--records", &from, "--schema", &schema, "--ignore-unknown"];
        holdall([&args[..], &["-o", &to]].concat()).ends_with(0);
        assert_eq!(json!(records(&to)), json!([{"d": 12.34}, {}, {"d": -0.05}]));
    }

    /// Texts and times of NumPy, named values and texts of HDF5 are texts and times.
    #[test]
    fn texts_and_times_are_columns_of_their_own_types() {
        let folder = Folder::new();
        std::fs::write(folder.path("names.npy"), include_bytes!("columns_files/names.npy"))
            .unwrap();
        let (names, out, back) =
            (folder.at("names.npy"), folder.at("names.parquet"), folder.at("names.mt"));
        holdall(["records", &names, "--parquet", &out]).ends_with(0);
        holdall(["convert", &out, &back]).ends_with(0);
        let wanted = json!([
            {"id": 1, "n": "Zoë", "s": "ab", "v": 2.5, "t": "2024-05-01T12:00:00Z"},
            {"id": 2, "n": "Al", "s": "", "v": 1e300},
        ]);
        assert_eq!(json!(records(&back)), wanted);
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../holdall-formats/tests/types_files/enum.h5");
        holdall(["records", path, "--parquet", &out, "--force"]).ends_with(0);
        holdall(["convert", &out, &back, "-f"]).ends_with(0);
        assert_eq!(records(&back)[0]["lvl"], "LOW");
    }

    /// Returns a Python interpreter that has pyarrow.
    fn pyarrow() -> Option<PathBuf> {
        let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let all = [target.join("python-package/venv/bin/python"), PathBuf::from("python3")];
        let has = |python: &PathBuf| {
            let ran = Command::new(python).args(["-c", "import pyarrow.parquet"]).output();
            ran.is_ok_and(|ran| ran.status.success())
        };
        all.into_iter().find(has)
    }

    #[track_caller]
    fn python(python: &PathBuf, folder: &Folder, code: &str) {
        let ran = Command::new(python).args(["-c", code]).current_dir(folder.0.path()).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    #[test]
    fn pyarrow_reads_written_files() {
        let Some(with) = pyarrow() else {
            eprintln!("SKIPPED: there is no python3 with pyarrow");
            return;
        };
        let folder = Folder::new();
        let (data, parquet, arrow) =
            (folder.at("d.mt"), folder.at("d.parquet"), folder.at("d.arrow"));
        holdall(["convert", &data, &parquet]).ends_with(0);
        holdall(["convert", &data, &arrow]).ends_with(0);
        python(&with, &folder, "\
import datetime, pyarrow as pa, pyarrow.parquet as pq
mapped = pa.ipc.open_file(pa.memory_map('d.arrow')).read_all()
for table in (pq.read_table('d.parquet'), mapped):
    assert table.num_rows == 50
    row = table.slice(7, 1).to_pylist()[0]
    at = row.pop('at')
    assert at.value == 1714521607 * 10**9 if hasattr(at, 'value') else at.timestamp() == 1714521607, at
    assert row == {'id': 7, 'name': 'n7 ü', 'kind': 'b', 'v': [7.5, -1.0], 'tags': ['t', '7'], 'raw': b'\\x01\\x02'}, row
    assert table['name'].null_count == 10 and not table.schema.field('id').nullable
    assert pa.types.is_dictionary(table.schema.field('kind').type), table.schema
assert pq.ParquetFile('d.parquet').metadata.row_group(0).column(0).compression == 'SNAPPY'
");
    }

    #[test]
    fn files_written_by_pyarrow_are_read() {
        let Some(with) = pyarrow() else {
            eprintln!("SKIPPED: there is no python3 with pyarrow");
            return;
        };
        let folder = Folder::new();
        python(&with, &folder, "\
import datetime, pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as feather
n = 5000
t = pa.table({
    'id': pa.array(range(n), pa.int32()), 'f': pa.array([i / 3 for i in range(n)]),
    's': pa.array([None if i % 7 == 0 else 'text %d' % i for i in range(n)]),
    'cat': pa.array(['abcd'[i % 4] for i in range(n)]).dictionary_encode(),
    'b': pa.array([bytes([i % 256]) * (i % 9) for i in range(n)]),
    'at': pa.array([datetime.datetime(2024, 1, 1) + datetime.timedelta(milliseconds=i) for i in range(n)], pa.timestamp('ms')),
    'l': pa.array([list(range(i % 4)) for i in range(n)]), 'ls': pa.array([['x%d' % j for j in range(i % 3)] for i in range(n)]),
    'v': pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.float32(), 2)),
    'st': pa.array([{'x': i, 'y': None if i % 3 else 'q'} for i in range(n)]), 'h': pa.array(range(n), pa.float16()),
})
for name in ('snappy', 'zstd', 'lz4', 'none', 'gzip', 'brotli'):
    pq.write_table(t, name + '.parquet', compression=name, row_group_size=2000)
plain = {'s': 'DELTA_BYTE_ARRAY', 'id': 'DELTA_BINARY_PACKED', 'f': 'BYTE_STREAM_SPLIT'}
pq.write_table(t, 'encoded.parquet', use_dictionary=False, column_encoding=plain, data_page_version='2.0')
for name in (None, 'lz4', 'zstd'):
    options = pa.ipc.IpcWriteOptions(compression=name)
    with pa.ipc.new_file(str(name) + '.arrow', t.schema, options=options) as w: w.write_table(t, 700)
    with pa.ipc.new_stream(str(name) + '.arrows', t.schema, options=options) as w: w.write_table(t, 700)
feather.write_feather(t, 'own.feather')
pq.write_table(pa.table({'price': pa.array([1, 2]).cast(pa.decimal128(38, 2))}), 'decimal.parquet')
");
        let first = folder.at("snappy.mt");
        holdall(["convert", &folder.at("snappy.parquet"), &first]).ends_with(0);
        let row = &records(&first)[4999];
        let wanted = json!({
            "id": 4999, "f": 4999.0 / 3.0, "s": "text 4999", "cat": "d", "b": "h4eHhw==",
            "at": "2024-01-01T00:00:04.999Z", "l": [0, 1, 2], "ls": ["x0"], "v": [4999.0, 5000.0],
            "st": {"x": 4999}, "h": 5000.0,
        });
        assert_eq!(row, &wanted);
        let others = [
            "zstd.parquet",
            "lz4.parquet",
            "gzip.parquet",
            "brotli.parquet",
            "none.parquet",
            "encoded.parquet",
            "None.arrow",
            "lz4.arrow",
            "zstd.arrow",
            "None.arrows",
            "lz4.arrows",
            "zstd.arrows",
            "own.feather",
        ];
        for name in others {
            let out = folder.at("other.mt");
            holdall(["build", "--records", &folder.at(name), "-o", &out, "-f"]).ends_with(0);
            holdall(["diff", &first, &out]).ends_with(0);
        }
        let out = folder.at("decimal.mt");
        holdall(["convert", &folder.at("decimal.parquet"), &out]).ends_with(0);
        let cheap = holdall(["records", &out, "--where", "price<2", "--json"]).ends_with(0).out;
        assert_eq!(cheap.trim(), r#"{"price":"1.00"}"#);
    }
}
