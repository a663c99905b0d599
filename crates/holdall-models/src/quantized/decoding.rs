//! How the values of a weight follow from its components, as data.
//!
//! Every kind is a stack of matrices of codes, a grid of scales over each matrix, and an arithmetic operation of a code
//! with the scale (and the zero point or the bias) of its cell. If `is_transposed`, the weight is the transpose of each
//! stored matrix.

use super::SHAPE;
use holdall_core::DType;
use holdall_core::error::Result;

/// How the values of a weight follow from its components.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decoding {
    pub(super) matrices: u64,
    /// Rows and columns of each stored matrix, in elements.
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) is_transposed: bool,
    /// The role of the component with the codes.
    pub(super) data: &'static str,
    pub(super) codes: Codes,
    pub(super) grid: Grid,
    pub(super) arithmetic: Arithmetic,
}

impl Decoding {
    /// Returns the number of elements, which was checked to fit 64 bits.
    pub(super) fn count(&self) -> u64 {
        self.matrices.saturating_mul(self.rows).saturating_mul(self.columns)
    }
}

/// How codes are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Codes {
    /// One byte per code.
    Bytes(ByteCode),
    /// `bits` bits per code. Each row starts at a byte boundary and is a stream from the low bits of its first byte up.
    Stream { bits: u32, row_len: u64, table: Table },
    /// `per_word` codes of `bits` bits in each little-endian word of 32 bits, the first in the low bits.
    Words { bits: u32, per_word: u64, row_len: u64 },
    /// Two codes per byte, the first in the high bits.
    HighNibbles { row_len: u64, table: Table },
    /// Codes of `bits` bits as a stream down each column of a matrix of words of 32 bits. With `per_word`, each word
    /// has that many codes, and no code spans two words.
    Down { bits: u32, per_word: Option<u64> },
    /// Eight codes of 4 bits per word of 32 bits along rows, in the order 0, 2, 4, 6, 1, 3, 5, 7.
    Awq,
    /// The rows of each matrix are cut into slabs of `rows` rows, which are the bit fields of one slab of integers.
    Slabs { bits: u32, rows: u64, word: u64, is_first_high: bool },
}

/// The meaning of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteCode {
    E4m3,
    E5m2,
    E4m3Fnuz,
    E5m2Fnuz,
    Signed,
    Unsigned,
}

/// The meaning of a code of a few bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// An unsigned integer.
    Integer,
    /// A float of 4 bits.
    E2m1,
    /// A float of 6 bits.
    E2m3,
    /// An index into the component of this role, which has 16 numbers.
    Component(&'static str),
}

/// The grid of scales over each matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid {
    /// The number of grids: 1 for all matrices together, or one for each.
    pub(super) matrices: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) row: Along,
    pub(super) column: Along,
    /// The role of the component with the scales.
    pub(super) scale: &'static str,
    pub(super) scale_type: ScaleType,
    pub(super) order: Order,
    /// A factor of all scales of a matrix.
    pub(super) factor: Option<Factor>,
}

/// The cells of the grid along one dimension, by element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// The cells have this many elements, the last one possibly fewer.
    Size(u64),
    /// The component of this role has the number of the cell for each element.
    Index(&'static str),
}

/// The meaning of stored scales.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScaleType {
    /// Numbers of the stored type.
    Stored,
    /// Bytes that are exponents of 2, with the bias 127.
    E8m0,
    /// Bytes that are E4M3 floats.
    E4m3,
    /// Bytes that are indices into the component `nested_map`. The numbers there are multiplied by the component
    /// `nested_scale`, which has one for each `block` scales; `offset` is added.
    Nested { block: u64, offset: f32 },
}

/// The order of stored scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Row-major, with this many scales per row, of which the grid has the first ones.
    Rows(u64),
    /// Tiles of 128 rows and 4 columns, stored as 32 rows of 16 numbers, over a padded grid.
    Tiles { rows: u64, columns: u64 },
}

/// A factor of all scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor {
    /// The role of its component, which has one number or one for each matrix.
    pub(super) role: &'static str,
    pub(super) is_divisor: bool,
}

/// The operation that gives a value from a code.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arithmetic {
    /// `code * scale`
    Multiply,
    /// `code * scale * constant`, in this order.
    MultiplyBy(f32),
    /// `(code - constant) / scale`
    DivideOffset(f32),
    /// `(code - constant) * scale`
    Offset(f32),
    /// `(code - zero) * scale`
    Zeros(Zeros),
    /// `code * scale + bias`
    Bias(Zeros),
    /// `code * scale - shift`, each rounded to the type of the scales.
    RoundedShift(Zeros, DType),
}

/// Numbers for the cells of the grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zeros {
    pub(super) role: &'static str,
    pub(super) form: ZerosForm,
}

/// How zero points are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ZerosForm {
    /// One number for each cell, in row-major order.
    Numbers,
    /// Codes, of which the matrix is the grid. `add` is added modulo 2^`bits`.
    Packed { codes: Codes, bits: u32, add: u32 },
}

impl Codes {
    /// Returns the number of bytes of `matrices` matrices. `None` if it exceeds 64 bits.
    pub(super) fn byte_len(&self, matrices: u64, rows: u64, columns: u64) -> Option<u64> {
        let rows_of = |len: u64| matrices.checked_mul(rows)?.checked_mul(len);
        match self {
            Codes::Bytes(_) => rows_of(columns),
            Codes::Stream { row_len, .. }
            | Codes::Words { row_len, .. }
            | Codes::HighNibbles { row_len, .. } => rows_of(*row_len),
            Codes::Down { bits, per_word } => {
                let words = words_down(rows, *bits, *per_word)?;
                matrices.checked_mul(words)?.checked_mul(columns)?.checked_mul(4)
            }
            Codes::Awq => rows_of(columns.div_ceil(8).checked_mul(4)?),
            Codes::Slabs { rows, word, .. } => {
                matrices.checked_mul(*rows)?.checked_mul(columns)?.checked_mul(*word)
            }
        }
    }
}

/// Returns the number of words that codes down a column of `rows` elements take.
pub(super) fn words_down(rows: u64, bits: u32, per_word: Option<u64>) -> Option<u64> {
    match per_word {
        Some(n) => Some(rows.div_ceil(n.max(1))),
        None => Some(rows.checked_mul(u64::from(bits))?.div_ceil(32)),
    }
}

/// A stack of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stack {
    pub(super) matrices: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
}

impl Stack {
    /// Reads a shape as a stack of matrices: all dimensions but the last two count matrices.
    ///
    /// # Errors
    /// Returns [`SHAPE`] if the shape has no dimensions, or too many elements.
    pub(super) fn from_shape(shape: &[u64]) -> Result<Stack> {
        let fail = |what: &str| SHAPE.broken(format!("{what} {shape:?}"));
        let (columns, rest) = shape
            .split_last()
            .ok_or_else(|| fail("expected at least one dimension, found shape"))?;
        let (rows, leading) = rest.split_last().unwrap_or((&1, &[]));
        let matrices = leading.iter().try_fold(1u64, |n, size| n.checked_mul(*size));
        let count = matrices.and_then(|n| n.checked_mul(*rows)?.checked_mul(*columns));
        match (matrices, count) {
            // Bytes of f32 and bits of packed elements must be countable too.
            (Some(matrices), Some(count)) if count <= u64::MAX / 64 => {
                Ok(Stack { matrices, rows: *rows, columns: *columns })
            }
            _ => Err(fail("too many elements in shape")),
        }
    }
}

/// A way in which scales can cover a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// One scale for the tensor, or one for each matrix.
    Tensor,
    /// One scale for each row.
    Rows,
    /// One scale for each block: its rows and its columns.
    Blocks(u64, u64),
}

impl Cover {
    /// Returns the grid if scales of shape `scale` cover matrices of shape `weight` this way.
    pub(super) fn grid(self, weight: &[u64], scale: &[u64]) -> Option<Grid> {
        let Stack { matrices, rows, columns } = Stack::from_shape(weight).ok()?;
        let leading = weight.get(..weight.len().saturating_sub(2)).unwrap_or(&[]);
        // The part of the shape of the scales after the dimensions that count matrices.
        let own = scale.strip_prefix(leading).unwrap_or(scale);
        let is_stacked = !leading.is_empty() && scale.starts_with(leading);
        let (grid_matrices, grid_rows, grid_columns, row, column) = match self {
            Cover::Tensor if own.iter().all(|size| *size == 1) => {
                // Without leading dimensions there is one scale for all matrices.
                let matrices = if is_stacked { matrices } else { 1 };
                (matrices, 1, 1, rows.max(1), columns.max(1))
            }
            Cover::Rows if leading.is_empty() || is_stacked => match own {
                [n] if *n == rows => (matrices, rows, 1, 1, columns.max(1)),
                [n, 1] if *n == rows => (matrices, rows, 1, 1, columns.max(1)),
                [n, rest @ ..] if *n == rows && rest.iter().all(|size| *size == 1) => {
                    (matrices, rows, 1, 1, columns.max(1))
                }
                _ => return None,
            },
            Cover::Blocks(down, across) if leading.is_empty() || is_stacked => {
                let (down, across) = (down.max(1), across.max(1));
                let expected = [rows.div_ceil(down), columns.div_ceil(across)];
                let is_right = match own {
                    [a, b] => [*a, *b] == expected,
                    [b] => weight.len() == 1 && *b == expected[1],
                    _ => false,
                };
                if !is_right {
                    return None;
                }
                (matrices, expected[0], expected[1], down, across)
            }
            _ => return None,
        };
        Some(Grid {
            matrices: grid_matrices,
            rows: grid_rows,
            columns: grid_columns,
            row: Along::Size(row),
            column: Along::Size(column),
            scale: "scale",
            scale_type: ScaleType::Stored,
            order: Order::Rows(grid_columns),
            factor: None,
        })
    }
}
