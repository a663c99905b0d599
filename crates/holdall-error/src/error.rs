//! What went wrong: the rule that was broken, where, in which context, and because of what.

use crate::{ErrorKind, Remedy, Rule, Shown as _, cut_message};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// `Result` with Holdall's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The most causes that are followed: no honest chain is longer.
const CAUSES: usize = 16;

/// What went wrong. Match on [`Error::kind`] and [`Error::code`]; the text may change.
///
/// An error gains as it rises and loses nothing: [`within`](Error::within) says what was being done,
/// [`because`](Error::because) keeps the error that this one was made of, and the rest says where it is.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    rule: &'static Rule,
    /// What was found.
    found: Cow<'static, str>,
    /// The innermost first.
    contexts: Vec<Cow<'static, str>>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
    /// Whether the message says what the cause is.
    is_cause_told: bool,
    /// Contexts, what was found, and the cause; none where that is only what was found.
    message: Option<String>,
    source: Option<String>,
    tensor: Option<String>,
    component: Option<String>,
    range: Option<Range<u64>>,
    /// In place of the rule's.
    advice: Option<Advice>,
}

/// What can be done about one error.
#[derive(Clone, Default)]
struct Advice {
    hint: Option<Cow<'static, str>>,
    remedies: Vec<Remedy>,
}

impl Rule {
    /// An error for this rule; `message` says what was found, with both numbers where there are two. Names and
    /// values of files stand in it as [`Shown`](crate::Shown) has them. What is longer than 900 characters is cut.
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
    /// The error with what it happened in, which is said before what was found: `line 3`, `the member \`x\``.
    /// Contexts that are added later are said earlier. What is longer than 900 characters is cut.
    #[must_use]
    pub fn within(mut self, context: impl Into<Cow<'static, str>>) -> Error {
        self.0.contexts.push(cut_message(context.into()));
        self.0.compose();
        self
    }

    /// The error with the one that it was made of, which the message tells after what was found. What this
    /// error does not know is asked of its cause: a hint, the operating system's error, the source, the tensor
    /// and the component; not the range, which may be one of another text.
    #[must_use]
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Error {
        self.0.cause = Some(Arc::new(cause));
        self.0.is_cause_told = true;
        self.0.compose();
        self
    }

    /// As [`because`](Error::because), where what was found says already what the cause is.
    #[must_use]
    pub fn with_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Error {
        self.0.cause = Some(Arc::new(cause));
        self.0.is_cause_told = false;
        self.0.compose();
        self
    }

    /// The error as one of another rule, with the same message and place: what is wrong here is something else
    /// than where it was found. This error is its cause.
    #[must_use]
    pub fn under(self, rule: &'static Rule) -> Error {
        let mut own = Error(Box::new(Inner { rule, ..(*self.0).clone() }));
        own.0.advice = None;
        (own.0.found, own.0.contexts, own.0.message) =
            (Cow::Owned(self.message().to_owned()), Vec::new(), None);
        own.0.cause = Some(Arc::new(self));
        own.0.is_cause_told = false;
        own
    }

    /// The error without its place, for another place that it is true of as well.
    #[must_use]
    pub fn unplaced(mut self) -> Error {
        let e = &mut *self.0;
        (e.source, e.tensor, e.component, e.range) = (None, None, None, None);
        self
    }

    /// The error with the name of the file (or other source) it came from, unless it has one.
    #[must_use]
    pub fn in_source(mut self, source: impl fmt::Display) -> Error {
        self.0.source.get_or_insert_with(|| source.to_string());
        self
    }

    /// The error with the name of what the file that it came from was wanted for. The name that it had is said
    /// before what was found.
    #[must_use]
    pub fn for_source(mut self, source: impl fmt::Display) -> Error {
        match self.0.source.replace(source.to_string()) {
            Some(inner) => self.within(inner),
            None => self,
        }
    }

    /// The error with the tensor it is about, unless it has one.
    #[must_use]
    pub fn in_tensor(mut self, name: impl Into<String>) -> Error {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// The error with the component (role) it is about, unless it has one.
    #[must_use]
    pub fn in_component(mut self, role: impl fmt::Display) -> Error {
        self.0.component.get_or_insert_with(|| role.to_string());
        self
    }

    /// The error with the byte range of the file it is about, unless it has one.
    #[must_use]
    pub fn at(mut self, range: Range<u64>) -> Error {
        self.0.range.get_or_insert(range);
        self
    }

    /// The error with what to do about it, in place of the rule's standing advice. It is said on every face:
    /// an option, an argument or a method is a [`Remedy`].
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Error {
        self.0.advice.get_or_insert_default().hint = Some(cut_message(hint.into()));
        self
    }

    /// The error with one more thing to do about it, in place of the rule's standing advice.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Error {
        self.0.advice.get_or_insert_default().remedies.push(remedy);
        self
    }

    /// The error without its own advice: its rule's stands again, unless other advice is given.
    #[must_use]
    pub fn without_advice(mut self) -> Error {
        self.0.advice = None;
        self
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
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

    /// What was found, behind its contexts and before its cause; without the place.
    pub fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or(&self.0.found)
    }

    /// What was found, alone.
    pub fn found(&self) -> &str {
        &self.0.found
    }

    /// What it happened in, the widest context first.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.0.contexts.iter().rev().map(AsRef::as_ref)
    }

    /// The error of Holdall that this one was made of.
    pub fn inner(&self) -> Option<&Error> {
        self.0.cause.as_deref()?.downcast_ref()
    }

    /// The file or other source, as the caller named it.
    pub fn source_name(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.source.as_deref())
    }

    /// The tensor it is about: its whole name, however long.
    pub fn tensor(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.tensor.as_deref())
    }

    /// The role of the component it is about.
    pub fn component(&self) -> Option<&str> {
        self.chain().find_map(|e| e.0.component.as_deref())
    }

    /// The bytes of the file it is about, half-open.
    pub fn range(&self) -> Option<Range<u64>> {
        self.0.range.clone()
    }

    /// What to do about it, besides the remedies.
    pub fn hint(&self) -> Option<&str> {
        self.own_advice().0
    }

    /// What can be done about it, the best first.
    pub fn remedies(&self) -> &[Remedy] {
        self.own_advice().1
    }

    /// The hint and the remedies in words, with `; ` between them; each remedy as `spell` has it, if it has it.
    pub fn advice(&self, spell: impl Fn(&Remedy) -> Option<String>) -> Option<String> {
        let (hint, remedies) = self.own_advice();
        let all = hint.map(str::to_owned).into_iter().chain(remedies.iter().filter_map(spell));
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Its own advice, else its rule's, else its cause's.
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

    /// The operating system's error, where there is one: of the causes the first that is one.
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

    /// Whether the same call may succeed later with nothing changed.
    pub fn is_retryable(&self) -> bool {
        use io::ErrorKind as E;
        self.io().is_some_and(|e| {
            matches!(e.kind(), E::Interrupted | E::TimedOut | E::WouldBlock | E::ConnectionReset)
        })
    }

    /// This error and those of Holdall behind it.
    fn chain(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |e| e.inner()).take(CAUSES)
    }

    /// Where it is, as it stands before a message: ``tensor `w`, bytes 64..128: ``.
    fn write_location(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let e = &*self.0;
        if let Some(source) = &e.source {
            write!(f, "{source}: ")?;
        }
        let mut sep = "";
        if let Some(t) = &e.tensor {
            match t.as_str() {
                "" => f.write_str(NAMELESS)?,
                name => write!(f, "tensor `{}`", name.shown())?,
            }
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
        if sep.is_empty() { Ok(()) } else { f.write_str(": ") }
    }
}

/// A tensor whose name is empty: of a file that is nothing but one dataset, as a rule.
const NAMELESS: &str = "the tensor with an empty name";

impl Inner {
    /// Writes the message out, because a context or a cause came.
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

/// A cause as it stands behind what was found. Of errors of Holdall that is the place, the message and, in
/// parentheses, the code. What others say is shown as text of files is.
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

/// ``file: tensor `w`, component `data`, bytes 64..128: contexts: message: cause [code]``. Control characters in
/// names that a file declared are escaped, and long names cut.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_location(f)?;
        write!(f, "{} [{}]", self.message(), self.code())
    }
}

/// As [`Display`](fmt::Display), and what to do about it on a line of its own: what `main` prints that returns it, and `unwrap`.
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
