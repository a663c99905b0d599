//! Amazon S3, and services with the same interface.

use super::credentials::{self, FoundKeys};
use super::listing::{self, Page};
use super::options::{StoreOptions, endpoint};
use super::refusals::refusal;
use super::signing::{Keys, encoded, v4};
use super::upload::Upload;
use super::{Address, Held, Store};
use crate::http::{Answer, FailedTry, HttpRequest, Policy, Service, Url};
use holdall_core::Result;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A bucket on S3.
pub(super) struct S3 {
    bucket: String,
    options: StoreOptions,
    policy: Policy,
    /// The endpoint that the caller chose. `None` for Amazon's own.
    endpoint: Option<Url>,
    region: Mutex<String>,
    found: Held<FoundKeys>,
}

impl S3 {
    pub(super) fn new(address: &Address, options: &StoreOptions, policy: &Policy) -> Result<S3> {
        let profile = super::profiles::profile(options)?;
        let of_profile = |name: &str| profile.as_ref().and_then(|p| p.get(name).cloned());
        let vars = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
        let url = options.find("endpoint_url", &vars).or_else(|| of_profile("endpoint_url"));
        let region = options.find("region", &["AWS_REGION", "AWS_DEFAULT_REGION"]);
        let region = region.or_else(|| of_profile("region"));
        Ok(S3 {
            bucket: address.bucket.clone(),
            options: options.clone(),
            policy: policy.clone(),
            endpoint: url.as_deref().map(endpoint).transpose()?,
            region: Mutex::new(region.unwrap_or_else(|| "us-east-1".to_owned())),
            found: Held::default(),
        })
    }

    fn region(&self) -> String {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the URL of a path in the bucket, with a query.
    fn at(&self, path: &str, query: &str) -> Result<Url> {
        let bucket = &self.bucket;
        if let Some(url) = &self.endpoint {
            return Ok(url.with_target(format!("{}/{bucket}/{path}{query}", url.path())));
        }
        let region = self.region();
        let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        // The certificate does not cover bucket names with dots in the host name.
        let (host, path) = match bucket.contains(['.', '_']) {
            true => (String::new(), format!("/{bucket}/{path}")),
            false => (format!("{bucket}."), format!("/{path}")),
        };
        let url = Url::parse(&format!("https://{host}s3.{region}.{end}/"))?;
        Ok(url.with_target(format!("{path}{query}")))
    }
}

impl Service for S3 {
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry> {
        let host = request.url.host();
        let is_own = match &self.endpoint {
            Some(own) => own.has_same_origin(&request.url),
            None => {
                let ends = [".amazonaws.com", ".amazonaws.com.cn"];
                request.url.is_secure() && ends.iter().any(|end| host.ends_with(end))
            }
        };
        if !is_own {
            return Ok(false);
        }
        let found =
            self.found.get(|| credentials::find(&self.options, &self.policy, &self.region()));
        if let FoundKeys::Keys(keys) = found? {
            v4(request, &keys, &self.region(), "s3", SystemTime::now());
        }
        Ok(true)
    }

    /// Learns the region from a response that says that the bucket is in another one.
    fn redirect(&self, answer: &Answer) -> Option<Url> {
        let named = answer.header("x-amz-bucket-region")?;
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !matches!(answer.status, 301 | 307 | 400) || named.is_empty() || !named.chars().all(fine)
        {
            return None;
        }
        let mut region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        if *region == named || named.len() > 32 {
            return None;
        }
        let host = answer.url.host().replace(&format!(".{region}."), &format!(".{named}."));
        *region = named.to_owned();
        if self.endpoint.is_some() {
            return Some(answer.url.clone());
        }
        Some(Url::parse(&format!("https://{host}/")).ok()?.with_target(answer.url.target()))
    }

    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry> {
        let is_signed = self.found.peek().is_some_and(|found| matches!(found, FoundKeys::Keys(_)));
        refusal(answer, body, "S3", is_signed, credentials::CREDENTIALS_HINT)
    }

    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)> {
        let tag = answer.header("etag").filter(|tag| tag.starts_with('"'))?;
        Some(("if-match", tag.to_owned()))
    }
}

impl Store for S3 {
    fn url(&self, key: &str) -> Result<Url> {
        self.at(&encoded(key, true), "")
    }

    fn page(&self, prefix: &str, from: Option<&str>) -> Result<Url> {
        let mut query = String::from("?");
        if let Some(from) = from {
            query.push_str(&format!("continuation-token={}&", encoded(from, false)));
        }
        query.push_str(&format!("list-type=2&prefix={}", encoded(prefix, false)));
        self.at("", &query)
    }

    fn read_page(&self, _: &Answer, body: &[u8]) -> Result<Page> {
        listing::parse_s3(body)
    }

    fn upload(&self, upload: &Upload) -> Result<()> {
        if !upload.is_small() {
            return upload.multipart();
        }
        let body = upload.whole()?;
        let request = HttpRequest::new("PUT", upload.url.clone(), &body);
        let request = upload.only_new("if-none-match", "*", request);
        upload.send(&request).map(|_| ())
    }
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl FoundKeys {
    /// Creates keys that the caller gave.
    pub(super) fn new(id: String, secret: String, token: Option<String>) -> FoundKeys {
        FoundKeys::Keys(Keys { id, secret, token })
    }
}
