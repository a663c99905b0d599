//! Components that share their bytes with others.

use super::expected::TieRule;
use super::record::{Entry, Side, StoredPlace};
use super::{Expected, Ledger, Loss, LossKind};
use crate::model::plane::PlaneType;
use crate::model::{Layout, Role};
use crate::read::Extent;
use holdall_collections::HashMap;

/// A component: the index of its tensor, and its role.
type ComponentKey = (usize, Role);

/// For each component that shares its bytes, the first component with the same bytes.
type Ties = HashMap<ComponentKey, ComponentKey>;

/// Compares which components share their bytes. `found` has the index in the target of each tensor of the source.
pub(super) fn compare(
    source: &Side<'_>,
    target: &Side<'_>,
    found: &[Option<usize>],
    expected: &Expected,
    out: &mut Ledger,
) {
    if expected.ties() == TieRule::Asked {
        return;
    }
    let ties = sharing(*source);
    if ties.is_empty() {
        return;
    }
    let others = sharing(*target);
    let first = |key: ComponentKey| others.get(&key).cloned().unwrap_or(key);
    let mut ties: Vec<(ComponentKey, ComponentKey)> = ties.into_iter().collect();
    ties.sort_by_key(|((name, _), _)| *name);
    for ((member, role), (owner, owner_role)) in ties {
        let new_index = |at: usize| found.get(at).copied().flatten();
        let (Some(new_member), Some(new_owner)) = (new_index(member), new_index(owner)) else {
            continue;
        };
        let is_tied = |role_of_member, role_of_owner| {
            first((new_member, role_of_member)) == first((new_owner, role_of_owner))
        };
        let new_role = |at: usize, role: &Role| role_in(target.entry(at).layout(), role);
        if is_tied(new_role(new_member, &role), new_role(new_owner, &owner_role)) {
            continue;
        }
        let (member, owner) = (source.entry(member), source.entry(owner));
        let change = |entry: &Entry<'_>| {
            let change = expected.change(entry.name());
            change.is_some_and(|c| {
                c.layout || c.elements || c.stored_elements || c.element_type.is_some()
            })
        };
        let is_kept = match expected.ties() {
            TieRule::Keep => true,
            TieRule::KeepWhole => is_whole(&member, &owner),
            TieRule::Leave | TieRule::Asked => false,
        };
        let is_as_it_was = !change(&member)
            && !change(&owner)
            && is_stored_alike(&member, &target.entry(new_member), &role)
            && is_stored_alike(&owner, &target.entry(new_owner), &owner_role);
        let loss = Loss::in_tensor(member.name(), LossKind::Tie(owner.name().to_owned()));
        match is_kept && is_as_it_was {
            true => out.unaccounted.push(loss),
            false => out.left_behind.push(loss),
        }
    }
}

/// Returns the role, in the target, of the component that holds the elements of a component of the source: the first plane
/// represents all of them, because the planes of a tensor are shared together.
fn role_in(layout: &Layout, role: &Role) -> Role {
    match layout {
        Layout::Planes(of) if *role == Role::Data => of.roles().next().unwrap_or(Role::Data),
        Layout::Dense if PlaneType::is_plane(role) => Role::Data,
        _ => role.clone(),
    }
}

/// Returns `true` if the component could share bytes in the target too: it has the same type, and is stored as bytes
/// instead of in the header.
fn is_stored_alike(old: &Entry<'_>, new: &Entry<'_>, role: &Role) -> bool {
    let of_role = |entry: &Entry<'_>| entry.parts().into_iter().find(|part| part.role == *role);
    let (Some(old_part), Some(new_part)) = (of_role(old), of_role(new)) else { return false };
    old.layout() == new.layout()
        && (old_part.dtype, &old_part.logical_type) == (new_part.dtype, &new_part.logical_type)
        && new_part.digest.is_some()
}

/// Returns `true` if two tensors that share bytes are equal except for their names.
fn is_whole(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let types = |entry: &Entry<'_>| -> Vec<_> {
        let parts = entry.parts().into_iter();
        parts.map(|part| (part.role, part.dtype, part.logical_type)).collect()
    };
    a.shape() == b.shape() && a.layout() == b.layout() && types(a) == types(b)
}

fn sharing(side: Side<'_>) -> Ties {
    match side {
        Side::Index(index) => {
            let mut firsts: HashMap<(Extent, Option<u64>, u64), ComponentKey> = HashMap::default();
            let mut ties = Ties::default();
            for (at, tensor) in index.tensors().enumerate() {
                for c in tensor.components() {
                    if c.stored.is_empty() || c.stored.is_stated() || c.decoded_len == Some(0) {
                        continue;
                    }
                    let content = (c.stored, c.decoded_len, c.byte_order.unit(c.dtype));
                    let key = (at, c.role);
                    match firsts.get(&content) {
                        Some(first) => {
                            ties.insert(key, first.clone());
                        }
                        None => {
                            firsts.insert(content, key);
                        }
                    }
                }
            }
            ties
        }
        Side::Record(_) => {
            let indices = side.indices_by_name();
            let mut firsts: HashMap<StoredPlace, ComponentKey> = HashMap::default();
            let mut ties = Ties::default();
            for (at, tensor) in side.recorded().iter().enumerate() {
                for (c, stored, shares) in tensor.components().filter(|(c, ..)| c.decoded_len > 0) {
                    let key = (at, c.role.clone());
                    let owner = match (stored, shares) {
                        (Some(stored), _) if stored.1 < stored.2 => {
                            Some(firsts.entry(stored).or_insert_with(|| key.clone()).clone())
                        }
                        (_, Some(tie)) => {
                            indices.get(tie.tensor.as_str()).map(|&owner| (owner, tie.role.clone()))
                        }
                        _ => None,
                    };
                    if let Some(owner) = owner.filter(|owner| *owner != key) {
                        // The owner was written before, and may share bytes itself.
                        let first = ties.get(&owner).cloned().unwrap_or(owner);
                        ties.insert(key, first);
                    }
                }
            }
            ties
        }
    }
}
