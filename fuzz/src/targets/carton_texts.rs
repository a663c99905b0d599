//! The texts of a package, without hashes that would reject most mutations: their contents are consistent, or an error
//! of the file is returned; texts that are read and written are read back unchanged.

use crate::limits;
use crate::walk::is_of_the_file;
use holdall::Bytes;
use holdall_package::{
    self as carton, Description, FoundPath, Links, Manifest, PackageContents, TensorKind, Texts,
    write,
};

/// Panics if the property does not hold. The texts are separated by NUL: `carton.toml`, `tensor_data/index.toml`,
/// `LINKS`, `MANIFEST`, and lines of paths, optionally with ` -> ` and a target.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(5, |&b| b == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (description, tensors, links, manifest, files) = (part(), part(), part(), part(), part());
    let limits = limits::tight();
    match Manifest::parse(manifest, &limits) {
        Ok(found) => {
            let back = Manifest::parse(write::manifest(&found).as_bytes(), &limits);
            assert_eq!(back.expect("it was written"), found);
            assert!(found.rows.iter().all(|(path, sha256)| found.get(path) == Some(*sha256)));
        }
        Err(e) => is_of_the_file(&e),
    }
    if let Ok(found) = Links::parse(links, &limits) {
        let back = Links::parse(write::links(&found).as_bytes(), &limits);
        let mut own = found.urls.clone();
        own.sort();
        // With escapes it may be longer than the reader's limit.
        assert!(back.is_err() || back.is_ok_and(|back| back.urls == own));
    }
    if let Ok((found, _)) = Description::parse(description, &limits)
        && let Ok((back, warnings)) =
            Description::parse(write::description(&found).as_bytes(), &limits)
    {
        // NaN is not equal to itself.
        assert_eq!(format!("{back:?}"), format!("{found:?}"));
        assert_eq!(warnings, []);
    }
    let files = String::from_utf8_lossy(files);
    let found = files.lines().enumerate().map(|(at, line)| {
        let (path, target) = match line.split_once(" -> ") {
            Some((path, target)) => (path, Some(target.to_owned())),
            None => (line, None),
        };
        FoundPath { path: path.into(), len: 4, target, index: at }
    });
    let texts = Texts {
        description: Some(Bytes::copy_from_slice(description)),
        manifest: None,
        links: Some(Bytes::copy_from_slice(links)).filter(|text| !text.is_empty()),
        tensors: Some(Bytes::copy_from_slice(tensors)).filter(|text| !text.is_empty()),
        are_unpacked: false,
    };
    match PackageContents::new(found.collect(), &texts, &limits) {
        Ok(contents) => whole(&contents),
        Err(e) => is_of_the_file(&e),
    }
}

/// Checks the properties of a package.
fn whole(contents: &PackageContents) {
    assert!(contents.files.windows(2).all(|pair| pair[0].path < pair[1].path));
    for file in &contents.files {
        assert!(carton::paths::check(&file.path).is_ok());
        assert_eq!(contents.file(&file.path), Some(file));
        if let Some(target) = &file.target {
            let end = contents.file(target).expect("a link leads to a file");
            assert!(end.target.is_none(), "it is the last");
            assert_eq!(file.path.split('/').next(), target.split('/').next());
        }
    }
    for row in &contents.tensors {
        match &row.kind {
            TensorKind::Plain { ty, shape, file } => {
                let file = contents.tensor_file(file).expect("its file is there");
                if let (Some(width), Some(len)) = (ty.width(), file.len) {
                    assert_eq!(shape.iter().product::<u64>() * width, len);
                }
            }
            TensorKind::Nested { inner } => {
                assert!(inner.iter().all(|name| contents.tensors.iter().any(|r| r.name == *name)));
            }
        }
    }
}

/// Returns the texts of a package of the corpus.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    use holdall::Window;
    use holdall_core::wire::zip::Directory;
    let window = Window::whole(Bytes::copy_from_slice(file));
    let limits = limits::tight();
    let Ok(directory) = Directory::read(&window, &limits) else { return Vec::new() };
    let text = |name: &str| {
        let entry = directory.get(name)?;
        directory.content(entry, &window, &limits).ok()
    };
    let names =
        [carton::CARTON_TOML, carton::TENSOR_INDEX, carton::LINKS_NAME, carton::MANIFEST_NAME];
    let mut out = Vec::new();
    for name in names {
        out.extend_from_slice(&text(name).unwrap_or_default());
        out.push(0);
    }
    for entry in directory.entries().filter(|entry| !entry.name().ends_with('/')) {
        out.extend_from_slice(entry.name().as_bytes());
        let target = directory.content(entry, &window, &limits);
        if let (holdall_core::wire::zip::EntryKind::Symlink, Ok(target)) = (entry.kind(), target) {
            out.extend_from_slice(b" -> ");
            out.extend_from_slice(&target);
        }
        out.push(b'\n');
    }
    vec![out]
}
