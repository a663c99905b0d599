//! Conversions take little memory whatever the size: they work under a limit that is a part of what they write. What they write
//! is what is read of the source at once.
#![cfg(target_os = "linux")]

#[path = "../../holdall-core/tests/pytorch_files/mod.rs"]
mod pytorch_files;

use holdall::{
    ComponentSpec, Convert, DType, Form, Layout, Role, TensorSpec, WriteOptions, Writer, convert,
};
use holdall_core::model::block::BlockType;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "HOLDALL_CONVERT_MEMORY_CHILD";
const ROWS: u64 = 9 << 8;
const COLUMNS: u64 = 8 << 10;
const FEW: u64 = (4 << 20) + 5;
/// Memory that a conversion may take, with threads' stacks and the program, in KiB; elements take 72 MiB.
const MOST_KIB: u64 = 64 << 10;

/// What is converted, by the name of its case: a file, and how.
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
        "to-csr" => ("thin.zt", plain.with_form(Form::Csr)),
        "to-coo" => ("thin.zt", plain.with_form(Form::Coo)),
        "groups" => ("dense.zt", plain.with_form(Form::new("group:4:128").unwrap())),
        // More scales than are held, and words that no piece fills.
        "small-groups" => ("few.zt", plain.with_form(Form::new("group:5:1").unwrap())),
        _ => ("dense.zt", plain.with_form(Form::Blocks(BlockType::by_name("q8_0").unwrap()))),
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
        // Where no other test takes memory at the same time; the limit is of memory that is written to and is of no file.
        let status = Command::new("sh")
            .args(["-c", &format!("ulimit -d {MOST_KIB} && exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "conversions_take_little_memory", "--nocapture"])
            .env(CHILD, dir.path())
            .env("HOLDALL_CONVERT_MEMORY_CASE", case)
            .env("TMPDIR", dir.path())
            .env("MALLOC_ARENA_MAX", "1")
            .status()
            .unwrap();
        assert!(status.success(), "{case}: {status}");
        let (file, _) = source(dir.path(), case);
        let (from, out) = (file.at(0).unwrap(), holdall::open(dir.path().join("out.zt")).unwrap());
        let out = out.at(0).unwrap();
        assert_eq!(out.shape(), from.shape(), "{case}");
        let (found, wanted) = (out.to_dense().unwrap(), from.to_dense().unwrap());
        let same = match case {
            "columns-cast" => found.to_f32().unwrap() == rounded(&wanted.to_f32().unwrap()),
            "quantize" => {
                let blocks = out.blocks().unwrap();
                let whole = holdall::layout::blocks::Blocks::quantize(blocks.block_type(), &wanted);
                *whole.unwrap().bytes() == *blocks.bytes()
            }
            "groups" | "small-groups" => {
                let Form::Group(grouping) = Form::new(match case {
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

fn rounded(wanted: &[f32]) -> Vec<f32> {
    wanted.iter().map(|x| half::f16::from_f32(*x).to_f32()).collect()
}

fn make(dir: &Path) {
    let count = ROWS * COLUMNS;
    // Small floats, each of its place.
    let number = |n: u64| (n % 60_013) as f32 / 64.0 - (n / 60_013) as f32 / 512.0;
    let little: Vec<u8> = (0..count).flat_map(|n| number(n).to_le_bytes()).collect();
    let big: Vec<u8> = little.chunks(4).flat_map(|c| [c[3], c[2], c[1], c[0]]).collect();
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
    // One of seven is not zero, and no element of some rows.
    let is_there = |at: usize| at.is_multiple_of(7) && !(at / COLUMNS as usize).is_multiple_of(5);
    let thin = little.chunks(4).enumerate();
    let thin: Vec<u8> =
        thin.flat_map(|(at, x)| if is_there(at) { x } else { &[0; 4] }).copied().collect();
    write("thin.zt", TensorSpec::dense("w", DType::F32, [ROWS, COLUMNS]), &[&thin]);
    let of = BlockType::by_name("q4_0").unwrap();
    // Scales of 1, whatever nibbles.
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
    // An entry in each column; a block of 3 × 2 in each three rows; some rows as they are.
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
