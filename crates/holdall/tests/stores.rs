//! Files in object stores: opened in place, pinned, listed; refused requests, and secrets that are never
//! shown.
#![cfg(feature = "stores")]

use crate::s3::{self, BUCKET, ID, REGION, SECRET, s3};
use crate::server::{self, Reply, Server, policy};
use holdall::stores::StoreOptions;
use holdall::{Error, OpenOptions, Role, WriteOptions, Writer};
use std::sync::Mutex;

/// Returns options that set everything explicitly.
fn full_options(server: &Server) -> StoreOptions {
    let all = [
        ("endpoint_url", server.url("")),
        ("region", REGION.into()),
        ("key", ID.into()),
        ("secret", SECRET.into()),
    ];
    all.into_iter().fold(StoreOptions::isolated(), |o, (name, value)| o.with(name, value).unwrap())
}

fn with(options: StoreOptions) -> OpenOptions {
    OpenOptions::new().with_policy(policy()).with_store_options(options)
}

/// Returns a file of one tensor of `len` bytes.
fn file(name: &str, len: usize) -> Vec<u8> {
    let options =
        WriteOptions::new().with_format(holdall::formats::by_name("safetensors").unwrap());
    let bytes: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut writer = Writer::stream(Vec::new(), &options).unwrap();
    let spec = holdall::TensorSpec::dense(name, holdall::DType::U8, [len as u64]);
    writer.declare(std::slice::from_ref(&spec)).unwrap();
    writer.add(spec, &[&bytes]).unwrap();
    writer.finish().unwrap()
}

#[track_caller]
fn refused(options: &OpenOptions, address: &str) -> Error {
    let e = options.open(address).map(|_| ()).unwrap_err();
    let text = format!("{e} {e:?} {options:?}");
    for secret in [SECRET, "StringToSign", "hunter2"] {
        assert!(!text.contains(secret), "{text}");
    }
    e
}

fn put(bucket: &Mutex<s3::Bucket>, key: &str, bytes: Vec<u8>) {
    bucket.lock().unwrap().objects.insert(key.to_owned(), bytes);
}

#[test]
fn an_object_is_opened_in_place_by_signed_requests() {
    let (server, bucket) = s3();
    let bytes = file("w", 3 << 20);
    put(&bucket, "a b/ü+&=#?%41.safetensors", bytes.clone());
    let address = format!("s3://{BUCKET}/a b/ü+&=#?%41.safetensors");
    let file = with(full_options(&server)).open(&address).unwrap();
    assert_eq!(file.name(), address);
    assert_eq!(
        file.tensor("w").unwrap().bytes(&Role::Data).unwrap(),
        bytes[bytes.len() - (3 << 20)..]
    );
    let seen = server.seen();
    // The first request returns the version, the others request only that version.
    assert!(seen[0].header("if-match").is_none());
    let tag = s3::etag(&bytes);
    assert!(seen.len() > 1 && seen[1..].iter().all(|r| r.header("if-match") == Some(&tag)));
    assert!(seen.iter().all(|r| r.header("authorization").is_some()));
}

#[test]
fn an_object_that_is_replaced_while_it_is_open_is_an_error() {
    let (server, bucket) = s3();
    put(&bucket, "w.safetensors", file("w", 3 << 20));
    let opened = with(full_options(&server)).open(format!("s3://{BUCKET}/w.safetensors")).unwrap();
    put(&bucket, "w.safetensors", file("v", 3 << 20));
    let e = opened.tensor("w").unwrap().bytes(&Role::Data).map(|_| ()).unwrap_err();
    assert_eq!(e.code(), "http/changed", "{e}");
}

#[test]
fn refusals_give_reasons_without_secrets() {
    let (server, bucket) = s3();
    put(&bucket, "w.safetensors", file("w", 100));
    let address = format!("s3://{BUCKET}/w.safetensors");
    let options = |name: &str, value: &str| with(full_options(&server).with(name, value).unwrap());
    for (options, address, code, says) in [
        (options("key", "other"), address.as_str(), "stores/credentials", "`InvalidAccessKeyId`"),
        (options("secret", "hunter2"), &address, "stores/credentials", "`SignatureDoesNotMatch`"),
        (options("token", "old"), &address, "stores/credentials", "`ExpiredToken`"),
        (options("anon", "true"), &address, "stores/denied", "no credentials were found"),
        (options("anon", "false"), "s3://models/none", "stores/no-object", "`NoSuchKey`"),
        (options("anon", "false"), "s3://other/none", "stores/no-bucket", "`NoSuchBucket`"),
        (options("anon", "false"), "s3://models/none/", "stores/no-object", "no objects below"),
        (options("anon", "false"), "s3://id:hunter2@models/x", "stores/address", "bucket"),
        (options("endpoint_url", "http://[::"), &address, "http/url", "endpoint"),
    ] {
        server.forget();
        let e = refused(&options, address);
        assert_eq!(e.code(), code, "{e}");
        assert!(e.message().contains(says), "{e}");
        assert!(e.source_name().is_some_and(|name| name.starts_with("s3://")), "{e}");
        // Requests that would fail again are not retried. (A missing object may be a folder.)
        let asked = server.count().0;
        assert!(asked <= 1 + usize::from(code == "stores/no-object"), "{asked}: {e}");
    }
    // Every request runs under the policy.
    let strict = OpenOptions::new().with_store_options(full_options(&server));
    assert_eq!(refused(&strict, &address).code(), "http/scheme");
}

#[test]
fn an_answer_of_an_error_is_read_with_bounds() {
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bb\">]><Error><Code>&b;</Code></Error>".to_owned();
    for body in [bomb, "<Error>".repeat(100_000), "x".repeat(1 << 20), String::new()] {
        let server = Server::new(move |_| Reply::new(403, body.clone()));
        let e = refused(&with(full_options(&server)), &format!("s3://{BUCKET}/w"));
        assert_eq!(e.code(), "stores/denied", "{e}");
        assert_eq!(e.message(), "S3 answers with status 403");
    }
    let server = Server::new(|r| match r.target.contains("list-type") {
        true => Reply::new(200, "<!DOCTYPE a><ListBucketResult/>"),
        false => s3::error(404, "NoSuchKey"),
    });
    let e = with(full_options(&server)).list(&format!("s3://{BUCKET}/w/")).unwrap_err();
    assert_eq!(e.code(), "stores/answer", "{e}");
}

#[test]
fn the_region_of_a_bucket_is_learnt() {
    let (server, bucket) = s3();
    put(&bucket, "w.safetensors", file("w", 100));
    let options = full_options(&server).with("region", "us-east-1").unwrap();
    let opened = with(options).open(format!("s3://{BUCKET}/w.safetensors")).unwrap();
    assert_eq!(opened.tensor("w").unwrap().bytes(&Role::Data).unwrap().len(), 100);
    assert_eq!(server.count().0, 2);
}

#[test]
fn a_prefix_is_listed_and_opened_as_a_folder() {
    let (server, bucket) = s3();
    for (name, shard) in [("a", "m-1.safetensors"), ("b", "m-2.safetensors")] {
        put(&bucket, &format!("model/{shard}"), file(name, 1000));
    }
    let index = r#"{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}"#;
    put(&bucket, "model/model.safetensors.index.json", index.into());
    put(&bucket, "model/other/x&y.txt", b"x".to_vec());
    put(&bucket, "modelling", b"x".to_vec());
    let options = with(full_options(&server));
    for address in [
        "s3://models/model/",
        "s3://models/model",
        "s3://models/model/model.safetensors.index.json",
    ] {
        let opened = options.open(address).unwrap();
        let names: Vec<String> = opened.tensors().map(|t| t.name().to_owned()).collect();
        assert_eq!(names, ["a", "b"], "{address}");
        assert_eq!(opened.tensor("b").unwrap().bytes(&Role::Data).unwrap().len(), 1000);
    }
    let listed = |address: &str| -> Vec<String> {
        options
            .list(address)
            .unwrap()
            .into_iter()
            .map(|o| format!("{} {}", o.address, o.len))
            .collect()
    };
    let len = file("a", 1000).len();
    let shards = [1, 2].map(|n| format!("s3://models/model/m-{n}.safetensors {len}"));
    assert_eq!(listed("s3://models/model/*.safetensors"), shards);
    assert_eq!(listed("s3://models/model/other/")[0], "s3://models/model/other/x&y.txt 1");
    assert_eq!(listed("s3://models").len(), 5);
    assert_eq!(listed("s3://models/none"), [""; 0]);
    let mut limits = holdall::Limits::default();
    limits.files = 3;
    let e = options.clone().with_limits(limits).list("s3://models").unwrap_err();
    assert_eq!(e.code(), "stores/many", "{e}");
}

#[test]
fn google_is_asked_with_a_token_and_pinned_by_generation() {
    let bytes = file("w", 3 << 20);
    let own = bytes.clone();
    let server = Server::new(move |r| {
        if r.header("authorization") != Some("Bearer hunter2") {
            return s3::error(401, "AuthenticationRequired");
        }
        match r.header("x-goog-if-generation-match").is_none_or(|g| g == "17") {
            true => Reply::file(&own, "\"v\"", r).with("x-goog-generation", 17),
            false => s3::error(412, "PreconditionFailed"),
        }
    });
    let options = StoreOptions::isolated().with("endpoint_url", server.url("")).unwrap();
    let signed = with(options.clone().with("token", "hunter2").unwrap());
    let opened = signed.open("gs://bucket/dir/w.safetensors").unwrap();
    assert_eq!(
        opened.tensor("w").unwrap().bytes(&Role::Data).unwrap(),
        bytes[bytes.len() - (3 << 20)..]
    );
    let seen = server.seen();
    assert_eq!(seen[0].target, "/bucket/dir/w.safetensors");
    assert!(seen[1..].iter().all(|r| r.header("x-goog-if-generation-match") == Some("17")));
    assert_eq!(refused(&with(options), "gs://bucket/w").code(), "stores/denied");
}

#[test]
fn azure_is_asked_with_a_key_or_a_signature_from_the_start() {
    let bytes = file("w", 3 << 20);
    let own = bytes.clone();
    let server = Server::new(move |r| {
        let has_key = r.header("authorization").is_some_and(|h| h.starts_with("SharedKey acc:"));
        if !has_key && !r.target.contains("sig=hunter2") {
            return Reply::new(403, "").with("x-ms-error-code", "AuthenticationFailed");
        }
        if r.header("range").is_some_and(|range| range.starts_with("bytes=-")) {
            return Reply::new(400, "").with("x-ms-error-code", "InvalidHeaderValue");
        }
        Reply::file(&own, "\"0x8\"", r)
    });
    let options = StoreOptions::isolated().with("endpoint_url", server.url("")).unwrap();
    let options = options.with("account_name", "acc").unwrap();
    for (name, value) in [("account_key", "aHVudGVyMg=="), ("sas_token", "?sv=1&sig=hunter2")] {
        let options = with(options.clone().with(name, value).unwrap());
        server.forget();
        let opened = options.open("az://container/w.safetensors").unwrap();
        assert_eq!(
            opened.tensor("w").unwrap().bytes(&Role::Data).unwrap(),
            bytes[bytes.len() - (3 << 20)..]
        );
        let seen = server.seen();
        assert!(seen[1..].iter().all(|r| r.header("if-match") == Some("\"0x8\"")));
        assert!(seen.iter().all(|r| r.target.matches("sig=").count() < 2));
        assert!(!format!("{opened:?}").contains("hunter2"));
    }
    assert_eq!(refused(&with(options), "az://container/w").code(), "stores/denied");
    let e = refused(&with(StoreOptions::isolated()), "az://container/w");
    assert_eq!(e.code(), "stores/option", "{e}");
}

/// Returns a hub with one repository, whose files are on another server, and whose branch advances.
fn hub(commits: [&'static str; 2], bytes: Vec<u8>) -> (Server, Server) {
    let files = Server::new(move |r| match r.header("authorization") {
        Some(_) => Reply::new(500, "the token went elsewhere"),
        None => Reply::file(&bytes, "\"content\"", r),
    });
    let base = files.url("");
    let server = Server::new(move |r| {
        if r.header("authorization") != Some("Bearer hunter2") {
            return Reply::new(401, "").with("x-error-code", "RepoNotFound");
        }
        if r.target.starts_with("/api/models/org/name/tree/") {
            let body = r#"[{"type": "directory", "path": "x"}, {"type": "file", "path": "w.safetensors", "size": 5, "lfs": {"size": 5}}]"#;
            return Reply::new(200, body);
        }
        let Some(rest) = r.target.strip_prefix("/org/name/resolve/") else {
            return Reply::new(404, "");
        };
        let (revision, path) = rest.split_once('/').unwrap();
        let commit = match revision {
            "main" => commits[r.nth.min(1)],
            other => other,
        };
        match path {
            "w.safetensors" => {
                Reply::to(format!("{base}/{commit}?sig=hunter2")).with("x-repo-commit", commit)
            }
            _ => Reply::new(404, "").with("x-error-code", "EntryNotFound"),
        }
    });
    (server, files)
}

#[test]
fn files_of_the_hub_are_of_one_commit_and_the_token_stays_there() {
    const COMMITS: [&str; 2] =
        ["0123456789012345678901234567890123456789", "f123456789012345678901234567890123456789"];
    let (server, files) = hub(COMMITS, file("w", 3 << 20));
    let options = StoreOptions::isolated().with("endpoint_url", server.url("")).unwrap();
    let signed = with(options.clone().with("token", "hunter2").unwrap());
    for address in
        ["hf://org/name/w.safetensors", "hf://org/name", "hf://org/name@main/w.safetensors"]
    {
        let opened = signed.open(address).unwrap();
        assert_eq!(
            opened.tensor("w").unwrap().bytes(&Role::Data).unwrap().len(),
            3 << 20,
            "{address}"
        );
    }
    let asked: Vec<String> = server.seen().into_iter().map(|r| r.target).collect();
    let first = format!("/org/name/resolve/{}/w.safetensors", COMMITS[0]);
    assert_eq!(asked[0], "/org/name/resolve/main/w.safetensors");
    assert!(asked[1..].contains(&first), "{asked:?}");
    assert!(files.seen().iter().all(|r| r.header("authorization").is_none()));
    assert_eq!(refused(&signed, "hf://org/name/none").code(), "stores/no-object");
    let e = refused(&with(options), "hf://org/name/w.safetensors");
    assert_eq!(e.code(), "stores/no-bucket", "{e}");
    assert!(e.hint().unwrap().contains("HF_TOKEN"), "{e}");
}

fn convert(options: &OpenOptions, from: &[u8], to: &str, overwrite: bool) -> holdall::Result<()> {
    let file = options.open_bytes(from.to_vec(), "memory")?;
    let staged = options.stage(to, overwrite)?;
    holdall::convert(&file, staged.path(), &holdall::convert::Convert::new(WriteOptions::new()))?;
    staged.publish()
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let (server, bucket) = s3();
    let options = with(full_options(&server));
    for (len, is_large) in [(1000, false), (20 << 20, true)] {
        let from = file("w", len);
        let to = format!("s3://{BUCKET}/out/{len}.safetensors");
        server.forget();
        convert(&options, &from, &to, false).unwrap();
        let parts = server.seen().iter().filter(|r| r.target.contains("partNumber")).count();
        assert_eq!(parts, if is_large { 2 } else { 0 });
        assert_eq!(bucket.lock().unwrap().objects[&format!("out/{len}.safetensors")], from);
        // Create-only, unless it may be replaced.
        assert_eq!(convert(&options, &from, &to, false).unwrap_err().code(), "write/exists");
        let other = file("v", len);
        convert(&options, &other, &to, true).unwrap();
        assert_eq!(bucket.lock().unwrap().objects[&format!("out/{len}.safetensors")], other);
        // Another writer is faster.
        let to = format!("s3://{BUCKET}/race/{len}.safetensors");
        let staged = options.stage(&to, false).unwrap();
        std::fs::write(staged.path(), &from).unwrap();
        put(&bucket, &format!("race/{len}.safetensors"), b"first".to_vec());
        let path = staged.path().to_owned();
        assert_eq!(staged.publish().unwrap_err().code(), "write/exists");
        assert_eq!(bucket.lock().unwrap().objects[&format!("race/{len}.safetensors")], b"first");
        assert!(!path.exists() && bucket.lock().unwrap().uploads.is_empty());
    }
    let staged = options.stage("s3://models/none.zt", false).unwrap();
    drop(staged);
    for (address, code) in [
        ("s3://models/", "stores/address"),
        ("hf://o/n/w", "stores/read-only"),
        ("s3://other/w", "stores/no-bucket"),
    ] {
        let e = options.stage(address, true).and_then(|staged| {
            std::fs::write(staged.path(), b"x").unwrap();
            staged.publish()
        });
        assert_eq!(e.unwrap_err().code(), code, "{address}");
    }
}

#[test]
fn an_upload_that_fails_is_given_up() {
    let inner: Mutex<s3::Bucket> = Mutex::default();
    let server = Server::new(move |r| match r.target.contains("partNumber=2&") {
        true if r.nth == 0 => s3::error(503, "SlowDown"),
        true => s3::error(403, "AccessDenied"),
        false => s3::answer(r, &mut inner.lock().unwrap()),
    });
    let options = with(full_options(&server));
    let e = convert(&options, &file("w", 20 << 20), "s3://models/w.safetensors", true).unwrap_err();
    assert_eq!(e.code(), "stores/denied", "{e}");
    let seen = server.seen();
    let last = seen.last().unwrap();
    assert!(last.method == "DELETE" && last.target.contains("uploadId="), "{last:?}");
    assert!(seen.iter().all(|r| r.method != "POST" || r.target.ends_with("?uploads")));
}

/// Writes a model of three tensors in as many files.
fn convert_folder(options: &OpenOptions, names: &[&str], overwrite: bool) -> holdall::Result<()> {
    let made = WriteOptions::new().with_format(holdall::formats::by_name("safetensors").unwrap());
    let mut writer = Writer::stream(Vec::new(), &made).unwrap();
    let specs: Vec<_> =
        names.iter().map(|n| holdall::TensorSpec::dense(*n, holdall::DType::U8, [100])).collect();
    writer.declare(&specs).unwrap();
    for (spec, name) in specs.into_iter().zip(names) {
        writer.add(spec, &[&name.repeat(100).as_bytes()[..100]]).unwrap();
    }
    let file = options.open_bytes(writer.finish().unwrap(), "memory")?;
    let staged = options.stage_folder(&format!("s3://{BUCKET}/out"), overwrite)?;
    let convert = holdall::Convert::new(WriteOptions::new()).with_max_shard_len(100);
    holdall::convert(&file, staged.path(), &convert)?;
    staged.publish()
}

/// Returns the methods and names of requests that change objects.
fn changes(server: &Server) -> Vec<String> {
    let all = server.seen().into_iter().filter(|r| r.method != "GET");
    let name = |r: &server::Request| r.target.rsplit('/').next().unwrap().to_owned();
    all.map(|r| format!("{} {}", r.method, name(&r))).collect()
}

#[test]
fn a_sharded_model_appears_with_its_index() {
    let (server, bucket) = s3();
    let options = with(full_options(&server));
    let index = "model.safetensors.index.json";
    let shard = |n: u32, of: u32| format!("model-{n:05}-of-{of:05}.safetensors");
    let put_all = |of: u32| (1..=of).map(|n| format!("PUT {}", shard(n, of))).collect::<Vec<_>>();
    convert_folder(&options, &["a", "b", "c"], false).unwrap();
    assert_eq!(changes(&server), [put_all(3), vec![format!("PUT {index}")]].concat());
    let opened = options.open(format!("s3://{BUCKET}/out/")).unwrap();
    assert_eq!(opened.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(opened.tensor("b").unwrap().bytes(&Role::Data).unwrap(), [b'b'; 100][..]);

    // It is not replaced without a request; otherwise the index is removed first, and the rest of the old
    // model last. Other objects stay.
    server.forget();
    let e = convert_folder(&options, &["a", "d"], false).unwrap_err();
    assert_eq!((e.code(), e.source_name()), ("shards/target", Some("s3://models/out/")), "{e}");
    assert!(changes(&server).is_empty());
    put(&bucket, "out/README.md", b"#".to_vec());
    put(&bucket, "out/below/model-00001-of-00009.safetensors", b"#".to_vec());
    convert_folder(&options, &["a", "d"], true).unwrap();
    let removed = |n| format!("DELETE {}", shard(n, 3));
    let first = vec![format!("DELETE {index}"), removed(1)];
    let then = vec![format!("PUT {index}"), removed(2), removed(3)];
    assert_eq!(changes(&server), [first, put_all(2), then].concat());
    let keys: Vec<String> = bucket.lock().unwrap().objects.keys().cloned().collect();
    let left =
        ["below/model-00001-of-00009.safetensors", "README.md", &shard(1, 2), &shard(2, 2), index];
    let mut left: Vec<String> = left.iter().map(|name| format!("out/{name}")).collect();
    left.sort();
    assert_eq!(keys, left);
}

#[test]
fn a_failed_folder_upload_leaves_nothing() {
    for refused in ["model-00001-of-00003", "model-00003-of-00003", "index.json"] {
        let inner: std::sync::Arc<Mutex<s3::Bucket>> = std::sync::Arc::default();
        let own = inner.clone();
        let server = Server::new(move |r| match r.method == "PUT" && r.target.contains(refused) {
            true => s3::error(403, "AccessDenied"),
            false => s3::answer(r, &mut own.lock().unwrap()),
        });
        let options = with(full_options(&server));
        let e = convert_folder(&options, &["a", "b", "c"], false).unwrap_err();
        assert_eq!((e.code(), e.source_name()), ("stores/denied", Some("s3://models/out/")), "{e}");
        assert!(inner.lock().unwrap().objects.is_empty(), "{refused}");
    }
}

#[test]
fn azure_and_google_are_written_in_blocks_and_sessions() {
    let bytes = file("w", 20 << 20);
    let whole: std::sync::Arc<Mutex<Vec<u8>>> = Default::default();
    let blocks: Mutex<std::collections::BTreeMap<String, Vec<u8>>> = Mutex::default();
    let own = whole.clone();
    let azure = Server::new(move |r| {
        let query = r.target.split_once('?').map_or("", |(_, query)| query);
        match (r.method.as_str(), query) {
            ("PUT", "comp=blocklist") => {
                let text = String::from_utf8(r.body.clone()).unwrap();
                let ids = text.split("<Latest>").skip(1).map(|t| t.split('<').next().unwrap());
                let blocks = blocks.lock().unwrap();
                *own.lock().unwrap() =
                    ids.flat_map(|id| blocks[&id.replace('=', "%3D")].clone()).collect();
                assert_eq!(r.header("if-none-match"), Some("*"));
                Reply::new(201, "")
            }
            ("PUT", query) => {
                let id = query.split("blockid=").nth(1).unwrap().to_owned();
                blocks.lock().unwrap().insert(id, r.body.clone());
                Reply::new(201, "")
            }
            _ => Reply::new(404, "").with("x-ms-error-code", "BlobNotFound"),
        }
    });
    let options = StoreOptions::isolated().with("endpoint_url", azure.url("")).unwrap();
    let options =
        options.with("account_name", "acc").unwrap().with("account_key", "aHVudGVyMg==").unwrap();
    convert(&with(options), &bytes, "az://c/w.safetensors", false).unwrap();
    assert!(*whole.lock().unwrap() == bytes);

    let own = whole.clone();
    let google = Server::new(move |r| match r.method.as_str() {
        "POST" => {
            assert_eq!(r.header("x-goog-if-generation-match"), Some("0"));
            own.lock().unwrap().clear();
            Reply::new(201, "").with("location", "/b/w.safetensors?upload_id=1")
        }
        "PUT" => {
            let mut whole = own.lock().unwrap();
            let (range, len) = r.header("content-range").unwrap().split_once('/').unwrap();
            assert_eq!(
                range.strip_prefix("bytes ").unwrap().split('-').next().unwrap(),
                whole.len().to_string()
            );
            whole.extend_from_slice(&r.body);
            Reply::new(if whole.len() < len.parse().unwrap() { 308 } else { 200 }, "")
        }
        _ => s3::error(404, "NoSuchKey"),
    });
    let options = StoreOptions::isolated().with("endpoint_url", google.url("")).unwrap();
    convert(&with(options.with("token", "t").unwrap()), &bytes, "gs://b/w.safetensors", false)
        .unwrap();
    assert!(*whole.lock().unwrap() == bytes);
}
