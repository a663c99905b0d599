//! State of a run of the command: the global options, and the output.

use crate::args::Global;
use crate::exit::{self, Failure};
use crate::input::StandardInput;
use crate::output::style::{Painter, Style};
use crate::progress::Bar;
use holdall::{Layouts, Work};
use std::cell::{OnceCell, RefCell, RefMut};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::Arc;

/// One run of the command.
pub(crate) struct Session {
    /// The options of every command.
    pub(crate) global: Global,
    out: RefCell<BufWriter<io::Stdout>>,
    out_paint: Painter,
    err_paint: Painter,
    width: Option<usize>,
    /// Standard input, once it was needed.
    pub(crate) standard: OnceCell<StandardInput>,
    /// The policy for HTTP requests, once it was needed.
    #[cfg(feature = "http")]
    pub(crate) policy: OnceCell<holdall::http::Policy>,
    layouts: OnceCell<Arc<Layouts>>,
}

impl Session {
    pub(crate) fn new(global: Global) -> Session {
        let stdout = io::stdout();
        let width = stdout.is_terminal().then(|| {
            let found = terminal_size::terminal_size_of(&stdout);
            found.map_or(80, |(terminal_size::Width(w), _)| usize::from(w).max(20))
        });
        Session {
            out_paint: Painter::new(global.color, stdout.is_terminal()),
            err_paint: Painter::new(global.color, io::stderr().is_terminal()),
            out: RefCell::new(BufWriter::with_capacity(64 << 10, stdout)),
            width,
            standard: OnceCell::new(),
            #[cfg(feature = "http")]
            policy: OnceCell::new(),
            layouts: OnceCell::new(),
            global,
        }
    }

    /// Reads the descriptions of layouts and checks the cache, before anything is opened.
    pub(crate) fn read_layouts(&self) -> Result<(), Failure> {
        let mut all = Layouts::new();
        for path in &self.global.layouts {
            let more = holdall::read_layouts(path, &self.global.limits())?;
            all.extend(more).map_err(|e| e.in_source(path.display()))?;
        }
        let _ = self.layouts.set(Arc::new(all));
        #[cfg(feature = "http")]
        self.global.cache()?;
        Ok(())
    }

    /// Returns the descriptions of custom layouts.
    pub(crate) fn layouts(&self) -> Arc<Layouts> {
        self.layouts.get().cloned().unwrap_or_default()
    }

    /// Returns standard output, buffered.
    pub(crate) fn out(&self) -> RefMut<'_, BufWriter<io::Stdout>> {
        self.out.borrow_mut()
    }

    /// Returns a context for long work, with the requested number of threads. On a terminal, it shows a progress bar
    /// labelled `what` until its last clone is dropped.
    pub(crate) fn work(&self, what: &'static str) -> Work {
        let work = self.silent_work();
        match self.bar(what) {
            Some(bar) => work.on_progress(move |done, total| bar.show(done, total)),
            None => work,
        }
    }

    /// Returns a progress bar labelled `what`, if there is a terminal and `--quiet` is not given.
    pub(crate) fn bar(&self, what: &'static str) -> Option<Bar> {
        if self.global.quiet { None } else { Bar::new(what) }
    }

    /// Like [`Session::work`], without a progress bar.
    pub(crate) fn silent_work(&self) -> Work {
        match self.global.threads {
            Some(threads) => Work::new().with_threads(threads.get()),
            None => Work::new(),
        }
    }

    /// Returns the colours for standard output.
    pub(crate) fn paint(&self) -> Painter {
        self.out_paint
    }

    /// Returns the colours for standard error.
    pub(crate) fn err_paint(&self) -> Painter {
        self.err_paint
    }

    /// Returns the width of the terminal on standard output, in columns; `None` if it is not a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns `true` if `--json` is given.
    pub(crate) fn json(&self) -> bool {
        self.global.json
    }

    /// Prints a message to standard error, unless `--quiet` is given.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        if !self.global.quiet {
            // If standard error cannot be written to, the message is lost.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Prints a warning to standard error, unless `--quiet` is given.
    pub(crate) fn warn(&self, text: impl std::fmt::Display) {
        self.note(format_args!("{} {text}", self.err_paint.styled("warning:", Style::Warn)));
    }

    /// Calls `work` for each input, reporting errors immediately. The exit status is that of the first error.
    pub(crate) fn each<T>(
        &self,
        inputs: &[T],
        mut work: impl FnMut(&T) -> Result<exit::Status, Failure>,
    ) -> Result<exit::Status, Failure> {
        let mut all = exit::Status::Fine;
        let mut failed = None;
        for input in inputs {
            match work(input) {
                Ok(exit::Status::Fine) => {}
                Ok(exit::Status::Bad) => all = exit::Status::Bad,
                // Findings in another input take precedence.
                Ok(exit::Status::Incomplete) if all == exit::Status::Bad => {}
                Ok(exit::Status::Incomplete) => all = exit::Status::Incomplete,
                Err(Failure::Error(e)) if inputs.len() > 1 => {
                    self.finish()?;
                    let code = exit::report(&e, self.json(), self.err_paint);
                    failed.get_or_insert(code);
                }
                Err(e) => return Err(e),
            }
        }
        match failed {
            Some(code) => Err(Failure::Reported(code)),
            None => Ok(all),
        }
    }

    /// Flushes standard output.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        Ok(self.out.borrow_mut().flush()?)
    }
}
