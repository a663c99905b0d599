// What a peer found in a file, for the test to compare. Included by each peer.

use std::path::PathBuf;

pub struct Listing {
    folder: PathBuf,
    count: usize,
}

impl Listing {
    pub fn new(folder: &str) -> Listing {
        Listing { folder: folder.into(), count: 0 }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn component(
        &mut self,
        tensor: &str,
        shape: &[u64],
        layout: &str,
        role: &str,
        dtype: &str,
        logical_type: Option<&str>,
        bytes: &[u8],
    ) {
        let name: String = tensor.bytes().map(|b| format!("{b:02x}")).collect();
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        let (shape, logical) = (shape.join(","), logical_type.unwrap_or("-"));
        println!("{}\t{name}\t{shape}\t{layout}\t{role}\t{dtype}\t{logical}", self.count);
        std::fs::write(self.folder.join(self.count.to_string()), bytes)
            .expect("the folder is there");
        self.count += 1;
    }
}

/// The two ways in which a peer is called.
pub fn main(read: fn(&str, &mut Listing), write: fn(&std::path::Path)) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", file, folder] => read(file, &mut Listing::new(folder)),
        ["write", folder] => write(std::path::Path::new(folder)),
        _ => {
            eprintln!("read FILE FOLDER, or write FOLDER");
            std::process::exit(2);
        }
    }
}

/// Bytes that are the same every time and look like nothing.
#[allow(dead_code)]
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The same, of a dtype whose elements are `width` bytes; bools are 0 or 1.
#[allow(dead_code)]
pub fn elements(count: usize, width: usize, is_bool: bool, seed: u64) -> Vec<u8> {
    let mut bytes = noise(count * width, seed);
    if is_bool {
        bytes.iter_mut().for_each(|b| *b &= 1);
    }
    bytes
}

/// Names are any text at all.
#[allow(dead_code)]
pub const NAMES: [&str; 7] =
    ["", "\0", "a\nb", "../x", "\u{65e5}\u{672c}", "e\u{301}", "\u{1f9e0}"];
