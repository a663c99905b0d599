//! Visits all values: tensors get dotted names, other values become attributes.

use super::object::{Objects, Storage, Tensor, Thing, check_steps};
use super::{ALONE, DEPTH, KEY, TOO_MANY};
use holdall_collections::{HashMap, HashSet};
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::Value;
use holdall_core::wire::pickle::{BYTES_OF_STEP, Id, Node};

/// The contents of a file, in order.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) tensors: Vec<(String, Tensor)>,
    /// The Python attributes that are plain values, by the names of their tensors.
    pub(super) python: HashMap<String, Vec<(Value, Value)>>,
    /// Tensors that are Python attributes of other tensors, before they are added to the tensors; then the names of
    /// those that were added.
    pub(super) attached: Vec<(String, Tensor)>,
    pub(super) of_others: Vec<String>,
    pub(super) attributes: Vec<(String, Value)>,
    /// Dicts with Python attributes, and the names of these attributes: `_metadata` of a state dict.
    pub(super) of_dicts: Vec<(String, String)>,
    /// The names and kinds of values that were left out.
    pub(super) left_out: Vec<(String, String)>,
    /// Whether the value is not simply a dict of tensors.
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
    /// The number of further steps that are allowed.
    most: u64,
    /// The number of bytes of the names of all values.
    named: u64,
}

/// The contents of a value.
enum Seen {
    /// Tensors, which were added to the content, and possibly other values.
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

    /// Returns the contents of `root`.
    ///
    /// # Errors
    /// Returns [`DEPTH`], [`TOO_MANY`] or [`KEY`], and the errors of [`Objects::get`].
    pub(super) fn all(mut self, root: Id) -> Result<Content> {
        check_steps(self.objects.graph, root, self.most)?;
        let seen = self.value(root, "", 0)?;
        if let Seen::Plain(value) = seen {
            match value {
                Value::Map(pairs) => {
                    let names = names(pairs.iter().map(|(key, _)| Some(key)));
                    let values = pairs.into_iter().map(|(_, value)| value);
                    self.content.attributes.extend(names.into_iter().zip(values));
                }
                value => self.content.attributes.push((ALONE.to_owned(), value)),
            }
        }
        self.attach();
        let graph = self.objects.graph;
        let is_dict = match graph.get(root) {
            Node::Dict(_) => true,
            // The names of its attributes are noted elsewhere.
            Node::Built(object, _) => matches!(graph.get(*object), Node::Dict(_)),
            _ => false,
        };
        self.content.is_nested |= !is_dict || !self.content.attributes.is_empty();
        Ok(self.content)
    }

    fn value(&mut self, id: Id, name: &str, depth: usize) -> Result<Seen> {
        if depth > self.objects.depth {
            let message = format!("values are nested deeper than {}", self.objects.depth);
            return Err(DEPTH.broken(message).within(format!("at `{}`", name.escaped())));
        }
        let in_context = |e: Error| match name {
            "" => e,
            name => e.within(format!("at `{}`", name.escaped())),
        };
        match self.objects.get(id).map_err(in_context)? {
            Thing::Tensor(tensor, states) => {
                let name = if depth == 0 { ALONE } else { name };
                self.content.is_nested |= depth != 1;
                self.content.tensors.push((name.to_owned(), *tensor));
                for state in states {
                    self.state(state, name, depth.saturating_add(1));
                }
                Ok(Seen::Tensors)
            }
            Thing::Plain(value) => Ok(Seen::Plain(value)),
            Thing::Unknown(what) => {
                let name = if name.is_empty() { ALONE } else { name };
                self.content.left_out.push((name.to_owned(), what));
                Ok(Seen::Nothing)
            }
            Thing::List(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(at, id)| (Ok((at.to_string(), Value::Null)), *id));
                self.many(items.collect(), name, depth, |pairs| {
                    Value::Array(pairs.into_iter().map(|(_, value)| value).collect())
                })
            }
            Thing::Dict(pairs) => {
                self.note_state(id, name);
                let keys: Result<Vec<_>> = pairs.iter().map(|(key, _)| self.key(*key)).collect();
                let keys = keys.map_err(|e| in_dict(e, name))?;
                let names = names(keys.iter().map(|key| key.as_ref().ok()));
                let pairs = pairs
                    .iter()
                    .zip(keys)
                    .zip(names)
                    .map(|(((_, id), key), name)| (key.map(|key| (name, key)), *id));
                self.many(pairs.collect(), name, depth, Value::Map)
            }
        }
    }

    /// Notes the Python attributes of a dict: a state dict has the versions of its modules there.
    fn note_state(&mut self, id: Id, name: &str) {
        let graph = self.objects.graph;
        let Node::Built(object, state) = graph.get(id) else { return };
        if let (Node::Dict(_), Node::Dict(pairs)) = (graph.get(*object), graph.get(*state)) {
            let keys = pairs.iter().map(|(key, _)| graph.text(*key).unwrap_or("?"));
            self.content.of_dicts.extend(keys.map(|key| (name.to_owned(), key.to_owned())));
        }
    }

    /// Adds the Python attributes of a tensor from one of its states: a dict, or a tuple of two. Unsupported values in
    /// them are left out instead of causing an error, because they are not the file's tensors.
    fn state(&mut self, id: Id, name: &str, depth: usize) {
        match self.objects.graph.get(id) {
            Node::None => {}
            Node::Tuple(items) if depth <= self.objects.depth => {
                for id in items {
                    self.state(*id, name, depth.saturating_add(1));
                }
            }
            Node::Dict(pairs) => {
                for (key, value) in pairs {
                    let key = self.objects.graph.text(*key).unwrap_or("?");
                    self.python_attribute(name, key, *value, depth.saturating_add(1));
                }
            }
            _ => self.leave_out(format!("{name}.?"), "the state of a tensor".to_owned()),
        }
    }

    fn python_attribute(&mut self, tensor: &str, key: &str, value: Id, depth: usize) {
        let full = format!("{tensor}.{key}");
        let objects = Objects { skips: true, ..self.objects };
        let content = Content::default();
        let mut own = Walk { objects, content, most: self.most, named: self.named };
        let seen = own.value(value, &full, depth);
        self.named = own.named.saturating_add(full.len() as u64);
        let Content { tensors, attached, attributes, left_out, python, .. } = own.content;
        match seen {
            Ok(Seen::Plain(value)) => {
                let all = self.content.python.entry(tensor.to_owned()).or_default();
                all.push((Value::Text(key.to_owned()), value));
            }
            Ok(Seen::Tensors | Seen::Nothing) => {}
            Err(e) => return self.leave_out(full, e.to_string()),
        }
        self.content.attached.extend(tensors.into_iter().chain(attached));
        self.content.attributes.extend(attributes);
        self.content.left_out.extend(left_out);
        self.content.python.extend(python);
    }

    fn leave_out(&mut self, name: String, what: String) {
        self.content.left_out.push((name, what));
    }

    /// Adds the tensors that are attributes of other tensors, if their names are free.
    fn attach(&mut self) {
        let attached = std::mem::take(&mut self.content.attached);
        if attached.is_empty() {
            return;
        }
        let tensors = self.content.tensors.iter().map(|(name, _)| name.clone());
        let mut taken: HashSet<String> = tensors.collect();
        for (name, tensor) in attached {
            match taken.insert(name.clone()) {
                true => {
                    self.content.of_others.push(name.clone());
                    self.content.tensors.push((name, tensor));
                }
                false => {
                    let what = "a tensor whose name another tensor has".to_owned();
                    self.content.left_out.push((name, what));
                }
            }
        }
    }

    /// Visits the values of a container. Each has its own name if there are tensors among them; otherwise, all become
    /// one value.
    fn many(
        &mut self,
        items: Vec<(Result<(String, Value)>, Id)>,
        name: &str,
        depth: usize,
        join: impl FnOnce(Vec<(Value, Value)>) -> Value,
    ) -> Result<Seen> {
        let mut plain = Vec::new();
        let (mut any, mut lost) = (false, false);
        for (own, id) in items {
            let own_name = own.as_ref().map_or("?", |(own, _)| own);
            let full = if depth == 0 { own_name.to_owned() } else { format!("{name}.{own_name}") };
            self.named = self.named.saturating_add(full.len() as u64);
            if self.named / BYTES_OF_STEP > self.most {
                let message =
                    format!("the names of its values take more than {} bytes", self.named);
                return Err(TOO_MANY.broken(message));
            }
            match (self.value(id, &full, depth.saturating_add(1))?, own) {
                (Seen::Tensors, Ok(_)) => any = true,
                (Seen::Tensors, Err(e)) => return Err(in_dict(e, name)),
                (Seen::Plain(value), Ok((_, key))) => plain.push((full, key, value)),
                (Seen::Plain(_), Err(_)) => {
                    let what = "a value whose key gives no name".to_owned();
                    self.content.left_out.push((full, what));
                    lost = true;
                }
                (Seen::Nothing, _) => lost = true,
            }
        }
        if any || lost {
            let named = plain.into_iter().map(|(full, _, value)| (full, value));
            self.content.attributes.extend(named);
            return Ok(if any { Seen::Tensors } else { Seen::Nothing });
        }
        Ok(Seen::Plain(join(plain.into_iter().map(|(_, key, value)| (key, value)).collect())))
    }

    /// Returns the key of a dict as a value. A key without a name causes an error only on the path to a tensor.
    ///
    /// # Errors
    /// Returns the errors of [`Objects::get`].
    fn key(&self, id: Id) -> Result<Result<Value>> {
        match self.key_value(id, 0) {
            Err(e) if e.code() == KEY.code => Ok(Err(e)),
            found => found.map(Ok),
        }
    }

    fn key_value(&self, id: Id, depth: usize) -> Result<Value> {
        if depth > self.objects.depth {
            let message = format!("keys are nested deeper than {}", self.objects.depth);
            return Err(DEPTH.broken(message));
        }
        match self.objects.get(id)? {
            Thing::Plain(value) => Ok(value),
            Thing::List(items) => {
                let items = items.iter().map(|id| self.key_value(*id, depth.saturating_add(1)));
                items.collect::<Result<_>>().map(Value::Array)
            }
            Thing::Unknown(what) => {
                Err(KEY.broken(format!("a key on the path to a tensor is `{what}`, from which no name can be made")))
            }
            _ => {
                Err(KEY.broken("a key on the path to a tensor is or contains a tensor or a dict, from which no name can be made"))
            }
        }
    }
}

/// Returns the names for the keys of a dict: strings as they are, other values as JSON. A string that equals the JSON
/// of another key is quoted, as its own JSON is. A key without a name has an empty one.
fn names<'a>(keys: impl Iterator<Item = Option<&'a Value>> + Clone) -> Vec<String> {
    let json = |key: &Value| (!matches!(key, Value::Text(_))).then(|| key.to_json());
    let taken: HashSet<String> = keys.clone().flatten().filter_map(json).collect();
    let name = |key: Option<&Value>| match key {
        None => String::new(),
        Some(Value::Text(text)) if !taken.contains(text) => text.clone(),
        Some(key) => key.to_json(),
    };
    keys.map(name).collect()
}

/// Adds the name of the dict to an error about one of its keys.
fn in_dict(e: Error, name: &str) -> Error {
    match name {
        "" => e.within("in the outermost dict"),
        name => e.within(format!("in the dict `{}`", name.escaped())),
    }
}
