//! The places that a model can be at, and the ways it can be damaged.

use crate::archives::tar;
use crate::command::{Ran, command, holdall, holdall_with, ran};
use crate::matrix::samples::{Kind, Source};
use crate::matrix::tensors::{Stored, Tensor};
use crate::s3::{self, Bucket};
use crate::server::{Reply, Server};
use holdall::operations::LocationKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// The location of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ModelLocation {
    File,
    /// A folder that contains only the file.
    Folder,
    /// An index of shards, and the folder of that index.
    Index,
    IndexFolder,
    /// The second shard.
    Shard,
    Tar,
    /// An archive inside an archive.
    Nested,
    Package,
    /// Standard input from a file.
    Stdin,
    /// Standard input from a pipe.
    Pipe,
    Address,
    /// A server that does not support range requests.
    Whole,
    /// The address of an index.
    AddressIndex,
    Store,
}

pub(crate) const PLACES: [ModelLocation; 14] = [
    ModelLocation::File,
    ModelLocation::Folder,
    ModelLocation::Index,
    ModelLocation::IndexFolder,
    ModelLocation::Shard,
    ModelLocation::Tar,
    ModelLocation::Nested,
    ModelLocation::Package,
    ModelLocation::Stdin,
    ModelLocation::Pipe,
    ModelLocation::Address,
    ModelLocation::Whole,
    ModelLocation::AddressIndex,
    ModelLocation::Store,
];

impl ModelLocation {
    /// Returns the corresponding column of the table of operations.
    pub(crate) fn kind(self) -> LocationKind {
        match self {
            ModelLocation::File => LocationKind::File,
            ModelLocation::Folder | ModelLocation::IndexFolder => LocationKind::Folder,
            ModelLocation::Index => LocationKind::Index,
            ModelLocation::Shard => LocationKind::Shard,
            ModelLocation::Tar | ModelLocation::Nested => LocationKind::ArchiveMember,
            ModelLocation::Package => LocationKind::PackageMember,
            ModelLocation::Stdin | ModelLocation::Pipe => LocationKind::StandardInput,
            ModelLocation::Address | ModelLocation::Whole | ModelLocation::AddressIndex => {
                LocationKind::Address
            }
            ModelLocation::Store => LocationKind::Store,
        }
    }

    pub(crate) fn is_sharded(self) -> bool {
        matches!(
            self,
            ModelLocation::Index
                | ModelLocation::IndexFolder
                | ModelLocation::Shard
                | ModelLocation::AddressIndex
        )
    }
}

/// The damage to a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Damage {
    None,
    /// One bit is flipped, in the component with this tensor name and role.
    Bit(String, String),
    /// The file, or the last of several files, is truncated.
    Cut,
    /// The first shard is missing.
    Part,
}

/// An undamaged model, which is written once and then copied.
pub(crate) struct Sound {
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
    /// The position of each component.
    components: Vec<Found>,
}

#[derive(Debug, Clone)]
struct Found {
    file: usize,
    tensor: String,
    role: String,
    offset: usize,
    len: usize,
    is_raw: bool,
    /// Whether the component has its own digest, rather than one that also covers other bytes.
    has_digest: bool,
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Returns the offset of `part` in `bytes` if it occurs exactly once.
fn only_place(bytes: &[u8], part: &[u8]) -> Option<usize> {
    let mut all = bytes.windows(part.len().max(1)).enumerate().filter(|(_, own)| *own == part);
    let (at, _) = all.next()?;
    all.next().is_none().then_some(at)
}

impl Sound {
    pub(crate) fn new(source: &Source, is_sharded: bool) -> Sound {
        let folder = tempfile::tempdir().unwrap();
        let files = source.write(folder.path(), is_sharded);
        let stored = source.kind.tensors();
        let mut components = Vec::new();
        for (file, path) in files.iter().enumerate() {
            if path.extension().is_some_and(|e| e == "json") {
                continue;
            }
            let bytes = std::fs::read(path).unwrap();
            // Components that are in other files are skipped.
            let shown = holdall(["inspect", "--json", &text(path)]);
            if shown.status != 0 {
                continue;
            }
            for tensor in shown.json()["tensors"].as_array().unwrap() {
                let name = tensor["name"].as_str().unwrap();
                let own = stored.iter().find(|stored| stored.name == name).unwrap();
                for (role, component) in tensor["components"].as_object().unwrap() {
                    let part = own.part(role).filter(|part| !part.is_empty());
                    let number = |key: &str| component[key].as_u64().map(|n| n as usize);
                    let stated = number("offset").zip(number("stored_len"));
                    let is_at = |(offset, len): &(usize, usize)| {
                        part.is_some_and(|part| bytes.get(*offset..offset + len) == Some(part))
                    };
                    let known = part.and_then(|part| Some((only_place(&bytes, part)?, part.len())));
                    let known = known.or(stated.filter(is_at));
                    let Some((offset, len)) = known.or(stated).filter(|(_, len)| *len > 0) else {
                        continue;
                    };
                    // Each part of a split file lists the tensors of all parts.
                    let is_here = offset + len <= bytes.len();
                    let is_double = known.is_none() && source.has_shards() && is_sharded;
                    if is_here && !is_double {
                        let (tensor, role) = (name.to_owned(), role.clone());
                        let is_raw = known.is_some();
                        let has_digest = !component["digest"].is_null();
                        let found = Found { file, tensor, role, offset, len, is_raw, has_digest };
                        components.push(found);
                    }
                }
            }
        }
        Sound { folder, files, components }
    }

    /// Returns the damages that are possible for the model.
    pub(crate) fn damages(&self, place: ModelLocation) -> Vec<Damage> {
        let mut all = vec![Damage::None];
        for found in &self.components {
            all.push(Damage::Bit(found.tensor.clone(), found.role.clone()));
        }
        all.dedup();
        all.push(Damage::Cut);
        if matches!(
            place,
            ModelLocation::Index | ModelLocation::IndexFolder | ModelLocation::AddressIndex
        ) {
            all.push(Damage::Part);
        }
        all
    }

    /// Returns the numbers of the files that are shards, without the index.
    fn shards(&self) -> Vec<usize> {
        let has = |at: &usize| self.components.iter().any(|found| found.file == *at);
        (0..self.files.len()).filter(has).collect()
    }
}

/// The expected result of reading a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    Tensor(Tensor),
    /// An error: the components do not form a tensor.
    Invalid,
    /// Any value: the bytes are compressed or are not elements.
    Unknown,
}

/// A model in a temporary folder, ready for an operation.
pub(crate) struct Placed {
    pub(crate) source: Source,
    pub(crate) place: ModelLocation,
    pub(crate) damage: Damage,
    pub(crate) folder: tempfile::TempDir,
    /// The command's argument for the model.
    pub(crate) argument: String,
    stdin: Option<PathBuf>,
    pub(crate) server: Option<Server>,
    bucket: Option<Arc<Mutex<Bucket>>>,
    /// The stored tensors, with the flipped bit; if the place is a shard, only those of that shard.
    pub(crate) stored: Vec<Stored>,
    pub(crate) expected: BTreeMap<String, Wanted>,
    /// Whether a digest reveals the flipped bit.
    pub(crate) is_told: bool,
    /// Whether that digest also covers other bytes, so that it is compared only when a model is written or verified.
    pub(crate) is_covered: bool,
}

impl Placed {
    /// Copies the model to the place. Returns `None` if the combination is impossible.
    pub(crate) fn new(
        source: &Source,
        sound: &Sound,
        place: ModelLocation,
        damage: &Damage,
    ) -> Option<Placed> {
        let folder = tempfile::tempdir().unwrap();
        let from = sound.folder.path();
        let mut files = Vec::new();
        for path in &sound.files {
            let to = folder.path().join(path.strip_prefix(from).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(path, &to).unwrap();
            files.push(to);
        }
        let shards = sound.shards();
        let mut stored = source.kind.tensors();
        let (mut unknown, mut is_covered) = (None, false);
        match damage {
            Damage::None => {}
            Damage::Bit(tensor, role) => {
                let found =
                    sound.components.iter().find(|f| f.tensor == *tensor && f.role == *role);
                let found = found.unwrap();
                is_covered = !found.has_digest;
                let mut bytes = std::fs::read(&files[found.file]).unwrap();
                // The lowest bit of an element in the middle, so that the value changes only slightly.
                let at = found.len / 2 / 8 * 8;
                bytes[found.offset + at] ^= 1;
                std::fs::write(&files[found.file], bytes).unwrap();
                let own = stored.iter_mut().find(|stored| stored.name == tensor).unwrap();
                match own.parts.iter_mut().find(|(own, _)| own == role && found.is_raw) {
                    Some((_, bytes)) => bytes[at] ^= 1,
                    None => unknown = Some(tensor.clone()),
                }
            }
            Damage::Cut => {
                let path = &files[shards.last().copied().unwrap_or(0)];
                let bytes = std::fs::read(path).unwrap();
                std::fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
            }
            Damage::Part => std::fs::remove_file(&files[shards[0]]).unwrap(),
        }
        let is_alone = place == ModelLocation::Shard;
        if is_alone {
            // Keep only the tensors of this shard.
            let own = |stored: &Stored| {
                let mut all = sound.components.iter();
                all.any(|found| found.file == shards[1] && found.tensor == stored.name)
            };
            stored.retain(own);
            if let Damage::Bit(tensor, _) = damage
                && !stored.iter().any(|stored| stored.name == tensor)
            {
                return None;
            }
        }
        let wanted = |stored: &Stored| match stored.dense() {
            _ if unknown.as_deref() == Some(stored.name) => Wanted::Unknown,
            Some(tensor) => Wanted::Tensor(tensor),
            None if stored.is_opaque() => Wanted::Unknown,
            None => Wanted::Invalid,
        };
        if source.kind == Kind::Fortran && place == ModelLocation::Folder {
            // In a folder of arrays, tensors are named after the files.
            stored.iter_mut().for_each(|stored| stored.name = "model");
        }
        let expected = stored.iter().map(|s| (s.name.to_owned(), wanted(s))).collect();
        let file = files[0].clone();
        let home = folder.path().join("model");
        let name = format!("model.{}", source.extension);
        let (mut stdin, mut server, mut bucket) = (None, None, None);
        let index = match source.to {
            // The first part of a split file serves as its index.
            "gguf" => files.first(),
            "ztensor2" => files.iter().find(|p| !shards.iter().any(|at| files[*at] == **p)),
            _ => files.iter().find(|path| path.extension().is_some_and(|e| e == "json")),
        };
        let argument = match place {
            ModelLocation::File => text(&file),
            ModelLocation::Folder => text(&home),
            ModelLocation::Index => text(index?),
            ModelLocation::IndexFolder => text(&home.join("shards")),
            ModelLocation::Shard => text(&files[shards[1]]),
            ModelLocation::Tar | ModelLocation::Nested => {
                let mut path = folder.path().join("models.tar");
                let name = format!("in/{name}");
                let mut archive = tar(&[(&name, std::fs::read(&file).unwrap())]);
                let mut inside = format!("!/{name}");
                if place == ModelLocation::Nested {
                    path = folder.path().join("outer.tar");
                    archive = tar(&[("some/models.tar", archive)]);
                    inside = format!("!/some/models.tar{inside}");
                }
                std::fs::write(&path, archive).unwrap();
                format!("{}{inside}", text(&path))
            }
            ModelLocation::Package => {
                let path = folder.path().join("model.carton");
                let args = ["pack", &text(&file), "-o", &text(&path), "--runner", "noop"];
                let packed = holdall(args.into_iter().chain(["--framework-version", "1.0.0"]));
                if packed.status != 0 {
                    assert_ne!(*damage, Damage::None, "{packed:#?}");
                    return None;
                }
                format!("{}!/model/{name}", text(&path))
            }
            ModelLocation::Stdin | ModelLocation::Pipe => {
                stdin = Some(file);
                "-".to_owned()
            }
            ModelLocation::Address | ModelLocation::Whole | ModelLocation::AddressIndex => {
                let root = folder.path().to_owned();
                let has_ranges = place != ModelLocation::Whole;
                let serving = Server::new(move |request| {
                    match std::fs::read(root.join(request.target.trim_start_matches('/'))) {
                        Ok(bytes) if has_ranges => Reply::file(&bytes, "\"v1\"", request),
                        Ok(bytes) => Reply::new(200, bytes).with("etag", "\"v1\""),
                        Err(_) => Reply::new(404, "not here"),
                    }
                });
                let path = if place == ModelLocation::AddressIndex { index? } else { &file };
                let path = path.strip_prefix(folder.path()).unwrap();
                let address = serving.url(&format!("/{}", text(path)));
                server = Some(serving);
                address
            }
            ModelLocation::Store => {
                let (serving, objects) = s3::s3();
                let bytes = std::fs::read(&file).unwrap();
                objects.lock().unwrap().objects.insert(format!("m/{name}"), bytes);
                (server, bucket) = (Some(serving), Some(objects));
                format!("s3://{}/m/{name}", s3::BUCKET)
            }
        };
        Some(Placed {
            source: *source,
            place,
            damage: damage.clone(),
            folder,
            argument,
            stdin,
            server,
            bucket,
            stored,
            expected,
            is_told: source.digests && matches!(damage, Damage::Bit(..)),
            is_covered,
        })
    }

    /// Runs the command on the model.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        if let Some(server) = &self.server {
            args.extend(["--allow", "http", "--allow", "private-hosts"].map(str::to_owned));
            if self.bucket.is_some() {
                args.extend(["--store".to_owned(), format!("endpoint_url={}", server.url(""))]);
            }
        }
        if self.place == ModelLocation::Pipe {
            return holdall_with(args, &std::fs::read(self.stdin.as_ref().unwrap()).unwrap());
        }
        let mut command = command(args);
        if let Some(stdin) = &self.stdin {
            command.stdin(Stdio::from(std::fs::File::open(stdin).unwrap()));
        }
        if self.bucket.is_some() {
            command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
            command.env_remove("AWS_SESSION_TOKEN").env_remove("AWS_PROFILE");
            command.env("AWS_ACCESS_KEY_ID", s3::ID).env("AWS_SECRET_ACCESS_KEY", s3::SECRET);
            command.env("AWS_DEFAULT_REGION", s3::REGION).env("AWS_REGION", s3::REGION);
        }
        ran(command.output().unwrap())
    }

    /// Returns every file in the folder and every object in the store, with its bytes.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        below(self.folder.path(), &mut all);
        if let Some(bucket) = &self.bucket {
            let bucket = bucket.lock().unwrap();
            all.extend(bucket.objects.iter().map(|(key, bytes)| (key.into(), bytes.clone())));
        }
        all
    }

    /// Returns the path of the file if the model is a single file on the disk.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let name = format!("model/model.{}", self.source.extension);
        Some(self.folder.path().join(name)).filter(|path| path.exists())
    }
}

/// Reads every file in a folder, recursively.
pub(crate) fn below(folder: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => below(&path, all),
            false => drop(all.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
}
