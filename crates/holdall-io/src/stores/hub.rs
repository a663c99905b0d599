//! The Hugging Face hub, or a server with the same interface.

use super::listing::{self, Page};
use super::options::{StoreOptions, endpoint};
use super::refusals::refusal;
use super::signing::encoded;
use super::upload::{Upload, read_only};
use super::{Address, Store};
use crate::http::{Answer, FailedTry, HttpRequest, Policy, Service, Url};
use holdall_core::Result;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// A repository at a revision. The first response states the commit, and all later requests are for that commit.
pub(super) struct Hub {
    /// The name of the repository, which begins with `datasets/` or `spaces/` unless it is a model.
    repository: String,
    revision: String,
    endpoint: Url,
    token: Option<String>,
    commit: OnceLock<String>,
}

/// The hint on how to give credentials.
const CREDENTIALS_HINT: &str = "set `HF_TOKEN`, or log in with `hf auth login`";

impl Hub {
    pub(super) fn new(address: &Address, options: &StoreOptions, _: &Policy) -> Result<Hub> {
        let url = options.find("endpoint_url", &["HF_ENDPOINT"]);
        let url = url.unwrap_or_else(|| "https://huggingface.co".to_owned());
        let token = options.find("token", &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]);
        let token = token.or_else(|| stored(options)).filter(|_| !options.is_anonymous());
        Ok(Hub {
            repository: address.bucket.clone(),
            revision: address.detail.clone().unwrap_or_else(|| "main".to_owned()),
            endpoint: endpoint(&url)?,
            token: token.map(|token| token.trim().to_owned()),
            commit: OnceLock::new(),
        })
    }

    /// Returns the path that precedes the revision in URLs of files.
    fn files(&self) -> String {
        format!("{}/{}/resolve/", self.endpoint.path(), self.repository)
    }

    /// Returns the path that precedes the revision in URLs of listings.
    fn trees(&self) -> String {
        let is_model = self.repository.matches('/').count() == 1;
        let kind = if is_model { "models/" } else { "" };
        format!("{}/api/{kind}{}/tree/", self.endpoint.path(), self.repository)
    }
}

/// Returns the token that logging in has stored.
fn stored(options: &StoreOptions) -> Option<String> {
    let path = match (options.env("HF_TOKEN_PATH"), options.env("HF_HOME")) {
        (Some(path), _) => path.into(),
        (None, Some(home)) => Path::new(&home).join("token"),
        (None, None) => options.home(".cache/huggingface/token")?,
    };
    std::fs::read_to_string(path).ok()
}

impl Service for Hub {
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry> {
        if !self.endpoint.has_same_origin(&request.url) {
            return Ok(false);
        }
        let revision = encoded(&self.revision, false);
        if let Some(commit) = self.commit.get() {
            for before in [self.files(), self.trees()] {
                let rest = request.url.target().strip_prefix(&format!("{before}{revision}"));
                if let Some(rest) = rest.map(|rest| format!("{before}{commit}{rest}")) {
                    request.url = request.url.with_target(rest);
                    break;
                }
            }
        }
        if let Some(token) = &self.token {
            request.headers.push(("authorization", format!("Bearer {token}")));
        }
        Ok(true)
    }

    fn redirect(&self, answer: &Answer) -> Option<Url> {
        let commit = answer.header("x-repo-commit")?;
        if commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()) {
            self.commit.get_or_init(|| commit.to_owned());
        }
        None
    }

    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry> {
        refusal(answer, body, "the hub", self.token.is_some(), CREDENTIALS_HINT)
    }

    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)> {
        let (tag, _) = (answer.header("etag").filter(|tag| tag.starts_with('"'))?, ());
        Some(("if-range", tag.to_owned()))
    }
}

impl Store for Hub {
    fn url(&self, key: &str) -> Result<Url> {
        let revision = encoded(&self.revision, false);
        let target = format!("{}{revision}/{}", self.files(), encoded(key, true));
        Ok(self.endpoint.with_target(target))
    }

    fn page(&self, prefix: &str, from: Option<&str>) -> Result<Url> {
        if let Some(next) = from {
            return self.endpoint.join(next);
        }
        let revision = encoded(&self.revision, false);
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder =
            if folder.is_empty() { String::new() } else { format!("/{}", encoded(folder, true)) };
        Ok(self.endpoint.with_target(format!("{}{revision}{folder}?recursive=true", self.trees())))
    }

    fn read_page(&self, answer: &Answer, body: &[u8]) -> Result<Page> {
        // `<https://…?cursor=…>; rel="next"`
        let link = answer.header("link").and_then(|link| link.split_once('<')?.1.split_once('>'));
        let next = link.filter(|(_, rest)| rest.contains("next")).map(|(next, _)| next.to_owned());
        Ok(Page { objects: listing::parse_hub_listing(body)?, next })
    }

    fn check_writable(&self) -> Result<()> {
        Err(read_only())
    }

    fn upload(&self, _: &Upload) -> Result<()> {
        Err(read_only())
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Hub");
        out.field("repository", &self.repository).field("commit", &self.commit.get());
        out.finish_non_exhaustive()
    }
}
