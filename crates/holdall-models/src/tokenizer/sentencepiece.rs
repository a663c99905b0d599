//! Reading SentencePiece models: protocol buffers with the pieces, their scores and the normalizer.

use super::files::Source;
use super::metadata::TokenType;
use super::rules::{DUPLICATE, SENTENCEPIECE};
use super::tokenizer_json::too_many;
use holdall_collections::HashSet;
use holdall_core::error::{Escape as _, Result};
use holdall_core::wire::protobuf::{Field, Fields};

/// A SentencePiece model.
#[derive(Debug)]
pub(super) struct SentencePiece {
    pub(super) pieces: Vec<Piece>,
    /// The algorithm: 1 for Unigram, 2 for BPE.
    pub(super) model_type: u64,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) precompiled_charsmap: Vec<u8>,
}

/// A piece of the vocabulary. Its id is its position.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: TokenType,
}

/// The model type of Unigram.
pub(super) const UNIGRAM: u64 = 1;
/// The model type of BPE.
pub(super) const BPE: u64 = 2;

/// Reads the first of the named files that exists.
pub(super) fn read_sentencepiece(
    source: Source<'_>,
    names: &[&str],
) -> Result<Option<SentencePiece>> {
    for name in names {
        if let Some(bytes) = source.bytes(name)? {
            let parsed = parse(bytes, source.limits.attribute_values);
            return parsed.map(Some).map_err(|e| match e.code().starts_with("protobuf/") {
                true => e.with_rule(&SENTENCEPIECE).in_source(name),
                false => e.in_source(name),
            });
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8], most: u64) -> Result<SentencePiece> {
    let mut out = SentencePiece {
        pieces: Vec::new(),
        model_type: UNIGRAM,
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        precompiled_charsmap: Vec::new(),
    };
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Field::Bytes(piece)) => {
                if out.pieces.len() as u64 >= most {
                    return Err(too_many());
                }
                let at = out.pieces.len();
                out.pieces.push(parse_piece(piece).map_err(|e| e.within(format!("piece {at}")))?);
            }
            (2, Field::Bytes(trainer)) => {
                let mut fields = Fields::new(trainer);
                while let Some((number, value)) = fields.next()? {
                    if let (3, Field::Varint(model_type)) = (number, value) {
                        out.model_type = model_type;
                    }
                }
            }
            (3, Field::Bytes(normalizer)) => parse_normalizer(normalizer, &mut out)?,
            _ => {}
        }
    }
    if out.pieces.is_empty() {
        return Err(SENTENCEPIECE.broken("the model has no pieces"));
    }
    let mut texts = HashSet::default();
    for piece in &out.pieces {
        if !texts.insert(piece.text.as_str()) {
            return Err(
                DUPLICATE.broken(format!("the piece `{}` appears twice", piece.text.escaped()))
            );
        }
    }
    Ok(out)
}

fn parse_piece(bytes: &[u8]) -> Result<Piece> {
    let mut out = Piece { text: String::new(), score: 0.0, kind: TokenType::Normal };
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, value @ Field::Bytes(_)) => {
                let text =
                    value.text().ok_or_else(|| SENTENCEPIECE.broken("the text is not UTF-8"))?;
                text.clone_into(&mut out.text);
            }
            (2, Field::Fixed32(bits)) => out.score = f32::from_bits(bits),
            (3, Field::Varint(kind)) => {
                out.kind = TokenType::from_number(kind).ok_or_else(|| {
                    SENTENCEPIECE.broken(format!("expected a piece type from 1 to 6, found {kind}"))
                })?;
            }
            _ => {}
        }
    }
    match out.text.is_empty() {
        true => Err(SENTENCEPIECE.broken("the piece has no text")),
        false => Ok(out),
    }
}

fn parse_normalizer(bytes: &[u8], out: &mut SentencePiece) -> Result<()> {
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (2, Field::Bytes(charsmap)) => out.precompiled_charsmap = charsmap.to_vec(),
            (3, Field::Varint(flag)) => out.add_dummy_prefix = flag != 0,
            (4, Field::Varint(flag)) => out.remove_extra_whitespaces = flag != 0,
            _ => {}
        }
    }
    Ok(())
}
