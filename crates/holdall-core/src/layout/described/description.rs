//! The contents of descriptions.

#[cfg(not(feature = "layouts"))]
use super::NOT_BUILT;
use super::TAKEN;
use super::expression::Expression;
use super::part::{Number, Operand, Stored};
use crate::error::{Escape as _, Result};
use crate::layout::cast::FloatType;
use crate::limits::Limits;
use crate::model::{DType, Role};
use holdall_collections::HashMap;
use std::sync::Arc;

/// Descriptions of layouts, by name.
#[derive(Debug, Clone, Default)]
pub struct Layouts(HashMap<String, Arc<Description>>);

/// The description of a layout.
#[derive(Debug)]
pub struct Description {
    /// The description's text for people, if it has one.
    pub about: Option<String>,
    pub(super) dtype: FloatType,
    /// The names of the dimensions. `None` if the tensor is treated as one row of elements, whatever its shape.
    pub(super) dimensions: Option<Vec<String>>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) components: Vec<Component>,
    pub(super) tables: Vec<Operand>,
    pub(super) value: Expression,
}

impl Description {
    /// Returns the names of the attributes that expressions use.
    pub fn attribute_names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|attribute| attribute.name.as_str())
    }
}

/// An attribute that expressions use.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) default: Option<Number>,
}

/// A component of the layout.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) role: Role,
    /// The dtypes that its elements may have in the file; empty for any.
    pub(super) dtypes: Vec<DType>,
    /// How its elements are read, if not as their dtype.
    pub(super) stored: Option<Stored>,
    pub(super) shape: Vec<Expression>,
    /// The value of all its elements if the component is missing.
    pub(super) default: Option<Number>,
}

impl Layouts {
    /// Creates an empty set of descriptions.
    pub fn new() -> Layouts {
        Layouts::default()
    }

    /// Parses the descriptions in a text.
    ///
    /// # Errors
    /// Returns the errors of TOML, and [`DESCRIPTION`](super::DESCRIPTION), [`EXPRESSION`](super::EXPRESSION) or
    /// [`TAKEN`], with the line and the key.
    #[cfg(feature = "layouts")]
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Layouts> {
        super::read::layouts(text, limits).map(Layouts)
    }

    /// Always fails, because this build does not have the feature `layouts`.
    ///
    /// # Errors
    /// Returns [`NOT_BUILT`](super::NOT_BUILT).
    #[cfg(not(feature = "layouts"))]
    pub fn parse(_: &[u8], _: &Limits) -> Result<Layouts> {
        Err(NOT_BUILT.broken("this build does not support descriptions of layouts"))
    }

    /// Adds the descriptions of `others`.
    ///
    /// # Errors
    /// Returns [`TAKEN`] if both describe a layout of the same name.
    pub fn extend(&mut self, others: Layouts) -> Result<()> {
        for (name, description) in others.0 {
            if self.0.contains_key(&name) {
                let message = format!("the layout `{}` is described twice", name.escaped());
                return Err(TAKEN.broken(message));
            }
            self.0.insert(name, description);
        }
        Ok(())
    }

    /// Returns the description of the layout with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Description>> {
        self.0.get(name)
    }

    /// Returns `true` if there are no descriptions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Description {
    /// Returns the type of the elements.
    pub fn dtype(&self) -> FloatType {
        self.dtype
    }
}
