//! Evaluating expressions over the configuration of a model.

use super::VALUE;
use super::expression::{Expression, Function, Operator};
use holdall_collections::HashMap;
use holdall_core::error::{Error, Escape as _, Result};
use holdall_core::model::Value;
use std::cell::{Cell, RefCell};

/// The maximum number of operations for all expressions of one plan.
const MAX_OPERATIONS: u64 = 1 << 26;
/// The maximum number of values that `each` makes.
const MAX_EACH: i128 = 1 << 20;
/// The maximum nesting of names that are defined by other names.
const MAX_NAMES: usize = 48;

/// The values of the names in expressions. A name is, in this order, a local name, a name that the recipe defines, and
/// a key of the configuration; otherwise its value is null.
pub(super) struct Scope<'a> {
    /// The configuration, and the configurations inside it that come first, such as the one of the text model.
    configs: Vec<&'a Value>,
    /// The names that the recipe defines.
    definitions: &'a [(String, Expression)],
    /// The values of keys that no configuration has.
    defaults: &'a [(String, Expression)],
    /// Further files of the model's folder, and what the caller knows.
    given: &'a [(String, Value)],
    tensors: &'a dyn Tensors,
    known: RefCell<HashMap<String, Value>>,
    /// The names that are being evaluated: inside their own definition, they are keys of the configuration.
    open: RefCell<Vec<String>>,
    operations: Cell<u64>,
}

/// The tensors of a model, for expressions.
pub(super) trait Tensors {
    /// Returns `true` if there is a tensor of this name.
    fn has(&self, name: &str) -> bool;

    /// Returns the elements of a small tensor, or `None` if no tensor has this name.
    ///
    /// # Errors
    /// [`VALUE`] if the tensor is large or not of numbers; the errors of reading.
    fn elements(&self, name: &str) -> Result<Option<Vec<f64>>>;
}

/// No tensors.
pub(super) struct NoTensors;

impl Tensors for NoTensors {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn elements(&self, _: &str) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
}

/// Names that have a meaning only in one place: captures of a pattern, and names that a rule defines.
#[derive(Debug, Clone, Default)]
pub(super) struct Locals(pub(super) Vec<(String, Value)>);

impl Locals {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        config: &'a Value,
        definitions: &'a [(String, Expression)],
        given: &'a [(String, Value)],
        tensors: &'a dyn Tensors,
    ) -> Scope<'a> {
        let inner = ["text_config", "llm_config", "language_config"];
        let mut configs: Vec<&Value> = inner.iter().filter_map(|key| member(config, key)).collect();
        configs.retain(|value| matches!(value, Value::Map(_)));
        configs.push(config);
        Scope {
            configs,
            definitions,
            defaults: &[],
            given,
            tensors,
            known: RefCell::default(),
            open: RefCell::default(),
            operations: Cell::new(0),
        }
    }

    /// Gives values to keys that no configuration has.
    pub(super) fn with_defaults(mut self, defaults: &'a [(String, Expression)]) -> Scope<'a> {
        self.defaults = defaults;
        self
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// Returns [`VALUE`] if an operation has no result.
    pub(super) fn value(&self, of: &Expression, locals: &Locals) -> Result<Value> {
        let operations = self.operations.get().saturating_add(1);
        self.operations.set(operations);
        if operations > MAX_OPERATIONS {
            let message = format!("the expressions take more than {MAX_OPERATIONS} operations");
            return Err(VALUE.broken(message));
        }
        Ok(match of {
            Expression::Null => Value::Null,
            Expression::Bool(b) => Value::Bool(*b),
            Expression::Integer(n) => Value::Integer((*n).into()),
            Expression::Float(x) => Value::Float(*x),
            Expression::Text(text) => Value::Text(text.clone()),
            Expression::Name(name) => self.named(name, locals)?,
            Expression::List(items) => {
                let all = items.iter().map(|item| self.value(item, locals));
                Value::Array(all.collect::<Result<_>>()?)
            }
            Expression::Member(operand, name) => {
                let operand = self.value(operand, locals)?;
                member(&operand, name).cloned().unwrap_or(Value::Null)
            }
            Expression::Item(both) => {
                let [operand, index] = &**both;
                item(&self.value(operand, locals)?, &self.value(index, locals)?)?
            }
            Expression::Call(function @ (Function::HasTensor | Function::Tensor), arguments) => {
                let name = arguments.first().map(|name| self.value(name, locals)).transpose()?;
                let name = name.as_ref().and_then(Value::as_text).unwrap_or_default();
                match function {
                    Function::HasTensor => Value::Bool(self.tensors.has(name)),
                    _ => match self.tensors.elements(name)? {
                        Some(all) => Value::Array(all.into_iter().map(Value::Float).collect()),
                        None => Value::Null,
                    },
                }
            }
            Expression::Call(function, arguments) => {
                let all = arguments.iter().map(|argument| self.value(argument, locals));
                call(*function, &all.collect::<Result<Vec<_>>>()?)?
            }
            Expression::Each(name, both) => {
                let [count, value] = &**both;
                let count = self.value(count, locals)?;
                let Some(count) = count.as_integer().filter(|n| (0..=MAX_EACH).contains(n)) else {
                    let message = format!(
                        "`each` makes at most {MAX_EACH} values, found the count {}",
                        count.to_json().escaped()
                    );
                    return Err(VALUE.broken(message));
                };
                let mut locals = locals.clone();
                let mut all = Vec::new();
                for n in 0..count {
                    locals.set(name, Value::Integer(n));
                    all.push(self.value(value, &locals)?);
                    locals.0.pop();
                }
                Value::Array(all)
            }
            Expression::Negate(of) => match self.value(of, locals)? {
                Value::Integer(n) => Value::Integer(n.checked_neg().ok_or_else(too_large)?),
                Value::Float(x) => Value::Float(-x),
                Value::Null => Value::Null,
                other => return Err(wrong("-", &other)),
            },
            Expression::Not(of) => Value::Bool(!is_true(&self.value(of, locals)?)),
            Expression::Binary(operator, both) => {
                let [left, right] = &**both;
                self.binary(*operator, left, right, locals)?
            }
            Expression::Choice(all) => {
                let [condition, first, second] = &**all;
                match is_true(&self.value(condition, locals)?) {
                    true => self.value(first, locals)?,
                    false => self.value(second, locals)?,
                }
            }
        })
    }

    /// Returns `true` if the value is neither null, false, zero nor empty.
    ///
    /// # Errors
    /// The errors of [`Scope::value`].
    pub(super) fn is_true(&self, of: &Expression, locals: &Locals) -> Result<bool> {
        self.value(of, locals).map(|value| is_true(&value))
    }

    /// Returns the value as a whole number that is not negative.
    ///
    /// # Errors
    /// The errors of [`Scope::value`], and [`VALUE`] if it is not such a number.
    pub(super) fn whole(&self, of: &Expression, locals: &Locals) -> Result<u64> {
        let value = self.value(of, locals)?;
        let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
        number.ok_or_else(|| {
            let found = value.to_json();
            VALUE.broken(format!("expected a whole number, found {}", found.escaped()))
        })
    }

    fn named(&self, name: &str, locals: &Locals) -> Result<Value> {
        if let Some(value) = locals.get(name) {
            return Ok(value.clone());
        }
        let is_open = self.open.borrow().iter().any(|open| open == name);
        let definition = self.definitions.iter().rev().find(|(own, _)| own == name);
        if let (false, Some((_, expression))) = (is_open, definition) {
            if let Some(value) = self.known.borrow().get(name) {
                return Ok(value.clone());
            }
            if self.open.borrow().len() >= MAX_NAMES {
                let message = format!("more than {MAX_NAMES} names are defined by each other");
                return Err(VALUE.broken(message));
            }
            self.open.borrow_mut().push(name.to_owned());
            let value = self.value(expression, &Locals::default());
            self.open.borrow_mut().pop();
            let value = value.map_err(|e| e.within(format!("`{}`", name.escaped())))?;
            // Inside the definitions of other names the value may be another one.
            if self.open.borrow().is_empty() {
                self.known.borrow_mut().insert(name.to_owned(), value.clone());
            }
            return Ok(value);
        }
        if let Some((_, value)) = self.given.iter().find(|(own, _)| own == name) {
            return Ok(value.clone());
        }
        if name == "config" {
            return Ok(self.configs.last().map_or(Value::Null, |value| (*value).clone()));
        }
        let all: Vec<&Value> = self.configs.iter().filter_map(|c| member(c, name)).collect();
        if let Some(value) = all.iter().find(|value| !matches!(value, Value::Null)) {
            return Ok((*value).clone());
        }
        let default = self.defaults.iter().rev().find(|(own, _)| own == name);
        match default {
            Some((_, expression)) if all.is_empty() => self.default_of(name, expression),
            _ => Ok(Value::Null),
        }
    }

    /// Evaluates the default of a key, in which names of defaults that are being evaluated are null.
    fn default_of(&self, name: &str, of: &Expression) -> Result<Value> {
        let marked = format!("{name} by default");
        if self.open.borrow().contains(&marked) || self.open.borrow().len() >= MAX_NAMES {
            return Ok(Value::Null);
        }
        self.open.borrow_mut().push(marked);
        let value = self.value(of, &Locals::default());
        self.open.borrow_mut().pop();
        value.map_err(|e| e.within(format!("the default of `{}`", name.escaped())))
    }

    fn binary(
        &self,
        operator: Operator,
        left: &Expression,
        right: &Expression,
        locals: &Locals,
    ) -> Result<Value> {
        let left = self.value(left, locals)?;
        match operator {
            Operator::Coalesce if !matches!(left, Value::Null) => return Ok(left),
            Operator::Coalesce => return self.value(right, locals),
            Operator::Or if is_true(&left) => return Ok(left),
            Operator::And if !is_true(&left) => return Ok(left),
            Operator::Or | Operator::And => return self.value(right, locals),
            _ => {}
        }
        let right = self.value(right, locals)?;
        match operator {
            Operator::Equal => return Ok(Value::Bool(are_equal(&left, &right))),
            Operator::Unequal => return Ok(Value::Bool(!are_equal(&left, &right))),
            _ => {}
        }
        match (&left, &right) {
            (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
            (Value::Text(a), Value::Text(b)) if operator == Operator::Add => {
                return Ok(Value::Text(format!("{a}{b}")));
            }
            (Value::Array(a), Value::Array(b)) if operator == Operator::Add => {
                return Ok(Value::Array(a.iter().chain(b).cloned().collect()));
            }
            _ => {}
        }
        arithmetic(operator, &left, &right)
    }
}

/// Returns the member of a map.
pub(super) fn member<'v>(of: &'v Value, name: &str) -> Option<&'v Value> {
    let Value::Map(pairs) = of else { return None };
    pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
}

/// Returns `false` for null, false, zero and empty values.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null | Value::Undefined => false,
        Value::Bool(b) => *b,
        Value::Integer(n) => *n != 0,
        Value::Float(x) => *x != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Map(pairs) => !pairs.is_empty(),
        _ => true,
    }
}

fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Integer(_), Value::Float(_)) | (Value::Float(_), Value::Integer(_)) => {
            a.as_f64() == b.as_f64()
        }
        (a, b) => a == b,
    }
}

fn item(of: &Value, index: &Value) -> Result<Value> {
    match (of, index) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Array(items), Value::Integer(n)) => {
            let from_end = || i128::try_from(items.len()).ok()?.checked_add(*n);
            let at = if *n < 0 { from_end() } else { Some(*n) };
            let found = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| items.get(at));
            Ok(found.cloned().unwrap_or(Value::Null))
        }
        (of @ Value::Map(_), Value::Text(key)) => {
            Ok(member(of, key).cloned().unwrap_or(Value::Null))
        }
        (other, _) => Err(wrong("[ ]", other)),
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    if let (Value::Integer(a), Value::Integer(b)) = (left, right) {
        let (a, b) = (*a, *b);
        let whole = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            // Rounded down, as in Python.
            Operator::FloorDivide | Operator::Remainder if b == 0 => {
                return Err(VALUE.broken("division by zero"));
            }
            Operator::FloorDivide => {
                let exact = a.checked_rem(b) == Some(0);
                let down = !exact && (a < 0) != (b < 0);
                a.checked_div(b).and_then(|q| q.checked_sub(i128::from(down)))
            }
            Operator::Remainder => {
                let rest = a.checked_rem(b);
                rest.and_then(|r| match r != 0 && (r < 0) != (b < 0) {
                    true => r.checked_add(b),
                    false => Some(r),
                })
            }
            Operator::Less => return Ok(Value::Bool(a < b)),
            Operator::AtMost => return Ok(Value::Bool(a <= b)),
            Operator::Greater => return Ok(Value::Bool(a > b)),
            Operator::AtLeast => return Ok(Value::Bool(a >= b)),
            _ => return float(operator, a as f64, b as f64),
        };
        return whole.map(Value::Integer).ok_or_else(too_large);
    }
    match (number(left), number(right)) {
        (Some(a), Some(b)) => float(operator, a, b),
        (None, _) => Err(wrong(operator.as_str(), left)),
        _ => Err(wrong(operator.as_str(), right)),
    }
}

/// Returns a number, also of a truth value: 0 or 1.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        other => other.as_f64(),
    }
}

fn float(operator: Operator, a: f64, b: f64) -> Result<Value> {
    Ok(match operator {
        Operator::Add => Value::Float(a + b),
        Operator::Subtract => Value::Float(a - b),
        Operator::Multiply => Value::Float(a * b),
        Operator::Divide | Operator::FloorDivide | Operator::Remainder if b == 0.0 => {
            return Err(VALUE.broken("division by zero"));
        }
        Operator::Divide => Value::Float(a / b),
        Operator::FloorDivide => Value::Float((a / b).floor()),
        Operator::Remainder => Value::Float(a.rem_euclid(b)),
        Operator::Less => Value::Bool(a < b),
        Operator::AtMost => Value::Bool(a <= b),
        Operator::Greater => Value::Bool(a > b),
        Operator::AtLeast => Value::Bool(a >= b),
        other => return Err(VALUE.broken(format!("`{}` of numbers", other.as_str()))),
    })
}

fn call(function: Function, arguments: &[Value]) -> Result<Value> {
    let name = function.as_str();
    let first = arguments.first().unwrap_or(&Value::Null);
    let second = arguments.get(1).unwrap_or(&Value::Null);
    match function {
        Function::Len => {
            let len = match first {
                Value::Null => return Ok(Value::Null),
                Value::Array(items) => items.len(),
                Value::Map(pairs) => pairs.len(),
                Value::Text(text) => text.chars().count(),
                other => return Err(wrong(name, other)),
            };
            return Ok(Value::Integer(i128::try_from(len).map_err(|_| too_large())?));
        }
        Function::Contains => {
            return Ok(Value::Bool(match (first, second) {
                (Value::Array(items), item) => items.iter().any(|own| are_equal(own, item)),
                (Value::Text(text), Value::Text(part)) => text.contains(part.as_str()),
                (of @ Value::Map(_), Value::Text(key)) => member(of, key).is_some(),
                (Value::Null, _) => false,
                (other, _) => return Err(wrong(name, other)),
            }));
        }
        Function::StartsWith => {
            return Ok(Value::Bool(match (first, second) {
                (Value::Text(text), Value::Text(start)) => text.starts_with(start.as_str()),
                _ => false,
            }));
        }
        Function::Text => {
            return Ok(Value::Text(match first {
                Value::Text(text) => text.clone(),
                other => other.to_json(),
            }));
        }
        Function::List => {
            return Ok(Value::Array(match first {
                Value::Null => Vec::new(),
                Value::Array(items) => items.clone(),
                one => vec![one.clone()],
            }));
        }
        Function::Sum => {
            let Value::Array(items) = first else { return Err(wrong(name, first)) };
            let zero = Value::Integer(0);
            return items.iter().try_fold(zero, |sum, x| arithmetic(Operator::Add, &sum, x));
        }
        Function::Min | Function::Max if arguments.contains(&Value::Null) => {
            return Ok(Value::Null);
        }
        Function::Min | Function::Max => {
            let less = arithmetic(Operator::Less, first, second)? == Value::Bool(true);
            let chosen = if less == (function == Function::Min) { first } else { second };
            return Ok(chosen.clone());
        }
        _ if matches!(first, Value::Null) => return Ok(Value::Null),
        _ => {}
    }
    if let (Value::Integer(n), Function::Abs | Function::Floor | Function::Ceil | Function::Round) =
        (first, function)
    {
        let whole = if function == Function::Abs { n.checked_abs() } else { Some(*n) };
        return whole.map(Value::Integer).ok_or_else(too_large);
    }
    if let (Value::Integer(n), Function::Integer) = (first, function) {
        return Ok(Value::Integer(*n));
    }
    let Some(x) = number(first) else { return Err(wrong(name, first)) };
    Ok(Value::Float(match function {
        Function::Abs => x.abs(),
        Function::Cos => x.cos(),
        Function::Sin => x.sin(),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Sqrt => x.sqrt(),
        Function::Float => x,
        #[allow(clippy::cast_possible_truncation)] // Rounding is what the function is for.
        Function::F32 => f64::from(x as f32),
        Function::Pow => {
            let Some(y) = number(second) else { return Err(wrong(name, second)) };
            x.powf(y)
        }
        Function::Floor | Function::Ceil | Function::Round | Function::Integer => {
            let rounded = match function {
                Function::Floor => x.floor(),
                Function::Ceil => x.ceil(),
                Function::Round => x.round_ties_even(),
                _ => x.trunc(),
            };
            const MOST: f64 = 9_007_199_254_740_992.0;
            if !(-MOST..=MOST).contains(&rounded) {
                return Err(too_large());
            }
            #[allow(clippy::cast_possible_truncation)] // At most 2^53.
            let whole = rounded as i64;
            return Ok(Value::Integer(whole.into()));
        }
        _ => return Err(wrong(name, first)),
    }))
}

#[cold]
fn wrong(operation: &str, found: &Value) -> Error {
    VALUE.broken(format!("`{operation}` cannot be applied to {}", found.to_json().escaped()))
}

#[cold]
fn too_large() -> Error {
    VALUE.broken("the result is too large")
}

#[cfg(test)]
mod tests {
    use super::super::expression::parse;
    use super::*;

    const CONFIG: &str = r#"{"heads": 4, "width": 32, "kind": "yarn", "none": null, "sizes": [1, 2, 3],
        "rope": {"factor": 8.0}, "text_config": {"heads": 8}, "theta": 10000}"#;

    fn value(text: &str) -> Result<String> {
        let config = Value::from_json(CONFIG, 8).expect("JSON");
        let definitions = [
            ("theta".to_owned(), parse("float(theta ?? 1)").expect("an expression")),
            ("head".to_owned(), parse("width // heads").expect("an expression")),
        ];
        let defaults = [
            ("window".to_owned(), parse("heads * 2").expect("an expression")),
            ("heads".to_owned(), parse("1").expect("an expression")),
            ("none".to_owned(), parse("1").expect("an expression")),
        ];
        let scope = Scope::new(&config, &definitions, &[], &NoTensors).with_defaults(&defaults);
        scope.value(&parse(text)?, &Locals::default()).map(|value| value.to_json())
    }

    #[test]
    fn expressions_have_these_values() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4", "3"),
            ("-7 // 2", "-4"),
            ("-7 % 2", "1"),
            ("7 / 2", "3.5"),
            ("1 < 2 && 2 <= 2 && !(3 > 3) && 3 >= 3", "true"),
            ("missing ?? none ?? 5", "5"),
            ("missing + 1", "null"),
            ("missing.member[2]", "null"),
            ("0 || 'a'", "\"a\""),
            ("kind == 'yarn' ? 1 : 2", "1"),
            ("1 == 1.0", "true"),
            ("'a' + 'b'", "\"ab\""),
            ("[1] + sizes", "[1,1,2,3]"),
            ("sizes[0] + sizes[-1]", "4"),
            ("sizes[3]", "null"),
            ("rope.factor", "8.0"),
            // The configuration of the text model comes first.
            ("heads", "8"),
            ("config.heads", "4"),
            ("head", "4"),
            ("theta", "10000.0"),
            // A key that the configuration lacks; null is a value.
            ("window", "16"),
            ("none", "null"),
            ("each(i, 3, i * i)", "[0,1,4]"),
            ("sum(sizes)", "6"),
            ("list(4) + list(sizes) + list(missing)", "[4,1,2,3]"),
            ("len(sizes) + len('abc')", "6"),
            ("contains(sizes, 2) && contains('yarn', 'ar') && contains(rope, 'factor')", "true"),
            ("min(2, 3) + max(2, 3)", "5"),
            ("min(missing, 3)", "null"),
            ("integer(2.9) + round(2.5) + floor(2.9) + ceil(2.1)", "9"),
            ("abs(-3) + sqrt(16)", "7.0"),
            ("f32(0.1)", "0.10000000149011612"),
            ("pow(2, 10)", "1024.0"),
            ("log(exp(1)) + cos(0) + sin(0)", "2.0"),
            ("text(3) + text('x')", "\"3x\""),
            ("starts_with('abc', 'ab')", "true"),
            ("has_tensor('a')", "false"),
            ("tensor('a') ?? 1", "1"),
        ] {
            assert_eq!(value(text).map_err(|e| e.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_expressions_have_none() {
        for text in [
            "1 // 0",
            "1 % 0",
            "1 / 0",
            "1.5 / 0",
            "'a' * 2",
            "rope + 1",
            "-'a'",
            "len(1)",
            "sum(1)",
            "each(i, -1, i)",
            "each(i, 'a', i)",
            "integer(1e300)",
            "sizes['a']",
            "170141183460469231731687303715884105727",
        ] {
            assert!(value(text).is_err(), "{text}");
        }
    }
}
