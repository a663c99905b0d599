//! Blocks of files on web servers, cached on disk.
#![cfg(feature = "http")]

use crate::server::{Reply, Server, policy};
use holdall::cache::BlockCache;
use holdall::{File, OpenOptions, Role, WriteOptions, Writer};
use std::path::{Path, PathBuf};

const LEN: usize = 5 << 20;

/// Returns a file of one tensor.
fn file(seed: usize) -> Vec<u8> {
    let options =
        WriteOptions::new().with_format(holdall::formats::by_name("safetensors").unwrap());
    let bytes: Vec<u8> = (0..LEN).map(|i| (((i + seed) * 31) >> 3) as u8).collect();
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    let spec = holdall::TensorSpec::dense("w", holdall::DType::U8, [LEN as u64]);
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.add(spec, &[&bytes]).unwrap();
    writer.finish().unwrap()
}

fn open(server: &Server, cache: BlockCache) -> File {
    let options = OpenOptions::new().with_policy(policy()).with_cache(cache);
    options.open(server.url("/w.safetensors")).unwrap()
}

#[track_caller]
fn check(file: &File, bytes: &[u8]) {
    let whole = file.tensor("w").unwrap().bytes(&Role::Data).unwrap();
    assert!(whole == bytes[bytes.len() - LEN..]);
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let folders = list(folder.join("holdall-blocks")).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = folders.flat_map(list).collect();
    all.sort();
    all
}

#[test]
fn cached_blocks_are_not_fetched_again() {
    let (bytes, dir) = (file(0), tempfile::tempdir().unwrap());
    let server = Server::with_file(bytes.clone());
    check(&open(&server, BlockCache::new(dir.path())), &bytes);
    assert_eq!(kept(dir.path()).len(), bytes.len().div_ceil(512 << 10));
    server.forget();
    check(&open(&server, BlockCache::new(dir.path())), &bytes);
    // Only the version is requested.
    assert_eq!(server.count().0, 1);
    // Parts of blocks are right, too, at every boundary.
    let source = open(&server, BlockCache::new(dir.path()));
    let row = source.tensor("w").unwrap();
    let at = (512u64 << 10) - 77;
    let part = row.bytes_range(&Role::Data, at..at + 600_000).unwrap();
    let start = bytes.len() - LEN + at as usize;
    assert!(part == bytes[start..start + 600_000]);
}

#[test]
fn another_version_is_another_file_and_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..2 {
        let bytes = file(seed);
        let (own, tag) = (bytes.clone(), format!("\"{seed}\""));
        let server = Server::new(move |r| Reply::file(&own, &tag, r));
        check(&open(&server, BlockCache::new(dir.path())), &bytes);
        for (number, path) in kept(dir.path()).into_iter().enumerate() {
            let mut block = std::fs::read(&path).unwrap();
            match number % 3 {
                // Damage as from a power cut or a careless user.
                0 => block[7] ^= 1,
                1 => block.truncate(1000),
                _ => block.push(0),
            }
            std::fs::write(&path, block).unwrap();
        }
        check(&open(&server, BlockCache::new(dir.path())), &bytes);
    }
    // Without a strong validator nothing is cached.
    let (bytes, dir) = (file(0), tempfile::tempdir().unwrap());
    let own = bytes.clone();
    let server = Server::new(move |r| Reply::file(&own, "W/\"1\"", r));
    check(&open(&server, BlockCache::new(dir.path())), &bytes);
    assert!(!dir.path().join("holdall-blocks").exists());
}

#[test]
fn reading_works_if_the_cache_cannot_store() {
    let (bytes, dir) = (file(0), tempfile::tempdir().unwrap());
    let server = Server::with_file(bytes.clone());
    let none = dir.path().join("none");
    std::fs::write(&none, "a file, where a folder should be").unwrap();
    check(&open(&server, BlockCache::new(&none)), &bytes);
    if Path::new("/dev/full").exists() {
        check(&open(&server, BlockCache::new("/dev/full")), &bytes);
    }
}

#[test]
fn the_least_recently_used_blocks_are_evicted_first() {
    let (bytes, dir) = (file(0), tempfile::tempdir().unwrap());
    let server = Server::with_file(bytes.clone());
    check(&open(&server, BlockCache::new(dir.path())), &bytes);
    let old = kept(dir.path());
    // Used in another order than that of their names and of the folder.
    let used = |number: usize| std::time::Duration::from_secs(1 + (number as u64 * 7) % 11);
    for (number, path) in old.iter().enumerate() {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + used(number)).unwrap();
    }
    let other = dir.path().join("holdall-blocks").join("mine");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("1"), vec![0; 1 << 20]).unwrap();
    let server = Server::new({
        let bytes = bytes.clone();
        move |r| Reply::file(&bytes, "\"new\"", r)
    });
    // The first block that a process stores makes it scan the folder.
    check(&open(&server, BlockCache::new(dir.path()).with_size(2 << 20)), &bytes);
    let (left, gone): (Vec<usize>, Vec<usize>) =
        (0..old.len()).partition(|number| old[*number].exists());
    assert!(left.len() < 5 && other.join("1").exists(), "{} of {}", left.len(), old.len());
    assert!(!left.is_empty(), "the most recently used blocks fit");
    let newest_gone = gone.iter().map(|n| used(*n)).max();
    assert!(left.iter().all(|n| Some(used(*n)) > newest_gone), "left {left:?}, removed {gone:?}");
}

#[test]
fn many_readers_share_one_cache() {
    let (bytes, dir) = (file(0), tempfile::tempdir().unwrap());
    let server = Server::with_file(bytes.clone());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let cache = BlockCache::new(dir.path()).with_size(1 << 20);
            scope.spawn(|| check(&open(&server, cache), &bytes));
        }
    });
}

/// Files of killed fetches of a linked file are removed once the file is complete; files being fetched stay.
#[test]
fn leftovers_of_a_linked_file_are_removed() {
    use sha2::Digest as _;
    let dir = tempfile::tempdir().unwrap();
    let store = holdall::carton::links::Store::new(dir.path());
    let sha256: [u8; 32] = sha2::Sha256::digest(b"whole").into();
    let path = store.path(&sha256);
    let folder = path.parent().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(&path, "whole").unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let left = [
        format!(".{name}.part"),
        format!(".{name}.from"),
        format!(".{name}.123.part"),
        format!(".{name}.123.from"),
    ];
    left.iter().for_each(|name| std::fs::write(folder.join(name), "who").unwrap());
    let held = std::fs::File::create(folder.join(format!(".{name}.9.part"))).unwrap();
    held.lock().unwrap();
    assert_eq!(store.find(&sha256).unwrap().as_deref(), Some(&*path));
    let mut there: Vec<_> =
        folder.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, [format!(".{name}.9.part"), name.to_owned()]);
}
