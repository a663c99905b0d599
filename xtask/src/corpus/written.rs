//! Files from our own writer: every version, with every option.

use super::Made;
use super::zt::*;
use crate::tables::ztensor_files::{map, text, uint};
use holdall::{
    Algorithm, Convert, Edit, EncodeOptions, File, OpenOptions, Sharing, TensorSpec, WriteOptions,
    convert_to, formats,
};

pub(crate) fn accepts() -> Vec<Made> {
    let mut all = Vec::new();
    let plain = open(plain());
    let everything = open(everything());
    for version in ["1.2", "1.0", "0.1"] {
        let options_for = || options("ztensor", version);
        let mut add = |name: &str, file: &File, convert: Convert| {
            let path = format!("accept/ztensor/made-{version}-written_{name}.zt");
            all.push(written(path, file, &convert));
        };
        add("raw", &plain, Convert::new(options_for()));
        add("zstd", &plain, Convert::new(options_for().with_zstd(3)).reencode());
        let sha = options_for().with_zstd(19).with_digest(Some(Algorithm::Sha256));
        add("zstd_sha256", &plain, Convert::new(sha).reencode());
        let bare = options_for().with_digest(None).with_encode(encode(version).with_align(512));
        add("aligned", &plain, Convert::new(bare).with_sharing(Sharing::Copy));
        add("empty", &open(Zt::new(Version::V1_2).finish()), Convert::new(options_for()));
        // More than 4 MiB: separate frames and a seek table.
        let long = Convert::new(options_for().with_zstd(3)).reencode();
        add("frames", &open(long_tensor()), long);
    }
    let options_for = || options("ztensor", "1.2");
    let path = |name: &str| format!("accept/ztensor/made-1.2-written_{name}.zt");
    all.push(written(path("everything"), &everything, &Convert::new(options_for())));
    let zstd = Convert::new(options_for().with_zstd(3)).reencode();
    all.push(written(path("everything_zstd"), &everything, &zstd));
    let dedupe = Convert::new(options_for()).with_sharing(Sharing::Dedupe);
    all.push(written(path("dedupe"), &plain, &dedupe));
    all.push(Made::new(path("edited"), edited(&all)));

    let path = |name: &str| format!("accept/safetensors/made-written_{name}.safetensors");
    let options_for = || Convert::new(options("safetensors", "")).with_dense();
    all.push(written(path("raw"), &plain, &options_for()));
    all.push(written(path("everything"), &open(no_quantized()), &options_for()));
    all.push(written(path("empty"), &open(Zt::new(Version::V1_2).finish()), &options_for()));
    let aligned = options("safetensors", "").with_encode(EncodeOptions::new().with_align(512));
    all.push(written(path("aligned"), &plain, &Convert::new(aligned).with_dense()));

    let path = |name: &str| format!("accept/metatensor/made-written_{name}.mt");
    let options_for = || Convert::new(options("metatensor", "")).with_dense();
    all.push(written(path("raw"), &plain, &options_for()));
    all.push(written(path("everything"), &open(no_quantized()), &options_for()));
    all.push(written(path("empty"), &open(Zt::new(Version::V1_2).finish()), &options_for()));
    let aligned = options("metatensor", "").with_encode(EncodeOptions::new().with_align(512));
    all.push(written(path("aligned"), &plain, &Convert::new(aligned).with_dense()));
    all
}

fn open(bytes: Vec<u8>) -> File {
    OpenOptions::new().open_bytes(bytes, "made").expect("a sound file")
}

fn encode(version: &str) -> EncodeOptions {
    match version {
        "" => EncodeOptions::new(),
        version => EncodeOptions::new().with_version(version),
    }
}

fn options(format: &str, version: &str) -> WriteOptions {
    let format = formats::by_name(format).expect("a format of this build");
    WriteOptions::new().with_format(format).with_encode(encode(version))
}

fn written(path: String, file: &File, options: &Convert) -> Made {
    let (_, bytes) =
        convert_to(file, Vec::new(), options).unwrap_or_else(|e| panic!("{path}: {e}"));
    Made::new(path, bytes)
}

/// Returns a file with features of all versions.
fn plain() -> Vec<u8> {
    let mut f = Zt::new(Version::V1_2);
    plain_tensors(&mut f);
    f.attributes(map(&[("license", text("MIT")), ("\u{fc}", text("\u{5c64}\n"))]));
    f.finish()
}

fn plain_tensors(f: &mut Zt) {
    for (i, (dtype, width)) in dtypes().enumerate() {
        let mut bytes = noise(6 * width as usize, i as u64);
        if dtype == "bool" {
            bytes.iter_mut().for_each(|b| *b &= 1);
        }
        let part = f.part(dtype, &bytes);
        f.dense(&format!("dense.{dtype}"), &[3, 2], part);
    }
    let part = f.part("f32", &f32s(&[1.5]));
    f.dense("scalar", &[], part);
    let part = f.part("f32", &[]);
    f.dense("nothing", &[0, 7], part);
    let part = f.part("f32", &[0; 400]);
    f.dense("embed", &[10, 10], part.clone());
    f.dense("head", &[10, 10], part);
    let part = f.part("f32", &[0; 400]);
    f.dense("same_bytes", &[10, 10], part);
    let values = f.part("f64", &noise(24, 1));
    let indices = f.part("u64", &u64s(&[0, 3, 1]));
    let indptr = f.part("u64", &u64s(&[0, 2, 2, 3]));
    let parts = [("values", values), ("indices", indices), ("indptr", indptr)];
    f.tensor("csr", &[3, 4], "sparse_csr", &parts);
    let values = f.part("i16", &noise(4, 2));
    let coords = f.part("u64", &u64s(&[0, 2, 1, 3]));
    f.tensor("coo", &[3, 4], "sparse_coo", &[("values", values), ("coords", coords)]);
}

fn no_quantized() -> Vec<u8> {
    let mut f = Zt::new(Version::V1_2);
    more_tensors(&mut f);
    f.finish()
}

fn more_tensors(f: &mut Zt) {
    let part = f.part("u8", &noise(8, 3)).with("type", text("f8_e4m3fn"));
    f.dense("f8", &[2, 4], part).attribute("scale", vec![0xf9, 0x3c, 0x00]);
    let part = f.part("f32", &noise(16, 4)).with("type", text("complex64"));
    f.dense("complex", &[2], part).attribute("unit", text("V")).attribute("steps", uint(3));
    f.attributes(map(&[
        ("bytes", vec![0x42, 1, 2]),
        ("map", map(&[("a", vec![0xf6]), ("b", vec![0xf9, 0x7e, 0x00])])),
        ("text", text("plain")),
    ]));
}

/// Returns a file with features of 1.2 only.
fn everything() -> Vec<u8> {
    let mut f = Zt::new(Version::V1_2);
    plain_tensors(&mut f);
    more_tensors(&mut f);
    let parts = [
        ("packed_weight", f.part("i32", &noise(64, 5))),
        ("scales", f.part("f16", &[0, 0x3c].repeat(8))),
        ("zeros", f.part("f16", &[0, 0x40].repeat(8))),
    ];
    f.tensor("q4", &[4, 32], "quantized_group", &parts)
        .attribute("bits", uint(4))
        .attribute("group_size", uint(16))
        .attribute("packing", text("8_per_i32"));
    let part = f.part("u16", &noise(6, 6));
    f.tensor("ragged", &[3], "ragged", &[("rows", part)]);
    f.finish()
}

/// Returns a tensor of 5 MB that compresses well.
fn long_tensor() -> Vec<u8> {
    let mut f = Zt::new(Version::V1_2);
    let stored = [frame_of_run(1, 3_000_000), frame_of_run(2, 2_000_001)].concat();
    let part = f.part("u8", &stored).zstd(5_000_001);
    f.dense("w", &[5_000_001], part);
    f.finish()
}

/// Returns a file after edits in place: tensors removed, added and renamed, attributes set.
fn edited(all: &[Made]) -> Vec<u8> {
    let name = "accept/ztensor/made-1.2-written_raw.zt";
    let from = all.iter().find(|m| m.path == name).expect("it was just written");
    let path = std::env::temp_dir().join(format!("holdall-xtask-{}.zt", std::process::id()));
    let edit = || -> holdall::Result<()> {
        std::fs::write(&path, &from.bytes).expect("a temporary file");
        let mut edit = Edit::open(&path)?;
        edit.remove("embed")?;
        edit.rename("head", "lm_head")?;
        edit.set_attribute("license", holdall::Value::Text("Apache-2.0".into()));
        let spec = TensorSpec::dense("added", holdall::DType::U16, [2]);
        edit.add(spec, vec![vec![1, 2, 3, 4].into()])?;
        edit.commit()?;
        let mut edit = Edit::open(&path)?;
        edit.set_tensor_attribute("scalar", "unit", holdall::Value::Text("m".into()))?;
        edit.commit()?;
        Ok(())
    };
    let done = edit();
    let bytes = std::fs::read(&path).expect("the temporary file");
    let _ = std::fs::remove_file(&path);
    done.expect("edits that fit the file");
    bytes
}
