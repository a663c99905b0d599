//! Opening stores, and listing their objects.

use super::azure::Azure;
use super::google::Google;
use super::hub::Hub;
use super::listing::{Listed, Page};
use super::options::StoreOptions;
use super::rules::{ANSWER, MANY};
use super::s3::S3;
use super::upload::Upload;
use super::xml::MAX_ANSWER;
use super::{Address, address::Kind};
use crate::glob::Glob;
use crate::http::{Answer, Client, FailedTry, HttpRequest, Policy, Service, Url, retrying};
use crate::source::{Begin, HttpSource};
use holdall_core::{Limits, Result};
use holdall_json::{Reader, Token};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A bucket, container or repository.
pub(super) trait Store: Service {
    /// Returns the HTTP URL of an object.
    fn url(&self, key: &str) -> Result<Url>;

    /// Returns the URL that lists the objects below a prefix. `from` is [`Page::next`] of the previous page.
    fn page(&self, prefix: &str, from: Option<&str>) -> Result<Url>;

    /// Parses the response to a listing request.
    fn read_page(&self, answer: &Answer, body: &[u8]) -> Result<Page>;

    /// Checks that the store can be written to.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// Uploads an object.
    fn upload(&self, upload: &Upload) -> Result<()>;
}

/// Access to object stores with the caller's options. Clones share credentials, regions and commits that were looked
/// up.
#[derive(Debug, Clone, Default)]
pub struct Stores {
    options: Arc<StoreOptions>,
    open: Arc<Mutex<HashMap<Address, Arc<dyn Store>>>>,
}

impl Stores {
    /// Creates stores with these options.
    pub fn new(options: StoreOptions) -> Stores {
        Stores { options: Arc::new(options), open: Arc::default() }
    }

    pub(super) fn store(&self, address: &Address, policy: &Policy) -> Result<Arc<dyn Store>> {
        let bucket = address.bucket_address();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&bucket) {
            return Ok(Arc::clone(found));
        }
        let options = &self.options;
        let made: Arc<dyn Store> = match address.kind {
            Kind::S3 => Arc::new(S3::new(address, options, policy)?),
            Kind::Google => Arc::new(Google::new(address, options, policy)?),
            Kind::Azure => Arc::new(Azure::new(address, options, policy)?),
            Kind::Hub => Arc::new(Hub::new(address, options, policy)?),
        };
        open.insert(bucket, Arc::clone(&made));
        Ok(made)
    }

    /// Opens the object at an address over the connections of `client`, and fetches the part `begin` first.
    ///
    /// # Errors
    /// Returns the errors in the address, the options or the credentials; errors of the store; an `Io` error.
    pub(crate) fn open(&self, text: &str, client: &Client, begin: Begin) -> Result<HttpSource> {
        let address = read(text)?;
        let name = address.to_string();
        let opened = || {
            let store = self.store(&address, client.policy())?;
            let url = store.url(&address.key)?;
            let client = client.clone().with_service(store);
            HttpSource::open_by(client, url, name.clone(), begin)
        };
        opened().map_err(|e| if e.source_name().is_some() { e } else { e.in_source(&name) })
    }

    /// Lists the objects below a prefix, or those that match a pattern: `s3://bucket/model/`,
    /// `s3://bucket/model/*.safetensors`. Sorted by address.
    ///
    /// # Errors
    /// Returns the errors of the store; a `Limit` error if there are more objects than `Limits::files`.
    pub fn list(&self, text: &str, policy: &Policy, limits: &Limits) -> Result<Vec<Listed>> {
        let address = read(text)?;
        let glob = match address.key.contains(['*', '?', '[', '{']) {
            true => Some(Glob::new(&address.key).map_err(|e| e.in_source(&address))?),
            false => None,
        };
        let prefix = match &glob {
            Some(_) => address.key.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default(),
            None => address.key.as_str(),
        };
        let all =
            self.below(&address, prefix, policy, limits).map_err(|e| e.in_source(&address))?;
        let is_wanted = |key: &str| glob.as_ref().is_none_or(|glob| glob.matches(key));
        let mut found: Vec<Listed> = all
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix) && !key.ends_with('/') && is_wanted(key))
            .map(|(key, len)| Listed {
                address: Address { key, ..address.clone() }.to_string(),
                len,
            })
            .collect();
        found.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(found)
    }

    /// Returns `true` if there is at least one object below an address.
    pub(super) fn has_any(&self, address: &Address, policy: &Policy) -> Result<bool> {
        let mut any = false;
        // An object with the folder's own name only marks the folder.
        let is_below = |key: &str| key.len() > address.key.len() && key.starts_with(&address.key);
        self.pages(address, &address.key, policy, |all| {
            any = all.iter().any(|(key, _)| is_below(key));
            Ok(any)
        })?;
        Ok(any)
    }

    /// Returns the keys and lengths of the objects below a prefix.
    pub(super) fn below(
        &self,
        address: &Address,
        prefix: &str,
        policy: &Policy,
        limits: &Limits,
    ) -> Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        self.pages(address, prefix, policy, |objects| {
            all.extend(objects);
            if all.len() as u64 > limits.files {
                return Err(MANY.broken(format!("there are more than {} objects", limits.files)));
            }
            Ok(false)
        })?;
        Ok(all)
    }

    /// Calls `take` with the pages of a listing, until it returns `true`.
    fn pages(
        &self,
        address: &Address,
        prefix: &str,
        policy: &Policy,
        mut take: impl FnMut(Vec<(String, u64)>) -> Result<bool>,
    ) -> Result<()> {
        let store = self.store(address, policy)?;
        let client = Client::new(policy).with_service(store.clone());
        let mut next = None;
        loop {
            let url = store.page(prefix, next.as_deref())?;
            let page = retrying(&policy.timeouts, || page(&client, &*store, &url))?;
            let is_enough = take(page.objects)?;
            match page.next {
                Some(more) if !is_enough && next.as_ref() != Some(&more) => next = Some(more),
                _ => return Ok(()),
            }
        }
    }
}

fn page(client: &Client, store: &dyn Store, url: &Url) -> Result<Page, FailedTry> {
    let request = HttpRequest::new("GET", url.clone(), b"").with("accept-encoding", "identity");
    let mut answer = client.send(&request)?;
    if answer.status != 200 {
        return Err(answer.refused());
    }
    let body = answer.text(MAX_ANSWER + 1);
    if body.len() > MAX_ANSWER {
        return Err(ANSWER.broken("the list is longer than 16 MiB").into());
    }
    Ok(store.read_page(&answer, &body)?)
}

fn read(text: &str) -> Result<Address> {
    Address::parse(text).map_err(|e| e.in_source(super::redacted(text)))
}

/// A value that may expire.
pub(super) struct Expiring<T> {
    pub(super) value: T,
    pub(super) until: Option<SystemTime>,
}

impl<T> Expiring<T> {
    pub(super) fn always(value: T) -> Expiring<T> {
        Expiring { value, until: None }
    }
}

/// A cache for one value, until it expires.
pub(super) struct Held<T>(Mutex<Option<Expiring<T>>>);

/// Credentials that expire within this time are replaced.
const SOON: Duration = Duration::from_secs(120);

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held(Mutex::new(None))
    }
}

impl<T: Clone> Held<T> {
    pub(super) fn get(&self, find: impl FnOnce() -> Result<Expiring<T>>) -> Result<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good =
            |fresh: &Expiring<T>| fresh.until.is_none_or(|until| SystemTime::now() + SOON < until);
        if let Some(fresh) = held.as_ref().filter(|fresh| is_good(fresh)) {
            return Ok(fresh.value.clone());
        }
        let fresh = find()?;
        let value = fresh.value.clone();
        *held = Some(fresh);
        Ok(value)
    }

    pub(super) fn peek(&self) -> Option<T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|fresh| fresh.value.clone())
    }
}

/// Returns the strings and numbers of a JSON object.
pub(super) fn fields(body: &[u8]) -> Result<BTreeMap<String, String>> {
    fields_of(body, None)
}

/// Returns the strings and numbers of a JSON object that is a member of another one.
pub(super) fn fields_in(body: &[u8], member: &str) -> Result<BTreeMap<String, String>> {
    fields_of(body, Some(member))
}

fn fields_of(body: &[u8], member: Option<&str>) -> Result<BTreeMap<String, String>> {
    let read = || {
        let mut reader = Reader::new(body, 0, 16)?;
        let mut all = BTreeMap::new();
        let mut scratch = String::new();
        reader.begin_object()?;
        if let Some(member) = member {
            while reader.next_key(&mut scratch)?.is_some_and(|key| key != member) {
                reader.skip()?;
            }
            reader.begin_object()?;
        }
        while let Some(key) = reader.next_key(&mut scratch)?.map(str::to_owned) {
            match reader.peek()? {
                Token::String => {
                    let value = reader.string(&mut scratch)?.to_owned();
                    all.insert(key, value);
                }
                Token::Number => {
                    let value = reader.u64()?.to_string();
                    all.insert(key, value);
                }
                _ => reader.skip()?,
            }
        }
        if member.is_none() {
            reader.end()?;
        }
        Ok(all)
    };
    // The error has no details of the text, which contains secrets.
    read().map_err(|_: holdall_core::Error| ANSWER.broken("credentials are not a JSON object"))
}
