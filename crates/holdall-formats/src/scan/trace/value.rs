//! What is kept of the values of a pickle.

/// A value on the stack or in the memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Mark,
    /// None, a Boolean, a float, `bytes`: nothing that is called, changed or names something.
    Plain,
    /// An integer of 32 bits.
    Int(i32),
    /// A list or a `bytearray`: both have `append` and `extend`, and items that are set.
    List,
    Set,
    /// A dict, and its number among those that are kept, [`NOT_KEPT`] of others.
    Dict(u32),
    /// A tuple, and its number among those that are kept.
    Tuple {
        kept: u32,
        items: Items,
    },
    /// A text, by where its opcode is.
    Text(u64),
    /// Whatever a program makes of a persistent identifier, an extension or a buffer; a text of which the reader decides.
    Unknown,
    /// An import, by its number.
    Import(u32),
    /// A new object that a call of an import makes, and its number among those that are kept.
    Made {
        import: u32,
        kept: u32,
    },
    /// What a call of an import may hand through from its arguments, which other code may have, too.
    Shared(u32),
}

/// The number of what is not kept.
pub(super) const NOT_KEPT: u32 = u32::MAX;

/// What is known of the items of a tuple, which a call may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Items {
    /// The import that is the first item; [`NOT_KEPT`] where that is something else.
    pub(super) first: u32,
    /// Whether there are none.
    pub(super) is_empty: bool,
    /// Whether one of them may be something that other code has, too.
    pub(super) shares: bool,
    /// Whether the second is an import that may be called with anything.
    pub(super) second_is_called: bool,
}

impl Items {
    /// Of what nothing is known.
    pub(super) const UNKNOWN: Items =
        Items { first: NOT_KEPT, is_empty: false, shares: true, second_is_called: false };
}

/// Containers whose items are kept, for descriptions of arrays.
#[derive(Debug, Default)]
pub(super) struct TrackedContainers {
    /// `None` of one that got too large.
    pub(super) dicts: Vec<Option<Vec<(Value, Value)>>>,
    pub(super) tuples: Vec<Box<[Value]>>,
    /// Arguments and state of objects.
    pub(super) objects: Vec<(Value, Value)>,
}

/// Items of the largest container that is kept.
const MAX_ITEMS: usize = 64;

impl TrackedContainers {
    /// How many values there are.
    pub(super) fn len(&self) -> u64 {
        let count = self.dicts.len().saturating_add(self.tuples.len());
        count.saturating_add(self.objects.len()).saturating_mul(4) as u64
    }

    pub(super) fn tuple(&mut self, items: &[Value]) -> u32 {
        match items.len() <= MAX_ITEMS {
            true => push(&mut self.tuples, items.into()),
            false => NOT_KEPT,
        }
    }

    pub(super) fn dict(&mut self) -> u32 {
        push(&mut self.dicts, Some(Vec::new()))
    }

    pub(super) fn object(&mut self, arguments: Value) -> u32 {
        push(&mut self.objects, (arguments, Value::Plain))
    }

    /// Adds pairs to a dict. One that gets too large is not known any more.
    pub(super) fn set_items(&mut self, dict: u32, items: &[Value]) {
        let Some(dict) = self.dicts.get_mut(dict as usize) else { return };
        let (pairs, _) = items.as_chunks::<2>();
        match dict {
            Some(own) if own.len().saturating_add(pairs.len()) <= MAX_ITEMS => {
                own.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            }
            _ => *dict = None,
        }
    }
}

fn push<T>(to: &mut Vec<T>, value: T) -> u32 {
    let number = u32::try_from(to.len()).unwrap_or(NOT_KEPT);
    to.push(value);
    number
}

impl Value {
    /// Whether other code may have the value, too, so that changing it changes more than what is unpickled.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Value::Import(_) | Value::Shared(_) | Value::Unknown)
    }

    /// Whether it is certainly no text, and nothing that can be called.
    pub(super) fn is_plain(self) -> bool {
        use Value::{Dict, Int, List, Plain, Set, Tuple};
        matches!(self, Plain | Int(_) | List | Set | Dict(_) | Tuple { .. })
    }
}
