//! Holdall's error: the rule that was broken, where, in which context, and the cause.

use crate::{ErrorKind, Escape as _, Remedy, Rule, cut_message};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// `Result` with Holdall's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The maximum length of a chain of causes that is followed.
const CAUSES: usize = 16;

/// An error. Match on [`Error::kind`] and [`Error::code`]; the text may change.
///
/// Callers add information as the error propagates: [`within`](Error::within) adds the context,
/// [`because`](Error::because) the error that caused this one, and the other methods add where it happened.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    rule: &'static Rule,
    /// The description of the problem.
    found: Cow<'static, str>,
    /// The contexts, innermost first.
    contexts: Vec<Cow<'static, str>>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
    /// Whether the message includes the cause.
    is_cause_told: bool,
    /// The contexts, what was wrong, and the cause; `None` if the message is `found` alone.
    message: Option<String>,
    source: Option<String>,
    tensor: Option<String>,
    component: Option<String>,
    range: Option<Range<u64>>,
    /// Replaces the rule's advice.
    advice: Option<Advice>,
}

/// The advice for one error: a hint and remedies.
#[derive(Clone, Default)]
struct Advice {
    hint: Option<Cow<'static, str>>,
    remedies: Vec<Remedy>,
}

impl Rule {
    /// Creates an error for this rule. `message` says what was wrong, with both the expected and the actual value where
    /// there are two. Names and values from files must be formatted with [`Escape`](crate::Escape). Messages are cut
    /// after 900 characters.
    #[cold]
    pub fn broken(&'static self, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner {
            rule: self,
            found: cut_message(message.into()),
            contexts: Vec::new(),
            cause: None,
            is_cause_told: false,
            message: None,
            source: None,
            tensor: None,
            component: None,
            range: None,
            advice: None,
        }))
    }
}

impl Error {
    /// Adds a context, which is shown before what was wrong: `line 3`, `the member \`x\``. Contexts that are added
    /// later are shown earlier. They are cut after 900 characters.
    #[must_use]
    pub fn within(mut self, context: impl Into<Cow<'static, str>>) -> Error {
        self.0.contexts.push(cut_message(context.into()));
        self.0.compose();
        self
    }

    /// Adds the cause, which the message shows after what was wrong. What this error lacks is taken from its cause:
    /// hint, operating system's error, source, tensor and component; but not the byte range, which may refer to another
    /// file.
    #[must_use]
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Error {
        self.0.cause = Some(Arc::new(cause));
        self.0.is_cause_told = true;
        self.0.compose();
        self
    }

    /// Adds the cause, like [`because`](Error::because), but does not show it in the message, because the message
    /// already describes it.
    #[must_use]
    pub fn with_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Error {
        self.0.cause = Some(Arc::new(cause));
        self.0.is_cause_told = false;
        self.0.compose();
        self
    }

    /// Converts the error to one of another rule, with the same message and location. The original error becomes its
    /// cause.
    #[must_use]
    pub fn with_rule(self, rule: &'static Rule) -> Error {
        let mut own = Error(Box::new(Inner { rule, ..(*self.0).clone() }));
        own.0.advice = None;
        (own.0.found, own.0.contexts, own.0.message) =
            (Cow::Owned(self.message().to_owned()), Vec::new(), None);
        own.0.cause = Some(Arc::new(self));
        own.0.is_cause_told = false;
        own
    }

    /// Removes the location, so that the error can be reported for another location.
    #[must_use]
    pub fn without_location(mut self) -> Error {
        let e = &mut *self.0;
        (e.source, e.tensor, e.component, e.range) = (None, None, None, None);
        self
    }

    /// Adds the name of the file (or other source) in which the error occurred, unless the error has one.
    #[must_use]
    pub fn in_source(mut self, source: impl fmt::Display) -> Error {
        self.0.source.get_or_insert_with(|| source.to_string());
        self
    }

    /// Replaces the source by the source for which the failing file was needed. The previous source name becomes a
    /// context.
    #[must_use]
    pub fn for_source(mut self, source: impl fmt::Display) -> Error {
        match self.0.source.replace(source.to_string()) {
            Some(inner) => self.within(inner),
            None => self,
        }
    }

    /// Adds the name of the tensor that the error is about, unless the error has one.
    #[must_use]
    pub fn in_tensor(mut self, name: impl Into<String>) -> Error {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the role of the component that the error is about, unless the error has one.
    #[must_use]
    pub fn in_component(mut self, role: impl fmt::Display) -> Error {
        self.0.component.get_or_insert_with(|| role.to_string());
        self
    }

    /// Adds the byte range in the file that the error is about, unless the error has one.
    #[must_use]
    pub fn at(mut self, range: Range<u64>) -> Error {
        self.0.range.get_or_insert(range);
        self
    }

    /// Adds a hint, and replaces the rule's advice. The hint is shown as it is in every language, so an option, an
    /// argument or a method must be a [`Remedy`] instead.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Error {
        self.0.advice.get_or_insert_default().hint = Some(cut_message(hint.into()));
        self
    }

    /// Adds a remedy, and replaces the rule's advice.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Error {
        self.0.advice.get_or_insert_default().remedies.push(remedy);
        self
    }

    /// Removes the error's own advice, so that the rule's advice applies again.
    #[must_use]
    pub fn without_advice(mut self) -> Error {
        self.0.advice = None;
        self
    }

    /// Returns the kind of error: whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.rule.kind
    }

    /// Returns the stable code of the broken rule.
    pub fn code(&self) -> &'static str {
        self.0.rule.code
    }

    /// Returns the broken rule.
    pub fn rule(&self) -> &'static Rule {
        self.0.rule
    }

    /// Returns the message: the contexts, what was wrong, and the cause, but not the location.
    pub fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or(&self.0.found)
    }

    /// Returns what was wrong, without contexts and cause.
    pub fn found(&self) -> &str {
        &self.0.found
    }

    /// Returns the contexts, outermost first.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.0.contexts.iter().rev().map(AsRef::as_ref)
    }

    /// Returns the cause, if it is an error of Holdall.
    pub fn inner(&self) -> Option<&Error> {
        self.0.cause.as_deref()?.downcast_ref()
    }

    /// Returns the file or other source, as the caller named it.
    pub fn source_name(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.source.as_deref())
    }

    /// Returns the full name of the tensor that the error is about.
    pub fn tensor(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.tensor.as_deref())
    }

    /// Returns the role of the component that the error is about.
    pub fn component(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.component.as_deref())
    }

    /// Returns the half-open byte range in the file that the error is about.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// Returns the hint: what to do about the error, in addition to the remedies.
    pub fn hint(&self) -> Option<&str> {
        self.own_advice().0
    }

    /// Returns the remedies, best first.
    pub fn remedies(&self) -> &[Remedy] {
        self.own_advice().1
    }

    /// Returns the hint and the remedies as text, separated by `; `. `spell` formats a remedy, or returns `None` to
    /// omit it.
    pub fn advice(&self, spell: impl Fn(&Remedy) -> Option<String>) -> Option<String> {
        let (hint, remedies) = self.own_advice();
        let all = hint.map(str::to_owned).into_iter().chain(remedies.iter().filter_map(spell));
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the advice of this error, or else of its rule, or else of its cause.
    fn own_advice(&self) -> (Option<&str>, &[Remedy]) {
        fn parts(e: &Error) -> Option<(Option<&str>, &[Remedy])> {
            match &e.0.advice {
                Some(own) => Some((own.hint.as_deref(), own.remedies.as_slice())),
                None => {
                    let rule = e.0.rule;
                    let has = rule.hint.is_some() || !rule.remedies.is_empty();
                    has.then_some((rule.hint, rule.remedies))
                }
            }
        }
        self.chain().find_map(parts).unwrap_or_default()
    }

    /// Returns the operating system's error, if one is among the causes.
    pub fn io(&self) -> Option<&io::Error> {
        let last = self.chain().last().unwrap_or(self);
        let mut next = last.source();
        for _ in 0..CAUSES {
            let cause = next?;
            if let Some(io) = cause.downcast_ref() {
                return Some(io);
            }
            next = cause.source();
        }
        None
    }

    /// Returns `true` if the same call may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        use io::ErrorKind as E;
        self.io().is_some_and(|e| {
            matches!(e.kind(), E::Interrupted | E::TimedOut | E::WouldBlock | E::ConnectionReset)
        })
    }

    /// Returns this error and its causes, as long as these are errors of Holdall.
    fn chain(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |e| e.inner()).take(CAUSES)
    }

    /// Writes the location, as it is shown before a message: ``tensor `w`, bytes 64..128: ``.
    fn write_location(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let e = &*self.0;
        if let Some(source) = &e.source {
            write!(f, "{source}: ")?;
        }
        let mut sep = "";
        if let Some(t) = &e.tensor {
            match t.as_str() {
                "" => f.write_str(NAMELESS)?,
                name => write!(f, "tensor `{}`", name.escaped())?,
            }
            sep = ", ";
        }
        if let Some(c) = &e.component {
            write!(f, "{sep}component `{}`", c.escaped())?;
            sep = ", ";
        }
        if let Some(r) = &e.range {
            write!(f, "{sep}bytes {}..{}", r.start, r.end)?;
            sep = ", ";
        }
        if sep.is_empty() { Ok(()) } else { f.write_str(": ") }
    }
}

/// How a tensor with an empty name is shown; most are the only dataset of a file.
const NAMELESS: &str = "the tensor with an empty name";

impl Inner {
    /// Recomputes the message after a context or a cause was added.
    fn compose(&mut self) {
        let mut text = String::new();
        for context in self.contexts.iter().rev() {
            text.push_str(context);
            text.push_str(": ");
        }
        text.push_str(&self.found);
        if let Some(cause) = self.cause.as_deref().filter(|_| self.is_cause_told) {
            text.push_str(": ");
            text.push_str(&describe_cause(cause));
        }
        self.message = Some(cut_message(text.into()).into_owned());
    }
}

/// Returns a cause as it is shown after what was wrong: for an error of Holdall its location, its message and, in
/// parentheses, its code. The text of other errors is escaped like text from files.
fn describe_cause(cause: &(dyn StdError + Send + Sync + 'static)) -> String {
    let mut text = String::new();
    let Some(e) = cause.downcast_ref::<Error>() else {
        for c in cause.to_string().chars() {
            if c.is_control() { text.extend(c.escape_debug()) } else { text.push(c) }
        }
        return cut_message(text.into()).into_owned();
    };
    // Writing to a String cannot fail.
    let _ = e.write_location(&mut text);
    let _ = write!(text, "{} ({})", e.message(), e.code());
    text
}

/// Writes ``file: tensor `w`, component `data`, bytes 64..128: contexts: message: cause [code]``. Control characters in
/// names from files are escaped, and long names are cut.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_location(f)?;
        write!(f, "{} [{}]", self.message(), self.code())
    }
}

/// Writes the error like [`Display`](fmt::Display), and the advice on a second line. This is what `unwrap` prints, and
/// `main` if it returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match self.advice(|remedy| Some(remedy.to_string())) {
            Some(advice) => write!(f, "\nhint: {advice}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|e| e as _)
    }
}
