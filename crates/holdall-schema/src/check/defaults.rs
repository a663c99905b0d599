//! Checks that each `default` of a schema is a valid value.

use super::{Checker, ask, built, document, invalid};
use crate::error::{Error, Escape as _, Result};
use crate::kinds::Kind;
use crate::record::rules::KEYWORD;
use crate::refs::{Defs, children};
use crate::schema::Node;
use crate::vocabulary::Vocabulary;
use serde_json::{Map, Value};

impl Checker<'_> {
    /// Checks that every `default` of a record's member or of a dense tensor is a value of its kind, and that every
    /// `default` of a member also satisfies its standard keywords. `source` and `vocabulary` are those that the checker
    /// was created with. Types whose size depends on symbols are skipped.
    ///
    /// # Errors
    /// Returns the errors of [`Encoder::value`](crate::record::Encoder::value) and of
    /// [`TensorType::filled`](crate::TensorType::filled); `record/keyword`; or `schema/too-large` if all defaults
    /// together try more than [`SchemaLimits::nodes`](crate::SchemaLimits::nodes) parts of the schema.
    pub fn defaults(&self, source: &Value, vocabulary: &Vocabulary) -> Result<()> {
        for ty in self.schema.types() {
            let Kind::Struct(members) = &ty.kind else { continue };
            for member in &members.members {
                if let Some(value) = &member.default
                    && self.schema.extent(member.ty).is_ok()
                {
                    self.encodes(member.ty, value).map_err(|e| in_default(e, &member.name))?;
                }
            }
        }
        for node in &self.schema.nodes {
            let Node::Object(object) = node else { continue };
            for property in &object.properties {
                if let Some(value) = &property.default
                    && let Node::Flat { tensor, .. } = self.schema.node(property.node)
                    && tensor.dtype.is_some()
                    && tensor.known_shape().is_some()
                {
                    let filled = tensor.filled(value, &self.limits);
                    filled.map_err(|e| e.within(format!("`{}`", property.name.escaped())))?;
                }
            }
        }
        self.keywords_of_defaults(source, vocabulary)
    }

    /// Checks the keywords of all defaults with one validator, because building a validator takes longer than using it.
    fn keywords_of_defaults(&self, source: &Value, vocabulary: &Vocabulary) -> Result<()> {
        let defs = Defs::checked(source, &self.limits)?;
        let (mut names, mut nodes, mut values) = (Vec::new(), Map::new(), Map::new());
        let mut open = vec![source];
        while let Some(Value::Object(node)) = open.pop() {
            if let (true, Some(Value::Object(members))) =
                (node.contains_key("TypeDef:Struct"), node.get("properties"))
            {
                for (name, member) in members {
                    if let Some(default) = defs.resolve(member)?.default {
                        let key = names.len().to_string();
                        names.push(name);
                        nodes.insert(key.clone(), member.clone());
                        values.insert(key, default.clone());
                    }
                }
            }
            node.iter().for_each(|(keyword, value)| children(keyword, value, |c| open.push(c)));
        }
        if names.is_empty() {
            return Ok(());
        }
        let (document, _) = document(nodes, &defs, true)?;
        let validator = built(&document, vocabulary).map_err(|e| invalid(&e, e.schema_path()))?;
        let values = Value::Object(values);
        let most = self.limits.max_nodes();
        let Err((at, text)) = ask(&validator, &values, most)? else { return Ok(()) };
        let mut steps = at.split('/').skip(1);
        let name = steps.next().and_then(|key| names.get(key.parse::<usize>().ok()?));
        Err(in_default(KEYWORD.broken(text), name.map_or("", |name| name)))
    }
}

fn in_default(e: Error, name: &str) -> Error {
    e.within(format!("the default of `{}`", name.escaped()))
}
