//! `shrink`, `fetch`, and files on web servers.
#![cfg(all(feature = "http", feature = "carton"))]

use crate::command::{self, Ran, accept, command};
use crate::server::{Reply, Server};
use holdall::carton::{Description, FileContent, Package, Packer};
use std::path::{Path, PathBuf};

/// A folder with a package, a cache, and a server's files.
struct Fixture {
    dir: tempfile::TempDir,
    server: Server,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut description = Description::default();
        description.runner.name = "noop".into();
        description.runner.framework_version = "=1.0.0".into();
        description.runner.compat_version = 1;
        let large: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_le_bytes()).collect();
        Packer::new(description)
            .with_file("model/weights.bin", FileContent::Bytes(large.into()))
            .with_file("model/small", FileContent::Bytes("small".into()))
            .write(dir.path().join("a.carton"), false)
            .unwrap();
        let folder = dir.path().to_owned();
        let server = Server::new(move |r| {
            let path = r.target.split('?').next().unwrap();
            match std::fs::read(folder.join(path.trim_start_matches('/'))) {
                Ok(bytes) => Reply::file(&bytes, "\"v1\"", r),
                Err(_) => Reply::new(404, ""),
            }
        });
        Fixture { dir, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the command in this folder, with its own cache.
    fn holdall(&self, args: &[&str]) -> Ran {
        let mut command = command(args);
        command.current_dir(self.dir.path()).env("HOLDALL_CACHE", self.path("cache"));
        command::ran(command.output().unwrap())
    }

    /// The same, with requests to this server allowed.
    fn allowed(&self, args: &[&str]) -> Ran {
        let mut all = args.to_vec();
        all.extend(["--allow", "http", "--allow", "private-hosts"]);
        self.holdall(&all)
    }
}

fn same(a: &Path, b: &Path) -> bool {
    std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
}

#[test]
fn a_package_goes_to_a_server_and_comes_back() {
    let place = Fixture::new();
    let template = place.server.url("/files/{sha256}");
    let args = ["shrink", "a.carton", "-o", "b.carton", "--base-url", &template];
    let e = place.holdall(&[&args[..], &["--json"]].concat()).ends_with(2).error();
    assert_eq!(e["code"], "http/scheme");
    let args = [&args[..], &["--save-files", "files", "--allow", "http"]].concat();
    let ran = place.holdall(&args).ends_with(0);
    let hash = Package::open(place.path("a.carton")).unwrap().hash().unwrap();
    let hash = holdall::carton::links::hex(&hash);
    assert!(ran.err.contains("1 file linked;") && ran.err.contains(&hash), "{ran:?}");
    // The target exists now.
    assert_eq!(place.holdall(&args).ends_with(2).out, "");

    // Private hosts are refused by default, and offline there are no requests.
    let e = place.holdall(&["fetch", "b.carton", "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "http/scheme");
    let e = place.holdall(&["fetch", "b.carton", "--allow", "http", "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "http/private-host");
    let e = place.allowed(&["fetch", "b.carton", "--offline", "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "links/offline");
    assert!(place.server.seen().is_empty());

    let report = place.allowed(&["fetch", "b.carton", "--json"]).ends_with(0).json();
    assert_eq!(report["fetched"], 1);
    assert_eq!(report["linked"][0]["path"], "model/weights.bin");
    assert_eq!(place.server.count(), (1, 400_000));
    // From the cache, without network access.
    let ran = place.holdall(&["fetch", "b.carton", "-o", "c.carton", "--offline"]).ends_with(0);
    assert!(ran.err.contains("0 fetched now") && ran.err.contains(&hash), "{ran:?}");
    assert!(same(&place.path("a.carton"), &place.path("c.carton")));
    assert_eq!(place.server.seen().len(), 1);
    let ran = place.holdall(&["fetch", "a.carton"]).ends_with(0);
    assert!(ran.err.contains("everything is in the package"), "{ran:?}");
}

#[test]
fn links_are_chosen_one_by_one_or_from_a_file() {
    let place = Fixture::new();
    let link = "model/small=https://host.example/s?a=b";
    let report = place
        .holdall(&["shrink", "a.carton", "-o", "b.carton", "--link", link, "--json"])
        .ends_with(0)
        .json();
    assert_eq!(report["linked"][0]["urls"][0], "https://host.example/s?a=b");
    let sha256 = report["linked"][0]["sha256"].as_str().unwrap();
    let text = format!("version = 1\n[urls]\n{sha256} = [\"https://other.example/s\"]\n");
    std::fs::write(place.path("more"), text).unwrap();
    let report = place
        .holdall(&["shrink", "b.carton", "-o", "c.carton", "--links", "more", "--json"])
        .ends_with(0)
        .json();
    assert_eq!(report["linked"][0]["urls"].as_array().unwrap().len(), 2);
    for (args, code) in [
        (&["--link", "model/none=https://h.example/x"][..], "package/no-file"),
        (&["--link", "MANIFEST=https://h.example/x"], "links/cannot-link"),
        (&["--link", "model/small=https://me:secret@h.example/x"], "links/address"),
        (&["--base-url", "https://h.example/x"], "links/address"),
        (&["--base-url", "https://h.example/{path}", "-s", "misc/*"], "usage/arguments"),
        (&[], "usage/arguments"),
    ] {
        let ran =
            place.holdall(&[&["shrink", "a.carton", "-o", "d.carton", "--json"], args].concat());
        assert_eq!(ran.error()["code"], code, "{args:?}");
        assert!(!ran.err.contains("secret"), "{ran:?}");
    }
    assert!(!place.path("d.carton").exists());
}

#[test]
fn files_on_the_web_are_files() {
    let place = Fixture::new();
    std::fs::copy(accept("../../examples/tiny.zt"), place.path("tiny.zt")).unwrap();
    let url = place.server.url("/tiny.zt?sig=secret");
    let with_name = url.replace("http://", "http://me:secret@");
    let here = place.holdall(&["inspect", "tiny.zt", "--json"]).ends_with(0).json();
    let there = place.allowed(&["inspect", &with_name, "--json"]).ends_with(0);
    assert!(!there.out.contains("secret"), "{there:?}");
    assert_eq!(there.json()["tensors"], here["tensors"]);
    // One request for the end and one for the start, at the same time.
    assert_eq!(place.server.seen().len(), 2);
    place.allowed(&["verify", &url]).ends_with(0);
    place.allowed(&["diff", &url, "tiny.zt"]).ends_with(0);
    place.allowed(&["convert", &url, "b.zt"]).ends_with(0);
    let e = place.holdall(&["inspect", &url, "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "http/scheme");
    assert_eq!(e["source"], place.server.url("/tiny.zt?…"));
    let none = place.server.url("/none").replace("http://", "http://me:secret@");
    let ran = place.allowed(&["inspect", &none]).ends_with(3);
    assert!(ran.err.contains("[http/status]") && !ran.err.contains("secret"), "{ran:?}");
}

#[test]
fn linked_files_are_read_where_they_are_wanted() {
    let place = Fixture::new();
    let tiny = std::fs::read(accept("../../examples/tiny.zt")).unwrap();
    let package = Package::open(place.path("a.carton")).unwrap();
    Packer::from_package(&package)
        .with_file("model/tiny.zt", FileContent::Bytes(tiny.into()))
        .write(place.path("t.carton"), false)
        .unwrap();
    let template = place.server.url("/files/{sha256}");
    let args =
        ["shrink", "t.carton", "-o", "s.carton", "--base-url", &template, "--at-least", "100"];
    place.allowed(&[&args[..], &["--save-files", "files"]].concat()).ends_with(0);
    // Inspecting the package fetches nothing and needs no cache.
    let mut looking = command(["inspect", "s.carton"]);
    looking.current_dir(place.dir.path()).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    command::ran(looking.env_remove("HOLDALL_CACHE").output().unwrap()).ends_with(0);
    assert!(place.server.seen().is_empty());
    let e = place.holdall(&["inspect", "s.carton!/model/tiny.zt", "--json"]).ends_with(2).error();
    assert_eq!(e["code"], "http/scheme");
    let there =
        place.allowed(&["inspect", "s.carton!/model/tiny.zt", "--json"]).ends_with(0).json();
    let here = place.holdall(&["inspect", "t.carton!/model/tiny.zt", "--json"]).ends_with(0).json();
    assert_eq!(
        there["tensors"].as_array().unwrap().len(),
        here["tensors"].as_array().unwrap().len()
    );
    place.allowed(&["unpack", "s.carton", "-o", "folder"]).ends_with(0);
    assert_eq!(place.server.seen().len(), 2);
    let whole = std::fs::read(place.path("folder/model/weights.bin")).unwrap();
    assert_eq!(whole, package.read("model/weights.bin").unwrap());
}

#[test]
fn damaged_files_are_named() {
    let place = Fixture::new();
    place.holdall(&["unpack", "a.carton", "-o", "folder"]).ends_with(0);
    let damage = |from: &str, to: &str| {
        let mut bytes = std::fs::read(place.path(from)).unwrap();
        let number = 50_000u32.to_le_bytes();
        let at = bytes.chunks(4).position(|four| four == number).unwrap();
        bytes[4 * at] ^= 1;
        std::fs::write(place.path(to), bytes).unwrap();
    };
    damage("a.carton", "bad.carton");
    damage("folder/model/weights.bin", "folder/model/weights.bin");
    for (package, code, says) in [
        ("bad.carton", "zip/crc32", "the CRC-32 of the bytes is 0x"),
        ("folder", "carton/hash", "`model/weights.bin` has "),
    ] {
        let link = ["--link", "model/weights.bin=https://host.example/w"];
        let save = ["shrink", package, "-o", "out", "--save-files", "files", "--json"];
        let save = [&save[..], &link].concat();
        let fetch = ["fetch", package, "-o", "out", "--json"];
        let unpack = ["unpack", package, "-o", "out", "--json"];
        for args in [&save[..], &fetch, &unpack] {
            let e = place.holdall(args).ends_with(1).error();
            assert_eq!(
                (&e["code"], &e["source"]),
                (&code.into(), &format!("{package}!/model/weights.bin").into())
            );
            assert!(e["message"].as_str().unwrap().starts_with(says), "{e}");
            assert!(!place.path("out").exists());
        }
    }
}

/// If a server redirects to an invalid address, that is the server's fault and not the user's.
#[test]
fn a_redirect_to_nothing_is_the_servers_fault() {
    let place = Fixture::new();
    for (to, says) in [
        ("file:///etc/passwd", "redirects to `file:///etc/passwd`: the scheme is `file`"),
        ("http://[::bad", "redirects to `http://[::bad`: "),
    ] {
        let server = Server::new(move |_| Reply::to(to));
        let url = server.url("/x.zt");
        let e = place.allowed(&["inspect", &url, "--json"]).ends_with(1).error();
        assert_eq!(e["code"], "http/redirect-target");
        assert!(e["message"].as_str().unwrap().contains(says), "{e}");
    }
}
