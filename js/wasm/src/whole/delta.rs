//! Deltas: what they say about their base, and the elements of their target.

use super::dataset::Part;
use crate::Answer;
use crate::file::File;
use crate::json::{CALL, Object, list, text_or_null};
use crate::view::{Held, dense_type, get};
use holdall_core::layout::delta::{ATTRIBUTES, DeltaHead, DeltaView, ElementsDigest, LAYOUT};
use holdall_core::{Attributes, DType, Error, Layout, LogicalType, TensorInfo, TensorSpec};
use holdall_json::write_string;

/// How the host makes the bytes of a tensor of the target: from its components as they are, from its elements in dense form, or
/// from those of the base and a difference.
const STORED: u64 = 0;
const DENSE: u64 = 1;
const DIFFERENCE: u64 = 2;

/// The difference of a tensor, and the digest of elements that are passed.
#[derive(Default)]
pub(crate) struct Delta {
    view: Option<DeltaView>,
    digest: Option<ElementsDigest>,
}

/// Returns the attribute of the file of a delta.
pub(crate) fn head(file: &File) -> Result<Answer, Error> {
    let head = DeltaHead::read(file.index()?.attributes())?;
    let names =
        |names: &[String], out: &mut String| list(names, out, |name, out| write_string(name, out));
    let object = Object::new()
        .number("tensors", head.tensors)
        .with("removed", |out| names(&head.removed, out))
        .with("added", |out| match &head.added {
            Some(added) => names(added, out),
            None => text_or_null(None, out),
        })
        .maybe_text("base", head.base.as_deref())
        .maybe_text("target", head.target.as_deref())
        .maybe_text("baseVersion", head.base_version.as_deref())
        .maybe_text("targetVersion", head.target_version.as_deref());
    Ok(Answer::text(object.finish()))
}

/// Returns the description of a tensor of the target with the elements of `info`, and how its bytes are made.
pub(crate) fn part(info: &TensorInfo) -> Result<(Part, Answer), Error> {
    let is_difference = matches!(info.layout(), Layout::Other(name) if &**name == LAYOUT);
    let (spec, how) = if is_difference {
        let text = |key| info.attributes().get(key).and_then(|value| value.as_text());
        let dtype = text("dtype").and_then(DType::from_name);
        let dtype = dtype.ok_or_else(|| CALL.broken("the difference was not checked"))?;
        let own = |key: &str| ATTRIBUTES.contains(&key);
        let attributes = info.attributes().iter().filter(|(key, _)| !own(key));
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let logical = text("type").map(LogicalType::from_name);
        (dense(info, dtype, logical, attributes), DIFFERENCE)
    } else if let (Layout::Planes(_) | Layout::Strided, Some(element)) =
        (info.layout(), dense_type(info))
    {
        let attributes = holdall_core::layout::without_parameters(info.layout(), info.attributes());
        (dense(info, element.dtype, element.logical_type, attributes), DENSE)
    } else {
        let spec = TensorSpec::from_info(info);
        let lacks = || CALL.broken("the length of its bytes is not known").in_tensor(info.name());
        (spec.ok_or_else(lacks)?, STORED)
    };
    Ok((Part::Stored(Box::new(spec)), Answer::numbers([how])))
}

fn dense(
    info: &TensorInfo,
    dtype: DType,
    logical: Option<LogicalType>,
    attributes: Attributes,
) -> TensorSpec {
    let mut spec = TensorSpec::dense(info.name(), dtype, info.shape());
    spec.attributes = attributes;
    if let Some(component) = spec.components.first_mut() {
        component.logical_type = logical;
    }
    spec
}

impl Delta {
    /// Checks the difference of a tensor whose components are held. Returns its facts; it is applied from then on.
    pub(crate) fn begin(&mut self, info: &TensorInfo, held: &Held) -> Result<Answer, Error> {
        let view = DeltaView::from_tensor(info, get(info, held));
        let view = view.map_err(|e| e.in_tensor(info.name()))?;
        let of = view.element_type();
        let dense = match &of.logical_type {
            Some(logical) => format!("{} {logical}", of.dtype),
            None => of.dtype.to_string(),
        };
        let facts = Object::new()
            .text("dense", &dense)
            .number("width", of.width())
            .number("count", view.count())
            .number("changed", view.changed())
            .text("base", view.base())
            .text("target", view.target());
        self.view = Some(view);
        Ok(Answer::text(facts.finish()))
    }

    /// Returns the elements of a block of the target; `elements` are those of the base.
    pub(crate) fn apply(&self, block: u64, elements: &[u8]) -> Result<Answer, Error> {
        let view = self.view.as_ref().ok_or_else(|| CALL.broken("no difference was begun"))?;
        let mut out = elements.to_vec();
        view.apply(block, &mut out)?;
        Ok(Answer::Done(out))
    }

    /// Begins a digest of the kind that the text is.
    pub(crate) fn digest(&mut self, like: &[u8]) -> Answer {
        let like = std::str::from_utf8(like).unwrap_or_default();
        self.digest = Some(ElementsDigest::like(like));
        Answer::NOTHING
    }

    /// Adds bytes to the digest.
    pub(crate) fn sum(&mut self, bytes: &[u8]) -> Answer {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        Answer::NOTHING
    }

    /// Returns the digest as text.
    pub(crate) fn digest_end(&mut self) -> Result<Answer, Error> {
        let digest = self.digest.take().ok_or_else(|| CALL.broken("no digest was begun"))?;
        Ok(Answer::text(digest.finish()))
    }
}
