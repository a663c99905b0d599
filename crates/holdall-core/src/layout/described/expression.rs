//! Parsing expressions into trees.
//!
//! ```text
//! expression = operand { operator operand }       | & << >> + - * / // %, loosest first
//! operand    = "-" operand | number | name | name "[" expression { "," expression } "]"
//!            | function "(" expression { "," expression } ")" | "(" expression ")"
//! ```

use super::EXPRESSION;
use crate::error::{Error, Escape as _, Result, list};
use holdall_collections::DebugUnwrap;

/// The maximum number of numbers, names and operations in an expression.
const MAX_NODES: usize = 256;
/// The maximum nesting of parentheses, subscripts and signs.
const MAX_DEEP: usize = 32;

/// An expression with resolved names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Whole(i64),
    Real(f64),
    /// The index of an element in a dimension.
    Index(usize),
    /// The length of a dimension.
    Dimension(usize),
    /// The number of elements of the tensor.
    Count,
    Attribute(usize),
    Item(Indexed, Vec<Expression>),
    Call(Function, Vec<Expression>),
    Binary(Operator, Box<[Expression; 2]>),
    Negate(Box<Expression>),
}

/// A component or a table, whose elements expressions access by subscripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Indexed {
    Component(usize),
    Table(usize),
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Index(usize),
    Dimension(usize),
    Count,
    Attribute(usize),
    /// Elements, and the number of subscripts.
    Items(Indexed, usize),
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($variant,)*
        }

        impl $name {
            const ALL: &[($name, &str, usize)] = &[$(($name::$variant, $text, $number)),*];

            /// Returns the word as it is written.
            pub(super) fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

words! {
    /// Operators, with their precedence.
    Operator {
        Or = "|" 1,
        And = "&" 2,
        ShiftLeft = "<<" 3,
        ShiftRight = ">>" 3,
        Add = "+" 4,
        Subtract = "-" 4,
        FloorDivide = "//" 5,
        Multiply = "*" 5,
        Divide = "/" 5,
        Remainder = "%" 5,
    }
}

words! {
    /// Functions, with their number of arguments.
    Function {
        Min = "min" 2,
        Max = "max" 2,
        Abs = "abs" 1,
        Exp2 = "exp2" 1,
    }
}

/// Returns `true` if this is the name of a function, which other names may not be.
pub(super) fn is_function(name: &str) -> bool {
    Function::ALL.iter().any(|(_, text, _)| *text == name)
}

/// Returns `true` if this is a valid name: letters, digits and `_`, not starting with a digit.
pub(super) fn is_word(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_part) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Parses an expression; `resolve` returns the meaning of a name.
///
/// # Errors
/// Returns [`EXPRESSION`] if the expression is invalid.
pub(super) fn parse(text: &str, resolve: &dyn Fn(&str) -> Option<Name>) -> Result<Expression> {
    let mut parser = Parser { text, at: 0, nodes: 0, deep: 0, resolve };
    let all = parser.expression(0)?;
    match parser.peek() {
        None => Ok(all),
        Some(found) => Err(parser.fail(format!("unexpected `{found}`"))),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    nodes: usize,
    deep: usize,
    resolve: &'t dyn Fn(&str) -> Option<Name>,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).debug_unwrap()
    }

    /// Skips spaces, and returns the next character without reading it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let skipped = rest.len().saturating_sub(rest.trim_start().len());
        self.at = self.at.saturating_add(skipped);
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at = self.at.saturating_add(wanted.len_utf8());
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.take(wanted) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |c| format!("`{}`", c.escape_debug()));
        Err(self.fail(format!("expected `{wanted}`, found {found}")))
    }

    #[cold]
    fn fail(&self, what: String) -> Error {
        let column = self.text.get(..self.at).unwrap_or(self.text).chars().count();
        EXPRESSION.broken(format!("`{}`, at character {column}: {what}", self.text.escaped()))
    }

    fn node(&mut self) -> Result<()> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > MAX_NODES {
            return Err(self.fail(format!("the expression has more than {MAX_NODES} parts")));
        }
        Ok(())
    }

    /// Parses operands joined by operators whose precedence is at least `least`.
    fn expression(&mut self, least: usize) -> Result<Expression> {
        self.deep = self.deep.saturating_add(1);
        if self.deep > MAX_DEEP {
            return Err(
                self.fail(format!("the expression is nested more than {MAX_DEEP} levels deep"))
            );
        }
        let mut left = self.operand()?;
        while let Some((operator, binds)) = self.operator().filter(|(_, binds)| *binds >= least) {
            self.node()?;
            self.at = self.at.saturating_add(operator.as_str().len());
            let right = self.expression(binds.saturating_add(1))?;
            left = Expression::Binary(operator, Box::new([left, right]));
        }
        self.deep = self.deep.saturating_sub(1);
        Ok(left)
    }

    /// Returns the next operator and its precedence, without reading it.
    fn operator(&mut self) -> Option<(Operator, usize)> {
        self.peek()?;
        let rest = self.rest();
        let all = Operator::ALL.iter();
        let found = all.filter(|(_, text, _)| rest.starts_with(text));
        found.max_by_key(|(_, text, _)| text.len()).map(|(operator, _, binds)| (*operator, *binds))
    }

    fn operand(&mut self) -> Result<Expression> {
        self.node()?;
        match self.peek() {
            Some('-') => {
                self.at = self.at.saturating_add(1);
                self.deep = self.deep.saturating_add(1);
                if self.deep > MAX_DEEP {
                    return Err(self.fail(format!(
                        "the expression is nested more than {MAX_DEEP} levels deep"
                    )));
                }
                let operand = self.operand()?;
                self.deep = self.deep.saturating_sub(1);
                Ok(Expression::Negate(Box::new(operand)))
            }
            Some('(') => {
                self.at = self.at.saturating_add(1);
                let inside = self.expression(0)?;
                self.expect(')')?;
                Ok(inside)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            Some(c) => {
                Err(self.fail(format!("expected a number or a name, found `{}`", c.escape_debug())))
            }
            None => Err(self.fail("expected a number or a name, found the end".to_owned())),
        }
    }

    fn number(&mut self) -> Result<Expression> {
        let rest = self.rest();
        let mut end = 0;
        let mut before = ' ';
        for c in rest.chars() {
            let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || c == '.' || is_sign) {
                break;
            }
            before = c;
            end += c.len_utf8();
        }
        let text = rest.get(..end).debug_unwrap();
        let number = match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().ok().map(Expression::Whole),
            false => text.parse().ok().filter(|x: &f64| x.is_finite()).map(Expression::Real),
        };
        let Some(number) = number else {
            return Err(self.fail(format!("invalid number `{}`, or out of range", text.escaped())));
        };
        self.at = self.at.saturating_add(end);
        Ok(number)
    }

    fn named(&mut self) -> Result<Expression> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = rest.get(..end).debug_unwrap().to_owned();
        let function = Function::ALL.iter().find(|(_, text, _)| *text == name);
        if let Some((function, _, takes)) = function {
            self.at = self.at.saturating_add(end);
            self.expect('(')?;
            let arguments = self.several(')')?;
            self.counted(&name, "argument", arguments.len(), *takes)?;
            return Ok(Expression::Call(*function, arguments));
        }
        let Some(found) = (self.resolve)(&name) else {
            let functions = list(Function::ALL.iter().map(|(_, text, _)| format!("`{text}`")));
            return Err(self.fail(format!(
                "`{name}` is neither a name in the description nor a function ({functions})"
            )));
        };
        self.at = self.at.saturating_add(end);
        Ok(match found {
            Name::Index(at) => Expression::Index(at),
            Name::Dimension(at) => Expression::Dimension(at),
            Name::Count => Expression::Count,
            Name::Attribute(at) => Expression::Attribute(at),
            Name::Items(items, takes) => {
                // A single element needs no subscript.
                let subscripts = match takes {
                    0 => Vec::new(),
                    _ => {
                        self.expect('[')?;
                        self.several(']')?
                    }
                };
                self.counted(&name, "subscript", subscripts.len(), takes)?;
                Expression::Item(items, subscripts)
            }
        })
    }

    /// Parses expressions separated by commas, up to the closing bracket.
    fn several(&mut self, close: char) -> Result<Vec<Expression>> {
        let mut all = vec![self.expression(0)?];
        while self.take(',') {
            all.push(self.expression(0)?);
        }
        self.expect(close)?;
        Ok(all)
    }

    fn counted(&self, name: &str, what: &str, found: usize, takes: usize) -> Result<()> {
        if found == takes {
            return Ok(());
        }
        let s = if takes == 1 { "" } else { "s" };
        Err(self.fail(format!("`{name}` requires {takes} {what}{s}, found {found}")))
    }
}
