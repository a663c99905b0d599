//! Conversions and reads of sparse tensors take bounded memory for any size: they run under a limit that is
//! smaller than what they write. The written elements are those that a read of the whole source gives.
#![cfg(target_os = "linux")]

#[path = "../../holdall-formats/tests/pytorch_files/mod.rs"]
mod pytorch_files;

use holdall::{
    ComponentSpec, Convert, DType, DiffOptions, EncodeOptions, Io, Layout, OpenOptions, Role,
    StatsOptions, TensorForm, TensorSpec, VerifyOptions, WriteOptions, Writer, convert, diff,
    formats, stats, verify,
};
use holdall_core::model::block::BlockType;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "HOLDALL_CONVERT_MEMORY_CHILD";
const ROWS: u64 = 9 << 8;
const COLUMNS: u64 = 8 << 10;
const FEW: u64 = (4 << 20) + 5;
/// Memory that a conversion may take, including the threads' stacks and the program, in KiB; the elements
/// take 72 MiB.
const MAX_KIB: u64 = 64 << 10;

/// Returns the file to convert in a case, and the options.
fn source(dir: &Path, case: &str) -> (holdall::File, Convert) {
    let plain = Convert::new(WriteOptions::new().with_overwrite(true));
    let (name, options) = match case {
        "columns" => ("le.npy", plain),
        "columns-cast" => ("le.npy", plain.with_dtype(holdall::FloatType::F16)),
        "columns-turned" => ("be.npy", plain),
        "blocks" => ("q4_0.zt", plain.with_dense()),
        "sparse" => ("csr.zt", plain.with_dense()),
        "compressed-columns" => ("csc.pt", plain),
        "compressed-blocks" => ("bsr.pt", plain),
        "arrays-at-coordinates" => ("hybrid.pt", plain),
        "to-csr" => ("thin.zt", plain.with_form(TensorForm::Csr)),
        "to-coo" => ("thin.zt", plain.with_form(TensorForm::Coo)),
        "groups" => ("dense.zt", plain.with_form(TensorForm::new("group:4:128").unwrap())),
        // More scales than are kept in memory, and words that do not fill pieces evenly.
        "small-groups" => ("few.zt", plain.with_form(TensorForm::new("group:5:1").unwrap())),
        _ => ("dense.zt", plain.with_form(TensorForm::Blocks(BlockType::by_name("q8_0").unwrap()))),
    };
    (holdall::open(dir.join(name)).unwrap(), options)
}

const CASES: [&str; 13] = [
    "columns",
    "columns-cast",
    "columns-turned",
    "blocks",
    "sparse",
    "compressed-columns",
    "compressed-blocks",
    "arrays-at-coordinates",
    "quantize",
    "to-csr",
    "to-coo",
    "groups",
    "small-groups",
];

#[test]
fn conversions_take_little_memory() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let case = std::env::var("HOLDALL_CONVERT_MEMORY_CASE").unwrap();
        let dir = Path::new(&dir);
        let (file, options) = source(dir, &case);
        convert(&file, dir.join("out.zt"), &options).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    for case in CASES {
        in_little_memory("conversions_take_little_memory", dir.path(), case);
        let (file, _) = source(dir.path(), case);
        let (from, out) = (file.at(0).unwrap(), holdall::open(dir.path().join("out.zt")).unwrap());
        let out = out.at(0).unwrap();
        assert_eq!(out.shape(), from.shape(), "{case}");
        let (found, wanted) = (out.to_dense().unwrap(), from.to_dense().unwrap());
        let same = match case {
            "columns-cast" => are_rounded(&found.to_f32().unwrap(), &wanted.to_f32().unwrap()),
            "quantize" => {
                let blocks = out.blocks().unwrap();
                let whole = holdall::layout::Blocks::quantize(blocks.block_type(), &wanted);
                *whole.unwrap().bytes() == *blocks.bytes()
            }
            "groups" | "small-groups" => {
                let TensorForm::Group(grouping) = TensorForm::new(match case {
                    "groups" => "group:4:128",
                    _ => "group:5:1",
                })
                .unwrap() else {
                    panic!()
                };
                let whole = grouping.quantize(&wanted, &Default::default()).unwrap().parts;
                let of = |role| out.bytes(&role).unwrap();
                of(Role::PackedWeight) == whole.packed_weight.bytes
                    && of(Role::Scales) == whole.scales.bytes
                    && of(Role::Zeros) == whole.zeros.unwrap().bytes
            }
            "to-csr" => out.layout() == &Layout::SparseCsr && found.bytes() == wanted.bytes(),
            "to-coo" => out.layout() == &Layout::SparseCoo && found.bytes() == wanted.bytes(),
            _ => found.bytes() == wanted.bytes(),
        };
        assert!(same, "{case}");
        let left: Vec<_> = dir.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 11, "no temporary file is left: {left:?}");
    }
}

/// Runs the test for one case in a separate process, in which no other test allocates memory; the limit
/// covers written memory that belongs to no file.
fn in_little_memory(test: &str, dir: &Path, case: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("ulimit -d {MAX_KIB} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, dir)
        .env("HOLDALL_CONVERT_MEMORY_CASE", case)
        .env("TMPDIR", dir)
        .env("MALLOC_ARENA_MAX", "1")
        .status()
        .unwrap();
    assert!(status.success(), "{case}: {status}");
}

/// Number of entries of the sparse tensors: their indices take 72 MiB as `u64`.
const ENTRIES: u64 = 9 << 19;
const SPARSE_COLUMNS: u64 = 3;
/// Sparse tensors, and the forms in which each is written.
const SPARSE: [(&str, &[&str]); 7] = [
    ("csr-2.zt", &["1.2", "2", "dense", "coo"]),
    ("coo-2.zt", &["1.0", "2", "dense", "csr"]),
    ("zstd-2.zt", &["1.2", "dense"]),
    ("csr-0.1.zt", &["1.0", "0.1", "dense"]),
    ("coo-0.1.zt", &["1.2", "2", "0.1", "dense"]),
    ("csr.pt", &["2"]),
    ("coo.pt", &["1.2", "dense"]),
];

#[test]
fn indices_take_little_memory() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let dir = Path::new(&dir);
        let name = std::env::var("HOLDALL_CONVERT_MEMORY_CASE").unwrap();
        let file = holdall::open(dir.join(&name)).unwrap();
        let (_, targets) = SPARSE.iter().find(|(source, _)| *source == name).unwrap();
        for target in *targets {
            let plain = WriteOptions::new().with_overwrite(true);
            let of = |format: &str, version: &str| {
                let plain = plain.clone().with_format(formats::by_name(format).unwrap());
                Convert::new(plain.with_encode(EncodeOptions::new().with_version(version)))
            };
            let options = match *target {
                "dense" => Convert::new(plain).with_dense(),
                "csr" => Convert::new(plain).with_form(TensorForm::Csr),
                "coo" => Convert::new(plain).with_form(TensorForm::Coo),
                "2" => Convert::new(plain.with_format(formats::by_name("ztensor2").unwrap())),
                version => of("ztensor", version),
            };
            convert(&file, dir.join(format!("{target}.out.zt")), &options).unwrap();
        }
        if !matches!(&*name, "csr.pt" | "coo.pt" | "coo-0.1.zt") {
            return;
        }
        // Read without mapping.
        let read = OpenOptions::new().with_io(Io::Read).open(dir.join(&name)).unwrap();
        let report = verify(&read, &VerifyOptions::new()).unwrap();
        assert!(report.is_sound() && report.sparse == 1, "{:?}", report.findings);
        assert!(diff(&file, &read, &DiffOptions::new()).unwrap().is_same());
        let found = stats(&read.at(0).unwrap(), &StatsOptions::new()).unwrap();
        assert_eq!((found.zeros, found.implied_zeros), (2 * ENTRIES, 2 * ENTRIES));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let wanted = make_sparse(dir.path());
    for (source, targets) in SPARSE {
        in_little_memory("indices_take_little_memory", dir.path(), source);
        let by_rows = source.starts_with("csr");
        for target in targets {
            let case = format!("{source} as {target}");
            let out = holdall::open(dir.path().join(format!("{target}.out.zt"))).unwrap();
            let out = out.at(0).unwrap();
            let is = |role: Role, wanted: &[u8]| {
                let found = out.bytes(&role).unwrap();
                assert!(*found == *wanted, "{case}: {role}");
            };
            // 32-bit indices, and coordinates by records, are written unchanged into files that support them.
            if (*target == "2" && source.contains("-2")) || *target == "0.1" {
                let from = holdall::open(dir.path().join(source)).unwrap().at(0).unwrap();
                assert_eq!(out.layout(), from.layout(), "{case}");
                from.components().for_each(|c| is(c.role.clone(), &from.bytes(&c.role).unwrap()));
                continue;
            }
            if *target == "dense" {
                is(Role::Data, &wanted.dense);
                continue;
            }
            is(Role::Values, &wanted.values);
            if *target == "csr" || (by_rows && *target != "coo") {
                is(Role::Indices, &wanted.columns);
                is(Role::Indptr, &wanted.pointers);
            } else {
                is(Role::Coords, &[&wanted.rows[..], &wanted.columns].concat());
            }
        }
        let left = dir.path().read_dir().unwrap().count();
        assert_eq!(left - 7, count_of_targets(dir.path()), "no temporary file is left");
    }
}

fn count_of_targets(dir: &Path) -> usize {
    let names = dir.read_dir().unwrap().map(|e| e.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".out.zt")).count()
}

/// Parts of a sparse tensor, with 64-bit indices.
struct Sparse {
    values: Vec<u8>,
    rows: Vec<u8>,
    columns: Vec<u8>,
    pointers: Vec<u8>,
    dense: Vec<u8>,
}

/// Writes the tensor in each of its forms. Of every five rows, one has two entries and one has none.
fn make_sparse(dir: &Path) -> Sparse {
    let row_of = |entry: u64| entry - u64::from(entry % 5 == 4);
    let column_of = |entry: u64| match entry % 5 {
        3 => 0,
        4 => 1 + entry % 2,
        _ => entry % SPARSE_COLUMNS,
    };
    let value_of = |entry: u64| (entry % 255 + 1) as u8;
    let rows: Vec<u64> = (0..ENTRIES).map(row_of).collect();
    let columns: Vec<u64> = (0..ENTRIES).map(column_of).collect();
    let values: Vec<u8> = (0..ENTRIES).map(value_of).collect();
    // The number of entries in earlier rows: the row index, plus one for the row that has two entries and
    // precedes the empty one.
    let pointers: Vec<u64> =
        (0..=ENTRIES).map(|n| n + u64::from(n % 5 == 4 && n < ENTRIES)).collect();
    let mut dense = vec![0; (ENTRIES * SPARSE_COLUMNS) as usize];
    let mut records = Vec::with_capacity(17 * ENTRIES as usize);
    for (entry, value) in values.iter().enumerate() {
        dense[(rows[entry] * SPARSE_COLUMNS + columns[entry]) as usize] = *value;
        records.extend_from_slice(&rows[entry].to_le_bytes());
        records.extend_from_slice(&columns[entry].to_le_bytes());
        records.push(*value);
    }
    let narrow = |wide: &[u64]| -> Vec<u32> { wide.iter().map(|n| *n as u32).collect() };
    let (narrow_rows, narrow_columns) = (narrow(&rows), narrow(&columns));
    let coords = bytes_of(&[narrow_rows, narrow_columns.clone()].concat());
    let (narrow_columns, narrow_pointers) =
        (bytes_of(&narrow_columns), bytes_of(&narrow(&pointers)));
    let all = Sparse {
        values,
        rows: bytes_of(&rows),
        columns: bytes_of(&columns),
        pointers: bytes_of(&pointers),
        dense,
    };
    let write = |name: &str, layout: Layout, parts: &[(Role, DType, &[u8])]| {
        let options = match (name, name.contains("-2")) {
            ("zstd-2.zt", _) => {
                WriteOptions::new().with_format(formats::by_name("ztensor2").unwrap()).with_zstd(1)
            }
            (_, true) => WriteOptions::new().with_format(formats::by_name("ztensor2").unwrap()),
            _ => {
                let old = EncodeOptions::new().with_version("0.1");
                WriteOptions::new()
                    .with_format(formats::by_name("ztensor").unwrap())
                    .with_encode(old)
            }
        };
        let mut spec = TensorSpec::dense("w", DType::U8, [ENTRIES, SPARSE_COLUMNS]);
        spec.layout = layout;
        let of = |(role, dtype, bytes): &(Role, DType, &[u8])| {
            ComponentSpec::new(role.clone(), *dtype, bytes.len() as u64)
        };
        spec.components = parts.iter().map(of).collect();
        let bytes: Vec<&[u8]> = parts.iter().map(|(_, _, bytes)| *bytes).collect();
        let mut writer = Writer::create(dir.join(name), &options).unwrap();
        writer.add(spec, &bytes).unwrap();
        writer.finish().unwrap();
    };
    let values = (Role::Values, DType::U8, &all.values[..]);
    let by_rows = [
        (Role::Indices, DType::U32, &narrow_columns[..]),
        (Role::Indptr, DType::U32, &narrow_pointers),
        values.clone(),
    ];
    write("csr-2.zt", Layout::SparseCsr, &by_rows);
    for name in ["coo-2.zt", "zstd-2.zt"] {
        let parts = [(Role::Coords, DType::U32, &coords[..]), values.clone()];
        write(name, Layout::SparseCoo, &parts);
    }
    let packed = [&all.pointers[..], &all.columns, &all.values].concat();
    write("csr-0.1.zt", Layout::PackedCsr, &[(Role::Data, DType::U8, &packed)]);
    write("coo-0.1.zt", Layout::PackedCoo, &[(Role::Data, DType::U8, &records)]);
    let torch = |name: &str, layout: &str, parts: &[(&str, &[u32], &[u8])]| {
        let shape = [ENTRIES as u32, SPARSE_COLUMNS as u32];
        std::fs::write(dir.join(name), pytorch_files::sparse_file(layout, parts, &shape)).unwrap();
    };
    let count = ENTRIES as u32;
    let values: (&str, &[u32], &[u8]) = ("ByteStorage", &[count], &all.values);
    torch(
        "csr.pt",
        "torch.sparse_csr",
        &[
            ("LongStorage", &[count + 1], &all.pointers),
            ("LongStorage", &[count], &all.columns),
            values,
        ],
    );
    let coords = [&all.rows[..], &all.columns].concat();
    torch("coo.pt", "torch.sparse_coo", &[("LongStorage", &[2, count], &coords), values]);
    all
}

/// Returns the numbers as stored. Converting this many byte by byte takes half a minute without optimization.
fn bytes_of<N: bytemuck::NoUninit>(numbers: &[N]) -> Vec<u8> {
    const { assert!(cfg!(target_endian = "little")) };
    bytemuck::cast_slice(numbers).to_vec()
}

/// Returns `true` if the numbers are the nearest 16-bit ones to those wanted. A sample is compared: casting
/// of each number is tested elsewhere.
fn are_rounded(found: &[f32], wanted: &[f32]) -> bool {
    let mut pairs = found.iter().zip(wanted).step_by(101);
    found.len() == wanted.len()
        && pairs.all(|(found, wanted)| *found == half::f16::from_f32(*wanted).to_f32())
}

fn make(dir: &Path) {
    let count = ROWS * COLUMNS;
    // Small floats, distinct by position.
    let number = |n: u64| (n % 60_013) as f32 / 64.0 - (n / 60_013) as f32 / 512.0;
    let mut numbers: Vec<f32> = (0..count).map(number).collect();
    let little = bytes_of(&numbers);
    let big = bytes_of(&numbers.iter().map(|x| x.to_bits().swap_bytes()).collect::<Vec<_>>());
    let npy = |descr: &str, bytes: &[u8]| {
        let header = holdall::npy::header_of(descr, true, &[ROWS, COLUMNS]).unwrap();
        [&header, bytes].concat()
    };
    std::fs::write(dir.join("le.npy"), npy("<f4", &little)).unwrap();
    std::fs::write(dir.join("be.npy"), npy(">f4", &big)).unwrap();
    let write = |name: &str, spec: TensorSpec, parts: &[&[u8]]| {
        let mut writer = Writer::create(dir.join(name), &WriteOptions::new()).unwrap();
        writer.add(spec, parts).unwrap();
        writer.finish().unwrap();
    };
    write("dense.zt", TensorSpec::dense("w", DType::F32, [ROWS, COLUMNS]), &[&little]);
    // Two pieces.
    let few = &little[..FEW as usize * 4];
    write("few.zt", TensorSpec::dense("w", DType::F32, [1, FEW]), &[few]);
    // One in seven is nonzero, and some rows are empty.
    for (at, number) in numbers.iter_mut().enumerate() {
        if at % 7 != 0 || (at / COLUMNS as usize).is_multiple_of(5) {
            *number = 0.0;
        }
    }
    let thin = bytes_of(&numbers);
    write("thin.zt", TensorSpec::dense("w", DType::F32, [ROWS, COLUMNS]), &[&thin]);
    let of = BlockType::by_name("q4_0").unwrap();
    // Scales of 1, any nibbles.
    let blocks: Vec<u8> = (0..count / of.elements)
        .flat_map(|n| [0, 0x3c].into_iter().chain((0..16).map(move |k| (n * 31 + k * 7) as u8)))
        .collect();
    let mut spec = TensorSpec::dense("w", DType::U8, [ROWS, COLUMNS]);
    spec.layout = Layout::Blocks(of);
    spec.components[0].decoded_len = blocks.len() as u64;
    write("q4_0.zt", spec, &[&blocks]);
    let indptr: Vec<u8> = (0..=ROWS).flat_map(|row| (row * 3).to_le_bytes()).collect();
    let columns = (0..ROWS).flat_map(|row| [row, row + 17, COLUMNS - 1 - row % 7]);
    let indices: Vec<u8> = columns.flat_map(u64::to_le_bytes).collect();
    let values = &little[4..4 + ROWS as usize * 12];
    let mut spec = TensorSpec::dense("w", DType::F32, [ROWS, COLUMNS]);
    spec.layout = Layout::SparseCsr;
    spec.components = vec![
        ComponentSpec::new(Role::Values, DType::F32, values.len() as u64),
        ComponentSpec::new(Role::Indices, DType::U64, indices.len() as u64),
        ComponentSpec::new(Role::Indptr, DType::U64, indptr.len() as u64),
    ];
    write("csr.zt", spec, &[values, &indices, &indptr]);
    let words = |numbers: &mut dyn Iterator<Item = u32>| -> Vec<u8> {
        numbers.flat_map(|n| u64::from(n).to_le_bytes()).collect()
    };
    let torch = |name: &str, layout: &str, parts: &[(&str, &[u32], &[u8])]| {
        let file = pytorch_files::sparse_file(layout, parts, &[ROWS as u32, COLUMNS as u32]);
        std::fs::write(dir.join(name), file).unwrap();
    };
    // An entry in each column; a block of 3 × 2 in each three rows; some complete rows.
    let (rows, columns) = (ROWS as u32, COLUMNS as u32);
    let pointers = words(&mut (0..=columns));
    let at = words(&mut (0..columns).map(|column| column * 7 % rows));
    torch(
        "csc.pt",
        "torch.sparse_csc",
        &[
            ("LongStorage", &[columns + 1], &pointers),
            ("LongStorage", &[columns], &at),
            ("FloatStorage", &[columns], &little[..columns as usize * 4]),
        ],
    );
    let count = rows / 3;
    let pointers = words(&mut (0..=count));
    let at = words(&mut (0..count).map(|block| block * 5 % (columns / 2)));
    torch(
        "bsr.pt",
        "torch.sparse_bsr",
        &[
            ("LongStorage", &[count + 1], &pointers),
            ("LongStorage", &[count], &at),
            ("FloatStorage", &[count, 3, 2], &little[..count as usize * 24]),
        ],
    );
    let at = words(&mut (0..40).map(|entry| entry * 57 % rows));
    torch(
        "hybrid.pt",
        "torch.sparse_coo",
        &[
            ("LongStorage", &[1, 40], &at),
            ("FloatStorage", &[40, columns], &little[..40 * columns as usize * 4]),
        ],
    );
}

/// Elements of the tensors of a delta: 72 MiB of bf16.
const DELTA_ELEMENTS: usize = 36 << 20;

/// A delta is made and applied in less memory than one of its tensors takes.
#[test]
fn deltas_take_little_memory() {
    use holdall::delta::{ApplyOptions, MakeOptions, apply, make};
    let test = "deltas_take_little_memory";
    if let Some(dir) = std::env::var_os(CHILD) {
        let at = |name: &str| Path::new(&dir).join(name);
        let open = |name: &str| holdall::open(at(name)).unwrap();
        if std::env::var("HOLDALL_CONVERT_MEMORY_CASE").unwrap() == "make" {
            let options = MakeOptions::default();
            make(&open("base.zt"), &open("target.zt"), at("delta.zt"), &options).unwrap();
        } else {
            let options = ApplyOptions::default();
            apply(&open("base.zt"), &open("delta.zt"), at("out.zt"), &options).unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = vec![0u8; 2 * DELTA_ELEMENTS];
    for (at, element) in bytes.chunks_exact_mut(2).enumerate() {
        element.copy_from_slice(&(at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[..2]);
    }
    for name in ["base.zt", "target.zt"] {
        let mut writer = Writer::create(dir.path().join(name), &WriteOptions::new()).unwrap();
        let spec = TensorSpec::dense("t", DType::Bf16, [DELTA_ELEMENTS as u64]);
        writer.add(spec, &[&bytes]).unwrap();
        writer.finish().unwrap();
        bytes.chunks_exact_mut(2).step_by(40).for_each(|element| element[0] ^= 3);
    }
    for case in ["make", "apply"] {
        in_little_memory(test, dir.path(), case);
    }
    let open = |name: &str| holdall::open(dir.path().join(name)).unwrap();
    assert!(diff(&open("out.zt"), &open("target.zt"), &DiffOptions::new()).unwrap().is_same());
    assert!(open("delta.zt").index().source_len() < 8 << 20);
}
