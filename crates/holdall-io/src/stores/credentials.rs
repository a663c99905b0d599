//! Looking up keys for S3 in the places where Amazon's tools look for them.

use super::options::StoreOptions;
use super::rules::{CREDENTIALS, PROFILE};
use super::signing::{Keys, encoded, moment};
use super::{Expiring, profiles, xml};
use crate::http::{Client, FailedTry, Hosts, HttpRequest, Policy, Schemes, Url, retrying};
use holdall_core::{Error, Result};
use std::time::Duration;

/// The result of the lookup.
#[derive(Clone)]
pub(super) enum FoundKeys {
    Keys(Keys),
    /// There are no keys: requests are not signed.
    None,
}

/// The hint on how to give credentials.
pub(super) const CREDENTIALS_HINT: &str =
    "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or name a profile by `AWS_PROFILE`";

/// Looks up keys, in this order: the options; the environment; the token of a web identity; a profile; the container;
/// the machine.
pub(super) fn find(
    options: &StoreOptions,
    policy: &Policy,
    region: &str,
) -> Result<Expiring<FoundKeys>> {
    if options.is_anonymous() {
        return Ok(Expiring::always(FoundKeys::None));
    }
    if let (Some(id), Some(secret)) = (options.get("key"), options.get("secret")) {
        let token = options.get("token").map(str::to_owned);
        return Ok(Expiring::always(FoundKeys::new(id.to_owned(), secret.to_owned(), token)));
    }
    let env = |name: &str| options.env(name);
    let wants_profile = options.get("profile").is_some();
    if !wants_profile {
        if let (Some(id), Some(secret)) = (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")) {
            return Ok(Expiring::always(FoundKeys::new(id, secret, env("AWS_SESSION_TOKEN"))));
        }
        if let (Some(file), Some(role)) = (env("AWS_WEB_IDENTITY_TOKEN_FILE"), env("AWS_ROLE_ARN"))
        {
            let session = session(options);
            return web_identity_keys(options, policy, region, &file, (&role, &session));
        }
    }
    if let Some(found) = profiles::keys(options, policy, region)? {
        return Ok(found);
    }
    if wants_profile {
        return Err(PROFILE.broken("the profile has no credentials"));
    }
    if options.allows_instance_metadata()
        && let Some(found) = container_keys(options)?
    {
        return Ok(found);
    }
    if let Some(found) = machine_keys(options) {
        return Ok(found);
    }
    Ok(Expiring::always(FoundKeys::None))
}

/// Exchanges the token of a web identity, as clusters provide it, for keys of a role. `session` is the session name.
pub(super) fn web_identity_keys(
    options: &StoreOptions,
    policy: &Policy,
    region: &str,
    file: &str,
    (role, session): (&str, &str),
) -> Result<Expiring<FoundKeys>> {
    let token = std::fs::read_to_string(file);
    let token = token
        .map_err(|e| PROFILE.broken("cannot read the token file of the web identity").because(e))?;
    let body = format!(
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
        encoded(role, false),
        encoded(session, false),
        encoded(token.trim(), false)
    );
    let body = post_form(&Client::new(policy), &token_service(options, region)?, &body)?;
    given(&body)
        .ok_or_else(|| refused("the token service returned no credentials for the web identity"))
}

/// Returns the session name for assuming a role.
pub(super) fn session(options: &StoreOptions) -> String {
    options.env("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "holdall".to_owned())
}

/// Returns the URL of the security token service (STS), which issues keys for roles.
pub(super) fn token_service(options: &StoreOptions, region: &str) -> Result<Url> {
    let endpoint = options.env("AWS_ENDPOINT_URL_STS");
    let endpoint = endpoint.unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"));
    Ok(super::options::endpoint(&endpoint)?.with_target("/"))
}

/// Parses the keys in a response of the security token service.
pub(super) fn given(body: &[u8]) -> Option<Expiring<FoundKeys>> {
    let part = |name: &str| xml::find(body, name);
    let until = part("Expiration").as_deref().and_then(moment);
    let value =
        FoundKeys::new(part("AccessKeyId")?, part("SecretAccessKey")?, part("SessionToken"));
    Some(Expiring { value, until })
}

/// Posts a form to a token service, and returns the body of the response.
///
/// # Errors
/// Returns [`CREDENTIALS`] if the service refuses.
pub(super) fn post_form(client: &Client, url: &Url, form: &str) -> Result<Vec<u8>> {
    let request = HttpRequest::new("POST", url.clone(), form.as_bytes())
        .with("content-type", "application/x-www-form-urlencoded");
    fetch_credentials(client, &request)
}

/// Sends a request for credentials, and returns the body of the response.
pub(super) fn fetch_credentials(client: &Client, request: &HttpRequest<'_>) -> Result<Vec<u8>> {
    let host = request.url.host().to_owned();
    retrying(&client.policy().timeouts, || {
        let mut answer = client.send(request)?;
        match answer.status {
            200 => Ok(answer.text(1 << 20)),
            status @ (400 | 401 | 403) => {
                let e = format!("{host} answers with status {status} to a request for credentials");
                Err(FailedTry::from(refused(&e)))
            }
            _ => Err(answer.refused()),
        }
    })
}

/// Returns a client for the metadata services of a machine or a container, which have fixed, non-public addresses.
pub(super) fn machine() -> Client {
    let mut policy =
        Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo).with_redirects(0);
    policy.timeouts.connect = Duration::from_secs(1);
    policy.timeouts.stall = Duration::from_secs(5);
    policy.timeouts.tries = 2;
    Client::new(&policy)
}

pub(super) fn container_keys(options: &StoreOptions) -> Result<Option<Expiring<FoundKeys>>> {
    let url = match options.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        Some(path) if path.starts_with('/') => format!("http://169.254.170.2{path}"),
        _ => match options.env("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            Some(url) => url,
            None => return Ok(None),
        },
    };
    let url =
        Url::parse(&url).map_err(|e| e.within("the address of the container's credentials"))?;
    let own =
        ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "127.0.0.1", "[::1]", "localhost"];
    if !url.is_secure() && !own.contains(&url.host()) {
        return Err(PROFILE.broken(
            "the address of the container's credentials is http at a host other than the container's own; expected https",
        ));
    }
    let mut request = HttpRequest::new("GET", url, b"");
    let file = options.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    let token = file.and_then(|path| std::fs::read_to_string(path).ok());
    let token = token.or_else(|| options.env("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    if let Some(token) = token {
        request = request.with("authorization", token.trim());
    }
    parse_keys(&fetch_credentials(&machine(), &request)?).map(Some)
}

/// Returns the keys of the machine's role, from version 2 of its metadata service. Returns `None` if there is no such
/// service or it may not be used.
pub(super) fn machine_keys(options: &StoreOptions) -> Option<Expiring<FoundKeys>> {
    let is_off =
        options.env("AWS_EC2_METADATA_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    if is_off || !options.allows_instance_metadata() {
        return None;
    }
    let client = machine();
    let at = |path: &str| Url::parse(&format!("http://169.254.169.254/latest/{path}")).ok();
    let request = HttpRequest::new("PUT", at("api/token")?, b"")
        .with("x-aws-ec2-metadata-token-ttl-seconds", "300");
    let mut answer = client.send(&request).ok().filter(|answer| answer.status == 200)?;
    let token = String::from_utf8(answer.text(4096)).ok()?;
    let ask = |path: &str| {
        let request = HttpRequest::new("GET", at(path)?, b"")
            .with("x-aws-ec2-metadata-token", token.as_str());
        fetch_credentials(&client, &request).ok()
    };
    let roles = String::from_utf8(ask("meta-data/iam/security-credentials/")?).ok()?;
    let role = roles.lines().next().filter(|role| !role.is_empty())?;
    let role = encoded(role, false);
    parse_keys(&ask(&format!("meta-data/iam/security-credentials/{role}"))?).ok()
}

fn parse_keys(body: &[u8]) -> Result<Expiring<FoundKeys>> {
    let all = super::fields(body)?;
    let get = |name: &str| all.get(name).cloned();
    let until = get("Expiration").as_deref().and_then(moment);
    match (get("AccessKeyId"), get("SecretAccessKey")) {
        (Some(id), Some(secret)) => {
            Ok(Expiring { value: FoundKeys::new(id, secret, get("Token")), until })
        }
        _ => Err(refused("the response has no credentials")),
    }
}

#[cold]
pub(super) fn refused(what: &str) -> Error {
    CREDENTIALS.broken(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(options: &StoreOptions) -> Option<(String, String)> {
        match find(options, &Policy::new(), "us-east-1").unwrap().value {
            FoundKeys::Keys(keys) => Some((keys.id, keys.token.unwrap_or_default())),
            FoundKeys::None => None,
        }
    }

    #[test]
    fn keys_are_found_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (config, secrets) = (folder.path().join("config"), folder.path().join("credentials"));
        std::fs::write(
            &config,
            "[profile other]\nregion = eu-west-1\n[profile sso]\nsso_session = x\ns3 =\n  a = b\n",
        )
        .unwrap();
        std::fs::write(&secrets, "# x\n[default]\naws_access_key_id=D\naws_secret_access_key = d\n[other]\naws_access_key_id = O\naws_secret_access_key = o=o\naws_session_token = T\n").unwrap();
        let (config, secrets) = (config.to_str().unwrap(), secrets.to_str().unwrap());
        let files = [("AWS_CONFIG_FILE", config), ("AWS_SHARED_CREDENTIALS_FILE", secrets)];
        let with = |more: &[(&str, &str)]| {
            StoreOptions::isolated().in_environment(&[&files[..], more].concat())
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(keys(&StoreOptions::isolated()), None);
        assert_eq!(keys(&with(&[])), pair("D", ""));
        assert_eq!(keys(&with(&[("AWS_PROFILE", "other")])), pair("O", "T"));
        let env = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e")];
        assert_eq!(keys(&with(&env)), pair("E", ""));
        assert_eq!(keys(&with(&env).with("profile", "other").unwrap()), pair("O", "T"));
        let options = with(&env).with("key", "S").unwrap().with("secret", "s").unwrap();
        assert_eq!(keys(&options), pair("S", ""));
        assert_eq!(keys(&options.with("anon", "True").unwrap()), None);
        let of_profile = profiles::profile(&with(&[("AWS_PROFILE", "other")])).unwrap().unwrap();
        assert_eq!(of_profile["region"], "eu-west-1");
        for name in ["none", "sso"] {
            let options = with(&[("AWS_PROFILE", name)]);
            let e = find(&options, &Policy::new(), "us-east-1").map(|_| ()).unwrap_err();
            assert_eq!(e.code(), "stores/profile", "{e}");
        }
    }
}
