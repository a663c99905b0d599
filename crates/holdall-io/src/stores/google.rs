//! Google Cloud Storage, accessed by its XML API.

use super::credentials::{fetch_credentials, machine, post_form};
use super::listing::{self, Page};
use super::options::{StoreOptions, endpoint};
use super::refusals::refusal;
use super::rules::{ANSWER, CREDENTIALS, PROFILE};
use super::signing::encoded;
use super::upload::Upload;
use super::{Address, Expiring, Held, Store, fields};
use crate::http::{Answer, Client, FailedTry, HttpRequest, Policy, Service, Url};
use holdall_core::Result;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A bucket on Google Cloud Storage.
pub(super) struct Google {
    bucket: String,
    options: StoreOptions,
    policy: Policy,
    endpoint: Url,
    token: Held<Option<String>>,
}

/// The hint on how to give credentials.
const CREDENTIALS_HINT: &str = "set `GOOGLE_APPLICATION_CREDENTIALS` to a file of credentials, or run `gcloud auth application-default login`";
/// The URL of the token service, if the credentials file has none.
const TOKENS: &str = "https://oauth2.googleapis.com/token";
/// The scope of requested tokens.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

impl Google {
    pub(super) fn new(
        address: &Address,
        options: &StoreOptions,
        policy: &Policy,
    ) -> Result<Google> {
        let url = options.find("endpoint_url", &["STORAGE_EMULATOR_HOST"]);
        let url = url.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
        Ok(Google {
            bucket: address.bucket.clone(),
            options: options.clone(),
            policy: policy.clone(),
            endpoint: endpoint(&url)?,
            token: Held::default(),
        })
    }

    fn at(&self, path: &str, query: &str) -> Url {
        let (url, bucket) = (&self.endpoint, &self.bucket);
        url.with_target(format!("{}/{bucket}{path}{query}", url.path()))
    }

    /// Returns a token from the options or the environment, for a credentials file, or of the machine.
    fn find(&self) -> Result<Expiring<Option<String>>> {
        let options = &self.options;
        let is_emulator = options.env("STORAGE_EMULATOR_HOST").is_some();
        let token = options.get("token");
        if options.is_anonymous() || token == Some("anon") || is_emulator && token.is_none() {
            return Ok(Expiring::always(None));
        }
        let asked = ["google_default", "cache", "cloud"];
        let file = match token.filter(|token| !asked.contains(token)) {
            Some(text) if text.trim_start().starts_with('{') => Some(text.as_bytes().to_vec()),
            Some(path) if path.ends_with(".json") => Some(read(path)?),
            Some(token) => return Ok(Expiring::always(Some(token.to_owned()))),
            None => {
                let vars = ["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"];
                if let Some(token) = vars.iter().find_map(|var| options.env(var)) {
                    return Ok(Expiring::always(Some(token)));
                }
                let usual = options.home(".config/gcloud/application_default_credentials.json");
                match options.env("GOOGLE_APPLICATION_CREDENTIALS") {
                    Some(path) => Some(read(&path)?),
                    None => usual.and_then(|path| std::fs::read(path).ok()),
                }
            }
        };
        if let Some(file) = file {
            return self.token_from_file(&fields(&file)?);
        }
        Ok(machine_token(options).unwrap_or_else(|| Expiring::always(None)))
    }

    /// Requests a token for the credentials in a file.
    fn token_from_file(&self, file: &BTreeMap<String, String>) -> Result<Expiring<Option<String>>> {
        let get = |name: &str| {
            let text = file.get(name).map(String::as_str);
            text.ok_or_else(|| PROFILE.broken(format!("the credentials file has no `{name}`")))
        };
        let endpoint = file.get("token_uri").map_or(TOKENS, String::as_str);
        let form = match get("type")? {
            "authorized_user" => format!(
                "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                encoded(get("client_id")?, false),
                encoded(get("client_secret")?, false),
                encoded(get("refresh_token")?, false)
            ),
            "service_account" => {
                let now = SystemTime::now();
                let claim = claim(get("client_email")?, endpoint, now);
                format!(
                    "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={}",
                    signed(&claim, get("private_key")?)?
                )
            }
            other => {
                let e = format!("credentials of type `{}` are not supported", other.escape_debug());
                return Err(PROFILE.broken(e).with_hint(
                    "`gcloud auth print-access-token` prints what `GOOGLE_OAUTH_ACCESS_TOKEN` can be set to",
                ));
            }
        };
        let url =
            Url::parse(endpoint).map_err(|e| e.within("`token_uri` in the credentials file"))?;
        token(&post_form(&Client::new(&self.policy), &url, &form)?)
    }
}

fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|e| PROFILE.broken("cannot read the Google credentials file").because(e))
}

/// Parses a token with its time of expiry, as token services return it.
pub(super) fn token(body: &[u8]) -> Result<Expiring<Option<String>>> {
    let all = fields(body)?;
    let seconds = all.get("expires_in").and_then(|text| text.parse().ok()).unwrap_or(300);
    let until = SystemTime::now().checked_add(Duration::from_secs(seconds));
    match all.get("access_token") {
        Some(token) => Ok(Expiring { value: Some(token.clone()), until }),
        None => Err(CREDENTIALS.broken("the response of the token service has no token")),
    }
}

fn machine_token(options: &StoreOptions) -> Option<Expiring<Option<String>>> {
    if !options.allows_instance_metadata() {
        return None;
    }
    let host = options.env("GCE_METADATA_HOST");
    let host = host.unwrap_or_else(|| "metadata.google.internal".to_owned());
    let path = "computeMetadata/v1/instance/service-accounts/default/token";
    let url = Url::parse(&format!("http://{host}/{path}")).ok()?;
    let request = HttpRequest::new("GET", url, b"").with("metadata-flavor", "Google");
    token(&fetch_credentials(&machine(), &request).ok()?).ok()
}

/// Returns the claim by which a service account requests a token.
fn claim(email: &str, audience: &str, now: SystemTime) -> String {
    let begun = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut out = String::from("{\"iss\":");
    holdall_json::write_string(email, &mut out);
    out.push_str(&format!(",\"scope\":\"{SCOPE}\",\"aud\":"));
    holdall_json::write_string(audience, &mut out);
    out.push_str(&format!(",\"iat\":{begun},\"exp\":{}}}", begun + 3600));
    out
}

/// Signs a claim with a PEM key, and returns it as a JSON Web Token.
fn signed(claim: &str, pem: &str) -> Result<String> {
    let wrong =
        || PROFILE.broken("`private_key` in the credentials file is not an RSA key in PEM format");
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).map(str::trim).collect();
    let der = data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| wrong())?;
    let key = RsaKeyPair::from_pkcs8(&der).map_err(|_| wrong())?;
    let base64 = |bytes: &[u8]| data_encoding::BASE64URL_NOPAD.encode(bytes);
    let head = base64(br#"{"alg":"RS256","typ":"JWT"}"#);
    let text = format!("{head}.{}", base64(claim.as_bytes()));
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    let done = key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
    done.map_err(|_| wrong())?;
    Ok(format!("{text}.{}", base64(&signature)))
}

impl Service for Google {
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry> {
        if !self.endpoint.has_same_origin(&request.url) {
            return Ok(false);
        }
        if let Some(token) = self.token.get(|| self.find())? {
            request.headers.push(("authorization", format!("Bearer {token}")));
        }
        Ok(true)
    }

    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry> {
        let is_signed = self.token.peek().flatten().is_some();
        refusal(answer, body, "Google's store", is_signed, CREDENTIALS_HINT)
    }

    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)> {
        let generation = answer.header("x-goog-generation")?;
        Some(("x-goog-if-generation-match", generation.to_owned()))
    }
}

impl Store for Google {
    fn url(&self, key: &str) -> Result<Url> {
        Ok(self.at(&format!("/{}", encoded(key, true)), ""))
    }

    fn page(&self, prefix: &str, from: Option<&str>) -> Result<Url> {
        let from = from.map(|from| format!("&continuation-token={}", encoded(from, false)));
        let from = from.unwrap_or_default();
        Ok(self.at("", &format!("?list-type=2&prefix={}{from}", encoded(prefix, false))))
    }

    fn read_page(&self, _: &Answer, body: &[u8]) -> Result<Page> {
        listing::parse_s3(body)
    }

    /// Uploads in one request, or in a resumable session. Unlike a multipart upload as in S3, a session can be limited
    /// to objects that do not exist yet.
    fn upload(&self, upload: &Upload) -> Result<()> {
        if upload.is_small() {
            let body = upload.whole()?;
            let request = upload.only_new(
                "x-goog-if-generation-match",
                "0",
                HttpRequest::new("PUT", upload.url.clone(), &body),
            );
            return upload.send(&request).map(|_| ());
        }
        let begun =
            HttpRequest::new("POST", upload.url.clone(), b"").with("x-goog-resumable", "start");
        let answer = upload.send(&upload.only_new("x-goog-if-generation-match", "0", begun))?;
        let location =
            answer.header("location").map(|location| upload.url.join(location)).transpose()?;
        let location = location.filter(|location| location.has_same_origin(&self.endpoint));
        let Some(location) = location else {
            return Err(ANSWER.broken("the response has no upload session"));
        };
        let done = upload.in_order(|from, bytes| {
            let (end, len) = (from + bytes.len() as u64, upload.len);
            let request = HttpRequest::new("PUT", location.clone(), bytes)
                .with("content-range", format!("bytes {from}-{}/{len}", end - 1));
            let answer = upload.send(&request)?;
            match (answer.status == 308) == (end < len) {
                true => Ok(()),
                false => Err(ANSWER.broken(format!(
                    "unexpected status {} after {end} of {len} bytes",
                    answer.status
                ))),
            }
        });
        if done.is_err() {
            // This error is ignored, because the first one matters more.
            let _ = upload.client.send(&HttpRequest::new("DELETE", location, b""));
        }
        done
    }
}

impl fmt::Debug for Google {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Google").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}
