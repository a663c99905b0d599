//! Gathers members of many records as columns: the result is the same for any number of threads, any
//! selection of records and any source of their bytes; and the first wrong record is reported.

use crate::records_files::{self, dataset, made, open, sample, write};
use bytes::Bytes;
use holdall::records::RecordBytes;
use holdall::records::gather::{Gathered, RowSelection, TextForm, Values};
use holdall::schema::{Entry, Path};
use holdall::{DType, Error, Io, Records, TensorRecords as _, Work, WriteOptions};
use serde_json::json;

/// Damages the bytes of records and of their heap, for the record with that index.
type Breaks<'b> = dyn Fn(&mut Vec<u8>, &mut Vec<u8>, usize) + 'b;

/// More than one block of records, and enough for two threads.
const COUNT: u64 = 6_000;
const MEMBERS: [&str; 13] = [
    "",
    "id",
    "x",
    "half",
    "label",
    "flag",
    "text",
    "tags",
    "box",
    "shape",
    "meta",
    "mask",
    "shape.named.name",
];

fn gathered(records: &Records, chosen: &RowSelection<'_, '_>, threads: usize) -> Vec<Vec<String>> {
    let paths = MEMBERS.map(|path| path.parse::<Path>().unwrap());
    let work = Work::new().with_threads(threads);
    let columns = records.gather(&paths, chosen, &work).unwrap();
    let found: Vec<Vec<String>> = columns.iter().map(rows).collect();
    let views = records.gather_views(&paths, chosen, &work).unwrap();
    assert!(matches!(views[6].values, Values::Views(..)));
    assert!(views.iter().map(rows).eq(found.iter().cloned()));
    let short = [TextForm::Offsets32; MEMBERS.len()];
    let short = records.gather_as(&paths, &short, chosen, &work).unwrap();
    assert!(matches!(short[6].values, Values::Binary32(..)));
    assert!(short.iter().map(rows).eq(found.iter().cloned()));
    found
}

/// Returns each value of a column, as text.
fn rows(column: &Gathered) -> Vec<String> {
    let len = column.len;
    let bit = |bits: &[u8], at: usize| bits[at / 8] >> (at % 8) & 1 == 1;
    let ends = |ends: &[u8]| -> Vec<usize> {
        ends.as_chunks().0.iter().map(|end| i64::from_le_bytes(*end) as usize).collect()
    };
    let lists = |below: Vec<String>, ends: Vec<usize>| -> Vec<String> {
        assert_eq!((ends.len(), *ends.last().unwrap()), (len + 1, below.len()));
        ends.windows(2).map(|w| format!("{:?}", &below[w[0]..w[1]])).collect()
    };
    let mut out: Vec<String> = match &column.values {
        Values::Bits(data) => (0..len).map(|at| bit(data.as_ref(), at).to_string()).collect(),
        Values::Numbers(data) | Values::EnumIndices(data, _) => {
            let width = data.as_ref().len() / len.max(1);
            data.as_ref().chunks(width.max(1)).map(|number| format!("{number:?}")).collect()
        }
        Values::Binary64(to, bytes) => {
            let to = ends(to);
            assert_eq!((to.len(), to[len]), (len + 1, bytes.len()));
            to.windows(2).map(|w| String::from_utf8(bytes[w[0]..w[1]].to_vec()).unwrap()).collect()
        }
        Values::Binary32(to, bytes) => {
            let to: Vec<usize> =
                to.as_chunks().0.iter().map(|end| i32::from_le_bytes(*end) as usize).collect();
            assert_eq!((to.len(), to[len]), (len + 1, bytes.len()));
            to.windows(2).map(|w| String::from_utf8(bytes[w[0]..w[1]].to_vec()).unwrap()).collect()
        }
        Values::Views(views, buffers) => {
            let views = views.as_chunks::<16>().0.iter();
            views.map(|view| String::from_utf8(text(view, buffers)).unwrap()).collect()
        }
        Values::Struct(members) => {
            let members: Vec<Vec<String>> = members.iter().map(rows).collect();
            (0..len)
                .map(|at| members.iter().map(|m| &*m[at]).collect::<Vec<_>>().join("|"))
                .collect()
        }
        Values::Lists(to, below) => lists(rows(below), ends(to)),
        Values::Fixed(below) => {
            let below = rows(below);
            let each = below.len() / len.max(1);
            lists(below, (0..=len).map(|at| at * each).collect())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(out.len(), len);
    if let Some(there) = &column.presence {
        let gone: Vec<usize> = (0..len).filter(|at| !bit(there, *at)).collect();
        assert_eq!((gone.len(), gone.is_empty()), (column.absent, false));
        gone.into_iter().for_each(|at| out[at] = "absent".to_owned());
    }
    out
}

/// Returns the text of a view.
fn text(view: &[u8; 16], buffers: &[Bytes]) -> Vec<u8> {
    let [len, head, index, offset] =
        [0, 4, 8, 12].map(|at| u32::from_le_bytes(*view[at..].first_chunk().unwrap()) as usize);
    if len <= 12 {
        assert!(view[4 + len..].iter().all(|byte| *byte == 0));
        return view[4..4 + len].to_vec();
    }
    let found = buffers[index][offset..offset + len].to_vec();
    assert_eq!(found[..4], (head as u32).to_le_bytes());
    found
}

#[test]
fn columns_are_the_same_however_they_are_gathered() {
    let file = write(&dataset(COUNT), &WriteOptions::new());
    let [mapped, read] =
        [Io::Map, Io::Read].map(|io| open(&file, io).tensor("set").unwrap().records().unwrap());
    let all = gathered(&mapped, &RowSelection::Range(0..COUNT), 1);
    assert_eq!(all[1][70], format!("{:?}", 70u64.to_le_bytes()));
    assert_eq!(all[5][8..13], ["true", "absent", "absent", "absent", "false"]);
    assert_eq!(all[6][5_999], "record 5999 — ünïcode");
    assert_eq!(all[10][2], r#"{"n":2}"#);
    assert_eq!(all[12][..2], ["absent", "n1"]);
    let [one, two] = [[1, 0], [2, 0]];
    let mask = format!("{:?}", [[0, 0], one, two].map(|n: [u8; 2]| format!("{n:?}")));
    assert_eq!(all[11][3], mask);
    for records in [&mapped, &read] {
        for threads in [1, 2, 5] {
            assert_eq!(gathered(records, &RowSelection::Range(0..COUNT), threads), all);
        }
        let part = gathered(records, &RowSelection::Range(17..4017), 2);
        assert!(part.iter().zip(&all).all(|(part, all)| part[..] == all[17..4017]));
        let none = gathered(records, &RowSelection::Range(5..5), 2);
        assert!(none.iter().all(Vec::is_empty));
        let places: Vec<u64> = (0..COUNT).rev().step_by(3).chain([4, 4, 9]).collect();
        let some = gathered(records, &RowSelection::At(&places), 2);
        let these = places.iter().map(|at| records.record(*at).unwrap()).collect::<Vec<_>>();
        assert_eq!(gathered(records, &RowSelection::These(&these), 1), some);
        for (some, all) in some.iter().zip(&all) {
            assert!(some.iter().zip(&places).all(|(some, at)| *some == all[*at as usize]));
        }
        let work = Work::new();
        let text = "text".parse().unwrap();
        let (ends, bytes) =
            records.gather_heap_data(&text, &RowSelection::At(&places), &work).unwrap();
        assert_eq!(ends.len(), (places.len() + 1) * 8);
        assert!(bytes.starts_with("record 5999".as_bytes()));
        let flag = "flag".parse().unwrap();
        let there = records.gather_presence(&flag, &RowSelection::Range(0..16), &work).unwrap();
        assert_eq!(there.unwrap()[..], [0b0001_0001; 2]);
        assert!(
            records.gather_presence(&text, &RowSelection::Range(0..9), &work).unwrap().is_none()
        );
        let outside = RowSelection::At(&[COUNT]);
        let e = records.gather(&[text], &outside, &work).unwrap_err();
        assert_eq!(e.code(), "records/index");
    }
    // One text after the other: a view of the heap.
    let kind = json!({"type": "object", "TypeDef:Struct": ["s"], "required": ["s"],
        "properties": {"s": {"TypeDef:String": true}}});
    let (data, heap) = records_files::encode(&kind, (0..9).map(|i| json!({"s": "é".repeat(i)})));
    let parts = vec![("data", DType::U8, data), ("blob_data", DType::U8, heap)];
    let file = write(&made("records", &kind.to_string(), 9, parts), &WriteOptions::new());
    let records = open(&file, Io::Map).tensor("set").unwrap().records().unwrap();
    let path = "s".parse().unwrap();
    let (_, bytes) =
        records.gather_heap_data(&path, &RowSelection::Range(0..9), &Work::new()).unwrap();
    assert_eq!(bytes.as_ptr(), records.heap().unwrap().as_ptr());
}

#[test]
fn gathered_columns_do_not_contain_old_memory() {
    const COUNT: u64 = 140_009;
    let kind = json!({"type": "object", "TypeDef:Struct": ["n", "s", "box"], "required": ["n", "s", "box"],
    "properties": {
        "n": {"type": "integer", "TypeDef:Uint64": true},
        "s": {"type": "string", "TypeDef:String": true},
        "box": {"TypeDef:Array": true, "items": {"TypeDef:Uint16": true}, "minItems": 3, "maxItems": 3}
    }});
    let all = (0..COUNT).map(|n| json!({"n": n, "s": format!("{n}"), "box": [n % 9, 1, 2]}));
    let (data, heap) = records_files::encode(&kind, all);
    let parts = vec![("data", DType::U8, data), ("blob_data", DType::U8, heap)];
    let file = write(&made("records", &kind.to_string(), COUNT, parts), &WriteOptions::new());
    let records = open(&file, Io::Map).tensor("set").unwrap().records().unwrap();
    let paths = ["n", "s", "box"].map(|path| path.parse::<Path>().unwrap());
    let (all, back): (Vec<u64>, Vec<u64>) = ((0..COUNT).collect(), (0..COUNT).rev().collect());
    for (places, views) in [(&all, false), (&back, false), (&all, true), (&back, true)] {
        let (chosen, work) = (RowSelection::At(places), Work::new());
        let found = match views {
            true => records.gather_views(&paths, &chosen, &work),
            false => records.gather(&paths, &chosen, &work),
        };
        let [n, s, lists]: [Gathered; 3] = found.unwrap().try_into().unwrap();
        let Values::Numbers(n) = n.values else { panic!() };
        let n = n.freeze();
        let numbers = n.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n));
        assert!(numbers.eq(places.iter().copied()));
        assert!(rows(&s).into_iter().eq(places.iter().map(u64::to_string)));
        assert_eq!(
            rows(&lists)[7],
            format!(
                "{:?}",
                [places[7] % 9, 1, 2].map(|n| format!("{:?}", (n as u16).to_le_bytes()))
            )
        );
    }
}

#[test]
fn views_point_into_the_heap_where_most_of_it_is_theirs() {
    let kind = json!({"type": "object", "TypeDef:Struct": ["s", "t"], "required": ["s", "t"],
        "properties": {"s": {"TypeDef:String": true}, "t": {"TypeDef:Bytes": true}}});
    let opened = |texts: &[String], runs: &str| {
        let rows = texts.iter().map(|s| json!({"s": s, "t": runs}));
        let (data, heap) = records_files::encode(&kind, rows);
        let parts = vec![("data", DType::U8, data), ("blob_data", DType::U8, heap)];
        let count = texts.len() as u64;
        let file = write(&made("records", &kind.to_string(), count, parts), &WriteOptions::new());
        [Io::Map, Io::Read].map(|io| open(&file, io).tensor("set").unwrap().records().unwrap())
    };
    let gather = |records: &Records, places: &[u64]| {
        let path = ["s".parse().unwrap()];
        let found = records.gather_views(&path, &RowSelection::At(places), &Work::new()).unwrap();
        let Values::Views(views, buffers) = &found[0].values else { panic!("{found:?}") };
        let views = views.as_chunks().0.iter();
        let texts = views.map(|view| String::from_utf8(text(view, buffers)).unwrap());
        (texts.collect::<Vec<_>>(), buffers.clone())
    };
    let in_heap = |records: &Records, buffers: &[Bytes]| {
        let heap = records.heap().unwrap().as_ptr_range();
        buffers.iter().all(|buffer| heap.contains(&buffer.as_ptr()))
    };
    let texts: Vec<String> = (0..9_000).map(|n| format!("{n} {}", "é".repeat(n % 20))).collect();
    let (all, back): (Vec<u64>, Vec<u64>) = ((0..9_000).collect(), (0..9_000).rev().collect());
    let long =
        |texts: &[String]| -> usize { texts.iter().map(String::len).filter(|len| *len > 12).sum() };
    for runs in ["", "AAAA", &"A".repeat(400)] {
        let records = opened(&texts, runs);
        for (is_mapped, records) in [true, false].into_iter().zip(&records) {
            for (places, is_near) in [(&all, runs.len() < 400), (&back, false)] {
                let (found, buffers) = gather(records, places);
                assert!(found.iter().eq(places.iter().map(|at| &texts[*at as usize])));
                if is_mapped {
                    assert_eq!((buffers.len(), in_heap(records, &buffers)), (1, is_near));
                    assert!(is_near || buffers[0].len() == long(&texts));
                }
            }
            // A few of many.
            let (found, buffers) = gather(records, &[3, 8_999, 15]);
            assert_eq!(found, [3, 8_999, 15].map(|at| &*texts[at]));
            assert!(!is_mapped || !in_heap(records, &buffers) && buffers[0].len() < 100);
        }
    }
    // Short texts are stored in their views.
    let texts: Vec<String> = (0..3000).map(|n| format!("n{n}")).collect();
    let [mapped, _] = opened(&texts, "AAAA");
    assert_eq!(gather(&mapped, &all[..3000]), (texts, vec![]));
}

#[test]
fn the_first_record_that_is_wrong_is_named() {
    let whole = dataset(COUNT);
    let records = {
        let file = write(&whole, &WriteOptions::new());
        open(&file, Io::Map).tensor("set").unwrap().records().unwrap()
    };
    let stride = records.extent().stride as usize;
    let place = |path: &str, at: usize| at * stride + records.accessor(path).unwrap().offset();
    let entry = |path: &str, at: usize| -> Entry {
        let start = place(path, at);
        Entry::from_bytes(*whole.bytes[0][start..].first_chunk().unwrap())
    };
    let broken = |path: &str, code: &str, breaks: &Breaks| {
        let [mut data, mut heap] = [0, 1].map(|at| whole.bytes[at].clone());
        for at in [5_800, 5_000] {
            breaks(&mut data, &mut heap, at);
        }
        let parts = vec![("data", DType::U8, data), ("blob_data", DType::U8, heap)];
        let file =
            write(&made("records", &sample().to_string(), COUNT, parts), &WriteOptions::new());
        for io in [Io::Map, Io::Read] {
            let records = open(&file, io).tensor("set").unwrap().records().unwrap();
            let path = [path.parse().unwrap()];
            let gather = |chosen| {
                let [found, views] = [
                    records.gather(&path, &chosen, &Work::new()),
                    records.gather_views(&path, &chosen, &Work::new()),
                ];
                assert_eq!(
                    found.as_ref().err().map(Error::to_string),
                    views.err().map(|e| e.to_string())
                );
                found
            };
            let e = gather(RowSelection::Range(0..COUNT)).unwrap_err();
            assert!(e.code() == code && e.to_string().contains("record 5000"), "{e}");
            let e = gather(RowSelection::At(&[1, 5_800, 5_000])).unwrap_err();
            assert!(e.code() == code && e.to_string().contains("record 5800"), "{e}");
            assert!(gather(RowSelection::Range(0..5_000)).is_ok());
            assert!(
                records
                    .gather(&["x".parse().unwrap()], &RowSelection::Range(0..COUNT), &Work::new())
                    .is_ok()
            );
        }
    };
    broken("text", "record/utf8", &|_, heap, at| {
        heap[entry("text", at).offset as usize] = 0xff;
    });
    // The bytes of both texts together are UTF-8.
    broken("text", "record/utf8", &|data, _, at| {
        let Entry { offset, len } = entry("text", at);
        let cut = "record 5000 —".len() as u64 - 1;
        let parts = [(offset, cut), (offset + cut, len - cut)];
        for (at, (offset, len)) in (at..).zip(parts) {
            let start = place("text", at);
            data[start..start + 16].copy_from_slice(&Entry { offset, len }.to_bytes());
        }
    });
    broken("meta", "record/json", &|_, heap, at| {
        heap[entry("meta", at).offset as usize] = b'[';
    });
    broken("label", "record/enum-index", &|data, _, at| data[place("label", at)] = 2);
    broken("flag", "record/bool-byte", &|data, _, at| data[place("flag", at)] = 7);
    broken("shape", "record/union-tag", &|data, _, at| data[place("shape", at)] = 2);
    broken("mask", "record/entry-length", &|data, _, at| {
        let start = place("mask", at);
        data[start..start + 16].copy_from_slice(&Entry { offset: 0, len: 3 }.to_bytes());
    });
    broken("tags", "record/entry-bounds", &|data, _, at| {
        let start = place("tags", at);
        data[start..start + 16].copy_from_slice(&Entry { offset: 0, len: 1 << 40 }.to_bytes());
    });
}

/// Bytes of records are copied in the order of the indices, whatever the source of the records is.
#[test]
fn bytes_of_records_are_copied() {
    for options in [WriteOptions::new(), WriteOptions::new().with_zstd(3)] {
        let written = write(&dataset(COUNT), &options);
        for io in [Io::Map, Io::Read] {
            let file = open(&written, io);
            let records = file.tensor("set").unwrap().records().unwrap();
            let size = records.extent().size as usize;
            for places in [vec![], vec![7, 8, 9], vec![5_999, 0, 31, 31, 4_000], vec![3]] {
                let (mut head, mut rest) =
                    (vec![1; 8 * places.len()], vec![1; (size - 3) * places.len()]);
                let mut runs = [
                    RecordBytes { range: 0..8, out: &mut head },
                    RecordBytes { range: 3..size, out: &mut rest },
                ];
                records.copy_bytes(&places, &mut runs).unwrap();
                for (at, place) in places.iter().enumerate() {
                    let record = records.record(*place).unwrap();
                    assert_eq!(head[at * 8..at * 8 + 8], record.bytes()[..8]);
                    assert_eq!(rest[at * (size - 3)..(at + 1) * (size - 3)], record.bytes()[3..]);
                }
            }
            let mut out = [0; 16];
            let mut refused = |places: &[u64], range| {
                let runs = &mut [RecordBytes { range, out: &mut out }];
                records.copy_bytes(places, runs).unwrap_err().code()
            };
            assert_eq!(refused(&[0, COUNT], 0..8), "records/index");
            assert_eq!(refused(&[0, 1], 0..9), "records/buffer");
            assert_eq!(refused(&[0, 1], size - 7..size + 1), "records/buffer");
        }
    }
}
