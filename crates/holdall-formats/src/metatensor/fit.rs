//! Checks that tensors can be stored in the format: section 9.1.

use super::ENTRY_LEN;
use super::infer::schema_text_of;
use super::rules::*;
use crate::element::{ElementType, by_meaning};
use crate::header::check_values;
use holdall_core::encode::{ComponentSpec, TensorSpec};
use holdall_core::error::{Error, Escape as _, Remedy, Result};
use holdall_core::limits::Limits;
use holdall_core::model::{DType, Layout, Role, element_count, stored_size};
use holdall_json::parse;
use holdall_schema::{Node, Root, Schema, SchemaLimits, normalize};

/// Checks that a tensor can be written.
pub(super) fn check_tensor(tensor: &TensorSpec) -> Result<()> {
    check_values(&tensor.attributes)?;
    match tensor.layout {
        Layout::Dense => dense(tensor).map(drop),
        Layout::Records => records(tensor),
        Layout::Blob => blob(tensor),
        ref other => {
            let layout = other.as_str().escaped();
            let e = LAYOUT.broken(format!("Metatensor has no layout `{layout}`"));
            Err(match other {
                // Tensors with an unknown layout cannot be made dense either.
                Layout::Other(_) => e.with_remedy(Remedy::LeaveOut),
                _ => e,
            })
        }
    }
}

/// The limits of schemas that are written. Readers may have the same limits.
pub(super) fn limits_of_schemas() -> SchemaLimits {
    let mut limits = Limits::default();
    limits.schema_nodes = u64::MAX;
    limits.schema_limits()
}

/// Returns the element type of a dense tensor, if the format supports it.
fn dense(tensor: &TensorSpec) -> Result<&'static ElementType> {
    let [data] = components(tensor, [Role::Data])?;
    let Some(element) = by_meaning(data.dtype, data.logical_type.as_ref()) else {
        let name = data.logical_type.as_ref().map_or("", |t| t.as_str()).escaped();
        let message = format!("Metatensor has no logical type `{name}` over {}", data.dtype);
        return Err(LOGICAL_TYPE.broken(message).in_component(Role::Data));
    };
    let expected = element_count(&tensor.shape)
        .and_then(|n| stored_size(n, data.dtype, data.logical_type.as_ref()).ok().flatten());
    if expected != Some(data.decoded_len) {
        let size = expected.map_or("a fractional number of".to_owned(), |n| n.to_string());
        let message = format!(
            "shape {:?} of {} requires {size} bytes, but {} are declared",
            tensor.shape, element.name, data.decoded_len
        );
        return Err(DECLARED.broken(message));
    }
    Ok(element)
}

/// Returns the components of a tensor in the order of these roles, if it has exactly these.
fn components<const N: usize>(
    tensor: &TensorSpec,
    roles: [Role; N],
) -> Result<[&ComponentSpec; N]> {
    let find = |role: &Role| tensor.components.iter().find(|c| c.role == *role);
    let found: Vec<&ComponentSpec> = roles.iter().filter_map(find).collect();
    match <[&ComponentSpec; N]>::try_from(found) {
        Ok(found) if tensor.components.len() == N => Ok(found),
        _ => {
            let names = |roles: Vec<&str>| roles.join(", ").escaped().to_string();
            let wanted = names(roles.iter().map(Role::as_str).collect());
            let own = names(tensor.components.iter().map(|c| c.role.as_str()).collect());
            let message = format!("it has the components {own}, expected {wanted}");
            Err(COMPONENTS.broken(message))
        }
    }
}

/// Checks that a component has elements of `dtype`.
fn check_plain(component: &ComponentSpec, dtype: DType) -> Result<()> {
    if component.dtype == dtype && component.logical_type.is_none() {
        return Ok(());
    }
    let message = format!("the elements of `{}` are not {dtype}", component.role);
    Err(COMPONENTS.broken(message).in_component(&component.role))
}

fn count_of(tensor: &TensorSpec) -> Result<u64> {
    match tensor.shape.as_slice() {
        [count] => Ok(*count),
        other => Err(KIND.broken(format!("expected one dimension, found the shape {other:?}"))),
    }
}

/// Turns an error in a tensor's attribute into the reason why the tensor cannot be written.
fn kind_error(e: Error) -> Error {
    if e.code() == KIND.code {
        return e;
    }
    KIND.broken("its schema cannot be used").because(e)
}

fn records(tensor: &TensorSpec) -> Result<()> {
    let limits = limits_of_schemas();
    let count = count_of(tensor)?;
    let kind = parse(schema_text_of(tensor)?.as_bytes(), limits.depth);
    let kind = kind.and_then(normalize).map_err(kind_error)?;
    let schema = Schema::compile_record(&kind, &limits).map_err(kind_error)?;
    let Some(ty) = schema.record() else {
        return Err(KIND.broken("its kind is not the schema of a record"));
    };
    let data = match schema.ty(ty).heap_align {
        None => components(tensor, [Role::Data])?[0],
        Some(_) => {
            let [data, heap] = components(tensor, [Role::Data, Role::BlobData])?;
            check_plain(heap, DType::U8)?;
            data
        }
    };
    check_plain(data, DType::U8)?;
    let stride = schema.extent(ty).map_err(kind_error)?.stride;
    if count.checked_mul(stride) != Some(data.decoded_len) {
        let len = data.decoded_len;
        let message =
            format!("expected {count} records of {stride} bytes, found {len} bytes declared");
        return Err(KIND.broken(message));
    }
    Ok(())
}

fn blob(tensor: &TensorSpec) -> Result<()> {
    let count = count_of(tensor)?;
    let limits = limits_of_schemas();
    let kind = parse(schema_text_of(tensor)?.as_bytes(), limits.depth);
    let kind = kind.and_then(normalize).map_err(kind_error)?;
    let schema = Schema::compile(&kind, &limits).map_err(kind_error)?;
    let node = match schema.root() {
        Root::References(root) => Some(schema.node(root)),
        Root::Record(_) => None,
    };
    if !matches!(node, Some(Node::Blob { .. })) {
        return Err(KIND.broken("its kind is not the schema of a blob"));
    }
    let [entries, heap] = components(tensor, [Role::Entries, Role::BlobData])?;
    check_plain(entries, DType::U64)?;
    check_plain(heap, DType::U8)?;
    if count.checked_mul(ENTRY_LEN) != Some(entries.decoded_len) {
        let message = format!(
            "{count} entries require {ENTRY_LEN} bytes each, but {} bytes are declared",
            entries.decoded_len
        );
        return Err(DECLARED.broken(message));
    }
    Ok(())
}
