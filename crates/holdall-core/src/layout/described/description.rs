//! What descriptions say.

#[cfg(not(feature = "layouts"))]
use super::NOT_BUILT;
use super::TAKEN;
use super::expression::Expression;
use super::part::{Number, Operand, Stored};
use crate::error::{Result, Shown as _};
use crate::layout::cast::FloatType;
use crate::limits::Limits;
use crate::model::{DType, Role};
use holdall_collections::HashMap;
use std::sync::Arc;

/// Layouts that have no meaning by themselves, by name, and what they mean.
#[derive(Debug, Clone, Default)]
pub struct Layouts(HashMap<String, Arc<Description>>);

/// What a layout means.
#[derive(Debug)]
pub struct Description {
    /// In words, where the description has some.
    pub about: Option<String>,
    pub(super) dtype: FloatType,
    /// Names of the dimensions; none where the tensor is taken as a row of elements, whatever its shape.
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

/// A component that the layout has.
#[derive(Debug)]
pub(super) struct Component {
    pub(super) role: Role,
    /// What its elements may be in the file; anything where there are none.
    pub(super) dtypes: Vec<DType>,
    /// How they are read, where not as what they are.
    pub(super) stored: Option<Stored>,
    pub(super) shape: Vec<Expression>,
    /// What each of its elements is where the component is not there.
    pub(super) default: Option<Number>,
}

impl Layouts {
    /// None.
    pub fn new() -> Layouts {
        Layouts::default()
    }

    /// The layouts of one text.
    ///
    /// # Errors
    /// What TOML has; [`DESCRIPTION`](super::DESCRIPTION), [`EXPRESSION`](super::EXPRESSION), [`TAKEN`], with the line and the key.
    #[cfg(feature = "layouts")]
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Layouts> {
        super::read::layouts(text, limits).map(Layouts)
    }

    /// There are none in this build, which has no feature `layouts`.
    ///
    /// # Errors
    /// [`NOT_BUILT`](super::NOT_BUILT), always.
    #[cfg(not(feature = "layouts"))]
    pub fn parse(_: &[u8], _: &Limits) -> Result<Layouts> {
        Err(NOT_BUILT.broken("this build does not read descriptions of layouts"))
    }

    /// Adds those of another text.
    ///
    /// # Errors
    /// [`TAKEN`], where both have a layout of one name.
    pub fn extend(&mut self, others: Layouts) -> Result<()> {
        for (name, description) in others.0 {
            if self.0.contains_key(&name) {
                let message = format!("the layout `{}` is described twice", name.shown());
                return Err(TAKEN.broken(message));
            }
            self.0.insert(name, description);
        }
        Ok(())
    }

    /// What the layout of that name means.
    pub fn get(&self, name: &str) -> Option<&Arc<Description>> {
        self.0.get(name)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Description {
    /// The type of the elements.
    pub fn dtype(&self) -> FloatType {
        self.dtype
    }
}
