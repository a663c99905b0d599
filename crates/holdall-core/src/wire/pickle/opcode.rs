//! The arguments of opcodes: all 68 of protocols 0 to 5.

use crate::wire::cursor::Cursor;

/// The argument of an opcode.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// No argument.
    None,
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i32),
    /// A 64-bit float.
    Float(f64),
    /// Bytes, preceded by their length.
    Bytes(&'a [u8]),
    /// Bytes up to the end of a line.
    Line(&'a [u8]),
    /// Two lines: a module, and a name in it.
    Lines(&'a [u8], &'a [u8]),
}

/// Why an argument could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The bytes end inside the argument.
    End,
    /// The opcode is unknown.
    Opcode,
}

/// Reads the argument of `opcode`.
pub fn argument<'a>(opcode: u8, c: &mut Cursor<'a>) -> Result<Argument<'a>, Missing> {
    let argument = match opcode {
        b'('
        | b')'
        | b'.'
        | b'0'
        | b'1'
        | b'2'
        | b'N'
        | b'Q'
        | b'R'
        | b']'
        | b'a'
        | b'b'
        | b'd'
        | b'e'
        | b'l'
        | b'o'
        | b's'
        | b't'
        | b'u'
        | b'}'
        | 0x81
        | 0x85..=0x89
        | 0x8f..=0x94
        | 0x97
        | 0x98 => Some(Argument::None),
        b'K' | b'h' | b'q' | 0x80 | 0x82 => c.u8().map(|n| Argument::Number(n.into())),
        b'M' | 0x83 => c.u16_le().map(|n| Argument::Number(n.into())),
        b'j' | b'r' => c.u32_le().map(|n| Argument::Number(n.into())),
        0x95 => c.u64_le().map(Argument::Number),
        b'J' | 0x84 => c.array().map(|n| Argument::Signed(i32::from_le_bytes(n))),
        b'G' => c.array().map(|x| Argument::Float(f64::from_be_bytes(x))),
        b'C' | b'U' | 0x8a | 0x8c => c.u8().and_then(|len| bytes(c, len.into())),
        b'B' | b'T' | b'X' | 0x8b => c.u32_le().and_then(|len| bytes(c, len.into())),
        0x8d | 0x8e | 0x96 => c.u64_le().and_then(|len| bytes(c, len)),
        b'F' | b'I' | b'L' | b'P' | b'S' | b'V' | b'g' | b'p' => line(c).map(Argument::Line),
        b'c' | b'i' => line(c).and_then(|module| Some(Argument::Lines(module, line(c)?))),
        _ => return Err(Missing::Opcode),
    };
    argument.ok_or(Missing::End)
}

/// Returns the length of the argument of `opcode` that is declared in `behind`, including the length field itself.
pub fn declared_len(opcode: u8, behind: &[u8]) -> Option<u64> {
    let mut c = Cursor::new(behind);
    let len = match opcode {
        b'C' | b'U' | 0x8a | 0x8c => c.u8()?.into(),
        b'B' | b'T' | b'X' | 0x8b => c.u32_le()?.into(),
        0x8d | 0x8e | 0x96 => c.u64_le()?,
        _ => return None,
    };
    Some(len.saturating_add(c.position()))
}

fn bytes<'a>(c: &mut Cursor<'a>, len: u64) -> Option<Argument<'a>> {
    c.take(len).map(Argument::Bytes)
}

fn line<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = memchr::memchr(b'\n', c.rest())?;
    let line = c.take(len as u64)?;
    c.u8()?;
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::declared_len;

    /// The field of the length counts: one byte, four, or eight.
    #[test]
    fn declared_lengths_include_their_field() {
        let field = [7, 1, 0, 0, 0, 0, 0, 0, 9];
        for opcode in *b"CU\x8a\x8c" {
            assert_eq!(declared_len(opcode, &field), Some(8), "{opcode}");
        }
        for opcode in *b"BTX\x8b" {
            assert_eq!(declared_len(opcode, &field), Some(0x107 + 4), "{opcode}");
        }
        for opcode in *b"\x8d\x8e\x96" {
            assert_eq!(declared_len(opcode, &field), Some(0x107 + 8), "{opcode}");
            assert_eq!(declared_len(opcode, &[0xff; 8]), Some(u64::MAX));
            assert_eq!(declared_len(opcode, &field[..7]), None);
        }
        assert_eq!(declared_len(b'(', &field), None);
    }
}
