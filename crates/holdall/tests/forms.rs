//! Dense tensors converted to sparse or quantized ones.

use crate::make::{Made, bytes_of, dense, f32s, open, part};
use holdall::{
    Attributes, Convert, ConvertReport, DType, File, FormRule, Layout, LogicalType, Role,
    TensorForm, Value, VerifyOptions, WriteOptions, diff, verify,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn convert(
        &self,
        made: &[Made],
        to: &str,
        rules: &[&str],
    ) -> holdall::Result<(File, ConvertReport)> {
        let rules =
            rules.iter().map(|rule| FormRule::new(rule)).collect::<holdall::Result<Vec<_>>>()?;
        let mut write = WriteOptions::new().with_overwrite(true);
        let (name, version) = to.split_once('@').unwrap_or((to, ""));
        if !version.is_empty() {
            write.encode.version = Some(version.to_owned());
        }
        let path = self.0.path().join(format!("out.{name}"));
        let file = open(bytes_of("ztensor@1.2.0", &Attributes::new(), made));
        let report = holdall::convert(&file, &path, &Convert::new(write).with_forms(rules))?;
        let out = holdall::open(path)?;
        assert!(verify(&out, &VerifyOptions::new()).unwrap().is_sound());
        Ok((out, report))
    }

    fn fails(&self, made: &[Made], to: &str, rules: &[&str]) -> &'static str {
        self.convert(made, to, rules).map(drop).unwrap_err().code()
    }
}

/// Returns a matrix in which one element in seven is nonzero; one of them is a negative zero.
fn few() -> Vec<u8> {
    let one = |at: u32| match at {
        14 => -0.0,
        at if at % 7 == 0 => at as f32 - 50.0,
        _ => 0.0,
    };
    f32s(&(0..120).map(one).collect::<Vec<_>>())
}

fn matrix() -> Made {
    dense("few", &[10, 12], part(Role::Data, DType::F32, few()))
}

#[test]
fn sparse_tensors_come_back_bit_for_bit() {
    let dir = Folder::new();
    for (to, form, layout) in [
        ("zt", "csr", Layout::SparseCsr),
        ("zt", "coo", Layout::SparseCoo),
        ("zt@1.0", "csr", Layout::SparseCsr),
        ("zt@0.1", "csr", Layout::SparseCsr),
        ("zt@0.1", "coo", Layout::SparseCoo),
    ] {
        let (out, report) = dir.convert(&[matrix()], to, &[&format!("few={form}")]).unwrap();
        let tensor = out.tensor("few").unwrap();
        assert_eq!(tensor.layout(), &layout, "{to} {form}");
        assert_eq!(tensor.to_dense().unwrap().into_bytes(), few(), "{to} {form}");
        let reformed = &report.reformed[0];
        assert_eq!((reformed.name.as_str(), reformed.form.to_string().as_str()), ("few", form));
        assert_eq!((reformed.from_len, reformed.max_error, reformed.rms_error), (480, None, None));
        let len: u64 = tensor.components().map(|c| c.decoded_len.unwrap()).sum();
        assert_eq!(reformed.len, len);
    }
    // From one sparse form to the other.
    let (out, _) = dir.convert(&[matrix()], "zt", &["csr"]).unwrap();
    let path = dir.0.path().join("other.zt");
    let options = Convert::new(WriteOptions::new()).with_form(TensorForm::Coo);
    holdall::convert(&out, &path, &options).unwrap();
    let other = holdall::open(path).unwrap();
    assert_eq!(other.tensor("few").unwrap().layout(), &Layout::SparseCoo);
    assert!(diff(&out, &other, &holdall::DiffOptions::new()).unwrap().values_agree());
}

#[test]
fn elements_of_every_type_become_sparse() {
    let dir = Folder::new();
    let one =
        |name: &str, dtype: DType, logical: Option<LogicalType>, width: usize, shape: &[u64]| {
            let count = shape.iter().product::<u64>() as usize;
            let mut bytes = vec![0u8; count * width];
            bytes[width] = 1;
            let mut data = part(Role::Data, dtype, bytes);
            if let Some(logical) = logical {
                data = data.logical(logical);
            }
            dense(name, shape, data)
        };
    let all = [
        one("bool", DType::Bool, None, 1, &[3, 40]),
        one("i64", DType::I64, None, 8, &[40, 3]),
        one("f8", DType::U8, Some(LogicalType::F8E4M3Fn), 1, &[3, 50]),
        one("complex", DType::F32, Some(LogicalType::Complex64), 8, &[3, 20]),
        one("long", DType::F64, None, 8, &[300]),
        one("deep", DType::Bf16, None, 2, &[2, 30, 2, 2]),
    ];
    let source = open(bytes_of("ztensor@1.2.0", &Attributes::new(), &all));
    let (out, report) = dir.convert(&all, "zt", &["coo"]).unwrap();
    assert_eq!(report.reformed.len(), 6, "{report:?}");
    for tensor in source.tensors() {
        let found = out.tensor(tensor.name()).unwrap();
        assert_eq!(found.layout(), &Layout::SparseCoo);
        assert_eq!(found.to_dense().unwrap(), tensor.dense().unwrap(), "{}", tensor.name());
    }
    // A pattern writes only matrices in row form.
    let (out, _) = dir.convert(&all, "zt", &["csr"]).unwrap();
    assert_eq!(out.tensor("long").unwrap().layout(), &Layout::Dense);
    assert_eq!(out.tensor("complex").unwrap().layout(), &Layout::SparseCsr);
}

#[test]
fn patterns_select_shrinking_tensors_and_names_select_all() {
    let dir = Folder::new();
    let full = dense("full", &[2, 2], part(Role::Data, DType::F32, f32s(&[1.0, 2.0, 3.0, 4.0])));
    let half =
        dense("half", &[2], part(Role::Data, DType::U8, vec![1]).logical(LogicalType::F4E2M1));
    let row = dense("row", &[4], part(Role::Data, DType::F32, f32s(&[0.0, 0.0, 1.0, 0.0])));
    let all = [full, half, row, matrix()];
    let layout = |file: &File, name: &str| file.tensor(name).unwrap().layout().clone();
    let (out, report) = dir.convert(&all, "zt", &["csr"]).unwrap();
    assert_eq!(report.reformed.len(), 1);
    assert_eq!(layout(&out, "full"), Layout::Dense);
    assert_eq!(layout(&out, "few"), Layout::SparseCsr);
    let (out, _) = dir.convert(&all, "zt", &["full=csr", "few=keep", "csr"]).unwrap();
    assert_eq!((layout(&out, "full"), layout(&out, "few")), (Layout::SparseCsr, Layout::Dense));
    assert_eq!(dir.fails(&all, "zt", &["half=coo"]), "convert/not-formed");
    assert_eq!(dir.fails(&all, "zt", &["row=csr"]), "convert/not-formed");
    assert_eq!(dir.fails(&all, "zt", &["csr", "coo"]), "convert/form-rule");
    assert_eq!(dir.fails(&all, "zt", &["none.*=csr"]), "select/nothing");
    for rule in [
        "bsr",
        "group",
        "group:4",
        "group:x:1",
        "group:4:1:2",
        "group:4:-2",
        "group:4:0",
        "group:4:",
    ] {
        assert_eq!(FormRule::new(rule).unwrap_err().code(), "convert/form-rule", "{rule}");
    }
    assert_eq!(FormRule::new("group:9:1").unwrap_err().code(), "quantized/bits");
    // Forms that the target cannot hold are refused before anything is written.
    assert_eq!(dir.fails(&all, "safetensors", &["few=csr"]), "convert/cannot-hold");
}

/// The numbers and sums of the test of `quantize` in `holdall-core`: those of `gguf` 0.19.
#[test]
fn a_model_in_blocks_has_the_bytes_that_gguf_py_makes() {
    let text = include_str!("../../holdall-formats/tests/gguf_files/quantize.json");
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut state = 12345u32;
    let numbers: Vec<f32> = (0..4096u32)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (state >> 8) as f32 / 8_388_608.0 - 1.0;
            match i / 256 {
                3 => 0.0,
                4 => 0.75,
                5 => x * 1e-6,
                6 => x * 3000.0,
                7 if i % 32 == 0 => 1.0,
                7 => 0.0,
                8 => (x * 4.0).round(),
                _ => x,
            }
        })
        .collect();
    let dir = Folder::new();
    let made = dense("w", &[8, 512], part(Role::Data, DType::F32, f32s(&numbers)));
    let (plain, _) = dir.convert(&[made], "safetensors", &[]).unwrap();
    for (name, sum) in expected.as_object().unwrap() {
        for to in ["gguf", "zt"] {
            let path = dir.0.path().join(format!("{name}.{to}"));
            let options =
                Convert::new(WriteOptions::new()).with_form(TensorForm::new(name).unwrap());
            let report = holdall::convert(&plain, &path, &options).unwrap();
            let out = holdall::open(&path).unwrap();
            let w = out.tensor("w").unwrap();
            assert_eq!(w.layout().as_str(), format!("gguf.{name}"));
            let stored = w.bytes(&Role::Data).unwrap();
            let mut hasher = holdall_core::model::Hasher::new(holdall::Algorithm::Sha256);
            hasher.update(&stored);
            assert_eq!(format!("sha256:{}", sum.as_str().unwrap()), hasher.finish().to_string());
            let read = w.to_dense().unwrap().to_vec::<f32>().unwrap();
            let errors = numbers.iter().zip(&read);
            let most =
                errors.map(|(x, y)| (f64::from(*x) - f64::from(*y)).abs()).fold(0.0, f64::max);
            let reformed = &report.reformed[0];
            assert_eq!((reformed.form.to_string(), reformed.max_error), (name.clone(), Some(most)));
            assert_eq!((reformed.from_len, reformed.len), (4 * 4096, stored.len() as u64));
            // Tensors with that form already are copied unchanged.
            let again = dir.0.path().join(format!("{name}.again.{to}"));
            assert!(holdall::convert(&out, again, &options).unwrap().reformed.is_empty());
        }
    }
}

#[test]
fn blocks_take_rows_of_whole_ones() {
    let dir = Folder::new();
    let of = |name: &str, shape: &[u64]| {
        let count = shape.iter().product::<u64>() as u32;
        dense(name, shape, part(Role::Data, DType::F32, f32s(&values(count))))
    };
    let all = [of("w", &[4, 64]), of("odd", &[4, 48]), of("norm", &[64])];
    let (out, report) = dir.convert(&all, "gguf", &["Q4_0"]).unwrap();
    assert_eq!(report.reformed.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["w"]);
    assert_eq!(out.tensor("odd").unwrap().layout(), &Layout::Dense);
    let [over] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    let message = "tensor `odd`: it stays as it is: rows of shape [4, 48] are not whole blocks of q4_0, which have 32 elements \
                [convert/not-formed]";
    assert_eq!((over.to_string().as_str(), over.count), (message, 1));
    let (out, _) = dir.convert(&all, "gguf", &["norm=q8_0", "w=keep", "q4_0"]).unwrap();
    assert_eq!(out.tensor("norm").unwrap().layout().as_str(), "gguf.q8_0");
    assert_eq!(out.tensor("w").unwrap().layout(), &Layout::Dense);
    assert_eq!(dir.fails(&all, "gguf", &["odd=q8_0"]), "convert/not-formed");
    let ids = dense("ids", &[1, 32], part(Role::Data, DType::I32, vec![0; 128]));
    assert_eq!(dir.fails(&[ids], "gguf", &["ids=q8_0"]), "convert/not-formed");
    let mut nan = values(32);
    nan[7] = f32::NAN;
    let nan = dense("nan", &[1, 32], part(Role::Data, DType::F32, f32s(&nan)));
    assert_eq!(dir.fails(&[nan], "gguf", &["q8_0"]), "layout/not-finite");
    for rule in ["q8_k", "q9_0", "gguf.iq4_xs"] {
        assert_eq!(FormRule::new(rule).unwrap_err().code(), "convert/form-rule", "{rule}");
    }
    // From one block type to another, by name.
    let (blocks, _) = dir.convert(&all, "zt", &["w=q8_0"]).unwrap();
    let path = dir.0.path().join("other.gguf");
    let options = Convert::new(WriteOptions::new()).with_forms([FormRule::new("w=q4_0").unwrap()]);
    let report = holdall::convert(&blocks, &path, &options).unwrap();
    assert_eq!((report.reformed.len(), report.reformed[0].from_len), (1, 4 * 2 * 34));
    let out = holdall::open(path).unwrap();
    assert_eq!(out.tensor("w").unwrap().layout().as_str(), "gguf.q4_0");
    // Forms that GGUF lacks are refused.
    assert_eq!(dir.fails(&all, "safetensors", &["q8_0"]), "convert/cannot-hold");
}

/// Blocks with searched scales, of more elements than one thread quantizes at a time.
#[test]
fn a_model_in_blocks_of_256_reports_its_error() {
    let dir = Folder::new();
    let numbers = values(320 * 256);
    let w = dense("w", &[320, 256], part(Role::Data, DType::F32, f32s(&numbers)));
    let narrow = dense("narrow", &[8, 32], part(Role::Data, DType::F32, f32s(&values(256))));
    for (name, len) in
        [("q2_k", 84), ("q3_k", 110), ("Q4_K", 144), ("q5_k", 176), ("gguf.q6_k", 210)]
    {
        let mut stored = Vec::new();
        for to in ["gguf", "zt"] {
            let (out, report) = dir.convert(&[w.clone(), narrow.clone()], to, &[name]).unwrap();
            assert_eq!(out.tensor("narrow").unwrap().layout(), &Layout::Dense);
            let reformed = &report.reformed[0];
            assert_eq!((reformed.name.as_str(), reformed.len), ("w", 320 * len), "{name}");
            let w = out.tensor("w").unwrap();
            let read = w.to_dense().unwrap().to_vec::<f32>().unwrap();
            let errors = numbers.iter().zip(&read).map(|(x, y)| f64::from(*x) - f64::from(*y));
            let errors: Vec<f64> = errors.collect();
            let most = errors.iter().fold(0f64, |most, e| most.max(e.abs()));
            assert_eq!(reformed.max_error, Some(most), "{name}");
            let squares: f64 = errors.iter().map(|e| e * e).sum();
            let rms = (squares / errors.len() as f64).sqrt();
            assert!((reformed.rms_error.unwrap() / rms - 1.0).abs() < 1e-12, "{name}");
            assert!(rms < 1.2, "{name}: {rms}");
            stored.push(w.bytes(&Role::Data).unwrap());
        }
        assert_eq!(stored[0], stored[1], "{name}");
    }
    assert_eq!(dir.fails(&[narrow], "gguf", &["narrow=q4_k"]), "convert/not-formed");
    let mut odd = numbers[..512].to_vec();
    odd[300] = f32::INFINITY;
    let odd = dense("odd", &[2, 256], part(Role::Data, DType::F32, f32s(&odd)));
    assert_eq!(dir.fails(&[odd], "gguf", &["q6_k"]), "layout/not-finite");
}

fn values(count: u32) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + 13) % 1009) as f32 / 100.0 - 3.0).collect()
}

#[test]
fn the_reported_error_matches_the_read_values() {
    let dir = Folder::new();
    let all = values(24 * 50);
    for bits in 1..=8u32 {
        for size in ["-1", "1", "7", "32", "5000"] {
            let made = dense("w", &[24, 50], part(Role::Data, DType::F32, f32s(&all)));
            let made = made.attribute("note", Value::Text("kept".into()));
            let made = made.attribute("axis", Value::Integer(0));
            let form = format!("group:{bits}:{size}");
            let (out, report) = dir.convert(&[made], "zt", &[&form]).unwrap();
            let w = out.tensor("w").unwrap();
            assert_eq!(w.layout(), &Layout::QuantizedGroup);
            assert_eq!(w.attributes().get("note"), Some(&Value::Text("kept".into())));
            assert_eq!(w.attributes().get("axis"), None, "it would say how to read what is new");
            let read = w.to_dense().unwrap().to_vec::<f32>().unwrap();
            let errors = all.iter().zip(&read).map(|(x, y)| (f64::from(*x) - f64::from(*y)).abs());
            let (mut max, mut squares) = (0f64, 0f64);
            for e in errors {
                max = max.max(e);
                squares += e * e;
            }
            let reformed = &report.reformed[0];
            assert_eq!(reformed.form.to_string(), form);
            assert_eq!(reformed.max_error, Some(max), "{form}");
            // Groups are summed on all cores in any order, so the last digits may differ.
            let (rms, told_rms) =
                ((squares / all.len() as f64).sqrt(), reformed.rms_error.unwrap());
            assert!((told_rms - rms).abs() <= rms * 1e-12, "{form}: {told_rms} of {rms}");
            // The distance is at most half a step plus the rounding of the scale.
            let step = 10.1 / f64::from((1u32 << bits) - 1);
            assert!(max <= step * 1.01, "{form}: {max} of {step}");
            let len: u64 = w.components().map(|c| c.decoded_len.unwrap()).sum();
            assert_eq!(reformed.len, len);
        }
    }
}

#[test]
fn groups_of_one_are_near_exact_and_zeros_stay_zeros() {
    let dir = Folder::new();
    let one = |values: &[f32], form: &str| {
        let data = part(Role::Data, DType::F32, f32s(values));
        let made = dense("w", &[1, values.len() as u64], data);
        let (out, report) = dir.convert(&[made], "zt", &[form]).unwrap();
        let reformed = report.reformed[0].max_error.unwrap();
        (out.tensor("w").unwrap().to_dense().unwrap().to_vec::<f32>().unwrap(), reformed)
    };
    assert_eq!(one(&[0.0, 0.0, -0.0], "group:4:128"), (vec![0.0; 3], 0.0));
    assert_eq!(one(&[15.0, 7.0, 0.0], "group:4:128"), (vec![15.0, 7.0, 0.0], 0.0));
    assert_eq!(one(&[-8.0, 7.0, 0.0], "group:4:128"), (vec![-8.0, 7.0, 0.0], 0.0));
    // The largest numbers of an f32.
    let (read, reformed) = one(&[f32::MAX, f32::MIN], "group:1:2");
    assert!(read.iter().all(|x| x.is_finite()) && reformed.is_finite(), "{read:?}");
    let tiny = f32::from_bits(1);
    assert_eq!(one(&[tiny, 0.0], "group:8:2"), (vec![0.0, 0.0], f64::from(tiny)));
}

#[test]
fn patterns_quantize_matrices_of_floats() {
    let dir = Folder::new();
    let w = dense("w", &[4, 8], part(Role::Data, DType::F32, f32s(&values(32))));
    let norm = dense("norm", &[8], part(Role::Data, DType::F32, f32s(&values(8))));
    let ids = dense("ids", &[2, 2], part(Role::Data, DType::I32, vec![0; 16]));
    let all = [w.clone(), norm.clone(), ids];
    let (out, report) = dir.convert(&all, "zt", &["group:4:8"]).unwrap();
    assert_eq!(report.reformed.len(), 1);
    assert_eq!(out.tensor("norm").unwrap().layout(), &Layout::Dense);
    let (out, _) = dir.convert(&all, "zt", &["norm=group:8:8"]).unwrap();
    assert_eq!(out.tensor("norm").unwrap().layout(), &Layout::QuantizedGroup);
    assert_eq!(dir.fails(&all, "zt", &["ids=group:4:8"]), "convert/not-formed");
    let nan = dense("nan", &[1, 2], part(Role::Data, DType::F32, f32s(&[1.0, f32::NAN])));
    assert_eq!(dir.fails(&[nan], "zt", &["group:4:8"]), "layout/not-finite");
    let big = [1e300f64, 0.0].map(f64::to_le_bytes).concat();
    let big = dense("big", &[1, 2], part(Role::Data, DType::F64, big));
    assert_eq!(dir.fails(&[big], "zt", &["group:4:8"]), "layout/not-finite");
    // Quantized tensors are written as requested, and dense again.
    let path = dir.0.path().join("back.safetensors");
    holdall::convert(&out, &path, &Convert::new(WriteOptions::new()).with_dense()).unwrap();
    assert_eq!(holdall::open(path).unwrap().tensor("norm").unwrap().layout(), &Layout::Dense);
    // A dry run reports the tensors, but no errors.
    let file = open(bytes_of("ztensor@1.2.0", &Attributes::new(), &all));
    let options =
        Convert::new(WriteOptions::new()).with_form(TensorForm::new("group:4:8").unwrap());
    let (_, plan) = holdall::convert::plan(&file, dir.0.path().join("x.zt"), &options).unwrap();
    assert_eq!(plan.reformed.len(), 1);
    assert_eq!(plan.reformed[0].max_error, None);
}

/// Any matrix of half-precision numbers survives being sparse.
#[test]
fn any_matrix_survives() {
    let dir = Folder::new();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    for round in 0..60 {
        let (rows, columns) = (next() % 9, next() % 9);
        let one = |n: u64| if n.is_multiple_of(4) { (n >> 8) as u8 } else { 0 };
        let bytes: Vec<u8> = (0..rows * columns * 2).map(|_| one(next())).collect();
        let made = dense("w", &[rows, columns], part(Role::Data, DType::F16, bytes.clone()));
        let rule = if round % 2 == 0 { "w=csr" } else { "w=coo" };
        let (out, _) = dir.convert(&[made], "zt", &[rule]).unwrap();
        let read = out.tensor("w").unwrap().to_dense().unwrap();
        assert_eq!(read.shape(), &[rows, columns]);
        assert_eq!(read.into_bytes(), bytes);
    }
}

/// A view that is not in row-major order is converted by its elements, and has no strides any more.
#[test]
fn views_get_a_form_too() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/pytorch");
    let file = holdall::open(folder.join("torch_state.pt")).unwrap();
    assert_eq!(file.tensor("t").unwrap().layout(), &Layout::Strided);
    let dir = tempfile::tempdir().unwrap();
    for (rule, layout) in [("t=group:4:4", Layout::QuantizedGroup), ("t=coo", Layout::SparseCoo)] {
        let target = dir.path().join("out.zt");
        let options = Convert::new(WriteOptions::new().with_overwrite(true))
            .with_forms([FormRule::new(rule).unwrap()]);
        let report = holdall::convert(&file, &target, &options).unwrap();
        assert_eq!(report.reformed.len(), 1);
        let made = holdall::open(&target).unwrap();
        let t = made.tensor("t").unwrap();
        assert_eq!((t.layout(), t.attributes().get("strides")), (&layout, None));
        let (wanted, found) = (file.tensor("t").unwrap(), t.to_dense().unwrap().to_f32().unwrap());
        let wanted = wanted.to_dense().unwrap().to_f32().unwrap();
        let near = report.reformed[0].max_error.unwrap_or(0.0) as f32 + f32::EPSILON;
        assert!(wanted.iter().zip(&found).all(|(a, b)| (a - b).abs() <= near));
    }
}
