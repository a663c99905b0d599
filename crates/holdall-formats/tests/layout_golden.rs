//! Views of the sparse and quantized tensors that other writers made.

use half::f16;
use holdall_core::codec::zstd::Stream;
use holdall_core::layout::Computed as _;
use holdall_core::layout::dense::Dense;
use holdall_core::layout::quantized::Quantized;
use holdall_core::layout::sparse::{Coo, Csr};
use holdall_core::model::TensorInfo;
use holdall_core::{Bytes, Encoding, Index, Layout, Limits, Result, Role, Window};
use std::path::Path;

struct Golden {
    bytes: Bytes,
    index: Index,
}

fn open(name: &str) -> Golden {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept/ztensor");
    let bytes = Bytes::from(std::fs::read(folder.join(name)).unwrap());
    let Ok(index) = holdall_formats::decode(&Window::whole(bytes.clone()), &Limits::default())
    else {
        panic!("{name} does not decode");
    };
    Golden { bytes, index }
}

impl Golden {
    /// The decoded bytes of a component: all are small. Not every file says how many there are.
    fn get(&self, info: &TensorInfo, role: &Role) -> Result<Bytes> {
        let c = info.component(role).unwrap();
        let stored = self.bytes.slice(c.stored.start as usize..c.stored.end as usize);
        if c.encoding == Encoding::Raw {
            return Ok(stored);
        }
        let mut out = vec![0; 4096];
        let mut stream = Stream::new(&Limits::default());
        let (read, written) = stream.decode(&stored, &mut out)?;
        assert!(read == stored.len() && stream.is_whole());
        out.truncate(written);
        Ok(out.into())
    }

    fn dense(&self, name: &str) -> Dense {
        let info = self.index.get(name).unwrap();
        let limits = Limits::default();
        let get = |role: &Role| self.get(&info, role);
        match info.layout() {
            Layout::SparseCsr | Layout::PackedCsr => {
                Csr::from_tensor(&info, get, &limits).unwrap().to_dense(&limits).unwrap()
            }
            Layout::SparseCoo | Layout::PackedCoo => {
                Coo::from_tensor(&info, get, &limits).unwrap().to_dense(&limits).unwrap()
            }
            _ => Quantized::from_tensor(&info, get).unwrap().to_dense(&limits).unwrap(),
        }
    }
}

#[test]
fn sparse_tensors_of_all_versions() {
    let (new, old) = (open("v1.2-sparse.zt"), open("v1.0-sparse.zt"));
    let mut nonzero = 0;
    for info in new.index.tensors() {
        let d = new.dense(info.name());
        assert_eq!(d.shape(), info.shape());
        nonzero += usize::from(d.bytes().iter().any(|b| *b != 0));
        if old.index.get(info.name()).is_some() {
            assert_eq!(old.dense(info.name()), d, "{}", info.name());
        }
    }
    assert_eq!((new.index.len(), nonzero), (15, 12));
    // Another layout's view is refused.
    let info = new.index.get("csr_f32").unwrap();
    let e = Coo::from_tensor(&info, |role| new.get(&info, role), &Limits::default()).unwrap_err();
    assert_eq!(e.code(), "layout/wrong-layout");
    let e = Quantized::from_tensor(&info, |role| new.get(&info, role)).unwrap_err();
    assert_eq!(e.code(), "layout/wrong-layout");
}

#[test]
fn packed_tensors_of_version_0_1() {
    let golden = open("v0.1-sparse_layouts.zt");
    let coo = golden.dense("coo_f64");
    assert_eq!(coo.to_vec::<f64>().unwrap(), [0.0, 1.5, 0.0, 0.0, -2.5, 0.0]);
    for name in ["csr_f64", "csr_f64_zstd"] {
        let csr = golden.dense(name);
        assert_eq!(csr.to_vec::<f64>().unwrap(), [0.0, 0.0, 0.0, 7.25, 0.0, 0.0]);
    }
}

#[test]
fn quantized_groups() {
    let golden = open("v1.2-quantized.zt");
    assert_eq!(golden.index.len(), 4);
    for info in golden.index.tensors() {
        let found = golden.dense(info.name()).to_vec::<f32>().unwrap();
        let bytes = |name: &str| golden.get(&info, &Role::from_name(name)).unwrap();
        let (packed, scales, zeros) = (bytes("packed_weight"), bytes("scales"), bytes("zeros"));
        let half =
            |all: &Bytes, at: usize| f16::from_le_bytes([all[2 * at], all[2 * at + 1]]).to_f32();
        // 4 bits, low nibble first in a little-endian word; groups of 32.
        let wanted: Vec<f32> = (0..64 * 32)
            .map(|k| {
                let q = (packed[k / 2] >> (k % 2 * 4)) & 15;
                (f32::from(q) - half(&zeros, k / 32)) * half(&scales, k / 32)
            })
            .collect();
        let same = found.iter().zip(&wanted).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same && found.len() == wanted.len(), "{}", info.name());
    }
}
