//! One error type: whose fault, which rule, where, and what to do about it.

#![forbid(unsafe_code)]

mod rule;
mod shown;

pub use rule::{Kind, Rule};
pub use shown::{Cut, Shown, list, message as cut_message};

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// `Result` with Holdall's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Rule {
    /// An error for this rule; `message` says what was found, with both numbers where there are two. Names and
    /// values of files stand in it as [`Shown`] has them. What is longer than 900 characters is cut.
    #[cold]
    pub fn broken(&'static self, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner {
            rule: self,
            message: cut_message(message.into()),
            source: None,
            tensor: None,
            component: None,
            range: None,
            hint: self.hint.map(Cow::Borrowed),
            io: None,
        }))
    }
}

/// What went wrong. Match on [`Error::kind`] and [`Error::code`]; the text may change.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    rule: &'static Rule,
    message: Cow<'static, str>,
    source: Option<String>,
    tensor: Option<String>,
    component: Option<String>,
    range: Option<Range<u64>>,
    hint: Option<Cow<'static, str>>,
    io: Option<Arc<std::io::Error>>,
}

impl Error {
    /// The error with the name of the file (or other source) it came from, unless it has one.
    pub fn in_source(mut self, source: impl fmt::Display) -> Error {
        self.0.source.get_or_insert_with(|| source.to_string());
        self
    }

    /// The error with the tensor it is about, unless it has one.
    pub fn in_tensor(mut self, name: impl Into<String>) -> Error {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// The error with the component (role) it is about, unless it has one.
    pub fn in_component(mut self, role: impl fmt::Display) -> Error {
        self.0.component.get_or_insert_with(|| role.to_string());
        self
    }

    /// The error with the byte range of the file it is about, unless it has one.
    pub fn at(mut self, range: Range<u64>) -> Error {
        self.0.range.get_or_insert(range);
        self
    }

    /// The error with what to do about it, in place of the rule's standing hint.
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Error {
        self.0.hint = Some(cut_message(hint.into()));
        self
    }

    /// The error with the operating system's error behind it.
    pub fn with_io(mut self, io: std::io::Error) -> Error {
        self.0.io = Some(Arc::new(io));
        self
    }

    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        self.0.rule.kind
    }

    /// The stable code of the broken rule.
    pub fn code(&self) -> &'static str {
        self.0.rule.code
    }

    /// The broken rule.
    pub fn rule(&self) -> &'static Rule {
        self.0.rule
    }

    /// What was found, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file or other source, as the caller named it.
    pub fn source_name(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// The tensor it is about: its whole name, however long.
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// The role of the component it is about.
    pub fn component(&self) -> Option<&str> {
        self.0.component.as_deref()
    }

    /// The bytes of the file it is about, half-open.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The operating system's error, where there is one.
    pub fn io(&self) -> Option<&std::io::Error> {
        self.0.io.as_deref()
    }

    /// Whether the same call may succeed later with nothing changed.
    pub fn is_retryable(&self) -> bool {
        use std::io::ErrorKind as E;
        self.0.io.as_ref().is_some_and(|e| {
            matches!(e.kind(), E::Interrupted | E::TimedOut | E::WouldBlock | E::ConnectionReset)
        })
    }
}

/// `file: tensor `w`, component `data`, bytes 64..128: message [code]`. Control characters in names
/// that a file declared are escaped, and long names cut.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if let Some(source) = &e.source {
            write!(f, "{source}: ")?;
        }
        let mut sep = "";
        if let Some(t) = &e.tensor {
            write!(f, "tensor `{}`", t.shown())?;
            sep = ", ";
        }
        if let Some(c) = &e.component {
            write!(f, "{sep}component `{}`", c.shown())?;
            sep = ", ";
        }
        if let Some(r) = &e.range {
            write!(f, "{sep}bytes {}..{}", r.start, r.end)?;
            sep = ", ";
        }
        if !sep.is_empty() {
            f.write_str(": ")?;
        }
        write!(f, "{} [{}]", e.message, e.rule.code)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.io.as_ref().map(|e| &**e as _)
    }
}
