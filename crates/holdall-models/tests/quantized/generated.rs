//! Generated weights of every kind: their values, and refusals.

use super::made::{Made, Random, all};
use super::model::{Model, Stored};
use bytes::Bytes;
use holdall_models::quantized::Kind;

fn check(made: &Made) {
    let found = made.model.find().unwrap();
    let about = || format!("{}: {:?} {found:?}", made.kind, made.shape);
    assert_eq!(found.len(), 1, "{}", about());
    let weight = &found[0];
    assert!(weight.fault().is_none(), "{}", about());
    assert_eq!((weight.name(), weight.shape()), (made.name, &made.shape[..]), "{}", about());
    assert_eq!(weight.kind(), made.kind);
    let values = made.model.values(weight).unwrap();
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&values), bits(&made.values), "{}", about());
}

#[test]
fn values_follow_the_formula_of_the_kind_for_ragged_shapes() {
    for seed in 1..40 {
        all(seed).iter().for_each(check);
    }
}

#[test]
fn a_missing_companion_is_a_fault() {
    for seed in 1..6 {
        for made in all(seed) {
            for name in &made.required {
                let mut model = made.model.clone();
                model.tensors.remove(*name);
                refused(&model, &format!("{} without {name}", made.kind));
            }
        }
    }
}

/// Checks that a model has a fault and no sound weight.
fn refused(model: &Model, about: &str) {
    let found = model.find().unwrap();
    assert!(!found.is_empty(), "{about}: nothing found");
    for weight in &found {
        let Some(fault) = weight.fault() else {
            let values = model.values(weight);
            panic!("{about}: {weight:?}: {}", values.is_ok());
        };
        assert!(fault.code().starts_with("quantized-weight/"), "{about}: {fault}");
    }
}

#[test]
fn a_companion_of_another_shape_is_a_fault() {
    for seed in 1..6 {
        for made in all(seed) {
            for name in &made.required {
                let stored = &made.model.tensors[*name];
                let (shape, len) = (&stored.shape, stored.bytes.len());
                // One more row, one more column, and one more dimension.
                let mut shapes = Vec::new();
                for at in 0..shape.len() {
                    let mut other = shape.clone();
                    other[at] += 1;
                    shapes.push(other);
                }
                shapes.push([&[3], &shape[..]].concat());
                for other in shapes {
                    let old: u64 = shape.iter().product();
                    let width = len as u64 / old.max(1);
                    let new = (other.iter().product::<u64>() * width) as usize;
                    let mut bytes = stored.bytes.to_vec();
                    bytes.resize(new, 1);
                    let mut model = made.model.clone();
                    let changed = Stored {
                        dtype: stored.dtype.clone(),
                        shape: other.clone(),
                        bytes: Bytes::from(bytes),
                    };
                    model.tensors.insert((*name).to_owned(), changed);
                    let found = model.find().unwrap();
                    // A larger weight can be a weight too, if its scales fit it as well.
                    let is_weight = found.iter().any(|w| {
                        w.fault().is_none()
                            && w.components()
                                .iter()
                                .any(|c| c.role == "weight" && c.tensor == *name)
                    });
                    // compressed-tensors had two packings, which the number of words tells apart.
                    if is_weight && made.kind == Kind::CompressedPacked {
                        continue;
                    }
                    if is_weight && found.iter().all(|w| w.shape() != made.shape) {
                        found.iter().for_each(|weight| drop(model.values(weight).unwrap()));
                        continue;
                    }
                    refused(
                        &model,
                        &format!("{} {:?} with {name} of shape {other:?}", made.kind, made.shape),
                    );
                }
            }
        }
    }
}

#[test]
fn an_unknown_companion_is_a_fault() {
    for made in all(3) {
        let mut model = made.model.clone();
        let bytes = Bytes::from_static(&[0; 4]);
        let unknown = Stored { dtype: "F32".to_owned(), shape: vec![1], bytes };
        model.tensors.insert(format!("{}_scale_9", made.name), unknown);
        refused(&model, &format!("{} with an unknown companion", made.kind));
    }
}

#[test]
fn hostile_shapes_are_faults_or_are_refused() {
    let sizes = [0, 1, 3, 1 << 20, 1 << 31, 1 << 33, 1 << 62, u64::MAX];
    let mut random = Random::new(9);
    for seed in 1..4 {
        for made in all(seed) {
            for _ in 0..300 {
                let mut model = made.model.clone();
                for stored in model.tensors.values_mut() {
                    for size in &mut stored.shape {
                        if random.below(3) == 0 {
                            *size = sizes[random.below(8) as usize];
                        }
                    }
                }
                let Ok(found) = model.find() else { continue };
                for weight in found {
                    let values = weight.values(|role| {
                        let companion = weight.components().iter().find(|c| c.role == role);
                        Ok(model.component(&companion.unwrap().tensor))
                    });
                    // The bytes do not fit the shapes any more, unless little has changed.
                    if let Ok(values) = values {
                        use holdall_core::layout::Computed as _;
                        assert!(values.count() <= 1 << 24);
                        drop(values.dequantize());
                    }
                }
            }
        }
    }
}

#[test]
fn kinds_that_are_not_supported_are_refused_by_name() {
    let mut convrot = all(2).pop().unwrap();
    assert_eq!(convrot.kind, Kind::ComfyInt8);
    let json = b"{\"format\": \"int8_tensorwise\", \"convrot\": true}";
    let stored = Stored {
        dtype: "U8".to_owned(),
        shape: vec![json.len() as u64],
        bytes: Bytes::from_static(json),
    };
    convrot.model.tensors.insert("a.comfy_quant".to_owned(), stored);
    let found = convrot.model.find().unwrap();
    let fault = found[0].fault().unwrap();
    assert_eq!(fault.code(), "quantized-weight/kind");
    assert!(fault.message().contains("convrot"), "{fault}");
}

#[test]
fn ordinary_models_have_no_quantized_weights() {
    let mut model = Model::default();
    let plain = |shape: &[u64], dtype: &str, width: usize| Stored {
        dtype: dtype.to_owned(),
        shape: shape.to_vec(),
        bytes: vec![0; shape.iter().product::<u64>() as usize * width].into(),
    };
    for (name, shape, dtype, width) in [
        ("a.weight", &[4u64, 4][..], "BF16", 2),
        ("a.bias", &[4], "BF16", 2),
        ("norm.scale", &[4], "F32", 4),
        ("logit_scale", &[], "F32", 4),
        ("layer_scale.scales", &[4], "F32", 4),
        ("position_ids", &[1, 4], "I64", 8),
        ("mask", &[4, 4], "U8", 1),
        ("x.weight", &[4, 4], "F8_E4M3", 1),
    ] {
        model.tensors.insert(name.to_owned(), plain(shape, dtype, width));
    }
    let found = model.find().unwrap();
    assert!(found.is_empty(), "{found:?}");
}
