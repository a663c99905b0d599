//! Runs an operation on a model and checks its result.

use crate::command::{Ran, command, holdall};
use crate::matrix::places::{Damage, ModelLocation, Placed, Wanted, below};
use crate::matrix::reading::{npy, safetensors, tensors_of, ztensor};
use crate::matrix::samples::LINES;
use crate::matrix::tensors::{LayoutForm, Tensor, Tensors};
use crate::s3;
use crate::server;
use holdall::operations;
use holdall::stores::StoreOptions;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

/// An operation with its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Inspect,
    Load,
    Verify,
    Stats,
    Diff,
    Extract,
    Rows,
    Component,
    Records,
    Convert,
    ConvertDense,
    ConvertSparse,
    Salvage,
    Scan,
    EditSet,
    EditRename,
    EditRemove,
    Compact,
    Pack,
    Serve,
    View,
    Build,
}

pub(crate) const OPERATIONS: [Operation; 22] = [
    Operation::Inspect,
    Operation::Load,
    Operation::Verify,
    Operation::Stats,
    Operation::Diff,
    Operation::Extract,
    Operation::Rows,
    Operation::Component,
    Operation::Records,
    Operation::Convert,
    Operation::ConvertDense,
    Operation::ConvertSparse,
    Operation::Salvage,
    Operation::Scan,
    Operation::EditSet,
    Operation::EditRename,
    Operation::EditRemove,
    Operation::Compact,
    Operation::Pack,
    Operation::Serve,
    Operation::View,
    Operation::Build,
];

impl Operation {
    /// Returns the operation's row in the table of operations.
    pub(crate) fn row(self) -> operations::Operation {
        match self {
            Operation::Inspect => operations::Operation::Inspect,
            Operation::Load => operations::Operation::Load,
            Operation::Verify => operations::Operation::Verify,
            Operation::Stats => operations::Operation::Stats,
            Operation::Diff => operations::Operation::Diff,
            Operation::Extract | Operation::Rows | Operation::Component => {
                operations::Operation::Extract
            }
            Operation::Records => operations::Operation::Records,
            Operation::Convert | Operation::ConvertDense | Operation::ConvertSparse => {
                operations::Operation::Convert
            }
            Operation::Salvage => operations::Operation::Salvage,
            Operation::Scan => operations::Operation::Scan,
            Operation::EditSet | Operation::EditRename | Operation::EditRemove => {
                operations::Operation::Edit
            }
            Operation::Compact => operations::Operation::Compact,
            Operation::Pack => operations::Operation::Pack,
            Operation::Serve => operations::Operation::Serve,
            Operation::View => operations::Operation::View,
            Operation::Build => operations::Operation::Build,
        }
    }

    /// Returns whether the operation reads every element of the model.
    pub(crate) fn reads_all(self) -> bool {
        matches!(
            self,
            Operation::Load
                | Operation::Convert
                | Operation::ConvertDense
                | Operation::ConvertSparse
                | Operation::Verify
                | Operation::Stats
                | Operation::Diff
        )
    }
}

/// The outcome of a cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Right,
    /// The operation failed with an error of this code and wrote nothing.
    Refused(String),
    /// The operation succeeded and reported that the model is damaged.
    Found,
    Silent(String),
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compares tensors; tensors whose values are unknown must exist but may have any value.
fn same(found: &Tensors, wanted: &BTreeMap<String, Wanted>) -> Outcome {
    let names = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<BTreeSet<_>>();
    let (own, all) = (names(&mut found.keys()), names(&mut wanted.keys()));
    if own != all {
        return Outcome::Silent(format!("the tensors {own:?} instead of {all:?}"));
    }
    for (name, tensor) in found {
        match &wanted[name] {
            Wanted::Tensor(wanted) if wanted != tensor => {
                return Outcome::Silent(format!("{name}: {tensor:?} instead of {wanted:?}"));
            }
            Wanted::Invalid => {
                return Outcome::Silent(format!("{name}: {tensor:?} of an invalid tensor"));
            }
            _ => {}
        }
    }
    Outcome::Right
}

impl Placed {
    fn out(&self, extension: &str) -> String {
        self.folder.path().join(format!("out.{extension}")).to_str().unwrap().to_owned()
    }

    /// Returns the tensor for operations on a single tensor: the damaged one, or else the last.
    fn chosen(&self) -> &str {
        match &self.damage {
            Damage::Bit(tensor, _) if self.expected.contains_key(tensor) => tensor,
            _ => self.expected.keys().next_back().unwrap(),
        }
    }

    fn form(&self, name: &str) -> &LayoutForm {
        &self.stored.iter().find(|stored| stored.name == name).unwrap().form
    }

    /// Returns the role of the component to extract: the damaged one, or else the first.
    fn role(&self) -> String {
        match &self.damage {
            Damage::Bit(_, role) => role.clone(),
            _ => {
                let name = self.chosen();
                let stored = self.stored.iter().find(|stored| stored.name == name).unwrap();
                stored.parts[0].0.clone()
            }
        }
    }

    /// Reads the model's current tensors.
    fn now(&self) -> Result<Tensors, String> {
        let dense = |stored: BTreeMap<String, crate::matrix::tensors::Stored>| -> Option<Tensors> {
            stored.into_iter().map(|(name, s)| Some((name, s.dense()?))).collect()
        };
        if let Some(path) = self.file().filter(|_| self.place == ModelLocation::File) {
            let bytes = std::fs::read(path).unwrap();
            if self.source.to == "safetensors" {
                return Ok(tensors_of(&bytes));
            }
            // A file with digests is opened by the command, which compares them.
            if self.source.to == "ztensor@1.2"
                && !self.is_told
                && let Some(tensors) = ztensor(&bytes).and_then(dense)
            {
                return Ok(tensors);
            }
        }
        let out = self.out("now.safetensors");
        let (model, dense) = (&*self.argument, "--dense");
        let mut args = vec!["convert", model, &out, "-f", "--no-sync", "--drop-attributes", dense];
        let opaque = self.stored.iter().filter(|stored| stored.is_opaque());
        let opaque: Vec<&str> = opaque.map(|stored| stored.name).collect();
        opaque.iter().for_each(|name| args.extend(["-x", name]));
        let ran = self.run(&args);
        match ran.status {
            0 => Ok(tensors_of(&std::fs::read(&out).unwrap())),
            _ => Err(ran.err),
        }
    }

    /// Returns the expected tensors, without those that have no elements.
    fn elements(&self) -> BTreeMap<String, Wanted> {
        let opaque = |name: &String| {
            self.stored.iter().any(|stored| stored.name == name && stored.is_opaque())
        };
        let kept = self.expected.iter().filter(|(name, _)| !opaque(name));
        kept.map(|(name, wanted)| (name.clone(), wanted.clone())).collect()
    }

    /// Runs the operation and returns its outcome.
    pub(crate) fn does(&self, operation: Operation, io: &str) -> Outcome {
        let before = self.snapshot();
        let outcome = match operation {
            Operation::Load => self.loaded(io),
            Operation::Serve => self.served(),
            Operation::View => self.viewed(),
            Operation::Build => self.built(io),
            _ => self.commanded(operation, io),
        };
        let is_changed = || {
            let mut after = self.snapshot();
            ["other.safetensors", "schema.json"]
                .iter()
                .for_each(|name| drop(after.remove(Path::new(&self.out(name)))));
            after != before
        };
        match outcome {
            Outcome::Refused(code) if is_changed() => {
                Outcome::Silent(format!("{code}, and files changed"))
            }
            outcome => outcome,
        }
    }

    fn commanded(&self, operation: Operation, io: &str) -> Outcome {
        let other = self.out("other.safetensors");
        if operation == Operation::Diff {
            let known = self.expected.iter().filter_map(|(name, wanted)| match wanted {
                Wanted::Tensor(tensor) => Some((name.clone(), tensor.clone())),
                _ => None,
            });
            std::fs::write(&other, safetensors(&known.collect())).unwrap();
        }
        let model = &*self.argument;
        let (npy, raw, zt) = (self.out("npy"), self.out("raw"), self.out("zt"));
        let (st, carton) = (self.out("safetensors"), self.out("carton"));
        let (name, role) = (self.chosen(), self.role());
        // The bias, which nearly every model has.
        let bias = self.expected.keys().find(|name| *name == "b.bias");
        let bias = bias.or(self.expected.keys().next()).unwrap();
        let rename = format!("{bias}=z.bias");
        let mut args = match operation {
            Operation::Inspect => vec!["inspect", model],
            Operation::Verify => vec!["verify", model],
            Operation::Stats => vec!["inspect", model, "--stats"],
            Operation::Diff => vec!["diff", model, &other, "--values-only"],
            Operation::Extract if self.form(name) == &LayoutForm::Records => {
                vec!["extract", model, name, "-o", &raw]
            }
            Operation::Extract => vec!["extract", model, name, "-o", &npy],
            Operation::Rows => vec!["extract", model, name, "-o", &npy, "--rows", "1..2"],
            Operation::Component => {
                vec!["extract", model, name, "-o", &raw, "--component", &role]
            }
            Operation::Records => vec!["records", model],
            Operation::Convert => vec!["convert", model, &zt, "--to", "ztensor@1.2"],
            Operation::ConvertDense => {
                vec!["convert", model, &st, "--dense", "--drop-attributes"]
            }
            Operation::ConvertSparse => [
                &["convert", model, &zt, "--to", "ztensor@1.2"][..],
                &["--dense", "--sparse", "coo"],
            ]
            .concat(),
            Operation::Salvage => vec!["salvage", model, &zt, "--to", "ztensor@1.2"],
            Operation::Scan => vec!["scan", model],
            Operation::EditSet => vec!["edit", model, "set", "matrix=yes"],
            Operation::EditRename => vec!["edit", model, "rename", &rename],
            Operation::EditRemove => vec!["edit", model, "remove", bias],
            Operation::Compact => vec!["edit", model, "compact"],
            Operation::Pack => {
                let more = ["--runner", "noop", "--framework-version", "1.0.0"];
                [&["pack", model, "-o", &carton][..], &more].concat()
            }
            Operation::Load | Operation::Serve | Operation::View | Operation::Build => {
                unreachable!()
            }
        };
        if matches!(operation, Operation::Extract | Operation::Rows)
            && !matches!(
                self.form(name),
                LayoutForm::Dense | LayoutForm::Records | LayoutForm::Blob
            )
        {
            args.push("--dense");
        }
        if operation == Operation::Diff {
            let opaque = self.stored.iter().filter(|stored| stored.is_opaque());
            opaque.for_each(|stored| args.extend(["-x", stored.name]));
        }
        if matches!(args[0], "convert" | "extract") {
            args.push("--no-sync");
        }
        args.extend(["--json", "--io", io]);
        let ran = self.run(&args);
        if let Some(refused) = refusal(&ran) {
            return refused;
        }
        self.judge(operation, &ran, bias)
    }

    fn judge(&self, operation: Operation, ran: &Ran, bias: &str) -> Outcome {
        let wrong = |what: &str| Outcome::Silent(format!("{what}: {ran:#?}"));
        let name = self.chosen();
        let stored = self.stored.iter().find(|stored| stored.name == name).unwrap();
        let read = |extension| std::fs::read(self.out(extension)).unwrap();
        match operation {
            Operation::Inspect | Operation::Stats => {
                let found = ran.json();
                let listed = found["tensors"].as_array().unwrap().iter();
                let all: BTreeMap<&str, &Value> =
                    listed.map(|t| (t["name"].as_str().unwrap(), t)).collect();
                if all.len() != self.expected.len() {
                    return wrong("other tensors");
                }
                let mut is_unreadable = false;
                for (name, wanted) in &self.expected {
                    let Some(tensor) = all.get(&**name) else { return wrong(name) };
                    // A tensor that cannot be read is reported.
                    if tensor["fault"].is_object() {
                        is_unreadable = true;
                        continue;
                    }
                    let own = self.stored.iter().find(|stored| stored.name == name).unwrap();
                    if tensor["shape"] != json!(own.shape) {
                        return wrong("another shape");
                    }
                    let stats = &tensor["stats"];
                    if let Wanted::Tensor(wanted) = wanted
                        && operation == Operation::Stats
                        && (stats["min"].as_f64(), stats["max"].as_f64())
                            != (Some(wanted.range().0), Some(wanted.range().1))
                    {
                        return wrong("other statistics");
                    }
                    if *wanted == Wanted::Invalid && operation == Operation::Stats {
                        return wrong("statistics of an invalid tensor");
                    }
                }
                match ran.status {
                    0 if !is_unreadable => Outcome::Right,
                    _ => Outcome::Found,
                }
            }
            Operation::Verify | Operation::Diff | Operation::Scan => match ran.status {
                0 => Outcome::Right,
                _ => Outcome::Found,
            },
            Operation::Extract if matches!(stored.form, LayoutForm::Records | LayoutForm::Blob) => {
                match std::fs::read(self.out("raw")) {
                    Ok(bytes) if bytes == stored.parts[0].1 => Outcome::Right,
                    _ => wrong("other bytes"),
                }
            }
            Operation::Extract | Operation::Rows => {
                let (header, found) = npy(&read("npy"));
                let tensor = match &self.expected[name] {
                    Wanted::Tensor(tensor) => tensor,
                    Wanted::Invalid => return wrong("elements of an invalid tensor"),
                    Wanted::Unknown => return Outcome::Right,
                };
                let (count, wanted) = match operation {
                    Operation::Rows => (1, tensor.rows(1, 2)),
                    _ => (tensor.shape[0], &tensor.bytes[..]),
                };
                match found == wanted && header.contains(&format!("'shape': ({count},")) {
                    true => Outcome::Right,
                    false => wrong("other elements"),
                }
            }
            Operation::Component => {
                let found = read("raw");
                match stored.part(&self.role()) {
                    Some(part) if self.expected[name] != Wanted::Unknown && found != part => {
                        wrong("other bytes")
                    }
                    _ => Outcome::Right,
                }
            }
            Operation::Records => {
                let lines: Vec<Value> =
                    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                self.are_records(&lines)
            }
            Operation::Convert | Operation::ConvertSparse | Operation::Salvage => {
                self.is_written(operation == Operation::Salvage, ran)
            }
            Operation::ConvertDense => same(&tensors_of(&read("safetensors")), &self.expected),
            Operation::EditSet
            | Operation::EditRename
            | Operation::EditRemove
            | Operation::Compact => {
                let mut wanted = self.elements();
                if matches!(operation, Operation::EditRename | Operation::EditRemove) {
                    let own = wanted.remove(bias);
                    if operation == Operation::EditRename {
                        wanted.extend(own.map(|own| ("z.bias".to_owned(), own)));
                    }
                }
                let shown = self.run(&["inspect", &self.argument, "--json"]).json();
                if operation == Operation::EditSet && shown["attributes"]["matrix"] != "yes" {
                    return wrong("the attribute is not there");
                }
                let invalid = self.expected.values().any(|wanted| *wanted == Wanted::Invalid);
                match self.now() {
                    Ok(found) => same(&found, &wanted),
                    // The damage is still reported.
                    Err(_) if self.is_told || invalid => Outcome::Found,
                    Err(e) => Outcome::Silent(format!("it no longer opens: {e}")),
                }
            }
            Operation::Pack => self.is_packed(ran),
            Operation::Load | Operation::Serve | Operation::View | Operation::Build => {
                unreachable!()
            }
        }
    }

    /// Compares `out.zt` with the expected tensors; after a salvage, tensors may be missing.
    fn is_written(&self, may_lack: bool, ran: &Ran) -> Outcome {
        let path = self.out("zt");
        let bytes = std::fs::read(&path).unwrap();
        let mut expected = self.expected.clone();
        let found: Tensors = match ztensor(&bytes) {
            Some(all) => {
                let mut tensors = Tensors::new();
                for (name, found) in all {
                    let own = self.stored.iter().find(|stored| stored.name == name);
                    let is_kept =
                        |(key, value): (&String, &Value)| found.attributes.get(key) == Some(value);
                    if !own.is_none_or(|own| own.attributes.iter().all(is_kept)) {
                        return Outcome::Silent(format!("{:?} of {own:?}", found.attributes));
                    }
                    let tensor = match (found.dense(), own) {
                        (Some(tensor), _) => tensor,
                        (None, Some(own)) if own.is_opaque() => {
                            let is_known =
                                !matches!(&self.damage, Damage::Bit(tensor, _) if *tensor == name);
                            if found.form != own.form
                                || is_known && sorted(&found.parts) != sorted(&own.parts)
                            {
                                return Outcome::Silent(format!("{found:?} instead of {own:?}"));
                            }
                            Tensor::f32(&own.shape, &[])
                        }
                        _ => return Outcome::Silent(format!("{name} is {found:?}")),
                    };
                    tensors.insert(name, tensor);
                }
                tensors
            }
            None => {
                // Compressed files are read by Holdall.
                let back = self.out("back.safetensors");
                holdall(["convert", &path, &back, "--no-sync", "--drop-attributes", "--dense"])
                    .ends_with(0);
                tensors_of(&std::fs::read(&back).unwrap())
            }
        };
        let is_less = may_lack && (found.len() < expected.len() || ran.status != 0);
        if may_lack {
            // A truncated tensor may be salvaged in part, which is reported.
            let is_whole = |name: &String, wanted: &Wanted| match (found.get(name), wanted) {
                (None, _) => false,
                (Some(found), Wanted::Tensor(wanted)) => {
                    ran.status == 0 || found.shape == wanted.shape
                }
                _ => true,
            };
            expected.retain(|name, wanted| is_whole(name, wanted));
        }
        let found: Tensors = match may_lack && ran.status != 0 {
            true => found.into_iter().filter(|(name, _)| expected.contains_key(name)).collect(),
            false => found,
        };
        match same(&found, &expected) {
            Outcome::Right if is_less && ran.status == 0 => {
                Outcome::Silent(format!("tensors are missing: {ran:#?}"))
            }
            Outcome::Right if is_less => Outcome::Found,
            outcome => outcome,
        }
    }

    /// Checks that the package is sound and has the model's files unchanged, and that a model that cannot be read was
    /// reported.
    fn is_packed(&self, ran: &Ran) -> Outcome {
        let package = self.out("carton");
        if holdall(["verify", &package]).status != 0 {
            return Outcome::Found;
        }
        let folder = self.out("unpacked");
        holdall(["unpack", &package, "-o", &folder, "--model"]).ends_with(0);
        let files = |root: &Path| {
            let mut all = BTreeMap::new();
            below(root, &mut all);
            let named = all
                .into_iter()
                .filter_map(|(path, bytes)| Some((path.file_name()?.to_str()?.to_owned(), bytes)));
            named.collect::<BTreeMap<_, _>>()
        };
        let packed = files(Path::new(&folder));
        let own = files(&self.folder.path().join("model"));
        for (name, bytes) in &packed {
            if name.starts_with("model") && own.get(name) != Some(bytes) {
                return Outcome::Silent(format!("{name} is another file in the package"));
            }
        }
        match self.damage {
            Damage::Cut if ran.err.contains("package/unread") => Outcome::Found,
            _ => Outcome::Right,
        }
    }

    fn are_records(&self, lines: &[Value]) -> Outcome {
        let is_known = !matches!(&self.damage, Damage::Bit(tensor, _) if tensor == "set");
        match self.source.kind.records() {
            Some(wanted) if is_known && lines != wanted => {
                Outcome::Silent(format!("{lines:?} instead of {wanted:?}"))
            }
            Some(_) => Outcome::Right,
            None => Outcome::Silent("records of a model that has none".to_owned()),
        }
    }

    /// Loads the model with the library, as users do.
    fn loaded(&self, io: &str) -> Outcome {
        let mut options = holdall::OpenOptions::new()
            .with_policy(server::policy())
            .with_check(holdall::Check::All);
        if io == "read" {
            options = options.with_io(holdall::Io::Read);
        }
        if self.place == ModelLocation::Store {
            let endpoint = self.server.as_ref().unwrap().url("");
            let all = [
                ("endpoint_url", endpoint.as_str()),
                ("region", s3::REGION),
                ("access_key_id", s3::ID),
                ("secret_access_key", s3::SECRET),
            ];
            let stores = all
                .into_iter()
                .try_fold(StoreOptions::new(), |stores, (key, value)| stores.with(key, value));
            options = options.with_store_options(stores.unwrap());
        }
        let file = match self.place {
            ModelLocation::Stdin | ModelLocation::Pipe => {
                options.open_bytes(std::fs::read(self.file().unwrap()).unwrap(), "bytes")
            }
            _ => options.open(&self.argument),
        };
        let load = |file: holdall::File| -> holdall::Result<Tensors> {
            let mut all = Tensors::new();
            for tensor in file.tensors() {
                let own = self.stored.iter().find(|stored| stored.name == tensor.name());
                if own.is_some_and(|own| own.is_opaque()) {
                    for (role, _) in &own.unwrap().parts {
                        tensor.checked().bytes(&holdall::Role::from_name(role))?;
                    }
                    continue;
                }
                let dense = tensor.to_dense()?;
                let (shape, bytes) = (dense.shape().to_vec(), dense.bytes().to_vec());
                let dtype = dense.dtype().as_str().to_uppercase();
                all.insert(tensor.name().to_owned(), Tensor { shape, dtype, bytes });
            }
            Ok(all)
        };
        match file.and_then(load) {
            Ok(found) => same(&found, &self.elements()),
            Err(e) => Outcome::Refused(e.code().to_owned()),
        }
    }

    /// Builds records from the lines.
    fn built(&self, io: &str) -> Outcome {
        let (schema, zt) = (self.out("schema.json"), self.out("zt"));
        let member = json!({"type": "integer", "TypeDef:Int32": true});
        let record = json!({
            "TypeDef:Struct": ["a", "b"], "required": ["a", "b"],
            "properties": {"a": member, "b": member}
        });
        std::fs::write(&schema, record.to_string()).unwrap();
        let model = &*self.argument;
        let args = ["build", "--schema", &schema, "--records", model, "-o", &zt, "--no-sync"];
        let ran = self.run(&[&args[..], &["--json", "--io", io]].concat());
        if let Some(refused) = refusal(&ran) {
            return refused;
        }
        let built = ztensor(&std::fs::read(&zt).unwrap()).unwrap();
        // Each record is at least as long as its members.
        let is_right = |data: &[u8]| {
            let rows: Vec<&[u8]> = data.chunks(data.len() / LINES.len()).collect();
            rows.len() == LINES.len()
                && rows.iter().zip(LINES).all(|(row, (a, b))| {
                    row[..8] == [a.to_le_bytes(), b.to_le_bytes()].concat()
                        && row[8..].iter().all(|byte| *byte == 0)
                })
        };
        match built.len() == 1 && built.values().all(|one| one.part("data").is_some_and(is_right)) {
            true => Outcome::Right,
            false => Outcome::Silent(format!("{built:?}")),
        }
    }

    fn served(&self) -> Outcome {
        let args = ["serve", "--json", "--listen", "127.0.0.1:0", "--only", "http"];
        self.fetched(&args, |address| (address.to_owned(), self.name_of_one()))
    }

    fn viewed(&self) -> Outcome {
        let page = self.folder.path().parent().unwrap().join("holdall-matrix-page");
        std::fs::create_dir_all(&page).unwrap();
        for name in ["open.html", "viewer.css", "viewer.js", "core.js"] {
            std::fs::write(page.join(name), name).unwrap();
        }
        let args = ["view", "--json", "--no-open", "--page", page.to_str().unwrap()];
        self.fetched(&args, |address| {
            let (address, fragment) = address.split_once('#').unwrap();
            let (host, _) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
            let path = fragment.split(['=', '&']).nth(1).unwrap().replace("%25", "%");
            (host.to_owned(), path)
        })
    }

    /// Returns the path at which a server has the file or a file of the folder.
    fn name_of_one(&self) -> String {
        let own = Path::new(&self.argument);
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        match own.is_dir() {
            true => {
                let one = std::fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path()).max();
                format!("/{}/{}", name(own), name(&one.unwrap()))
            }
            false => format!("/{}", name(own)),
        }
    }

    /// Starts a server for the model and requests a file from it.
    fn fetched(&self, args: &[&str], request: impl Fn(&str) -> (String, String)) -> Outcome {
        let mut command = command([args, &[&*self.argument]].concat());
        if self.place == ModelLocation::Stdin || self.place == ModelLocation::Pipe {
            command.stdin(Stdio::from(std::fs::File::open(self.file().unwrap()).unwrap()));
        }
        let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running(started);
        let mut line = String::new();
        BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut text = String::new();
            running.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            let last = text.lines().next_back().unwrap_or_default();
            let all: Value = serde_json::from_str(last).unwrap_or_default();
            return match all["error"]["code"].as_str() {
                Some(code) => Outcome::Refused(code.to_owned()),
                None => Outcome::Silent(format!("an error without a code: {text}")),
            };
        }
        let report: Value = serde_json::from_str(&line).unwrap();
        let (host, path) = request(report["address"].as_str().unwrap());
        let mut stream = std::net::TcpStream::connect(&host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let name = path.rsplit('/').next().unwrap();
        let all = self.snapshot();
        let (_, wanted) = all.iter().find(|(path, _)| path.ends_with(name)).unwrap();
        match answer.ends_with(wanted) && answer.starts_with(b"HTTP/1.1 200") {
            true => Outcome::Right,
            false => {
                let head = String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
                Outcome::Silent(format!("{line}{path} of {host} is {head}"))
            }
        }
    }
}

/// Returns the refusal if a run failed with an error rather than with a finding.
fn refusal(ran: &Ran) -> Option<Outcome> {
    if ran.status == 0 || ran.err.is_empty() {
        return None;
    }
    let last = ran.err.lines().next_back().unwrap_or_default();
    let all: Value = serde_json::from_str(last).unwrap_or_default();
    Some(match all["error"]["code"].as_str() {
        Some(code) => Outcome::Refused(code.to_owned()),
        None => Outcome::Silent(format!("an error without a code: {ran:#?}")),
    })
}

fn sorted(parts: &[(String, Vec<u8>)]) -> BTreeMap<&str, &[u8]> {
    parts.iter().map(|(role, bytes)| (&**role, &**bytes)).collect()
}
