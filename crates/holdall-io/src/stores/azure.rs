//! Azure Blob Storage.

use super::credentials::{fetch_credentials, machine, post_form};
use super::google::token;
use super::listing::{self, Page};
use super::options::{StoreOptions, endpoint};
use super::refusals::refusal;
use super::rules::{OPTION, PROFILE};
use super::signing::{encoded, shared_key};
use super::upload::Upload;
use super::{Address, Expiring, Held, Store};
use crate::http::{Answer, Client, FailedTry, HttpRequest, Policy, Service, Url};
use holdall_core::Result;
use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

/// A container of a storage account.
pub(super) struct Azure {
    container: String,
    account: String,
    endpoint: Url,
    options: StoreOptions,
    policy: Policy,
    key: Option<Vec<u8>>,
    /// A shared access signature, which is used instead of a key: its query.
    sas: Option<String>,
    token: Held<Option<String>>,
}

/// The hint on how to give credentials.
const CREDENTIALS_HINT: &str = "set `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`, or `AZURE_CLIENT_ID`, `AZURE_TENANT_ID` and `AZURE_CLIENT_SECRET`";
const VERSION: &str = "2021-12-02";
const RESOURCE: &str = "https://storage.azure.com/";

impl Azure {
    pub(super) fn new(address: &Address, options: &StoreOptions, policy: &Policy) -> Result<Azure> {
        let parts = options.find("connection_string", &["AZURE_STORAGE_CONNECTION_STRING"]);
        let parts = parts.map(|text| connection(&text)).unwrap_or_default();
        let part = |name: &str| parts.get(name).cloned();
        let of_host =
            address.detail.as_deref().map(|host| host.split('.').next().unwrap_or_default());
        let named =
            options.find("account_name", &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"]);
        let account = of_host.map(str::to_owned).or_else(|| part("accountname")).or(named);
        let Some(account) = account else {
            let e = OPTION.broken("no Azure storage account is given");
            return Err(
                e.with_hint("set `AZURE_STORAGE_ACCOUNT_NAME`, or the option `account_name`")
            );
        };
        let url = options.find("endpoint_url", &["AZURE_STORAGE_ENDPOINT"]);
        let suffix = part("endpointsuffix").unwrap_or_else(|| "core.windows.net".to_owned());
        let url = url.or_else(|| part("blobendpoint"));
        let url = url.unwrap_or_else(|| format!("https://{account}.blob.{suffix}"));
        let is_anonymous = options.is_anonymous();
        let key = options.find("account_key", &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"]);
        let key = key.or_else(|| part("accountkey")).filter(|_| !is_anonymous);
        let key = key.map(|key| {
            let decoded = data_encoding::BASE64.decode(key.trim().as_bytes());
            decoded.map_err(|_| OPTION.broken("the Azure account key is not valid base64"))
        });
        let sas = options.find("sas_token", &["AZURE_STORAGE_SAS_TOKEN"]);
        let sas = sas.or_else(|| part("sharedaccesssignature")).filter(|_| !is_anonymous);
        Ok(Azure {
            container: address.bucket.clone(),
            account,
            endpoint: endpoint(&url)?,
            options: options.clone(),
            policy: policy.clone(),
            key: key.transpose()?,
            sas: sas.map(|sas| sas.trim_start_matches('?').to_owned()),
            token: Held::default(),
        })
    }

    fn at(&self, path: &str, query: &str) -> Url {
        let (url, container) = (&self.endpoint, &self.container);
        url.with_target(format!("{}/{container}{path}{query}", url.path()))
    }

    /// Requests a token for a service principal, a federated identity, or the machine.
    fn find(&self) -> Result<Expiring<Option<String>>> {
        let options = &self.options;
        if options.is_anonymous() {
            return Ok(Expiring::always(None));
        }
        let tenant = options.find("tenant_id", &["AZURE_TENANT_ID"]);
        let client = options.find("client_id", &["AZURE_CLIENT_ID"]);
        if let (Some(tenant), Some(client)) = (&tenant, &client) {
            let mut form = format!(
                "grant_type=client_credentials&client_id={}&scope={}",
                encoded(client, false),
                encoded("https://storage.azure.com/.default", false)
            );
            let secret = options.find("client_secret", &["AZURE_CLIENT_SECRET"]);
            if let Some(secret) = secret {
                form.push_str(&format!("&client_secret={}", encoded(&secret, false)));
                return self.token_from_form(tenant, &form);
            }
            if let Some(path) = options.env("AZURE_FEDERATED_TOKEN_FILE") {
                let text = std::fs::read_to_string(path);
                let text = text
                    .map_err(|e| PROFILE.broken("cannot read the Azure token file").because(e))?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.push_str(&format!(
                    "&client_assertion_type={}&client_assertion={}",
                    encoded(kind, false),
                    encoded(text.trim(), false)
                ));
                return self.token_from_form(tenant, &form);
            }
        }
        Ok(self.machine_token(client.as_deref()).unwrap_or_else(|| Expiring::always(None)))
    }

    fn token_from_form(&self, tenant: &str, form: &str) -> Result<Expiring<Option<String>>> {
        let host = self.options.env("AZURE_AUTHORITY_HOST");
        let host = host.unwrap_or_else(|| "https://login.microsoftonline.com".to_owned());
        let path = format!("/{}/oauth2/v2.0/token", encoded(tenant, false));
        token(&post_form(&Client::new(&self.policy), &endpoint(&host)?.with_target(path), form)?)
    }

    fn machine_token(&self, client: Option<&str>) -> Option<Expiring<Option<String>>> {
        if !self.options.allows_instance_metadata() {
            return None;
        }
        let client =
            client.map(|id| format!("&client_id={}", encoded(id, false))).unwrap_or_default();
        let url = format!(
            "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource={}{client}",
            encoded(RESOURCE, false)
        );
        let request = HttpRequest::new("GET", Url::parse(&url).ok()?, b"").with("metadata", "true");
        token(&fetch_credentials(&machine(), &request).ok()?).ok()
    }
}

/// Parses a connection string into its parts, with names in lowercase.
fn connection(text: &str) -> BTreeMap<String, String> {
    let parts = text.split(';').filter_map(|part| part.trim().split_once('='));
    let all = parts.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let mut all: BTreeMap<String, String> = all.collect();
    if all.get("usedevelopmentstorage").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        // The emulator, with its well-known account and key.
        let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        for (name, value) in [
            ("accountname", "devstoreaccount1"),
            ("accountkey", key),
            ("blobendpoint", "http://127.0.0.1:10000/devstoreaccount1"),
        ] {
            all.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    all
}

impl Service for Azure {
    fn sign(&self, request: &mut HttpRequest<'_>) -> Result<bool, FailedTry> {
        if !self.endpoint.has_same_origin(&request.url) {
            return Ok(false);
        }
        request.headers.push(("x-ms-version", VERSION.to_owned()));
        if let Some(key) = &self.key {
            shared_key(request, &self.account, key, SystemTime::now());
        } else if let Some(sas) = &self.sas {
            // The URL of an earlier response already has the signature.
            if request.url.query().ends_with(sas.as_str()) {
                return Ok(true);
            }
            let mark = if request.url.query().is_empty() { '?' } else { '&' };
            let target = format!("{}{mark}{sas}", request.url.target());
            request.url = request.url.with_target(target);
        } else if let Some(token) = self.token.get(|| self.find())? {
            request.headers.push(("authorization", format!("Bearer {token}")));
        }
        Ok(true)
    }

    fn refused(&self, answer: &Answer, body: &[u8]) -> Option<FailedTry> {
        let has_key = self.key.is_some() || self.sas.is_some();
        let is_signed = has_key || self.token.peek().flatten().is_some();
        refusal(answer, body, "Azure", is_signed, CREDENTIALS_HINT)
    }

    fn pin(&self, answer: &Answer) -> Option<(&'static str, String)> {
        let tag = answer.header("etag").filter(|tag| tag.starts_with('"'))?;
        Some(("if-match", tag.to_owned()))
    }

    fn has_ends(&self) -> bool {
        false
    }
}

impl Store for Azure {
    fn url(&self, key: &str) -> Result<Url> {
        Ok(self.at(&format!("/{}", encoded(key, true)), ""))
    }

    fn page(&self, prefix: &str, from: Option<&str>) -> Result<Url> {
        let from = from.map(|from| format!("&marker={}", encoded(from, false))).unwrap_or_default();
        let prefix = encoded(prefix, false);
        Ok(self.at("", &format!("?restype=container&comp=list&prefix={prefix}{from}")))
    }

    fn read_page(&self, _: &Answer, body: &[u8]) -> Result<Page> {
        listing::parse_azure(body)
    }

    /// Uploads in one request, or in blocks that a final list combines. Azure removes unlisted blocks after a week.
    fn upload(&self, upload: &Upload) -> Result<()> {
        if upload.is_small() {
            let body = upload.whole()?;
            let request = HttpRequest::new("PUT", upload.url.clone(), &body);
            return upload
                .send(
                    &upload
                        .only_new("if-none-match", "*", request)
                        .with("x-ms-blob-type", "BlockBlob"),
                )
                .map(|_| ());
        }
        let ids = upload.parts(|number, bytes| {
            let id = data_encoding::BASE64.encode(format!("{number:08}").as_bytes());
            let query = format!("comp=block&blockid={}", encoded(&id, false));
            upload.send(&HttpRequest::new("PUT", upload.with_query(&query), bytes))?;
            Ok(id)
        })?;
        let list: String = ids.iter().map(|id| format!("<Latest>{id}</Latest>")).collect();
        let body =
            format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{list}</BlockList>");
        let url = upload.with_query("comp=blocklist");
        upload
            .send(&upload.only_new(
                "if-none-match",
                "*",
                HttpRequest::new("PUT", url, body.as_bytes()),
            ))
            .map(|_| ())
    }
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Azure");
        out.field("account", &self.account).field("container", &self.container);
        out.finish_non_exhaustive()
    }
}
