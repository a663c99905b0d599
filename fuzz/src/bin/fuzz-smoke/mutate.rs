//! Small mutations of bytes: of bits, numbers and blocks, of JSON tokens, and of CBOR items.

use crate::random::Random;
use std::ops::Range;

/// The maximum length of an input in bytes.
const MAX: usize = 64 << 10;

/// Boundary values of numbers.
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    0x17,
    0x18,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Words of JSON and of headers.
const WORDS: [&str; 24] = [
    "0",
    "-0",
    "1e400",
    "-1",
    "18446744073709551616",
    "1.5",
    "true",
    "null",
    "[]",
    "{}",
    "\"\"",
    "\\u",
    "\\ud800",
    "\"$bytes\"",
    ",",
    "  ",
    "{\"TypeDef:Int8\":true}",
    "{\"TypeDef:String\":true}",
    "{\"$ref\":\"#/$defs/a\"}",
    "\"TypeDef:Struct\"",
    "\"natural\"",
    "\"n\"",
    "\"$defs\"",
    "\"align\"",
];

/// Changes `bytes` in a few places; `other` is another input to copy from.
pub(crate) fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let count = 1 << random.below(4);
    for _ in 0..1 + random.below(count) {
        change(random, bytes, other);
    }
    bytes.truncate(MAX);
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend((0..random.len(64)).map(|_| random.next() as u8).collect::<Vec<_>>());
        return;
    }
    let at = index_below(random, bytes.len());
    match random.below(23) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = random.one(&NUMBERS) as u8,
        3 => bytes[at] = random.next() as u8,
        4 => bytes[at] = bytes[at].wrapping_add(random.one(&[1, 2, 16, 240, 254, 255])),
        5..=7 => number(random, bytes, at),
        8 => {
            let end = (at + 1 + random.len(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        9 => {
            let end = (at + 1 + random.len(64)).min(bytes.len());
            let block = bytes[at..end].to_vec();
            let times = 1 + random.below(3);
            let to = index_below(random, bytes.len());
            bytes.splice(to..to, block.repeat(times));
        }
        10 | 11 if !other.is_empty() => {
            let from = index_below(random, other.len());
            let block = &other[from..(from + 1 + random.len(256)).min(other.len())];
            // Replaces as many bytes, or inserts between others.
            let end = if random.below(2) == 0 { at } else { bytes.len().min(at + block.len()) };
            bytes.splice(at..end, block.iter().copied());
        }
        12 => bytes.truncate(at),
        13 => {
            let more: Vec<u8> = (0..1 + random.len(16)).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, more);
        }
        14 => {
            let len = 1 + random.len(16);
            let (a, b) = (at, index_below(random, bytes.len()));
            for i in 0..len.min(bytes.len() - a.max(b)) {
                bytes.swap(a + i, b + i);
            }
        }
        15 => digits(random, bytes, at),
        16 => strings(random, bytes, at),
        17..=19 => items(random, bytes, at),
        _ => values(random, bytes, at, other),
    }
}

/// Returns a position in `len` bytes, more often near the end, where manifests are.
fn index_below(random: &mut Random, len: usize) -> usize {
    match random.below(4) {
        0 => len - 1 - random.below(len.min(32)),
        1 => len / 2 + random.below(len - len / 2),
        _ => random.below(len),
    }
}

/// Changes a number of 2, 4 or 8 bytes, in either byte order: by one, to a multiple, or to another number.
fn number(random: &mut Random, bytes: &mut [u8], at: usize) {
    let width = random.one(&[2, 4, 8]).min(bytes.len() - at);
    let len = bytes.len() as u64;
    let own = &mut bytes[at..at + width];
    let is_big = random.below(2) == 0;
    let mut word = [0; 8];
    word[..width].copy_from_slice(own);
    if is_big {
        word[..width].reverse();
    }
    let n = u64::from_le_bytes(word);
    let n = match random.below(8) {
        0 => n.wrapping_add(1),
        1 => n.wrapping_sub(1),
        2 => n.wrapping_mul(random.one(&[2, 8, 1 << 10, 1 << 20, 1 << 32])),
        3 => n.wrapping_add(random.one(&[8, 16, 64, 4096])),
        4 => n.wrapping_sub(random.one(&[8, 16, 64, 4096])),
        5 => len.wrapping_sub(random.below(40) as u64),
        _ => random.one(&NUMBERS),
    };
    let mut word = n.to_le_bytes();
    if is_big {
        word[..width].reverse();
    }
    own.copy_from_slice(&word[..width]);
}

/// Replaces the digits after `at` with another number.
fn digits(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else {
        return;
    };
    let len = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    let text = match random.below(3) {
        0 => random.one(&WORDS).to_owned(),
        1 => random.one(&NUMBERS).to_string(),
        _ => {
            let n =
                std::str::from_utf8(&bytes[start..start + len]).ok().and_then(|t| t.parse().ok());
            let by: u64 = random.one(&[1, 2, 4, 8, u64::MAX]);
            n.unwrap_or(0u64).wrapping_add(by).to_string()
        }
    };
    bytes.splice(start..start + len, text.bytes());
}

/// Swaps two quoted strings, or replaces one with another word.
fn strings(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let string = |bytes: &[u8], at: usize| {
        let start = at + bytes[at..].iter().position(|b| *b == b'"')?;
        let end = start + 2 + bytes[start + 1..].iter().position(|b| *b == b'"')?;
        Some(start..end)
    };
    let Some(one) = string(bytes, at) else { return };
    let Some(two) = string(bytes, one.end.min(bytes.len() - 1)).filter(|two| two.start >= one.end)
    else {
        bytes.splice(one, random.one(&WORDS).bytes());
        return;
    };
    let (a, b) = (bytes[one.clone()].to_vec(), bytes[two.clone()].to_vec());
    match random.below(3) {
        0 => drop(bytes.splice(two, a)),
        1 => drop(bytes.splice(one, random.one(&WORDS).bytes())),
        _ => {
            bytes.splice(two, a);
            bytes.splice(one, b);
        }
    }
}

/// Replaces a JSON value after `at` with another one, or with one of `other`; or removes it together with its key.
fn values(random: &mut Random, bytes: &mut Vec<u8>, at: usize, other: &[u8]) {
    let Some(one) = value(bytes, at) else { return };
    let from = if random.below(2) == 0 && !other.is_empty() { other } else { bytes.as_slice() };
    let Some(two) = value(from, index_below(random, from.len())) else { return };
    let text = from[two].to_vec();
    match random.below(4) {
        0 => drop(bytes.drain(one)),
        1 => {
            // Adds a member or an element.
            let more = [&text[..], b",", &bytes[one.clone()]].concat();
            bytes.splice(one, more);
        }
        _ => drop(bytes.splice(one, text)),
    }
}

/// Returns the range of the next object, array or string of JSON.
fn value(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + bytes[at..].iter().position(|b| matches!(b, b'{' | b'[' | b'"'))?;
    let (mut depth, mut is_text) = (0usize, false);
    for (i, b) in bytes.iter().enumerate().skip(start) {
        match b {
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 && !is_text {
            return Some(start..i + 1);
        }
    }
    None
}

/// Swaps, repeats, drops or replaces CBOR items, starting with the item at `at`, if there is one.
fn items(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(end) = item_end(bytes, at, 16) else { return };
    let item = bytes[at..end].to_vec();
    match random.below(6) {
        0 => {
            let Some(next) = item_end(bytes, end, 16) else { return };
            // Neighbours are swapped: the length does not change.
            bytes[at..next].rotate_left(end - at);
        }
        1 => drop(bytes.splice(at..at, item)),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let wrapped = match random.below(4) {
                0 => [&[0x81], &item[..]].concat(),
                1 => [&[0xc1], &item[..]].concat(),
                2 => [&[0x9f], &item[..], &[0xff]].concat(),
                _ => [&[0xa1, 0x61, b'k'], &item[..]].concat(),
            };
            bytes.splice(at..end, wrapped);
        }
        4 => {
            let to = index_below(random, bytes.len());
            let Some(to_end) = item_end(bytes, to, 16) else { return };
            bytes.splice(to..to_end, item);
        }
        _ => {
            let n = random.one(&NUMBERS).wrapping_sub(random.below(2) as u64);
            let major = random.one(&[0x1b, 0x1b, 0x3b, 0x5b, 0x7b, 0x9b, 0xbb, 0xfb]);
            let written = [&[major], &n.to_be_bytes()[..]].concat();
            bytes.splice(at..end, written);
        }
    }
}

/// Returns the end of the item that starts at `at`.
fn item_end(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    let first = *bytes.get(at)?;
    let (major, info) = (first >> 5, first & 31);
    let width = match info {
        0..=23 => 0,
        24..=27 => 1usize << (info - 24),
        _ => return None,
    };
    let mut at = at + 1;
    let argument = bytes.get(at..at + width)?;
    let n = argument.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let n = if width == 0 { u64::from(info) } else { n };
    at += width;
    let count = match major {
        2 | 3 => return at.checked_add(usize::try_from(n).ok()?).filter(|end| *end <= bytes.len()),
        4 => n,
        5 => n.checked_mul(2)?,
        6 => 1,
        _ => return Some(at),
    };
    if count > bytes.len() as u64 || depth == 0 {
        return None;
    }
    for _ in 0..count {
        at = item_end(bytes, at, depth - 1)?;
    }
    Some(at)
}
