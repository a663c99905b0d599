//! Colours, on a terminal or on request.

use anstyle::{AnsiColor, Effects};
use clap::ValueEnum;
use std::fmt::{self, Display};

/// The value of the `--color` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// Returns the choice with this name.
    pub(crate) fn from_name(name: &str) -> Option<ColorChoice> {
        ColorChoice::from_str(name, false).ok()
    }

    /// Returns the same choice for `clap`'s own output.
    pub(crate) fn clap(self) -> clap::ColorChoice {
        match self {
            ColorChoice::Auto => clap::ColorChoice::Auto,
            ColorChoice::Always => clap::ColorChoice::Always,
            ColorChoice::Never => clap::ColorChoice::Never,
        }
    }
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// A title.
    Title,
    /// Less important text: keys, units, defaults.
    Dim,
    /// A dtype.
    Type,
    /// A name of a group of tensors.
    Group,
    Good,
    Warn,
    Bad,
    Note,
}

impl Style {
    fn ansi(self) -> anstyle::Style {
        let plain = anstyle::Style::new();
        match self {
            Style::Plain => plain,
            Style::Title => plain.effects(Effects::BOLD),
            Style::Dim => plain.effects(Effects::DIMMED),
            Style::Type => AnsiColor::Cyan.on_default(),
            Style::Group => AnsiColor::Magenta.on_default(),
            Style::Good => AnsiColor::Green.on_default(),
            Style::Warn => AnsiColor::Yellow.on_default().effects(Effects::BOLD),
            Style::Bad => AnsiColor::Red.on_default().effects(Effects::BOLD),
            Style::Note => AnsiColor::Cyan.on_default().effects(Effects::BOLD),
        }
    }
}

/// Adds colours to text, or leaves text plain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter(bool);

impl Painter {
    /// Returns a painter without colours.
    pub(crate) fn plain() -> Painter {
        Painter(false)
    }

    /// Returns a painter that uses colours on a terminal, unless the environment or the user decides otherwise.
    pub(crate) fn new(choice: ColorChoice, is_terminal: bool) -> Painter {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        Painter(match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal
                    && !set("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
                    && crate::platform::enable_colors()
            }
        })
    }

    /// Returns `text` in this style.
    pub(crate) fn styled<T: Display>(self, text: T, style: Style) -> Painted<T> {
        Painted { text, style: if self.0 { style } else { Style::Plain } }
    }
}

/// Text in a style.
pub(crate) struct Painted<T> {
    text: T,
    style: Style,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.style == Style::Plain {
            return self.text.fmt(f);
        }
        let ansi = self.style.ansi();
        write!(f, "{ansi}{}{ansi:#}", self.text)
    }
}
