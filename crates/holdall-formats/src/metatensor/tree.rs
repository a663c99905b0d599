//! The tree of tensors by their names, as in `tensors`: nested objects, arrays, leaves.

use super::rules::ATTRIBUTE;
use holdall_collections::DebugUnwrap;
use holdall_collections::{HashMap, HashSet};
use holdall_collections::{sort, sort_by};
use holdall_core::error::{Escape as _, Result};
use holdall_schema::{Path, Segment, write_name};

/// The maximum number of steps in a name that become objects and arrays of a header.
const MAX_STEPS: usize = 48;

/// A node of the tree.
#[derive(Debug)]
pub(super) enum Tree {
    Object(Vec<(String, Tree)>),
    List(Vec<Tree>),
    /// The tensor with this number.
    Tensor(usize),
    /// The plain value with this number.
    Value(usize),
}

/// A tree, and the names of tensors that differ from their paths.
pub(super) struct NamedTree<'n> {
    pub(super) tree: Tree,
    /// The paths and names of tensors whose name differs from the path.
    pub(super) names: Vec<(String, &'n str)>,
}

/// Builds the tree of tensors with these names, and of values with these paths. A name becomes a single member of the
/// root if it is not a path, or if its path conflicts with others: if the tensor would lie inside another tensor, or in
/// an array with missing elements or elements that are not `alike`.
///
/// # Errors
/// Returns [`ATTRIBUTE`] for values whose path conflicts with a tensor.
pub(super) fn build<'n>(
    names: &[&'n str],
    values: &[&str],
    alike: Option<&dyn Fn(usize, usize) -> bool>,
) -> Result<NamedTree<'n>> {
    let mut trie = Trie::new();
    let mut loose = Vec::new();
    // The root itself can be a tensor only if there is nothing else.
    let is_alone = names.len().saturating_add(values.len()) == 1;
    for (number, name) in names.iter().enumerate() {
        match steps(name).filter(|s| !s.is_empty() || is_alone) {
            Some(steps) => trie.insert(steps, Leaf::Tensor(number)),
            None => loose.push(Leaf::Tensor(number)),
        }
    }
    for (number, path) in values.iter().enumerate() {
        match steps(path).filter(|s| !s.is_empty() || is_alone) {
            Some(steps) => trie.insert(steps, Leaf::Value(number)),
            None => loose.push(Leaf::Value(number)),
        }
    }
    let mut tree = trie.to_tree(0, alike, &mut loose).unwrap_or(Tree::Object(Vec::new()));
    if !loose.is_empty() && !matches!(tree, Tree::Object(_)) {
        leaves(tree, &mut loose);
        tree = Tree::Object(Vec::new());
    }
    sort(&mut loose);
    let mut others = Vec::new();
    if let Tree::Object(members) = &mut tree {
        let mut taken: HashSet<String> = HashSet::default();
        if !loose.is_empty() {
            taken.extend(members.iter().map(|(key, _)| key.clone()));
        }
        for leaf in loose {
            let number = match leaf {
                Leaf::Tensor(number) => number,
                Leaf::Value(number) => {
                    let path = values.get(number).copied().debug_unwrap().escaped();
                    let message =
                        format!("the path `{path}` of a value conflicts with the tensors");
                    return Err(ATTRIBUTE.broken(message));
                }
            };
            let name = names.get(number).copied().debug_unwrap();
            let numbered = (2u64..).map(|n| format!("{name}#{n}"));
            let mut keys = std::iter::once(name.to_owned()).chain(numbered);
            let key = keys.find(|key| !taken.contains(key)).unwrap_or_default();
            let mut path = String::new();
            // Writing to a String cannot fail.
            let _ = write_name(&key, &mut path);
            if path != name {
                others.push((path, name));
            }
            taken.insert(key.clone());
            members.push((key, Tree::Tensor(number)));
        }
    }
    Ok(NamedTree { tree, names: others })
}

/// Returns the steps of a path, if the text is the canonical form of a path.
fn steps(text: &str) -> Option<Vec<Segment>> {
    let path: Path = text.parse().ok()?;
    let is_one = path.0.len() <= MAX_STEPS && !path.0.contains(&Segment::Each);
    (is_one && path.to_string() == text).then_some(path.0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    Tensor(usize),
    Value(usize),
}

impl Leaf {
    fn tree(self) -> Tree {
        match self {
            Leaf::Tensor(number) => Tree::Tensor(number),
            Leaf::Value(number) => Tree::Value(number),
        }
    }
}

/// All names, step by step, including names that conflict.
struct Trie {
    nodes: Vec<Node>,
    children: HashMap<(usize, Segment), usize>,
}

#[derive(Default)]
struct Node {
    /// Several leaves if names are not unique, which causes an error elsewhere.
    leaves: Vec<Leaf>,
    children: Vec<(Segment, usize)>,
}

impl Trie {
    fn new() -> Trie {
        Trie { nodes: vec![Node::default()], children: HashMap::default() }
    }

    fn insert(&mut self, steps: Vec<Segment>, leaf: Leaf) {
        let mut at = 0;
        for step in steps {
            let next = self.nodes.len();
            let child = *self.children.entry((at, step.clone())).or_insert(next);
            if child == next {
                self.nodes.push(Node::default());
                if let Some(node) = self.nodes.get_mut(at) {
                    node.children.push((step, child));
                }
            }
            at = child;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.leaves.push(leaf);
        }
    }

    /// Converts a node to a tree. Leaves that conflict are added to `loose`. The recursion is bounded by `MAX_STEPS`.
    fn to_tree(
        &self,
        at: usize,
        alike: Option<&dyn Fn(usize, usize) -> bool>,
        loose: &mut Vec<Leaf>,
    ) -> Option<Tree> {
        let node = self.nodes.get(at)?;
        if let Some((first, more)) = node.leaves.split_first() {
            loose.extend(more);
            for (_, child) in &node.children {
                self.collect(*child, loose);
            }
            return Some(first.tree());
        }
        let (mut members, mut items) = (Vec::new(), Vec::new());
        for (step, child) in &node.children {
            let Some(tree) = self.to_tree(*child, alike, loose) else { continue };
            match step {
                Segment::Name(name) => members.push((name.to_string(), tree)),
                Segment::Index(index) => items.push((*index, tree)),
                Segment::Each => {}
            }
        }
        sort_by(&mut items, |(a, _), (b, _)| a.cmp(b));
        let is_whole = items.iter().map(|(index, _)| *index).eq(0..items.len() as u64);
        let are_alike = || match (alike, items.split_first()) {
            (Some(alike), Some(((_, first), rest))) => {
                rest.iter().all(|(_, item)| same(first, item, alike))
            }
            _ => true,
        };
        if members.is_empty() && !items.is_empty() && is_whole && are_alike() {
            return Some(Tree::List(items.into_iter().map(|(_, item)| item).collect()));
        }
        items.into_iter().for_each(|(_, item)| leaves(item, loose));
        (!members.is_empty()).then_some(Tree::Object(members))
    }

    fn collect(&self, at: usize, loose: &mut Vec<Leaf>) {
        let Some(node) = self.nodes.get(at) else { return };
        loose.extend(&node.leaves);
        for (_, child) in &node.children {
            self.collect(*child, loose);
        }
    }
}

/// Adds all leaves of a tree to `out`.
fn leaves(tree: Tree, out: &mut Vec<Leaf>) {
    match tree {
        Tree::Object(members) => members.into_iter().for_each(|(_, member)| leaves(member, out)),
        Tree::List(items) => items.into_iter().for_each(|item| leaves(item, out)),
        Tree::Tensor(number) => out.push(Leaf::Tensor(number)),
        Tree::Value(number) => out.push(Leaf::Value(number)),
    }
}

/// Returns `true` if one schema describes both trees.
fn same(a: &Tree, b: &Tree, alike: &dyn Fn(usize, usize) -> bool) -> bool {
    match (a, b) {
        (Tree::Tensor(a), Tree::Tensor(b)) => alike(*a, *b),
        (Tree::List(a), Tree::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, alike))
        }
        (Tree::Object(a), Tree::Object(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b, alike))
        }
        // The schema does not describe values.
        (Tree::Value(_), Tree::Value(_)) => true,
        _ => false,
    }
}
