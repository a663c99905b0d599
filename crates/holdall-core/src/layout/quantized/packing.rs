//! Packing of elements of a few bits into words.

use super::{COUNTS, FIT, PACKING};
use crate::error::{Error, Escape as _, Result};
use crate::model::DType;
use bytes::Bytes;
use holdall_collections::DebugUnwrap;
use std::fmt;

/// The slot of element `i` of a word in AutoAWQ's order.
const AWQ_SLOTS: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Suffixes of packings: AutoAWQ's order, and the first element in the high bits.
pub(super) const AWQ: &str = "_awq";
const MSB: &str = "_msb";

/// The maximum number of words in one stream of bits.
const MAX_WORDS: u64 = 64;

/// How elements are packed into words: `elements` of them, with `bits` bits each, in `words` words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    bits: u32,
    elements: u64,
    words: u64,
    word: DType,
    is_awq: bool,
    is_msb: bool,
}

impl Packing {
    /// Returns the packing with this name, or the natural one without a name; see the [module](super).
    pub(super) fn new(bits: u32, name: Option<&str>, is_awq: bool, word: DType) -> Result<Packing> {
        let word_bits = bits_of_word(word)?;
        let (elements, words) = match name.map(|name| (name, parse(name))) {
            None => natural(bits, word_bits),
            Some((_, Some((elements, words, named)))) => {
                if bits_of_word(named)? != word_bits {
                    let message = format!("the packing requires words of {named}, found {word}");
                    return Err(FIT.broken(message));
                }
                (elements, words)
            }
            Some((name, None)) => {
                let message = format!("unknown packing `{}`", name.escaped());
                return Err(PACKING.broken(message));
            }
        };
        let is_msb = name.is_some_and(|name| name.ends_with(MSB));
        let packing = Packing { bits, elements, words, word, is_awq, is_msb };
        packing.checked()
    }

    /// Returns the same packing in words of another type of the same width.
    ///
    /// # Errors
    /// Returns `quantized/fit` if the width differs, and `quantized/packing` if elements cannot be packed in words of
    /// this type.
    pub fn with_word(&self, word: DType) -> Result<Packing> {
        if bits_of_word(word)? != self.word.width() * 8 {
            let message =
                format!("zero points of {word} cannot be packed in words of {}", self.word);
            return Err(FIT.broken(message));
        }
        Ok(Packing { word, ..self.clone() })
    }

    /// Packs consecutive elements into words.
    pub(super) fn pack(&self, elements: &[u8]) -> Vec<u8> {
        let per_block = usize::try_from(self.elements).unwrap_or(usize::MAX).max(1);
        // A few words; checked when the packing was created.
        let block_len = (self.words * self.word.width()) as usize;
        let mut out = vec![0u8; elements.len().div_ceil(per_block) * block_len];
        for (block, to) in elements.chunks(per_block).zip(out.chunks_mut(block_len.max(1))) {
            for (slot, q) in (0u64..).zip(block) {
                let bit = self.bit(slot);
                let (byte, shift) = ((bit / 8) as usize, bit % 8);
                let both = u16::from(*q) << shift;
                for (to, part) in to.iter_mut().skip(byte).zip(both.to_le_bytes()) {
                    *to |= part;
                }
            }
        }
        out
    }

    fn checked(self) -> Result<Packing> {
        let room = self.words.checked_mul(self.word.width() * 8);
        let taken = self.elements.checked_mul(u64::from(self.bits));
        let fits = taken.zip(room).is_some_and(|(taken, room)| taken <= room);
        let rule = if self.elements == 0 || self.words == 0 || !fits {
            Some(&FIT)
        } else {
            (self.words > MAX_WORDS).then_some(&PACKING)
        };
        if let Some(rule) = rule {
            let plural = |n: u64| if n == 1 { "" } else { "s" };
            return Err(rule.broken(format!(
                "invalid packing of {} element{} of {} bits in {} word{} of {}",
                self.elements,
                plural(self.elements),
                self.bits,
                self.words,
                plural(self.words),
                self.word
            )));
        }
        if self.is_awq && (self.bits, self.elements, self.words) != (4, 8, 1) {
            let message = "AWQ's order requires eight elements of 4 bits in one word";
            return Err(PACKING.broken(message));
        }
        if self.is_msb && (self.words != 1 || taken != room) {
            let message = "a packing from the high bits down must fill one word";
            return Err(PACKING.broken(message));
        }
        Ok(self)
    }

    /// Bits of an element.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the number of elements in [`Packing::words`] words.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Words of [`Packing::elements`] elements.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// Returns the type of the words.
    pub fn word(&self) -> DType {
        self.word
    }

    /// Returns `true` if the elements of a word are in AutoAWQ's order.
    pub fn is_awq(&self) -> bool {
        self.is_awq
    }

    /// Returns `true` if the elements of a word are stored from its high bits down.
    pub fn is_msb(&self) -> bool {
        self.is_msb
    }

    /// Returns `true` if each element is a signed word of its own.
    pub fn is_signed(&self) -> bool {
        self.word == DType::I8 && self.bits == 8 && (self.elements, self.words) == (1, 1)
    }

    /// Returns `true` if unsigned elements follow one another without gaps, in their own order.
    fn fills_words(&self) -> bool {
        let taken = self.elements * u64::from(self.bits);
        let is_plain = !self.is_awq && !self.is_msb && !self.is_signed();
        is_plain && taken == self.words * self.word.width() * 8
    }

    /// Returns the lowest bit of element `slot` in the stream of its words.
    pub fn bit(&self, slot: u64) -> u64 {
        let slot = if self.is_awq {
            let at = usize::try_from(slot).debug_unwrap();
            u64::from(AWQ_SLOTS.get(at).copied().debug_unwrap())
        } else if self.is_msb {
            self.elements.saturating_sub(1).saturating_sub(slot)
        } else {
            slot
        };
        slot * u64::from(self.bits)
    }

    fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    fn number(&self, q: u32) -> f32 {
        let q = q & self.mask();
        if self.is_signed() { f32::from(q as u8 as i8) } else { q as f32 }
    }
}

/// Writes the value of the attribute `packing`.
impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packing { elements, words, word, .. } = self;
        let order = match (self.is_awq, self.is_msb) {
            (true, _) => AWQ,
            (_, true) => MSB,
            _ => "",
        };
        match words {
            1 => write!(f, "{elements}_per_{word}{order}"),
            words => write!(f, "{elements}_per_{words}_{word}{order}"),
        }
    }
}

fn bits_of_word(word: DType) -> Result<u64> {
    match word {
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 | DType::Bool => {
            Err(PACKING.broken(format!("unsupported packing in words of {word}")))
        }
        _ => Ok(word.width() * 8),
    }
}

/// Parses `n_per_t` or `n_per_w_t`, with an optional suffix for the order: elements, words, type of the words.
fn parse(name: &str) -> Option<(u64, u64, DType)> {
    let name = [AWQ, MSB].iter().find_map(|order| name.strip_suffix(order)).unwrap_or(name);
    let (elements, rest) = name.split_once("_per_")?;
    let (words, word) = match rest.split_once('_') {
        Some((words, word)) => (words.parse().ok()?, word),
        None => (1, rest),
    };
    Some((elements.parse().ok()?, words, DType::from_name(word)?))
}

/// Returns a packing without gaps: as many elements as fit in a word, or else the shortest stream of whole words.
fn natural(bits: u32, word_bits: u64) -> (u64, u64) {
    let bits = u64::from(bits);
    let words = (1..=bits).find(|words| (words * word_bits).is_multiple_of(bits)).unwrap_or(bits);
    (words * word_bits / bits, words)
}

/// The order in which elements fill words.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    /// In row-major order.
    Flat { count: u64 },
    /// Down the rows of a matrix.
    Rows { rows: u64, columns: u64 },
}

/// Words of packed elements, whose number was checked.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    packing: Packing,
    direction: Direction,
    bytes: Bytes,
}

impl Packed {
    pub(super) fn new(packing: Packing, direction: Direction, bytes: Bytes) -> Result<Packed> {
        let (along, across) = match direction {
            Direction::Flat { count } => (count, 1),
            Direction::Rows { rows, columns } => (rows, columns),
        };
        let words = along
            .div_ceil(packing.elements)
            .checked_mul(packing.words)
            .and_then(|words| words.checked_mul(across));
        let len = words.and_then(|words| words.checked_mul(packing.word.width()));
        if len != Some(bytes.len() as u64) {
            return Err(wrong_len(&packing, direction, words, bytes.len()));
        }
        Ok(Packed { packing, direction, bytes })
    }

    pub(super) fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Unpacks numbers, starting at element `at` of the row-major order, until `out` is full. They must be inside the
    /// tensor.
    pub(super) fn unpack(&self, at: u64, out: &mut [f32]) {
        match self.direction {
            Direction::Flat { .. } => self.unpack_flat(at, out),
            Direction::Rows { columns, .. } => {
                let (mut at, mut left) = (at, out);
                while !left.is_empty() {
                    let (row, column) = (at / columns, at % columns);
                    let run = usize::try_from(columns - column).unwrap_or(usize::MAX);
                    let run = run.min(left.len());
                    let (now, later) = left.split_at_mut(run);
                    self.unpack_row(row, column, columns, now);
                    at += run as u64;
                    left = later;
                }
            }
        }
    }

    /// Unpacks words that follow one another. Since bytes are little-endian, all words form one stream of bits, with
    /// unused bits at the end of each group of words.
    fn unpack_flat(&self, at: u64, out: &mut [f32]) {
        let p = &self.packing;
        if p.fills_words() && (at * u64::from(p.bits)).is_multiple_of(8) {
            // Inside the bytes in memory, because the last of these elements is.
            let start = (at * u64::from(p.bits) / 8) as usize;
            let bytes = self.bytes.get(start..).debug_unwrap();
            match p.bits {
                8 => return unpack_bytes::<8, 1>(bytes, out),
                4 => return unpack_bytes::<4, 2>(bytes, out),
                2 => return unpack_bytes::<2, 4>(bytes, out),
                1 => return unpack_bytes::<1, 8>(bytes, out),
                _ => {}
            }
        }
        let block_bits = p.words * p.word.width() * 8;
        let mut block = at / p.elements * block_bits;
        let mut slot = at % p.elements;
        for x in out {
            let bit = block + p.bit(slot);
            let byte = (bit / 8) as usize;
            let low = self.bytes.get(byte).copied().debug_unwrap();
            let high = self.bytes.get(byte + 1).copied().unwrap_or_default();
            let q = u32::from(u16::from_le_bytes([low, high])) >> (bit % 8);
            *x = p.number(q);
            slot += 1;
            if slot == p.elements {
                slot = 0;
                block += block_bits;
            }
        }
    }

    /// Unpacks elements of one row of words whose elements run down the rows: for each column the same bits of the same
    /// line of words.
    fn unpack_row(&self, row: u64, column: u64, columns: u64, out: &mut [f32]) {
        match self.packing.word.width() {
            1 => self.unpack_line::<1>(row, column, columns, out),
            2 => self.unpack_line::<2>(row, column, columns, out),
            4 => self.unpack_line::<4>(row, column, columns, out),
            _ => self.unpack_line::<8>(row, column, columns, out),
        }
    }

    fn unpack_line<const WIDTH: usize>(
        &self,
        row: u64,
        column: u64,
        columns: u64,
        out: &mut [f32],
    ) {
        let p = &self.packing;
        let word_bits = WIDTH as u64 * 8;
        let bit = p.bit(row % p.elements);
        let shift = bit % word_bits;
        let line = row / p.elements * p.words + bit / word_bits;
        let words = |line: u64| {
            // The number of words in memory matches the shape.
            let start = (line * columns + column) as usize * WIDTH;
            self.bytes.get(start..).debug_unwrap().as_chunks::<WIDTH>().0
        };
        let read = |word: &[u8; WIDTH]| {
            let mut bytes = [0; 8];
            bytes[..WIDTH].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        };
        if shift + u64::from(p.bits) <= word_bits {
            for (x, word) in out.iter_mut().zip(words(line)) {
                *x = p.number((read(word) >> shift) as u32);
            }
        } else {
            // The rest of each element is in the lowest bits of the word in the next line.
            for ((x, word), next) in out.iter_mut().zip(words(line)).zip(words(line + 1)) {
                let low = read(word) >> shift;
                let high = read(next) << (word_bits - shift);
                *x = p.number((low | high) as u32);
            }
        }
    }
}

/// Unpacks `COUNT` elements per byte, of `BITS` bits each, low bits first.
fn unpack_bytes<const BITS: u32, const COUNT: usize>(bytes: &[u8], out: &mut [f32]) {
    let element = |byte: u8, i: usize| f32::from((byte >> (i as u32 * BITS)) & (255 >> (8 - BITS)));
    let (whole, rest) = out.as_chunks_mut::<COUNT>();
    let (bytes, last) = bytes.split_at(whole.len().min(bytes.len()));
    for (xs, byte) in whole.iter_mut().zip(bytes) {
        for (i, x) in xs.iter_mut().enumerate() {
            *x = element(*byte, i);
        }
    }
    for (i, x) in rest.iter_mut().enumerate() {
        *x = element(last.first().copied().unwrap_or_default(), i);
    }
}

#[cold]
fn wrong_len(packing: &Packing, direction: Direction, words: Option<u64>, found: usize) -> Error {
    let elements = match direction {
        Direction::Flat { count } => format!("{count} elements"),
        Direction::Rows { rows, columns } => format!("{rows} × {columns} elements down the rows"),
    };
    let words = words.map_or("more than 2^64".to_owned(), |words| words.to_string());
    COUNTS.broken(format!(
        "{elements}, {} in {} words of {}, require {words} words; found {found} bytes",
        packing.elements, packing.words, packing.word
    ))
}
