//! The copy of the repository in which mutants are chosen by an environment variable.

use super::list::{Mutant, Position};
use crate::command::{Outcome, program, root, target};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What each mutated crate gets: the function that says which mutant is chosen. To record which tests reach which
/// functions, it writes the name of the thread, which is the test's, at the first call of each thread.
const SWITCH: &str = r#"
#[allow(missing_docs, unreachable_pub, dead_code)]
pub(crate) mod mutant_switch {
    use std::io::Write as _;
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<usize> = LazyLock::new(|| {
        std::env::var("HOLDALL_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
    });
    static HITS: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var_os("HOLDALL_MUTANT_HITS")?;
        std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
    });
    thread_local! { static SEEN: std::cell::RefCell<Vec<bool>> = const { std::cell::RefCell::new(Vec::new()) }; }
    pub(crate) fn chosen(function: usize) -> usize {
        if let Some(mut hits) = HITS.as_ref() {
            let is_new = SEEN.try_with(|seen| {
                let Ok(mut seen) = seen.try_borrow_mut() else { return true };
                if seen.len() <= function { seen.resize(function + 1, false); }
                !std::mem::replace(&mut seen[function], true)
            });
            if is_new.unwrap_or(true) {
                let thread = std::thread::current();
                let line = format!("{function} {}\n", thread.name().unwrap_or("?"));
                let _ = hits.write_all(line.as_bytes());
            }
        }
        *CHOSEN
    }
}
"#;

/// The copy of the repository.
pub(super) struct Tree {
    pub(super) folder: PathBuf,
    /// Every file and its text, as in the repository.
    texts: BTreeMap<String, Vec<u8>>,
    arms: RefCell<Vec<Arm>>,
}

/// The lines of a mutant in the copy.
struct Arm {
    mutant: String,
    file: String,
    lines: Range<usize>,
    /// The lines of the whole function, with all of its mutants.
    function_lines: Range<usize>,
    number: usize,
    function: usize,
}

impl Tree {
    /// Copies the repository.
    pub(super) fn open() -> Result<Tree, String> {
        let folder = target().join("mutants/tree");
        let listed =
            program("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let mut texts = BTreeMap::new();
        for name in listed.output()?.lines() {
            // A file that is deleted but not committed is still listed.
            if let Ok(text) = std::fs::read(root().join(name)) {
                texts.insert(name.to_owned(), text);
            }
        }
        let tree = Tree { folder, texts, arms: RefCell::default() };
        tree.texts.iter().try_for_each(|(name, text)| tree.put(name, text))?;
        let is_known = |path: &Path| {
            let name = path.strip_prefix(&tree.folder).unwrap_or(path);
            tree.texts.contains_key(&*name.to_string_lossy().replace('\\', "/"))
        };
        remove_others(&tree.folder.join("crates"), &is_known)?;
        Ok(tree)
    }

    /// Writes a file if it differs, so that unchanged files are not built again.
    fn put(&self, name: &str, text: &[u8]) -> Outcome {
        let path = self.folder.join(name);
        if std::fs::read(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.folder);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        let text = self.texts.get(name).ok_or(format!("{name} is not in the repository"))?;
        std::str::from_utf8(text).map_err(|e| format!("{name}: {e}"))
    }

    /// Writes the copy with all of these mutants, and returns the names of those that cannot be chosen while the
    /// program runs.
    pub(super) fn write(&self, mutants: &[&Mutant]) -> Result<BTreeSet<String>, String> {
        let mut refused = BTreeSet::new();
        let mut arms = Vec::new();
        let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        mutants.iter().for_each(|m| by_file.entry(&m.file).or_default().push(m));
        for (name, text) in &self.texts {
            let Some(own) = by_file.get(name.as_str()) else {
                if is_root(name) {
                    self.put(name, &[text, SWITCH.as_bytes()].concat())?;
                } else {
                    self.put(name, text)?;
                }
                continue;
            };
            let text = self.text(name)?;
            let mut bodies: BTreeMap<(usize, usize), Vec<&Mutant>> = BTreeMap::new();
            for mutant in own {
                match body(text, mutant) {
                    Some(body) => bodies.entry((body.start, body.end)).or_default().push(mutant),
                    None => _ = refused.insert(mutant.name.clone()),
                }
            }
            let switched = switched(name, text, &outermost(bodies), &mut arms);
            self.put(name, switched.as_bytes())?;
        }
        *self.arms.borrow_mut() = arms;
        Ok(refused)
    }

    /// Writes the copy with one mutant in place of the original.
    pub(super) fn write_alone(&self, mutant: &Mutant) -> Outcome {
        self.write(&[])?;
        let text = self.text(&mutant.file)?;
        let text = replaced(text, 0..text.len(), mutant)
            .ok_or(format!("the place of `{}` is not in its file", mutant.name))?;
        self.put(&mutant.file, text.as_bytes())
    }

    /// Returns the mutants that cause these errors: those at the lines, or else those of the function.
    pub(super) fn culprits(&self, errors: &[(String, usize)]) -> Result<BTreeSet<String>, String> {
        let arms = self.arms.borrow();
        let mut culprits = BTreeSet::new();
        for (file, line) in errors {
            let own = || arms.iter().filter(|arm| arm.file == *file);
            let mut found: Vec<&Arm> = own().filter(|arm| arm.lines.contains(line)).collect();
            if found.is_empty() {
                found = own().filter(|arm| arm.function_lines.contains(line)).collect();
            }
            culprits.extend(found.into_iter().map(|arm| arm.mutant.clone()));
        }
        match culprits.is_empty() {
            true => Err(format!("the tests do not compile, and no mutant is at {errors:?}")),
            false => Ok(culprits),
        }
    }

    /// Returns the numbers of a mutant and of its function.
    pub(super) fn numbers(&self, mutant: &Mutant) -> (usize, usize) {
        let arms = self.arms.borrow();
        let arm = arms.iter().find(|arm| arm.mutant == mutant.name);
        arm.map_or((0, 0), |arm| (arm.number, arm.function))
    }
}

/// Returns `true` for the root files of the crates with mutants.
fn is_root(name: &str) -> bool {
    ["crates/holdall-core/src/lib.rs", "crates/holdall-io/src/lib.rs"].contains(&name)
}

/// Removes files that the repository does not have.
fn remove_others(folder: &Path, is_known: &dyn Fn(&Path) -> bool) -> Outcome {
    let shown = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in folder.read_dir().map_err(shown)? {
        let path = entry.map_err(shown)?.path();
        if path.is_dir() {
            remove_others(&path, is_known)?;
        } else if path.extension().is_some_and(|e| e == "rs") && !is_known(&path) {
            std::fs::remove_file(&path).map_err(shown)?;
        }
    }
    Ok(())
}

/// Returns the byte offset of a position.
fn offset(text: &str, (line, column): Position) -> Option<usize> {
    let start = match line {
        1 => 0,
        _ => text.match_indices('\n').nth(line.checked_sub(2)?)?.0 + 1,
    };
    let rest = text.get(start..)?;
    Some(start + rest.char_indices().nth(column.checked_sub(1)?).map_or(rest.len(), |(at, _)| at))
}

/// Returns the body of a mutant's function with its braces; `None` if it is evaluated by the compiler, or if its type
/// is not written, so that two bodies could have two types.
fn body(text: &str, mutant: &Mutant) -> Option<Range<usize>> {
    let (start, end) = mutant.function?;
    let (start, end) = (offset(text, start)?, offset(text, end)?);
    let function = text.get(start..end)?;
    let signature = function.split('{').next()?;
    let returned = signature.rsplit_once("->").map_or("", |(_, returned)| returned);
    if signature.contains("const fn") || returned.contains("impl ") {
        return None;
    }
    let body = start + signature.len()..end;
    let at = offset(text, mutant.span.0)?;
    body.contains(&at).then_some(body)
}

/// Adds the mutants of functions inside other functions to those, since their bodies are copied with the others.
fn outermost(bodies: BTreeMap<(usize, usize), Vec<&Mutant>>) -> Vec<(Range<usize>, Vec<&Mutant>)> {
    let mut all: Vec<(Range<usize>, Vec<&Mutant>)> = Vec::new();
    for ((start, end), mutants) in bodies {
        match all.last_mut() {
            Some((outer, own)) if end <= outer.end => own.extend(mutants),
            _ => all.push((start..end, mutants)),
        }
    }
    all
}

/// Returns a part of a text with a mutant in it.
fn replaced(text: &str, part: Range<usize>, mutant: &Mutant) -> Option<String> {
    let (start, end) = (offset(text, mutant.span.0)?, offset(text, mutant.span.1)?);
    let (before, after) = (text.get(part.start..start)?, text.get(end..part.end)?);
    Some(format!("{before} {} {after}", mutant.replacement))
}

/// Returns a file in which every mutated function has its mutants and itself as arms of a `match`.
fn switched(
    file: &str,
    text: &str,
    bodies: &[(Range<usize>, Vec<&Mutant>)],
    arms: &mut Vec<Arm>,
) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (body, mutants) in bodies {
        out.push_str(&text[done..body.start]);
        done = body.end;
        // From 1: 0 is no mutant.
        let function = arms.len() + 1;
        let line = |out: &String| out.matches('\n').count() + 1;
        let first = line(&out);
        let at = arms.len();
        _ = write!(out, "{{ match crate::mutant_switch::chosen({function}) {{");
        for mutant in mutants {
            let Some(changed) = replaced(text, body.clone(), mutant) else { continue };
            let number = arms.len() + 1;
            out.push('\n');
            let start = line(&out);
            _ = writeln!(out, "{number} => {changed}");
            arms.push(Arm {
                mutant: mutant.name.clone(),
                file: file.to_owned(),
                lines: start..line(&out),
                function_lines: 0..0,
                number,
                function,
            });
        }
        _ = write!(out, "\n_ => {} }} }}", &text[body.clone()]);
        let last = line(&out) + 1;
        arms[at..].iter_mut().for_each(|arm| arm.function_lines = first..last);
    }
    out.push_str(&text[done..]);
    if is_root(file) {
        out.push_str(SWITCH);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_one_arm_of_its_own_match() {
        let text = "fn f(a: u8) -> bool {\n    a < 3\n}\nconst fn g() -> u8 { 1 + 1 }\n";
        let mutant = |span, function| Mutant {
            name: "m".to_owned(),
            file: "f.rs".to_owned(),
            span,
            replacement: "<=".to_owned(),
            function: Some(function),
            order: 0,
        };
        let first = mutant(((2, 7), (2, 8)), ((1, 1), (3, 2)));
        let body = body(text, &first).unwrap();
        assert_eq!(&text[body.clone()], "{\n    a < 3\n}");
        let mut arms = Vec::new();
        let out = switched("f.rs", text, &[(body, vec![&first])], &mut arms);
        let wanted = "match crate::mutant_switch::chosen(1) {\n1 => {\n    a  <=  3\n}\n\n_ => {\n    a < 3\n} } }\nconst";
        assert!(out.contains(wanted), "{out}");
        assert_eq!(arms[0].lines, 2..5);
        // The compiler evaluates it.
        assert_eq!(super::body(text, &mutant(((4, 24), (4, 25)), ((4, 1), (4, 29)))), None);
    }
}
