//! Through all values: tensors under dotted names, the others as attributes.

use super::object::{Objects, Storage, Tensor, Thing, check_steps};
use super::{ALONE, DEPTH, KEY, TOO_MANY};
use crate::error::Result;
use crate::model::Value;
use crate::wire::pickle::{BYTES_OF_STEP, Id, Node};

/// What a file contains, in its order.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) tensors: Vec<(String, Tensor)>,
    pub(super) attributes: Vec<(String, Value)>,
    /// What was left out: where, and what it was.
    pub(super) left_out: Vec<(String, String)>,
    /// Whether it is anything but a dict of tensors.
    pub(super) is_nested: bool,
}

impl Content {
    pub(super) fn storages_mut(&mut self) -> impl Iterator<Item = &mut Storage> {
        let views = self.tensors.iter_mut().flat_map(|(_, tensor)| tensor.views_mut());
        views.map(|view| &mut view.storage)
    }
}

pub(super) struct Walk<'g> {
    objects: Objects<'g>,
    content: Content,
    /// Steps that may be taken.
    most: u64,
    /// Bytes of the names of all values.
    named: u64,
}

/// What a value is made of.
enum Seen {
    /// Tensors, which are in the content now, and perhaps other values.
    Tensors,
    /// A value without tensors.
    Plain(Value),
    /// Nothing that is kept.
    Nothing,
}

impl<'g> Walk<'g> {
    pub(super) fn new(objects: Objects<'g>, most: u64) -> Walk<'g> {
        Walk { objects, content: Content::default(), most, named: 0 }
    }

    /// All that `root` contains.
    ///
    /// # Errors
    /// [`DEPTH`], [`TOO_MANY`], [`KEY`]; as [`Objects::get`].
    pub(super) fn all(mut self, root: Id) -> Result<Content> {
        check_steps(self.objects.graph, root, self.most)?;
        let seen = self.value(root, "", 0)?;
        if let Seen::Plain(value) = seen {
            match value {
                Value::Map(pairs) => {
                    for (key, value) in pairs {
                        let key = key.as_text().map_or_else(|| key.to_json(), str::to_owned);
                        self.content.attributes.push((key, value));
                    }
                }
                value => self.content.attributes.push((ALONE.to_owned(), value)),
            }
        }
        let is_dict = matches!(self.objects.graph.get(root), Node::Dict(_));
        self.content.is_nested |= !is_dict || !self.content.attributes.is_empty();
        Ok(self.content)
    }

    fn value(&mut self, id: Id, name: &str, depth: usize) -> Result<Seen> {
        if depth > self.objects.depth {
            let message = format!("values nest more than {} deep", self.objects.depth);
            return Err(DEPTH.broken(message));
        }
        let placed = |e: crate::error::Error| match name {
            "" => e,
            name => e.within(format!("at `{name}`")),
        };
        match self.objects.get(id).map_err(placed)? {
            Thing::Tensor(tensor) => {
                let name = if depth == 0 { ALONE } else { name };
                self.content.is_nested |= depth != 1;
                self.content.tensors.push((name.to_owned(), *tensor));
                Ok(Seen::Tensors)
            }
            Thing::Plain(value) => Ok(Seen::Plain(value)),
            Thing::Unknown(what) => {
                let name = if name.is_empty() { ALONE } else { name };
                self.content.left_out.push((name.to_owned(), what));
                Ok(Seen::Nothing)
            }
            Thing::List(items) => {
                let items =
                    items.iter().enumerate().map(|(at, id)| (Ok(at.to_string()), Value::Null, *id));
                self.many(items.collect(), name, depth, |pairs| {
                    Value::Array(pairs.into_iter().map(|(_, value)| value).collect())
                })
            }
            Thing::Dict(pairs) => {
                let pairs = pairs.iter().map(|(key, id)| {
                    let (name, key) = self.key(*key);
                    (name, key, *id)
                });
                self.many(pairs.collect(), name, depth, Value::Map)
            }
        }
    }

    /// Values of a container: each under its own name where there are tensors among them, else all in one.
    fn many(
        &mut self,
        items: Vec<(Result<String>, Value, Id)>,
        name: &str,
        depth: usize,
        join: impl FnOnce(Vec<(Value, Value)>) -> Value,
    ) -> Result<Seen> {
        let mut plain = Vec::new();
        let (mut any, mut lost) = (false, false);
        for (own, key, id) in items {
            let of = own.as_deref().unwrap_or("?");
            let full = if depth == 0 { of.to_owned() } else { format!("{name}.{of}") };
            self.named = self.named.saturating_add(full.len() as u64);
            if self.named / BYTES_OF_STEP > self.most {
                let message =
                    format!("the names of its values take more than {} bytes", self.named);
                return Err(TOO_MANY.broken(message));
            }
            match self.value(id, &full, depth.saturating_add(1))? {
                Seen::Tensors => {
                    own?;
                    any = true;
                }
                Seen::Plain(value) => plain.push((full, key, value)),
                Seen::Nothing => lost = true,
            }
        }
        if any || lost {
            let named = plain.into_iter().map(|(full, _, value)| (full, value));
            self.content.attributes.extend(named);
            return Ok(if any { Seen::Tensors } else { Seen::Nothing });
        }
        Ok(Seen::Plain(join(plain.into_iter().map(|(_, key, value)| (key, value)).collect())))
    }

    /// The key of a dict as part of a name, and as a value. The name of one that is no text is its JSON.
    fn key(&self, id: Id) -> (Result<String>, Value) {
        match self.key_value(id, 0) {
            Ok(Value::Text(text)) => (Ok(text.clone()), Value::Text(text)),
            Ok(value) => (Ok(value.to_json()), value),
            Err(e) => (Err(e), Value::Null),
        }
    }

    fn key_value(&self, id: Id, depth: usize) -> Result<Value> {
        if depth > self.objects.depth {
            let message = format!("keys nest more than {} deep", self.objects.depth);
            return Err(DEPTH.broken(message));
        }
        match self.objects.get(id)? {
            Thing::Plain(value) => Ok(value),
            Thing::List(items) => {
                let items = items.iter().map(|id| self.key_value(*id, depth.saturating_add(1)));
                items.collect::<Result<_>>().map(Value::Array)
            }
            _ => {
                Err(KEY.broken("a key on the way to a tensor is a tensor or a dict, or holds one: no name can be made of it"))
            }
        }
    }
}
