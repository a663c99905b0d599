//! A server that answers like S3, and verifies signatures itself.
#![allow(dead_code)] // Each test file uses its own part.

use crate::server::{Reply, Request, Server};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(crate) const ID: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const REGION: &str = "eu-test-1";
/// The only bucket.
pub(crate) const BUCKET: &str = "models";

/// The contents of the bucket.
#[derive(Default)]
pub(crate) struct Bucket {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// Parts of unfinished uploads.
    pub(crate) uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    pub(crate) aborted: usize,
}

/// Starts a server with one bucket.
pub(crate) fn s3() -> (Server, Arc<Mutex<Bucket>>) {
    let bucket: Arc<Mutex<Bucket>> = Arc::default();
    let own = bucket.clone();
    (Server::new(move |request| answer(request, &mut own.lock().unwrap())), bucket)
}

pub(crate) fn error(status: u16, code: &str) -> Reply {
    let message = "<Message>text &amp; more</Message><StringToSign>secret</StringToSign>";
    Reply::new(
        status,
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code>{message}</Error>"),
    )
}

pub(crate) fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", &hex(&Sha256::digest(bytes))[..32])
}

pub(crate) fn answer(request: &Request, bucket: &mut Bucket) -> Reply {
    if let Some(wrong) = unsigned(request) {
        return wrong;
    }
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let path = decoded(path.trim_start_matches('/'));
    let (name, key) = path.split_once('/').unwrap_or((&path, ""));
    if name != BUCKET {
        return error(404, "NoSuchBucket");
    }
    let of = |name: &str| {
        let mut parts = query.split('&').map(|part| part.split_once('=').unwrap_or((part, "")));
        parts.find(|(own, _)| *own == name).map(|(_, value)| decoded(value))
    };
    let is_new = request.header("if-none-match") == Some("*");
    let key = key.to_owned();
    match (request.method.as_str(), of("uploadId")) {
        ("GET", _) if key.is_empty() => {
            listing(bucket, &of("prefix").unwrap_or_default(), of("continuation-token"))
        }
        ("GET", _) => match bucket.objects.get(&key) {
            None => error(404, "NoSuchKey"),
            Some(bytes) => {
                let tag = etag(bytes);
                match request.header("if-match") {
                    Some(asked) if asked != tag => error(412, "PreconditionFailed"),
                    _ => Reply::file(bytes, &tag, request),
                }
            }
        },
        ("POST", None) if of("uploads").is_some() => {
            let id = format!("up+{}/", bucket.uploads.len() + bucket.aborted);
            bucket.uploads.insert(id.clone(), BTreeMap::new());
            let body = format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            Reply::new(200, body)
        }
        ("PUT", Some(id)) => {
            let number = of("partNumber").unwrap().parse().unwrap();
            let Some(upload) = bucket.uploads.get_mut(&id) else {
                return error(404, "NoSuchUpload");
            };
            upload.insert(number, request.body.clone());
            Reply::new(200, "").with("etag", etag(&request.body))
        }
        ("POST", Some(id)) => {
            let Some(upload) = bucket.uploads.get(&id) else { return error(404, "NoSuchUpload") };
            if is_new && bucket.objects.contains_key(&key) {
                return error(412, "PreconditionFailed");
            }
            let text = String::from_utf8(request.body.clone()).unwrap();
            let small = upload.values().rev().skip(1).any(|part| part.len() < 5 << 20);
            let is_complete = upload.iter().all(|(number, bytes)| {
                let tag = etag(bytes).replace('"', "&quot;");
                text.contains(&format!(
                    "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
                ))
            });
            if !is_complete || small || text.matches("<Part>").count() != upload.len() {
                // Like S3: the status comes before the failure.
                return Reply { status: 200, ..error(400, "InvalidPart") };
            }
            let whole = bucket.uploads.remove(&id).unwrap().into_values().flatten().collect();
            bucket.objects.insert(key, whole);
            Reply::new(
                200,
                "<CompleteMultipartUploadResult><Key>x</Key></CompleteMultipartUploadResult>",
            )
        }
        ("DELETE", Some(id)) => {
            bucket.aborted += usize::from(bucket.uploads.remove(&id).is_some());
            Reply::new(204, "")
        }
        ("DELETE", None) => {
            bucket.objects.remove(&key);
            Reply::new(204, "")
        }
        ("PUT", None) => {
            if is_new && bucket.objects.contains_key(&key) {
                return error(412, "PreconditionFailed");
            }
            bucket.objects.insert(key, request.body.clone());
            Reply::new(200, "").with("etag", etag(&request.body))
        }
        _ => error(405, "MethodNotAllowed"),
    }
}

/// Returns pages of two objects.
fn listing(bucket: &Bucket, prefix: &str, from: Option<String>) -> Reply {
    let below = bucket.objects.iter().filter(|(key, _)| key.starts_with(prefix));
    let mut rest = below.skip_while(|(key, _)| from.as_ref().is_some_and(|from| *key <= from));
    let mut body =
        String::from("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    let mut last = String::new();
    for (key, bytes) in rest.by_ref().take(2) {
        last = key.clone();
        let key = key.replace('&', "&amp;");
        body.push_str(&format!(
            "<Contents><Key>{key}</Key><Size>{}</Size></Contents>",
            bytes.len()
        ));
    }
    if rest.next().is_some() {
        body.push_str(&format!(
            "<NextContinuationToken>{}</NextContinuationToken>",
            last.replace('&', "&amp;")
        ));
    }
    Reply::new(200, body + "</ListBucketResult>")
}

/// Returns the refusal of a request whose signature is wrong.
fn unsigned(request: &Request) -> Option<Reply> {
    let Some(header) = request.header("authorization") else {
        return Some(error(403, "AccessDenied"));
    };
    let part = |name: &str| {
        let (_, rest) = header.split_once(name)?;
        rest.split(',').next()
    };
    let credential: Vec<&str> = part("Credential=")?.split('/').collect();
    let (names, signature) = (part("SignedHeaders=")?, part("Signature=")?);
    let [id, date, region, service, last] = credential[..] else { return Some(error(400, "Bad")) };
    if id != ID {
        return Some(error(403, "InvalidAccessKeyId"));
    }
    if region != REGION {
        let reply = error(400, "AuthorizationHeaderMalformed");
        return Some(reply.with("x-amz-bucket-region", REGION));
    }
    if request.header("x-amz-security-token") == Some("old") {
        return Some(error(400, "ExpiredToken"));
    }
    let payload = request.header("x-amz-content-sha256").unwrap_or_default();
    if payload != hex(&Sha256::digest(&request.body)) {
        return Some(error(400, "XAmzContentSHA256Mismatch"));
    }
    let names: Vec<&str> = names.split(';').collect();
    for (name, _) in &request.headers {
        let counts = name == "host" || name.starts_with("x-amz-") || name.starts_with("if-");
        assert!(!counts || names.contains(&name.as_str()), "{name} is not signed");
    }
    let line = |name: &&str| format!("{name}:{}\n", request.header(name).unwrap_or_default());
    let headers: String = names.iter().map(line).collect();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut query: Vec<String> = query
        .split('&')
        .filter(|p| !p.is_empty())
        .map(|p| if p.contains('=') { p.into() } else { format!("{p}=") })
        .collect();
    query.sort();
    let whole =
        [&request.method, path, &query.join("&"), &headers, &names.join(";"), payload].join("\n");
    let time = request.header("x-amz-date").unwrap_or_default();
    let scope = format!("{date}/{region}/{service}/{last}");
    let text = ["AWS4-HMAC-SHA256", time, &scope, &hex(&Sha256::digest(whole))].join("\n");
    let mut key = hmac(format!("AWS4{SECRET}").as_bytes(), date);
    for part in [region, service, last] {
        key = hmac(&key, part);
    }
    (hex(&hmac(&key, &text)) != signature).then(|| error(403, "SignatureDoesNotMatch"))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut block = key.to_vec();
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(move |b| b ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), text.as_bytes().to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        (out, rest) = match (byte, after) {
            (b'%', [a, b, more @ ..]) => {
                let hex = std::str::from_utf8(&[*a, *b])
                    .map(|h| u8::from_str_radix(h, 16).unwrap())
                    .unwrap();
                out.push(hex);
                (out, more)
            }
            _ => {
                out.push(*byte);
                (out, after)
            }
        };
    }
    String::from_utf8(out).unwrap()
}
