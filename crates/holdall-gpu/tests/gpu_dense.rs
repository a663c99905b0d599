//! Tensors converted to dense floats on the device, compared bit for bit with the CPU's.

mod common;

use common::{any_bytes, device, open, with_limits};
use holdall::{
    BLOCK_TYPES, ComponentSpec, DType, File, Layout, LogicalType, Role, TensorSpec, Value,
    WriteOptions, Writer, formats,
};
use holdall_gpu::{Converter, Float, LoadOptions, load_model};
use std::path::Path;

/// Returns the tensor `w` of a file as the CPU converts it, and as the device does.
fn both(file: &File, device: &wgpu::Device, queue: &wgpu::Queue) -> (Vec<f32>, Vec<f32>, Vec<u16>) {
    let model = load_model(device, queue, file, &LoadOptions::new()).unwrap();
    let converter = Converter::new(device, queue);
    let tensor = model.tensor("w").unwrap();
    let wide = converter.dense(tensor, Float::F32).unwrap().read(device, queue).unwrap();
    let narrow = converter.dense(tensor, Float::F16).unwrap().read(device, queue).unwrap();
    (
        file.tensor("w").unwrap().to_dense().unwrap().to_f32().unwrap(),
        wide.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        narrow.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect(),
    )
}

fn compare(what: &str, file: &File, device: &wgpu::Device, queue: &wgpu::Queue) {
    let (ours, theirs, halves) = both(file, device, queue);
    assert_eq!(ours.len(), theirs.len(), "{what}");
    assert_eq!(ours.len(), halves.len(), "{what}");
    for (i, (x, y)) in ours.iter().zip(&theirs).enumerate() {
        let same = x.to_bits() == y.to_bits()
            || (x.is_nan() && y.is_nan())
            || (x.abs() < f32::MIN_POSITIVE && *y == 0.0);
        assert!(
            same || !x.is_finite(),
            "{what}: element {i} is {x:?} ({:08x}), on the device {y:?} ({:08x})",
            x.to_bits(),
            y.to_bits()
        );
        let half = half::f16::from_f32(*y);
        let same = half.to_bits() == halves[i] || half.is_nan();
        assert!(
            same,
            "{what}: element {i}, {y:?}, is {:04x} as a half, on the device {:04x}",
            half.to_bits(),
            halves[i]
        );
    }
}

fn write(path: &Path, format: &str, spec: TensorSpec, bytes: &[u8]) -> File {
    let options =
        WriteOptions::new().with_format(formats::by_name(format).unwrap()).with_overwrite(true);
    let mut writer = Writer::create(path, &options).unwrap();
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.tensor(spec).unwrap();
    writer.write(bytes).unwrap();
    writer.finish().unwrap();
    open(path)
}

#[test]
fn every_number_of_16_bits_and_fewer_is_the_same() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::F16, DType::Bf16, DType::I16, DType::U16] {
        let file = write(&path, "ztensor", TensorSpec::dense("w", dtype, [1 << 16]), &all);
        compare(dtype.as_str(), &file, &device, &queue);
    }
    let bytes: Vec<u8> = (0..=u8::MAX).chain([7]).collect();
    for dtype in [DType::I8, DType::U8] {
        let file = write(&path, "ztensor", TensorSpec::dense("w", dtype, [257]), &bytes);
        compare(dtype.as_str(), &file, &device, &queue);
    }
    for logical in LogicalType::KNOWN {
        let per_byte = match logical.bits() {
            Some(8) => 1,
            Some(4) => 2,
            _ => continue,
        };
        let mut spec = TensorSpec::dense("w", DType::U8, [256 * per_byte]);
        spec.components[0].logical_type = Some(logical.clone());
        spec.components[0].decoded_len = 256;
        let file = write(&path, "ztensor", spec, &bytes[..256]);
        compare(logical.as_str(), &file, &device, &queue);
    }
    // Every way in which a 32-bit float is rounded to 16 bits.
    let mut bits: Vec<u32> =
        vec![0, 1, 0x7f80_0000, 0x7fc0_0000, 0x7f7f_ffff, 0x477f_efff, 0x477f_f000];
    for exponent in 96..=144u32 {
        for mantissa in [0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7f_f000, 0x7f_ffff]
        {
            bits.push(exponent << 23 | mantissa);
        }
    }
    let bytes: Vec<u8> =
        bits.iter().flat_map(|b| [*b, b | 1 << 31]).flat_map(u32::to_le_bytes).collect();
    let count = bytes.len() as u64 / 4;
    let file = write(&path, "ztensor", TensorSpec::dense("w", DType::F32, [count]), &bytes);
    compare("f32", &file, &device, &queue);
}

#[test]
fn blocks_are_the_same_wherever_they_are_worked_out() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    for of in &BLOCK_TYPES {
        let rows = 5;
        let shape = [rows, 2 * of.elements];
        let mut bytes = any_bytes((rows * 2 * of.bytes) as usize, 3);
        // NaN and infinite scales are tested elsewhere: here they are finite.
        for at in 0..bytes.len() / 2 {
            let half = u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
            if half >> 10 & 31 == 31 {
                bytes[2 * at + 1] &= 0xbf;
            }
        }
        let mut spec = TensorSpec::dense("w", DType::U8, shape);
        spec.layout = Layout::Blocks(of);
        spec.components[0].decoded_len = bytes.len() as u64;
        let file = write(&path, "gguf", spec, &bytes);
        compare(of.as_str(), &file, &device, &queue);
    }
}

#[test]
fn a_tensor_of_several_pages_is_read_across_them() {
    let small = |limits: wgpu::Limits| wgpu::Limits {
        max_storage_buffer_binding_size: 64 << 10,
        max_buffer_size: 1 << 20,
        ..limits
    };
    let Some((device, queue)) = with_limits(small) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let bytes: Vec<u8> =
        (0..100_000u32).flat_map(|i| half::bf16::from_f32(i as f32 / 7.0).to_le_bytes()).collect();
    let file = write(&path, "ztensor", TensorSpec::dense("w", DType::Bf16, [100, 1000]), &bytes);
    compare("bf16 in pages", &file, &device, &queue);
}

#[test]
fn types_without_a_shader_are_errors() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let file = write(&path, "ztensor", TensorSpec::dense("w", DType::F64, [2]), &[0; 16]);
    let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
    let converter = Converter::new(&device, &queue);
    let e = converter.dense(model.tensor("w").unwrap(), Float::F32).unwrap_err();
    assert_eq!((e.code(), e.tensor()), ("gpu/conversion", Some("w")));
    assert!(e.to_string().contains("f64"), "{e}");
}

/// Bits, elements and words of a block, the type of its words, the name of the packing.
type Packing = (u64, u64, u64, DType, Option<&'static str>);

const WAYS: [Packing; 9] = [
    (4, 8, 1, DType::I32, None),
    (4, 2, 1, DType::U8, Some("2_per_u8")),
    (8, 1, 1, DType::I8, Some("1_per_i8")),
    (2, 16, 1, DType::U32, None),
    (3, 10, 1, DType::I32, Some("10_per_i32")),
    (3, 32, 3, DType::I32, Some("32_per_3_i32")),
    (5, 8, 5, DType::U8, None),
    (1, 8, 1, DType::U8, None),
    (4, 8, 1, DType::I32, Some("8_per_i32_awq")),
];

/// Numbers that 16 bits represent exactly.
fn halves(count: u64, dtype: DType) -> Vec<u8> {
    let numbers = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 16.0);
    match dtype {
        DType::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        DType::F16 => numbers.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(),
        _ => numbers.flat_map(|x| half::bf16::from_f32(x).to_le_bytes()).collect(),
    }
}

#[test]
fn groups_are_the_same_wherever_they_are_worked_out() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let converter = Converter::new(&device, &queue);
    let (rows, columns) = (40u64, 64u64);
    let mut tried = 0;
    for (n, (bits, per, words, word, name)) in WAYS.into_iter().enumerate() {
        for axis in [None, Some(0)] {
            for (size, scale) in [(16i64, DType::F32), (-1, DType::F16)] {
                let is_awq = name.is_some_and(|n| n.ends_with("awq"));
                let down = axis == Some(0) && !is_awq;
                let block = words * word.width();
                let len = match down {
                    true => rows.div_ceil(per) * columns * block,
                    false => (rows * columns).div_ceil(per) * block,
                };
                let groups = match (axis, size) {
                    (None, -1) => rows,
                    (None, size) => (rows * columns).div_ceil(size as u64),
                    (Some(_), -1) => columns,
                    (Some(_), size) => rows.div_ceil(size as u64) * columns,
                };
                let mut zeros = vec![None, Some((DType::F16, halves(groups, DType::F16)))];
                zeros.push(Some((DType::I8, (0..groups).map(|g| (g % 16) as u8).collect())));
                if word.width() > 1 && !(axis.is_some() && columns % per != 0) {
                    let len = groups.div_ceil(per) * block;
                    zeros.push(Some((word, any_bytes(len as usize, 3))));
                }
                for zeros in zeros {
                    let mut spec = TensorSpec::dense("w", word, [rows, columns]);
                    spec.layout = Layout::QuantizedGroup;
                    let integer = |n: i64| Value::Integer(n.into());
                    spec.attributes.set("bits", integer(bits as i64));
                    spec.attributes.set("group_size", integer(size));
                    spec.attributes.set("zero_offset", integer((n % 2) as i64));
                    if let Some(name) = name {
                        spec.attributes.set("packing", Value::Text(name.into()));
                    }
                    if let Some(axis) = axis {
                        spec.attributes.set("axis", integer(axis));
                    }
                    let mut parts = vec![
                        (
                            ComponentSpec::new(Role::PackedWeight, word, len),
                            any_bytes(len as usize, 3),
                        ),
                        (
                            ComponentSpec::new(Role::Scales, scale, groups * scale.width()),
                            halves(groups, scale),
                        ),
                    ];
                    if let Some((dtype, bytes)) = zeros {
                        let spec = ComponentSpec::new(Role::Zeros, dtype, bytes.len() as u64);
                        parts.push((spec, bytes));
                    }
                    spec.components = parts.iter().map(|(spec, _)| spec.clone()).collect();
                    let options = WriteOptions::new().with_overwrite(true);
                    let mut writer = Writer::create(&path, &options).unwrap();
                    writer.tensor(spec).unwrap();
                    for (_, bytes) in &parts {
                        writer.write(bytes).unwrap();
                    }
                    writer.finish().unwrap();
                    let what = format!(
                        "{bits} bits, {name:?}, axis {axis:?}, groups of {size}, {} parts",
                        parts.len()
                    );
                    let file = open(&path);
                    let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
                    let wide = converter.dense(model.tensor("w").unwrap(), Float::F32).unwrap();
                    let wide = wide.read(&device, &queue).unwrap();
                    let wide = wide.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
                    let ours = file.tensor("w").unwrap().to_dense().unwrap().to_f32().unwrap();
                    assert!(ours.iter().map(|x| x.to_bits()).eq(wide), "{what}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn rows_name_their_groups() {
    let Some((device, queue)) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.zt");
    let converter = Converter::new(&device, &queue);
    let (rows, columns, groups) = (40u64, 24u64, 3u64);
    let of_row = |row: u64| (row * 7 + 1) % groups;
    for (dtype, bad) in [
        (DType::I32, None),
        (DType::I64, None),
        (DType::U16, None),
        (DType::U8, None),
        (DType::I32, Some(3)),
        (DType::I64, Some(1 << 32)),
        (DType::I64, Some(u64::MAX)),
    ] {
        let number = |row: u64| if row == 5 { bad.unwrap_or(of_row(row)) } else { of_row(row) };
        let named: Vec<u8> = (0..rows)
            .flat_map(|row| number(row).to_le_bytes()[..dtype.width() as usize].to_vec())
            .collect();
        let parts = [
            (Role::PackedWeight, DType::I32, any_bytes((rows * columns / 2) as usize, 3)),
            (Role::Scales, DType::F16, halves(groups * columns, DType::F16)),
            (Role::from_name("g_idx"), dtype, named),
        ];
        let mut spec = TensorSpec::dense("w", DType::I32, [rows, columns]);
        spec.layout = Layout::QuantizedGroup;
        for (key, n) in [("bits", 4), ("group_size", 16), ("axis", 0)] {
            spec.attributes.set(key, Value::Integer(n));
        }
        let component = |(role, dtype, bytes): &(Role, DType, Vec<u8>)| {
            ComponentSpec::new(role.clone(), *dtype, bytes.len() as u64)
        };
        spec.components = parts.iter().map(component).collect();
        let mut writer = Writer::create(&path, &WriteOptions::new().with_overwrite(true)).unwrap();
        writer.tensor(spec).unwrap();
        parts.iter().for_each(|(_, _, bytes)| writer.write(bytes).unwrap());
        writer.finish().unwrap();
        let file = open(&path);
        if bad.is_none() {
            compare(dtype.as_str(), &file, &device, &queue);
            continue;
        }
        // Elements that the CPU refuses are NaN on the device.
        assert_eq!(
            file.tensor("w").unwrap().to_dense().unwrap_err().code(),
            "quantized/group-index"
        );
        let model = load_model(&device, &queue, &file, &LoadOptions::new()).unwrap();
        let dense = converter.dense(model.tensor("w").unwrap(), Float::F32).unwrap();
        let bytes = dense.read(&device, &queue).unwrap();
        let floats: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        for (row, floats) in floats.chunks(columns as usize).enumerate() {
            assert!(floats.iter().all(|x| x.is_nan() == (row == 5)), "{dtype}, row {row}");
        }
    }
}
