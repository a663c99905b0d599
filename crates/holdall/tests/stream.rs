//! Files that are served over QUIC, opened in place.
#![cfg(feature = "quic")]

mod served;

use holdall::File;
use served::Served;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/accept")
}

/// Every file below a folder, by its name there.
fn files(folder: &Path, name: &str, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        match entry.path().is_dir() {
            true => files(&entry.path(), &name, all),
            false => all.push(name),
        }
    }
}

/// All that a file says and has, as text.
fn contents(file: &File) -> Vec<String> {
    let mut all = vec![format!("{} {} {:?}", file.format(), file.version(), file.attributes())];
    for tensor in file.tensors() {
        let info = tensor.info();
        all.push(format!("{} {:?} {:?}", info.name(), info.shape(), info.attributes()));
        for component in info.components() {
            let bytes = tensor.bytes(&component.role).map(|b| b.to_vec());
            all.push(format!("{:?}", bytes.map_err(|e| e.code())));
        }
    }
    all
}

#[test]
fn every_file_of_every_format_is_the_same_over_quic() {
    let mut names = Vec::new();
    files(&corpus(), "accept", &mut names);
    let served = Served::new([corpus()]);
    let (mut opened, mut unasked) = (0, 0);
    for name in names.iter().filter(|name| !name.ends_with(".json")) {
        let local = holdall::open(corpus().join(name.strip_prefix("accept/").unwrap()));
        let Ok(local) = local else { continue };
        let before = served.seen.lock().unwrap().len();
        let remote = served.open(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let asked = served.seen.lock().unwrap().len() - before;
        unasked += usize::from(asked <= 1);
        assert_eq!(contents(&remote), contents(&local), "{name}");
        opened += 1;
    }
    assert!(opened > 100, "{opened}");
    // The index was enough to open all but models of several files.
    assert!(opened - unasked < 8, "{unasked} of {opened}");
}
