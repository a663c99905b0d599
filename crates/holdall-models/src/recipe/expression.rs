//! Parsing expressions into trees.
//!
//! ```text
//! expression = coalesced [ "?" expression ":" expression ]
//! coalesced  = either { "??" either }          the first that is not null
//! either     = both { "||" both }              both = compared { "&&" compared }
//! compared   = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum ]
//! sum        = product { ( "+" | "-" ) product }
//! product    = unary { ( "*" | "/" | "//" | "%" ) unary }
//! unary      = ( "-" | "!" ) unary | operand { "." name | "[" expression "]" }
//! operand    = number | text | "null" | "true" | "false" | name | name "(" expressions ")"
//!            | "[" expressions "]" | "(" expression ")"
//! ```

use super::EXPRESSION;
use holdall_collections::DebugUnwrap;
use holdall_core::error::{Error, Escape as _, Result};

/// The maximum number of numbers, names and operations in an expression.
const MAX_NODES: usize = 1024;
/// The maximum nesting of operations, including a chain of operators of one precedence.
const MAX_DEPTH: usize = 48;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Name(String),
    List(Vec<Expression>),
    Member(Box<Expression>, String),
    Item(Box<[Expression; 2]>),
    Call(Function, Vec<Expression>),
    /// `each(name, count, value)`: a list of `count` values.
    Each(String, Box<[Expression; 2]>),
    Negate(Box<Expression>),
    Not(Box<Expression>),
    Binary(Operator, Box<[Expression; 2]>),
    Choice(Box<[Expression; 3]>),
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
        Coalesce = "??" 1,
        Or = "||" 2,
        And = "&&" 3,
        Equal = "==" 4,
        Unequal = "!=" 4,
        AtMost = "<=" 4,
        AtLeast = ">=" 4,
        Less = "<" 4,
        Greater = ">" 4,
        Add = "+" 5,
        Subtract = "-" 5,
        FloorDivide = "//" 6,
        Multiply = "*" 6,
        Divide = "/" 6,
        Remainder = "%" 6,
    }
}

words! {
    /// Functions, with their number of arguments.
    Function {
        Abs = "abs" 1,
        Ceil = "ceil" 1,
        Cos = "cos" 1,
        Exp = "exp" 1,
        F32 = "f32" 1,
        Float = "float" 1,
        Floor = "floor" 1,
        HasTensor = "has_tensor" 1,
        Integer = "integer" 1,
        Len = "len" 1,
        Log = "log" 1,
        Round = "round" 1,
        Sin = "sin" 1,
        Sqrt = "sqrt" 1,
        Sum = "sum" 1,
        List = "list" 1,
        Tensor = "tensor" 1,
        Text = "text" 1,
        Contains = "contains" 2,
        Max = "max" 2,
        Min = "min" 2,
        Pow = "pow" 2,
        StartsWith = "starts_with" 2,
    }
}

/// Returns `true` if this can be a name in expressions: letters, digits and `_`, not starting with a digit.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_part) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Parses an expression.
///
/// # Errors
/// Returns [`EXPRESSION`] if the expression is invalid.
pub(super) fn parse(text: &str) -> Result<Expression> {
    let mut parser = Parser { text, at: 0, nodes: 0, depth: 0 };
    let all = parser.expression()?;
    match parser.peek() {
        None => Ok(all),
        Some(found) => Err(parser.fail(&format!("unexpected `{}`", found.escape_debug()))),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    nodes: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).debug_unwrap()
    }

    /// Skips spaces, and returns the next character without reading it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let skipped = rest.len().saturating_sub(rest.trim_start().len());
        self.advance(skipped);
        self.rest().chars().next()
    }

    fn advance(&mut self, by: usize) {
        self.at = self.at.saturating_add(by);
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.advance(wanted.len_utf8());
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.take(wanted) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |c| format!("`{}`", c.escape_debug()));
        Err(self.fail(&format!("expected `{wanted}`, found {found}")))
    }

    #[cold]
    fn fail(&self, what: &str) -> Error {
        let at = self.text.get(..self.at).unwrap_or(self.text).chars().count();
        EXPRESSION.broken(format!("`{}`, at character {at}: {what}", self.text.escaped()))
    }

    /// Counts a part of the expression.
    fn node(&mut self) -> Result<()> {
        self.nodes = self.nodes.saturating_add(1);
        match self.nodes > MAX_NODES {
            true => Err(self.fail(&format!("the expression has more than {MAX_NODES} parts"))),
            false => Ok(()),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            let message = format!("the expression is nested more than {MAX_DEPTH} levels deep");
            return Err(self.fail(&message));
        }
        let parsed = parse(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(parsed)
    }

    fn expression(&mut self) -> Result<Expression> {
        self.nested(|parser| {
            let condition = parser.binary(1)?;
            if parser.peek() != Some('?') {
                return Ok(condition);
            }
            parser.node()?;
            parser.expect('?')?;
            let first = parser.expression()?;
            parser.expect(':')?;
            let second = parser.expression()?;
            Ok(Expression::Choice(Box::new([condition, first, second])))
        })
    }

    /// Parses operands joined by operators whose precedence is at least `least`.
    fn binary(&mut self, least: usize) -> Result<Expression> {
        let before = self.depth;
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self.operator().filter(|(_, p)| *p >= least) {
            self.node()?;
            // A chain of operators is a tree as deep as the chain is long.
            self.depth = self.depth.saturating_add(1);
            self.advance(operator.as_str().len());
            let next = precedence.saturating_add(1);
            let right = self.nested(|parser| parser.binary(next))?;
            left = Expression::Binary(operator, Box::new([left, right]));
        }
        self.depth = before;
        Ok(left)
    }

    /// Returns the next operator and its precedence, without reading it.
    fn operator(&mut self) -> Option<(Operator, usize)> {
        self.peek()?;
        let rest = self.rest();
        let all = Operator::ALL.iter().filter(|(_, text, _)| rest.starts_with(text));
        all.max_by_key(|(_, text, _)| text.len()).map(|(operator, _, binds)| (*operator, *binds))
    }

    fn unary(&mut self) -> Result<Expression> {
        self.node()?;
        match self.peek() {
            Some('-') => {
                self.advance(1);
                let operand = self.nested(Self::unary)?;
                Ok(Expression::Negate(Box::new(operand)))
            }
            Some('!') => {
                self.advance(1);
                let operand = self.nested(Self::unary)?;
                Ok(Expression::Not(Box::new(operand)))
            }
            _ => self.members(),
        }
    }

    /// Parses an operand with the members and items that are taken of it.
    fn members(&mut self) -> Result<Expression> {
        let before = self.depth;
        let mut operand = self.operand()?;
        loop {
            let next = self.peek();
            if !matches!(next, Some('.' | '[')) {
                self.depth = before;
                return Ok(operand);
            }
            self.node()?;
            self.depth = self.depth.saturating_add(1);
            if self.take('.') {
                let name = self.name().ok_or_else(|| self.fail("expected a name after `.`"))?;
                operand = Expression::Member(Box::new(operand), name.to_owned());
            } else {
                self.expect('[')?;
                let index = self.expression()?;
                self.expect(']')?;
                operand = Expression::Item(Box::new([operand, index]));
            }
        }
    }

    fn operand(&mut self) -> Result<Expression> {
        match self.peek() {
            Some('(') => {
                self.advance(1);
                let inside = self.expression()?;
                self.expect(')')?;
                Ok(inside)
            }
            Some('[') => {
                self.advance(1);
                self.several(']').map(Expression::List)
            }
            Some(quote @ ('\'' | '"')) => self.quoted(quote),
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            Some(c) => {
                let message = format!("expected a value, found `{}`", c.escape_debug());
                Err(self.fail(&message))
            }
            None => Err(self.fail("expected a value, found the end")),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Expression> {
        self.advance(quote.len_utf8());
        let rest = self.rest();
        let Some(end) = rest.find(quote) else {
            return Err(self.fail("a text has no closing quote"));
        };
        self.advance(end.saturating_add(quote.len_utf8()));
        Ok(Expression::Text(rest.get(..end).debug_unwrap().to_owned()))
    }

    fn number(&mut self) -> Result<Expression> {
        let rest = self.rest();
        let (mut end, mut before) = (0usize, ' ');
        for c in rest.chars() {
            let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || c == '.' || is_sign) {
                break;
            }
            before = c;
            end = end.saturating_add(c.len_utf8());
        }
        let text = rest.get(..end).debug_unwrap();
        let number = match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().ok().map(Expression::Integer),
            false => text.parse().ok().filter(|x: &f64| x.is_finite()).map(Expression::Float),
        };
        let Some(number) = number else {
            let message = format!("invalid number `{}`, or out of range", text.escaped());
            return Err(self.fail(&message));
        };
        self.advance(end);
        Ok(number)
    }

    fn name(&mut self) -> Option<&'t str> {
        self.peek();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = rest.get(..end.unwrap_or(rest.len())).filter(|name| is_name(name))?;
        self.advance(name.len());
        Some(name)
    }

    fn named(&mut self) -> Result<Expression> {
        let start = self.at;
        let Some(name) = self.name() else { return Err(self.fail("expected a name")) };
        match name {
            "null" => return Ok(Expression::Null),
            "true" => return Ok(Expression::Bool(true)),
            "false" => return Ok(Expression::Bool(false)),
            "pi" => return Ok(Expression::Float(std::f64::consts::PI)),
            _ => {}
        }
        if !self.take('(') {
            return Ok(Expression::Name(name.to_owned()));
        }
        if name == "each" {
            let Some(index) = self.name() else {
                return Err(self.fail("expected a name for the index"));
            };
            self.expect(',')?;
            let count = self.expression()?;
            self.expect(',')?;
            let value = self.expression()?;
            self.expect(')')?;
            return Ok(Expression::Each(index.to_owned(), Box::new([count, value])));
        }
        let Some((function, _, takes)) = Function::ALL.iter().find(|(_, text, _)| *text == name)
        else {
            self.at = start;
            let known: Vec<&str> = Function::ALL.iter().map(|(_, text, _)| *text).collect();
            let message =
                format!("`{name}` is not a function; known are each, {}", known.join(", "));
            return Err(self.fail(&message));
        };
        let arguments = self.several(')')?;
        if arguments.len() != *takes {
            let found = arguments.len();
            return Err(self.fail(&format!("`{name}` takes {takes} arguments, found {found}")));
        }
        Ok(Expression::Call(*function, arguments))
    }

    /// Parses expressions separated by commas, up to the closing bracket.
    fn several(&mut self, close: char) -> Result<Vec<Expression>> {
        let mut all = Vec::new();
        while !self.take(close) {
            if !all.is_empty() {
                self.expect(',')?;
            }
            all.push(self.expression()?);
        }
        Ok(all)
    }
}
