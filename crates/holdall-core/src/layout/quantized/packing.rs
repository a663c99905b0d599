//! Elements of a few bits in words.

use super::{COUNTS, FIT, PACKING};
use crate::error::{Error, Result, Shown as _};
use crate::model::DType;
use bytes::Bytes;
use std::fmt;

/// Where element `i` of a word stands in AutoAWQ's order.
const AWQ_SLOTS: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// What the name of a packing ends in: AutoAWQ's order; the first element in the high bits.
pub(super) const AWQ: &str = "_awq";
const MSB: &str = "_msb";

/// Words that one stream of bits may run over.
const MAX_WORDS: u64 = 64;

/// How elements lie in words: `elements` of them, `bits` each, in `words` words.
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
    /// The packing of that name, or the natural one where there is none; see the
    /// [module](super).
    pub(super) fn new(bits: u32, name: Option<&str>, is_awq: bool, word: DType) -> Result<Packing> {
        let word_bits = bits_of_word(word)?;
        let (elements, words) = match name.map(|name| (name, parse(name))) {
            None => natural(bits, word_bits),
            Some((_, Some((elements, words, named)))) => {
                if bits_of_word(named)? != word_bits {
                    let message = format!("the packing has words of {named}, stored as {word}");
                    return Err(FIT.broken(message));
                }
                (elements, words)
            }
            Some((name, None)) => {
                let message = format!("the packing `{}` is not known", name.shown());
                return Err(PACKING.broken(message));
            }
        };
        let is_msb = name.is_some_and(|name| name.ends_with(MSB));
        let packing = Packing { bits, elements, words, word, is_awq, is_msb };
        packing.checked()
    }

    /// The same packing in words of another type of the same width.
    ///
    /// # Errors
    /// `quantized/fit`, where it is of another width; `quantized/packing`.
    pub fn with_word(&self, word: DType) -> Result<Packing> {
        if bits_of_word(word)? != self.word.width() * 8 {
            let message = format!("zero points of {word} are packed in words of {}", self.word);
            return Err(FIT.broken(message));
        }
        Ok(Packing { word, ..self.clone() })
    }

    /// The words of these elements, which follow one another.
    pub(super) fn pack(&self, elements: &[u8]) -> Vec<u8> {
        let per_block = usize::try_from(self.elements).unwrap_or(usize::MAX).max(1);
        // A few words; checked when the packing was made.
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
                "{} element{} of {} bits in {} word{} of {}",
                self.elements,
                plural(self.elements),
                self.bits,
                self.words,
                plural(self.words),
                self.word
            )));
        }
        if self.is_awq && (self.bits, self.elements, self.words) != (4, 8, 1) {
            let message = "AWQ's order is that of eight elements of 4 bits in one word";
            return Err(PACKING.broken(message));
        }
        if self.is_msb && (self.words != 1 || taken != room) {
            let message = "elements from the high bits down fill one word";
            return Err(PACKING.broken(message));
        }
        Ok(self)
    }

    /// Bits of an element.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Elements that fill [`Packing::words`] words.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Words that hold [`Packing::elements`] elements.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// The type of the words.
    pub fn word(&self) -> DType {
        self.word
    }

    /// Whether the elements of a word stand in AutoAWQ's order.
    pub fn is_awq(&self) -> bool {
        self.is_awq
    }

    /// Whether the elements of a word stand from its high bits down.
    pub fn is_msb(&self) -> bool {
        self.is_msb
    }

    /// Whether an element is a signed word of its own.
    pub fn is_signed(&self) -> bool {
        self.word == DType::I8 && self.bits == 8 && (self.elements, self.words) == (1, 1)
    }

    /// Whether elements follow one another without a gap, in their own order, unsigned.
    fn fills_words(&self) -> bool {
        let taken = self.elements * u64::from(self.bits);
        let is_plain = !self.is_awq && !self.is_msb && !self.is_signed();
        is_plain && taken == self.words * self.word.width() * 8
    }

    /// The lowest bit of element `slot` in the stream of its words.
    pub fn bit(&self, slot: u64) -> u64 {
        let slot = if self.is_awq {
            let at = usize::try_from(slot).unwrap_or_default();
            u64::from(AWQ_SLOTS.get(at).copied().unwrap_or_default())
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

/// The name that the attribute `packing` has.
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
            Err(PACKING.broken(format!("elements packed in words of {word} are not known")))
        }
        _ => Ok(word.width() * 8),
    }
}

/// `n_per_t`, `n_per_w_t`, either with the suffix of an order: elements, words, type of the words.
fn parse(name: &str) -> Option<(u64, u64, DType)> {
    let name = [AWQ, MSB].iter().find_map(|order| name.strip_suffix(order)).unwrap_or(name);
    let (elements, rest) = name.split_once("_per_")?;
    let (words, word) = match rest.split_once('_') {
        Some((words, word)) => (words.parse().ok()?, word),
        None => (1, rest),
    };
    Some((elements.parse().ok()?, words, DType::from_name(word)?))
}

/// As many elements as fit a word, where none is left over; else the shortest stream of whole words.
fn natural(bits: u32, word_bits: u64) -> (u64, u64) {
    let bits = u64::from(bits);
    let words = (1..=bits).find(|words| (words * word_bits).is_multiple_of(bits)).unwrap_or(bits);
    (words * word_bits / bits, words)
}

/// In which order elements fill words.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    /// In row-major order.
    Flat { count: u64 },
    /// Down the rows of a matrix.
    Rows { rows: u64, columns: u64 },
}

/// Words of packed elements, as many as there must be.
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

    /// The packed numbers from element `at` of the row-major order on, as many as `out` takes. They
    /// are inside the tensor.
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

    /// Words follow one another, and bytes are little-endian: the whole is one stream of bits, with
    /// unused ones at the end of each group of words.
    fn unpack_flat(&self, at: u64, out: &mut [f32]) {
        let p = &self.packing;
        if p.fills_words() && (at * u64::from(p.bits)).is_multiple_of(8) {
            // Inside memory: the last of these elements is.
            let start = (at * u64::from(p.bits) / 8) as usize;
            let bytes = self.bytes.get(start..).unwrap_or_default();
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
            let low = self.bytes.get(byte).copied().unwrap_or_default();
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

    /// Elements of one row, whose words lie above those of the rows below: for each column the same
    /// bits of the same line of words.
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
            // There are as many as the shape takes, in memory.
            let start = (line * columns + column) as usize * WIDTH;
            self.bytes.get(start..).unwrap_or_default().as_chunks::<WIDTH>().0
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
            // The rest of each element is at the bottom of the word in the next line.
            for ((x, word), next) in out.iter_mut().zip(words(line)).zip(words(line + 1)) {
                let low = read(word) >> shift;
                let high = read(next) << (word_bits - shift);
                *x = p.number((low | high) as u32);
            }
        }
    }
}

/// Elements that lie `COUNT` to a byte, `BITS` each, low bits first.
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
        "{elements}, {} in {} words of {}, take {words} words; there are {found} bytes",
        packing.elements, packing.words, packing.word
    ))
}
