//! Packages that have their texts, tensors and weights only in `LINKS`: what runs, tests, verifies, converts and
//! unpacks them sees the files behind the links, from a server and, after `fetch`, without one.
#![cfg(all(feature = "http", feature = "carton"))]

use crate::command::{self, Ran, command};
use crate::server::{Reply, Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const TEXT: &str = r#"
spec_version = 1
required_platforms = []
[[input]]
name = "x"
dtype = "float32"
shape = [4]
[[input]]
name = "s"
dtype = "string"
shape = [2]
[[output]]
name = "x"
dtype = "float32"
shape = [4]
[[output]]
name = "s"
dtype = "string"
shape = [2]
[[self_test]]
name = "same"
inputs = { x = "@tensor_data/p", s = "@tensor_data/s" }
expected_out = { x = "@tensor_data/p", s = "@tensor_data/s" }
[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

const INDEX: &str = r#"
[[tensor]]
name = "p"
dtype = "float32"
shape = [4]
file = "p.bin"
[[tensor]]
name = "s"
dtype = "string"
shape = [2]
file = "s.toml"
"#;

/// A folder with a package, a cache, and the files of a server.
struct Fixture {
    dir: tempfile::TempDir,
    server: Server,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = dir.path().join("folder").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write("carton.toml", TEXT.as_bytes());
        write("model/w.bin", b"weights");
        write("tensor_data/index.toml", INDEX.as_bytes());
        let p: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        write("tensor_data/p.bin", &p);
        write("tensor_data/s.toml", b"data = [\"a\", \"b\"]\n");
        let folder = dir.path().to_owned();
        let server = Server::new(move |r| {
            match std::fs::read(folder.join(r.target.trim_start_matches('/'))) {
                Ok(bytes) => Reply::file(&bytes, "\"v1\"", r),
                Err(_) => Reply::new(404, ""),
            }
        });
        Fixture { dir, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ran(&self, cache: &str, args: &[&str]) -> Ran {
        let mut command = command(args);
        command.current_dir(self.dir.path()).env("HOLDALL_CACHE", self.path(cache));
        command::ran(command.output().unwrap())
    }

    /// With access to the server, and a cache of that name.
    fn online(&self, cache: &str, args: &[&str]) -> Ran {
        self.ran(cache, &[args, &["--allow", "http", "--allow", "private-hosts"]].concat())
    }

    /// Without any access, and with the same cache.
    fn offline(&self, cache: &str, args: &[&str]) -> Ran {
        self.ran(cache, &[args, &["--offline"]].concat())
    }
}

const LINKED: [&[&str]; 6] = [
    &["tensor_data/p.bin"],
    &["tensor_data/s.toml"],
    &["tensor_data/p.bin", "tensor_data/s.toml", "model/w.bin"],
    &["tensor_data/index.toml"],
    &["carton.toml"],
    &[
        "carton.toml",
        "model/w.bin",
        "tensor_data/index.toml",
        "tensor_data/p.bin",
        "tensor_data/s.toml",
    ],
];

/// What commands that read all of a package find in it; they write into a folder of that name.
fn all_of(run: &dyn Fn(&[&str]) -> Ran, package: &str, out: &str, dir: &Path) -> Vec<Value> {
    std::fs::create_dir_all(dir.join(out)).unwrap();
    let to = |name: &str| format!("{out}/{name}");
    let json = |args: &[&str]| run(args).ends_with(0).json();
    let mut found = Vec::new();
    let tested = json(&["test", package, "--json"]);
    found.push(json!([tested["passed"], tested["failed"]]));
    let given = ["run", package, "--json", "-i", "x=[5, 6, 7, 8]", "-i", "s=[\"c\", \"d\"]"];
    found.push(json(&given));
    let verified = json(&["verify", package, "--json"]);
    let keys = ["verdict", "hashed", "linked", "tensors", "hash", "finding_count"];
    found.push(keys.map(|key| verified[key].clone()).into_iter().collect());
    let strict = json(&["verify", package, "--strict", "-s", "*", "--json"]);
    found.push(strict["verdict"].clone());
    json(&["convert", package, &to("all.zt"), "--json", "-s", "p"]);
    let converted = json(&["inspect", &to("all.zt"), "--json", "--digests"]);
    found.push(converted["tensors"].clone());
    run(&["extract", package, "p", "-o", &to("p.npy")]).ends_with(0);
    found.push(json!(std::fs::read(dir.join(to("p.npy"))).unwrap()));
    json(&["unpack", package, "-o", &to("folder"), "--json"]);
    found.push(json!(std::fs::read(dir.join(to("folder/model/w.bin"))).unwrap()));
    found
}

#[test]
fn links_resolve_for_every_command() {
    let place = Fixture::new();
    let whole = place.online("none", &["pack", "folder", "-o", "whole.carton"]);
    whole.ends_with(0);
    let expected =
        all_of(&|args| place.offline("none", args), "whole.carton", "expected", place.dir.path());
    assert_eq!(expected[0], json!([1, 0]), "{expected:?}");
    for (at, links) in LINKED.into_iter().enumerate() {
        let package = format!("linked-{at}.carton");
        // The files that were packed are those of the server.
        let link = |path: &&str| format!("{path}={}", place.server.url(&format!("/folder/{path}")));
        let links_to: Vec<String> = links.iter().map(link).collect();
        let mut args = vec!["shrink", "whole.carton", "-o", &package];
        links_to.iter().for_each(|link| args.extend(["--link", link]));
        place.online("none", &args).ends_with(0);
        let cache = format!("cache-{at}");
        // The package cannot run without the missing files.
        let e = place.offline(&cache, &["test", &package, "--json"]);
        assert_ne!(e.status, 0, "{links:?}");
        let error = match e.out.is_empty() {
            true => e.error(),
            false => e.json()["tests"][0]["error"].clone(),
        };
        let code = error["code"].as_str().unwrap_or_else(|| panic!("{links:?}: {e:?}"));
        assert!(["package/not-here", "links/offline"].contains(&code), "{links:?}: {code}");
        // From the server.
        let now = format!("now-{at}");
        let online = |args: &[&str]| place.online(&now, args);
        let found = all_of(&online, &package, &format!("online-{at}"), place.dir.path());
        assert_eq!(found, expected, "{links:?}");
        // After `fetch`, without one.
        place.online(&cache, &["fetch", &package]).ends_with(0);
        let seen = place.server.seen().len();
        let offline = |args: &[&str]| place.offline(&cache, args);
        let found = all_of(&offline, &package, &format!("offline-{at}"), place.dir.path());
        assert_eq!(found, expected, "{links:?}");
        assert_eq!(place.server.seen().len(), seen, "{links:?}");
    }
}
