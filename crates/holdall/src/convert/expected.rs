//! The changes that a conversion was asked to make, for the ledger: derived from the options alone, not from
//! what was written.

use super::{Convert, graph};
use holdall_core::ledger::Expected;
use holdall_core::{Attributes, Encode, Layout, Result, Value};
use holdall_formats::{Format, Shards};
use holdall_io::File;

impl Convert {
    /// Returns the expected changes to the tensors and attributes of `file`.
    pub(super) fn expected(
        &self,
        file: &File,
        encoder: &dyn Encode,
        format: Option<&'static Format>,
        into: Option<&graph::Into>,
    ) -> Result<Expected> {
        let mut expected = Expected::new();
        expected.set_ties(self.sharing.tie_rule(encoder));
        if self.write.is_digest_chosen() {
            expected.choose_digests();
        }
        if self.attributes.is_some() {
            expected.replace_attributes();
        }
        if self.drop_attributes || !encoder.writes_attributes() {
            expected.drop_attributes();
        }
        if let Some(Shards::Parts(parts)) = format.and_then(|format| format.shards)
            && self.shard_limits().is_some()
        {
            let mut whole = file.attributes().clone();
            (parts.remove)(&mut whole);
            let of_part = file.attributes().iter().filter(|(key, _)| whole.get(key).is_none());
            of_part.for_each(|(key, _)| expected.change_attribute(key));
        }
        for (key, _) in file.attributes().iter().filter(|(key, _)| !self.keeps_attribute(file, key))
        {
            expected.drop_attribute(key);
        }
        for tensor in file.tensors() {
            let name = tensor.name();
            // A tensor that stays in the graph unchanged is not written.
            if !self.select.selects(name) || into.is_some_and(|into| into.stays(&tensor)) {
                expected.tensor(name).left_out = true;
                continue;
            }
            let new_name = self.renames.iter().find_map(|rename| rename.apply(name));
            let element_type = self.casts.target(name);
            let is_computed = tensor.layout().is_computed() || tensor.description().is_some();
            let layout = self.reforms.target(name).is_some()
                || (self.dense && (is_computed || crate::repack::is_sparse(&tensor)));
            let layout = layout
                || self.makes_planes(&tensor)
                || element_type.is_some() && self.write.has_planes();
            if new_name.is_none() && element_type.is_none() && !layout && !self.raw_types {
                continue;
            }
            let change = expected.tensor(name);
            change.name = new_name;
            change.layout = layout;
            change.stored_elements = self.raw_types;
            change.element_type = element_type.map(|to| (to.dtype(), to.logical_type()));
            if let (true, Some(description)) = (layout, tensor.description()) {
                change.attributes.extend(description.attribute_names().map(str::to_owned));
            }
        }
        Ok(expected)
    }

    /// Returns the file attributes for the target, before it is known which of them it can hold.
    pub(super) fn attributes_of(&self, file: &File, target: Option<&Format>) -> Attributes {
        if let Some(given) = &self.attributes {
            let mut given = given.clone();
            // Without it, described weights would have no values.
            if file.has_described_weights()
                && let Some((key, texts)) = file.quantization_attribute()
                && given.get(key).is_none()
            {
                given.set(key, texts.clone());
            }
            return given;
        }
        let mut attributes = match self.select.is_all() && !file.has_dequantized_weights() {
            true => file.attributes().clone(),
            false => {
                let all = file.attributes().iter();
                let kept = all.filter(|(key, _)| self.keeps_attribute(file, key));
                kept.map(|(key, value)| (key.to_owned(), value.clone())).collect()
            }
        };
        let framework = holdall_formats::by_name(file.format()).and_then(|format| format.framework);
        if let (Some(key), Some(name)) = (target.and_then(|format| format.framework_key), framework)
            && attributes.get(key).is_none()
        {
            attributes.set(key, Value::Text(name.to_owned()));
        }
        attributes
    }

    /// Returns `true` if a file attribute is kept: not if it describes quantized weights that become dense. In formats whose attributes are values next to the tensors,
    /// only selected ones are kept.
    fn keeps_attribute(&self, file: &File, key: &str) -> bool {
        if self.attributes.is_none() && file.describes_quantization(key) {
            return false;
        }
        if self.select.is_all() || self.attributes.is_some() {
            return true;
        }
        let format = holdall_formats::by_name(file.format());
        if format.is_some_and(|format| format.attributes_are_values) {
            return self.select.selects_value(key);
        }
        true
    }
}

/// Returns `true` if tensors of a layout are made dense in any target, because only PyTorch has the layout.
pub(super) fn is_made_dense(layout: &Layout) -> bool {
    matches!(layout, Layout::Strided | Layout::SparseBlocks | Layout::SparseHybrid)
}
