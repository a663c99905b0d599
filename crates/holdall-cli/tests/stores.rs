//! Files in object stores, with credentials from the environment and from profiles.
#![cfg(feature = "stores")]

use crate::command::{self, Ran, accept, command};
use crate::s3::{self, BUCKET, ID, SECRET, s3};
use crate::server::Server;

/// Runs the command with these environment variables and without the user's own.
fn holdall(server: &Server, env: &[(&str, &str)], args: &[&str]) -> Ran {
    let endpoint = format!("endpoint_url={}", server.url(""));
    let mut all = args.to_vec();
    all.extend(["--store", &endpoint, "--allow", "http", "--allow", "private-hosts"]);
    let mut command = command(&all);
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_REGION",
    ] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(env.iter().copied());
    let ran = command::ran(command.output().unwrap());
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{text}");
    }
    ran
}

fn bucket() -> Server {
    let (server, bucket) = s3();
    let bytes = std::fs::read(accept("safetensors/made-dtypes.safetensors")).unwrap();
    bucket.lock().unwrap().objects.insert("m/w.safetensors".to_owned(), bytes);
    server
}

const REGION: (&str, &str) = ("AWS_DEFAULT_REGION", s3::REGION);

#[test]
fn keys_come_from_the_environment_and_from_profiles() {
    let server = bucket();
    let address = format!("s3://{BUCKET}/m/w.safetensors");
    let keys = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET), REGION];
    let ran = holdall(&server, &keys, &["inspect", "--json", &address]).ends_with(0);
    assert_eq!(ran.json()["format"], "safetensors");
    holdall(&server, &keys, &["verify", &format!("s3://{BUCKET}/m")]).ends_with(0);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("credentials");
    std::fs::write(
        &file,
        format!("[work]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n"),
    )
    .unwrap();
    let files = [("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()), REGION];
    holdall(&server, &files, &["inspect", &address, "--store", "profile=work"]).ends_with(0);
    let e = holdall(&server, &files, &["inspect", &address, "--json", "--store", "profile=play"])
        .ends_with(2)
        .error();
    assert_eq!(e["code"], "stores/profile");
}

#[test]
fn refusals_give_advice_without_secrets() {
    let server = bucket();
    let address = format!("s3://{BUCKET}/m/w.safetensors");
    let e = holdall(&server, &[], &["inspect", "--json", &address]).ends_with(3).error();
    assert_eq!(e["code"], "stores/denied");
    assert!(e["hint"].as_str().unwrap().contains("AWS_ACCESS_KEY_ID"), "{e}");
    let wrong = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", "hunter2"), REGION];
    let e = holdall(&server, &wrong, &["inspect", "--json", &address]).ends_with(2).error();
    assert_eq!(e["code"], "stores/credentials");
    // Secrets are not accepted as arguments.
    let ran = holdall(&server, &[], &["inspect", &address, "--store", "secret=x"]).ends_with(2);
    assert!(ran.err.contains("profiles"), "{}", ran.err);
}

#[test]
fn commands_write_to_a_store_whole_or_not_at_all() {
    let server = bucket();
    let keys = [("AWS_ACCESS_KEY_ID", ID), ("AWS_SECRET_ACCESS_KEY", SECRET), REGION];
    let dir = tempfile::tempdir().unwrap();
    let model = accept("safetensors/made-dtypes.safetensors");
    let to = format!("s3://{BUCKET}/out/w.zt");
    let convert = ["convert", "--json", &model, &to];
    let out = holdall(&server, &keys, &convert).ends_with(0).json();
    assert!(out.to_string().contains(&to), "{out}");
    holdall(&server, &keys, &["diff", &model, &to]).ends_with(0);
    let e = holdall(&server, &keys, &convert).ends_with(2).error();
    assert_eq!(e["code"], "write/exists");
    holdall(&server, &keys, &[&convert[..], &["--force"]].concat()).ends_with(0);
    let rows = dir.path().join("rows.jsonl");
    std::fs::write(&rows, "{\"a\": 1}\n{\"a\": 2}\n").unwrap();
    let table = format!("s3://{BUCKET}/out/t.mt");
    let (text, schema) = (rows.to_str().unwrap(), dir.path().join("schema.json"));
    let schema = schema.to_str().unwrap();
    holdall(&server, &keys, &["schema", "infer", text, "-o", schema]).ends_with(0);
    let build = ["build", "--schema", schema, "--records", text, "-o", &table];
    holdall(&server, &keys, &build).ends_with(0);
    let shown = holdall(&server, &keys, &["records", &table]).ends_with(0);
    assert!(shown.out.contains('2'), "{}", shown.out);
    // Commands that cannot write to a store say so.
    let npy = format!("s3://{BUCKET}/out/w.npy");
    let e = holdall(&server, &keys, &["extract", "--json", &model, "w", "-o", &npy]).error();
    assert_eq!(e["code"], "write/address", "{e}");
}
