//! A model in memory: its tensors, and the texts of its folder.

use bytes::Bytes;
use holdall_core::error::Result;
use holdall_core::layout::{Computed as _, Decoded};
use holdall_core::{Attributes, DType, LogicalType, Value};
use holdall_models::quantized::{
    QuantizationTexts, QuantizedWeight, StoredTensor, StoredTensors, find, small_tensors,
};
use std::collections::BTreeMap;
use std::path::Path;

/// A tensor: its type in the spelling of safetensors, its shape, and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: Bytes,
}

/// A model in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) tensors: BTreeMap<String, Stored>,
    pub(crate) texts: QuantizationTexts,
}

pub(crate) fn types(dtype: &str) -> (DType, Option<LogicalType>) {
    match dtype {
        "F64" => (DType::F64, None),
        "F32" => (DType::F32, None),
        "F16" => (DType::F16, None),
        "BF16" => (DType::Bf16, None),
        "I64" => (DType::I64, None),
        "I32" => (DType::I32, None),
        "U32" => (DType::U32, None),
        "I8" => (DType::I8, None),
        "U8" => (DType::U8, None),
        "F8_E4M3" => (DType::U8, Some(LogicalType::F8E4M3Fn)),
        "F8_E5M2" => (DType::U8, Some(LogicalType::F8E5M2)),
        "F8_E8M0" => (DType::U8, Some(LogicalType::F8E8M0)),
        other => panic!("{other}"),
    }
}

impl Model {
    /// Reads `model.safetensors` and the texts of a folder.
    pub(crate) fn open(folder: &Path) -> Model {
        let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
        let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = std::str::from_utf8(&bytes[8..8 + len]).unwrap();
        let Value::Map(members) = Value::from_json(header, 64).unwrap() else { panic!() };
        let data = Bytes::from(bytes).slice(8 + len..);
        let mut model = Model::default();
        for (name, value) in members {
            let name = name.as_text().unwrap().to_owned();
            if name == "__metadata__" {
                let Value::Map(pairs) = value else { panic!() };
                let pairs = pairs.into_iter().map(|(k, v)| (k.as_text().unwrap().to_owned(), v));
                model.texts.metadata = pairs.collect::<Attributes>();
                continue;
            }
            let numbers = |key| numbers(member(&value, key).unwrap());
            let range = numbers("data_offsets");
            let bytes = data.slice(range[0] as usize..range[1] as usize);
            let dtype = member(&value, "dtype").unwrap().as_text().unwrap().to_owned();
            model.tensors.insert(name, Stored { dtype, shape: numbers("shape"), bytes });
        }
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        model.texts.config = text("config.json");
        model.texts.quantize_config = text("quantize_config.json");
        model.texts.hf_quant_config = text("hf_quant_config.json");
        model.texts.quanto_qmap = text("quanto_qmap.json");
        model
    }

    pub(crate) fn find(&self) -> Result<Vec<QuantizedWeight>> {
        let stored = StoredTensors::new(self.tensors.iter().map(|(name, tensor)| {
            let (dtype, logical_type) = types(&tensor.dtype);
            StoredTensor { name: name.clone(), dtype, logical_type, shape: tensor.shape.clone() }
        }));
        let small = small_tensors(&stored);
        let small =
            small.iter().map(|name| ((*name).to_owned(), self.tensors[*name].bytes.clone()));
        let small = small.collect();
        find(&stored, &self.texts, &small)
    }

    pub(crate) fn component(&self, name: &str) -> Decoded {
        let tensor = &self.tensors[name];
        let (dtype, logical_type) = types(&tensor.dtype);
        Decoded { dtype, logical_type, bytes: tensor.bytes.clone() }
    }

    /// Returns all values of a weight, and compares them with those of ranges.
    pub(crate) fn values(&self, weight: &QuantizedWeight) -> Result<Vec<f32>> {
        let view = weight.values(|role| {
            let companion = weight.components().iter().find(|c| c.role == role);
            Ok(self.component(&companion.unwrap_or_else(|| panic!("{role}")).tensor))
        })?;
        assert_eq!(view.shape(), weight.shape());
        assert_eq!(view.count(), weight.shape().iter().product::<u64>());
        let all = view.dequantize()?;
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let count = view.count();
        let row = weight.shape().last().copied().unwrap_or(1).max(1);
        let mut ranges = vec![(0, 0), (count / 3, count), (0, count / 2), (count / 2, count)];
        for at in 0..(count / row).min(9) {
            ranges.push((at * row, (at + 1) * row));
            ranges.push((
                (at * row + 1).min(count),
                (at * row + 2 * row).saturating_sub(1).min(count),
            ));
        }
        for n in 0..40u64 {
            let start = (n * 7919) % count.max(1);
            ranges.push((start, (start + 1 + (n * 31) % (3 * row)).min(count)));
        }
        for (start, end) in ranges.into_iter().filter(|(start, end)| start <= end) {
            let mut out = vec![f32::NAN; (end - start) as usize];
            view.dequantize_range(start..end, &mut out)?;
            assert_eq!(bits(&out), bits(&all[start as usize..end as usize]), "{start}..{end}");
        }
        assert!(view.dequantize_range(0..count + 1, &mut vec![0.0; count as usize + 1]).is_err());
        Ok(all)
    }
}

pub(crate) fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let Value::Map(pairs) = value else { return None };
    pairs.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
}

pub(crate) fn numbers(value: &Value) -> Vec<u64> {
    let Value::Array(values) = value else { panic!() };
    values.iter().map(|n| n.as_integer().unwrap() as u64).collect()
}
