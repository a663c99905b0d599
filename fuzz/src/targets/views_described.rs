//! Any description with any components gives elements or an error, and a range of elements equals that part of all
//! elements.

use crate::limits;
use crate::take::{Put, Take};
use holdall::layout::{Decoded, Described};
use holdall::{Component, DType, Encoding, Extent, IndexBuilder, Layout, Layouts, Role};
use std::collections::HashMap;

/// Layouts of several kinds, for inputs that have none.
const DESCRIPTIONS: [&str; 2] = [
    "[layouts.x]\nshape=['r','c']\nindex=['i','j']\nvalue='(a[i,j]-b[i])*d[i]'\n[layouts.x.components]\n\
     a={bits=4,shape=['r','c']}\nb={shape=['r'],default=8}\nd={read_as='f32',shape=['r']}\n",
    "[layouts.x]\ndtype='bf16'\nindex=['k']\nvalue='t[a[k]&3]/b[0]+exp2(d[k//2])'\ntables={t=[1,2.5,-1,0]}\n\
     [layouts.x.components]\na={shape=['count']}\nb={shape=[1],default=0}\nd={shape=['(count+1)//2'],default=1}\n",
];

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let limits = limits::tight();
    let mut take = Take::new(data);
    let shape: Vec<u64> = (0..take.below(4)).map(|_| u64::from(take.u8())).collect();
    let mut parts: HashMap<Role, Decoded> = HashMap::new();
    for name in ["a", "b", "d"] {
        if take.below(4) > 0 {
            parts.insert(Role::from_name(name), take.component());
        }
    }
    let own = take.below(3);
    let rest = take.bytes(take.left());
    let text = DESCRIPTIONS.get(own).map_or(rest, |text| text.as_bytes());
    let layouts = match Layouts::parse(text, &limits) {
        Ok(layouts) => layouts,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    let Some(index) = index(&shape, &parts, &limits) else { return };
    let Some(info) = index.get("w") else { return };
    if info.fault().is_some() || layouts.get("x").is_none() {
        return;
    }
    let get = |role: &Role| Ok(parts.get(role).map(|p| p.bytes.clone()).unwrap_or_default());
    let view = match Described::from_tensor(&info, &layouts, &limits, get) {
        Ok(view) => view,
        Err(e) => return crate::walk::is_of_the_file(&e),
    };
    assert!(view.count() <= limits::DECODED_LEN);
    let dense = match view.to_dense() {
        Ok(dense) => dense,
        Err(e) => {
            view.check().expect_err("an element has no value");
            return crate::walk::is_of_the_file(&e);
        }
    };
    view.check().expect("all have values");
    let width = view.dtype().dtype().width();
    assert_eq!(dense.bytes().len() as u64, view.count() * width);
    for step in [1, 7, 1000, 5000] {
        let end = if step < 7 { view.count().min(100) } else { view.count() };
        let mut at = 0;
        while at < end {
            let to = view.count().min(at + step);
            let mut out = Vec::new();
            view.elements(at..to, &mut out).expect("the range is inside");
            let all = dense.bytes().slice((at * width) as usize..(to * width) as usize);
            assert_eq!(out, all, "elements {at}..{to} differ when read alone");
            at = to;
        }
    }
}

/// Returns an index with a tensor that has these components, one after the other.
fn index(
    shape: &[u64],
    parts: &HashMap<Role, Decoded>,
    limits: &holdall::Limits,
) -> Option<holdall::Index> {
    let len: u64 = parts.values().map(|p| p.bytes.len() as u64).sum();
    let mut builder = IndexBuilder::new("ztensor", "1.2.0", len, 0..len, limits);
    builder.tensor("w", shape, Layout::Other("x".into())).ok()?;
    let mut start = 0;
    for (role, part) in parts {
        let end = start + part.bytes.len() as u64;
        let component = Component {
            role: role.clone(),
            dtype: part.dtype,
            logical_type: part.logical_type.clone(),
            ..Component::for_bytes(Extent::new(0, start..end), Encoding::Raw, end - start)
        };
        builder.component(component).ok()?;
        start = end;
    }
    builder.finish().ok()
}

/// Returns the given description, and the constant ones, with components that fit.
pub(crate) fn seeds(text: &[u8]) -> Vec<Vec<u8>> {
    let one = |own: u8, has_all: bool| {
        let mut put = Put::default();
        put.0.extend([2, 3, 6]);
        let floats = [0.5f32, -2.0, 3.0].map(f32::to_le_bytes).concat();
        for (dtype, bytes) in [
            (DType::U8, &[0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x01][..]),
            (DType::I8, &[1, 255, 7]),
            (DType::U8, &floats[..]),
        ] {
            let is_there = has_all || dtype == DType::U8;
            put.u8(is_there.into());
            if is_there {
                put.types(dtype, None);
                put.run(bytes);
            }
        }
        put.u8(own);
        put.0.extend_from_slice(text);
        put.0
    };
    (0..3).flat_map(|own| [one(own, true), one(own, false)]).collect()
}
