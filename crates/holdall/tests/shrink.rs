//! Packages whose files are stored elsewhere: taken out, fetched, brought back.
#![cfg(all(feature = "http", feature = "carton"))]

use crate::server::{Reply, Server};
use holdall::carton::links::{LinkFetcher, Shrink, Store, embed_links, hex, missing};
use holdall::carton::{Description, FileContent, FileLocation, Links, Package, Packer, Packing};
use holdall::http::{Hosts, Policy, Schemes, Timeouts};
use holdall::{Error, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Returns the tests' policy: http, loopback, and no waiting.
fn policy() -> Policy {
    let mut timeouts = Timeouts::default();
    timeouts.pause = Duration::from_millis(1);
    Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo).with_timeouts(timeouts)
}

/// Packs two large files, one of them twice, and small ones.
fn pack(to: &Path) -> Package {
    let mut description = Description::default();
    description.runner.name = "noop".into();
    description.runner.framework_version = "=1.0.0".into();
    description.runner.compat_version = 1;
    let large: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let texts: Vec<u8> = b"so it goes\n".repeat(200_000);
    Packer::new(description)
        .with_file("model/weights.bin", FileContent::Bytes(large.clone().into()))
        .with_file("model/copy of it.bin", FileContent::Bytes(large.into()))
        .with_file("misc/texts.txt", FileContent::Bytes(texts.into()))
        .with_file("model/small", FileContent::Bytes("small".into()))
        .write(to, false)
        .unwrap();
    Package::open(to).unwrap()
}

/// Returns a server of the files in a folder.
fn serve(folder: &Path) -> Server {
    let folder = folder.to_owned();
    Server::new(move |r| {
        let name = r.target.rsplit('/').next().unwrap();
        match std::fs::read(folder.join(name)) {
            Ok(bytes) => Reply::file(&bytes, &format!("\"{name}\""), r),
            Err(_) => Reply::new(404, ""),
        }
    })
}

fn contents(package: &Package) -> Vec<(String, Vec<u8>)> {
    let files = package.files().iter().filter(|f| f.path != "LINKS");
    files.map(|f| (f.path.clone(), package.read(&f.path).unwrap().to_vec())).collect()
}

#[test]
fn a_package_is_shrunk_saved_fetched_and_made_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let package = pack(&at("a.carton"));
    let server = serve(&at("files"));
    let mut shrink = Shrink::new(&package, &policy());
    let found: Vec<String> = shrink.candidates(100_000).map(|f| f.path.clone()).collect();
    assert_eq!(found, ["misc/texts.txt", "model/copy of it.bin", "model/weights.bin"]);
    for path in &found {
        shrink = shrink.with_template(path, &server.url("/{sha256}")).unwrap();
    }
    assert_eq!(shrink.linked().len(), 3);
    shrink.save(at("files"), &holdall::Work::new()).unwrap();
    // Two files, named by their hashes.
    let mut saved: Vec<String> = std::fs::read_dir(at("files"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    saved.sort();
    let mut hashes: Vec<String> = shrink.linked().iter().map(|l| hex(&l.sha256)).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(saved, hashes);
    let report = shrink.packer().write(at("b.carton"), false).unwrap();
    assert_eq!((Some(report.hash), report.linked), (package.hash(), 3));
    assert!(report.len < 10_000, "{report:?}");

    let small = Package::open(at("b.carton")).unwrap();
    assert_eq!(small.hash(), package.hash());
    assert_eq!(small.file("model/weights.bin").unwrap().location, FileLocation::Links);
    assert_eq!(small.read("model/small").unwrap(), "small");
    assert_eq!(small.read("model/weights.bin").unwrap_err().code(), "package/not-here");
    assert_eq!(missing(&small).len(), 3);
    assert!(server.seen().is_empty());

    let fetcher = LinkFetcher::new(Store::new(at("cache")), &policy());
    let linked = small.clone().with_fetcher(Arc::new(fetcher.clone()));
    assert_eq!(contents(&linked), contents(&package));
    assert_eq!(server.seen().len(), 2);

    // Everything is cached now.
    drop(server);
    let offline = LinkFetcher::offline(Store::new(at("cache")));
    let report = embed_links(&small, &offline, at("c.carton"), false).unwrap();
    assert_eq!((Some(report.hash), report.linked), (package.hash(), 0));
    let again = std::fs::read(at("c.carton")).unwrap();
    assert!(again == std::fs::read(at("a.carton")).unwrap(), "not the same bytes again");
    let empty = LinkFetcher::offline(Store::new(at("other")));
    let e = embed_links(&small, &empty, at("d.carton"), false).unwrap_err();
    assert_eq!(e.code(), "links/offline");
    assert!(!at("d.carton").exists());
}

#[test]
fn a_remote_package_with_links_is_read_in_few_requests() {
    let dir = tempfile::tempdir().unwrap();
    let package = pack(&dir.path().join("a.carton"));
    let server = serve(dir.path());
    let shrink = Shrink::new(&package, &policy());
    let shrink = shrink.with_template("model/weights.bin", &server.url("/{sha256}")).unwrap();
    shrink.save(dir.path(), &holdall::Work::new()).unwrap();
    let report = shrink.packer().write(dir.path().join("b.carton"), false).unwrap();

    let options = OpenOptions::new().with_policy(policy());
    let fetcher = LinkFetcher::new(Store::new(dir.path().join("cache")), &policy());
    let remote = Package::open_with(server.url("/b.carton"), &options).unwrap();
    let remote = remote.with_fetcher(Arc::new(fetcher));
    assert_eq!(remote.hash(), package.hash());
    // Only the ends of the zip are read, not the text of 2.2 MB.
    assert!(server.count().0 <= 2, "{:?}", server.seen());
    assert!((server.count().1 as u64) < report.len, "{:?}", server.count());
    remote.read("model/small").unwrap();
    assert_eq!(remote.read("model/weights.bin").unwrap().len(), 800_000);
    assert!(server.count().0 <= 4, "{:?}", server.seen());
}

#[test]
fn addresses_are_checked_before_writing() {
    let dir = tempfile::tempdir().unwrap();
    let package = pack(&dir.path().join("a.carton"));
    let fails = |path: &str, url: &str| -> Error {
        Shrink::new(&package, &Policy::new()).with_link(path, url).unwrap_err()
    };
    let good = "https://host.example/w";
    for (path, url, code) in [
        ("model/none", good, "package/no-file"),
        ("MANIFEST", good, "links/cannot-link"),
        ("model/weights.bin", "http://host.example/w", "http/scheme"),
        ("model/weights.bin", "file:///w", "http/scheme"),
        ("model/weights.bin", "w.bin", "http/url"),
        ("model/weights.bin", "https://me:secret@host.example/w", "links/address"),
        ("model/weights.bin", "https://host.example/{name}", "links/address"),
    ] {
        let e = fails(path, url);
        assert_eq!(e.code(), code, "{path} {url}: {e}");
        assert!(!e.to_string().contains("secret"), "{e}");
    }
    let shrink = Shrink::new(&package, &Policy::new());
    let e = shrink.clone().with_template("model/small", "https://host.example/w").unwrap_err();
    assert_eq!(e.code(), "links/address");
    let shrink = shrink.with_template("model/copy of it.bin", "https://h.example/{path}").unwrap();
    // Its copy is linked too.
    let linked = shrink.linked();
    assert_eq!(linked.len(), 2);
    assert_eq!(linked[0].urls, ["https://h.example/model/copy%20of%20it.bin"]);
    // A second address comes after the first, and the same one is not added twice.
    let shrink = shrink.with_link("model/weights.bin", good).unwrap();
    let shrink = shrink.with_link("model/weights.bin", good).unwrap();
    assert_eq!(shrink.linked()[1].urls.len(), 2);
    let rows = vec![([1; 32], vec!["file:///x".into()]), (linked[0].sha256, vec![good.into()])];
    let links = Links { urls: rows };
    let shrink = Shrink::new(&package, &Policy::new()).with_links(&links).unwrap();
    assert_eq!(shrink.linked().len(), 2);
    let report = shrink.packer().write(dir.path().join("b.carton"), false).unwrap();
    assert_eq!((report.linked, Some(report.hash)), (2, package.hash()));
    // Linked files stay linked when more are.
    let small = Package::open(dir.path().join("b.carton")).unwrap();
    let shrink = Shrink::new(&small, &Policy::new()).with_link("misc/texts.txt", good).unwrap();
    let report = shrink.packer().write(dir.path().join("c.carton"), false).unwrap();
    assert_eq!((report.linked, Some(report.hash)), (3, package.hash()));
}

#[test]
fn wrong_content_leaves_no_package() {
    let dir = tempfile::tempdir().unwrap();
    let package = pack(&dir.path().join("a.carton"));
    let server = Server::new(|_| Reply::new(200, "something else"));
    let shrink = Shrink::new(&package, &policy());
    let shrink = shrink.with_link("model/weights.bin", &server.url("/w")).unwrap();
    shrink.packer().write(dir.path().join("b.carton"), false).unwrap();
    let small = Package::open(dir.path().join("b.carton")).unwrap();
    let fetcher = LinkFetcher::new(Store::new(dir.path().join("cache")), &policy());
    let e = embed_links(&small, &fetcher, dir.path().join("c.carton"), false).unwrap_err();
    assert_eq!(e.code(), "links/digest");
    assert!(!dir.path().join("c.carton").exists());
}

#[test]
fn compressed_entries_stay_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let package = pack(&at("a.carton"));
    let server = serve(&at("files"));
    for (n, packing) in [Packing::Deflate, Packing::Zstd].into_iter().enumerate() {
        let name = |what: &str| at(&format!("{what}{n}.carton"));
        let report = Packer::from_package(&package)
            .with_packing(packing)
            .write(name("packed"), false)
            .unwrap();
        assert!(report.len < 1_200_000, "{report:?}");
        let packed = Package::open(name("packed")).unwrap();
        let shrink = Shrink::new(&packed, &policy());
        let shrink = shrink.with_template("model/weights.bin", &server.url("/{sha256}")).unwrap();
        shrink.save(at("files"), &holdall::Work::new()).unwrap();
        shrink.packer().write(name("small"), false).unwrap();
        let small = Package::open(name("small")).unwrap();
        assert_eq!(small.hash(), package.hash());
        let texts = package.read("misc/texts.txt").unwrap();
        assert_eq!(small.read("misc/texts.txt").unwrap(), texts);
        assert!(name("small").metadata().unwrap().len() < texts.len() as u64 / 10);
        let fetcher = LinkFetcher::new(Store::new(at("cache")), &policy());
        let report = embed_links(&small, &fetcher, name("whole"), false).unwrap();
        assert_eq!(Some(report.hash), package.hash());
        assert_eq!(contents(&Package::open(name("whole")).unwrap()), contents(&package));
    }
}
