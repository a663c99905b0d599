//! The tracked properties of a pickle's values.

/// A value on the stack or in the memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Mark,
    /// None, a Boolean, a float, `bytes`: a value that cannot be called or changed, and is not a name.
    Plain,
    /// An integer of 32 bits.
    Int(i32),
    /// A list or a `bytearray`: both have `append` and `extend`, and items that are set.
    List,
    Set,
    /// A dict, and its number among the tracked ones, or [`NOT_KEPT`].
    Dict(u32),
    /// A tuple, and its number among the tracked ones.
    Tuple {
        kept: u32,
        items: Items,
    },
    /// A string, given by the offset of its opcode.
    Text(u64),
    /// The program's object for a persistent id, an extension or a buffer; or a string that readers decode in different
    /// ways.
    Unknown,
    /// An import, by its number.
    Import(u32),
    /// A new object created by calling an import, and its number among the tracked ones.
    Made {
        import: u32,
        kept: u32,
    },
    /// The result of calling an import that may return one of its arguments, which other code may also have.
    Shared(u32),
}

/// The number of a value that is not tracked.
pub(super) const NOT_KEPT: u32 = u32::MAX;

/// The known properties of the items of a tuple, which can be the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Items {
    /// The import that is the first item; [`NOT_KEPT`] if the first item is another value.
    pub(super) first: u32,
    /// Whether there are no items.
    pub(super) is_empty: bool,
    /// Whether other code may also have one of the items.
    pub(super) shares: bool,
    /// Whether the second item is an import that may be called with any arguments.
    pub(super) second_is_called: bool,
}

impl Items {
    /// A tuple with unknown items.
    pub(super) const UNKNOWN: Items =
        Items { first: NOT_KEPT, is_empty: false, shares: true, second_is_called: false };
}

/// Containers whose items are tracked, for descriptions of arrays.
#[derive(Debug, Default)]
pub(super) struct TrackedContainers {
    /// `None` for a dict that got too large.
    pub(super) dicts: Vec<Option<Vec<(Value, Value)>>>,
    pub(super) tuples: Vec<Box<[Value]>>,
    /// The arguments and states of objects.
    pub(super) objects: Vec<(Value, Value)>,
}

/// The maximum number of items of a tracked container.
const MAX_ITEMS: usize = 64;

impl TrackedContainers {
    /// Returns the number of values.
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

    /// Adds pairs to a dict. A dict that gets too large is no longer tracked.
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
    /// Returns `true` if other code may also have the value, so that changing it affects more than the unpickled
    /// objects.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Value::Import(_) | Value::Shared(_) | Value::Unknown)
    }

    /// Returns `true` if the value is certainly not a string and cannot be called.
    pub(super) fn is_plain(self) -> bool {
        use Value::{Dict, Int, List, Plain, Set, Tuple};
        matches!(self, Plain | Int(_) | List | Set | Dict(_) | Tuple { .. })
    }
}
