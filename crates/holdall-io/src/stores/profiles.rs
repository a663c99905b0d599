//! Profiles of Amazon's tools: keys, roles to assume, single sign-on.

use super::credentials::{
    FoundKeys, container_keys, fetch_credentials, given, machine_keys, refused, session,
    token_service, web_identity_keys,
};
use super::options::{StoreOptions, endpoint};
use super::rules::{CREDENTIALS, PROFILE};
use super::signing::{encoded, moment, v4};
use super::{Expiring, fields, fields_in};
use crate::http::{Client, HttpRequest, Policy};
use holdall_core::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A profile: the settings that the user's files have under its name.
pub(super) type Profile = BTreeMap<String, String>;

/// The greatest number of roles that are assumed one after the other.
const CHAIN: usize = 5;

/// Returns the keys of the selected profile, or of `default`. Returns `None` if there is no `default` profile,
/// or if the profile has no credentials.
///
/// # Errors
/// Returns [`PROFILE`] if the selected profile does not exist, or its kind of credentials is not supported; errors of the token
/// service.
pub(super) fn keys(
    options: &StoreOptions,
    policy: &Policy,
    region: &str,
) -> Result<Option<Expiring<FoundKeys>>> {
    if profile(options)?.is_none() {
        return Ok(None);
    }
    let name = options.find("profile", &["AWS_PROFILE"]).unwrap_or_else(|| "default".to_owned());
    KeyLookup { options, policy, region }.resolve(&name, &mut Vec::new())
}

/// Returns the profile that the options or the environment select, or else `default`. Returns `None` if there is no
/// `default` profile.
///
/// # Errors
/// Returns [`PROFILE`] if the selected profile does not exist.
pub(super) fn profile(options: &StoreOptions) -> Result<Option<Profile>> {
    let named = options.find("profile", &["AWS_PROFILE"]);
    let all = find_profile(options, named.as_deref().unwrap_or("default"));
    match (all.is_empty(), named) {
        (true, Some(name)) => Err(nowhere(&name)),
        (true, None) => Ok(None),
        (false, _) => Ok(Some(all)),
    }
}

#[cold]
fn nowhere(name: &str) -> Error {
    let name = name.escape_debug();
    PROFILE.broken(format!("there is no profile `{name}` in the profile files"))
}

/// Returns the settings that the user's files have under a name. Empty if the files do not have the name.
fn find_profile(options: &StoreOptions, name: &str) -> Profile {
    let config = file(options, "AWS_CONFIG_FILE", ".aws/config");
    let mut all = section(&config, &format!("profile {name}"));
    if name == "default" || all.is_empty() {
        all.extend(section(&config, name));
    }
    let credentials = file(options, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    all.extend(section(&credentials, name));
    all
}

/// Reads a profile file. Returns an empty text if the file does not exist.
fn file(options: &StoreOptions, var: &str, usual: &str) -> String {
    let path = options.env(var).map(PathBuf::from).or_else(|| options.home(usual));
    path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

/// Returns the settings in the section `[name]`.
fn section(text: &str, name: &str) -> Profile {
    let mut all = Profile::new();
    let mut is_in = false;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            is_in = head.split_whitespace().eq(name.split_whitespace());
        } else if let (true, false, Some((key, value))) = (is_in, is_nested, line.split_once('='))
            && !line.starts_with(['#', ';'])
        {
            all.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    all
}

/// The context of a lookup of keys.
struct KeyLookup<'a> {
    options: &'a StoreOptions,
    policy: &'a Policy,
    region: &'a str,
}

impl KeyLookup<'_> {
    /// Returns the keys of a profile. `dependents` has the profiles whose roles need these keys.
    fn resolve(
        &self,
        name: &str,
        dependents: &mut Vec<String>,
    ) -> Result<Option<Expiring<FoundKeys>>> {
        let profile = find_profile(self.options, name);
        if profile.is_empty() {
            return Err(nowhere(name));
        }
        let get = |key: &str| profile.get(key).map(String::as_str);
        let own = match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(id), Some(secret)) => {
                let token = get("aws_session_token").map(str::to_owned);
                Some(Expiring::always(FoundKeys::new(id.to_owned(), secret.to_owned(), token)))
            }
            _ => None,
        };
        if let Some(role) = get("role_arn") {
            let region = get("region").unwrap_or(self.region);
            if let Some(file) = get("web_identity_token_file") {
                let as_whom = (role, &*self.session(&profile));
                return web_identity_keys(self.options, self.policy, region, file, as_whom)
                    .map(Some);
            }
            if get("mfa_serial").is_some() {
                return Err(unknown("mfa_serial"));
            }
            dependents.push(name.to_owned());
            let keys = match (get("source_profile"), get("credential_source")) {
                (Some(from), _) if from == name => own,
                (Some(from), _) if dependents.iter().any(|known| known == from) => {
                    let e = format!("profile `{}` is its own source", name.escape_debug());
                    return Err(PROFILE.broken(e));
                }
                (Some(_), _) if dependents.len() >= CHAIN => {
                    return Err(PROFILE.broken(format!(
                        "more than {CHAIN} roles would have to be assumed in turn"
                    )));
                }
                (Some(from), _) => self.resolve(from, dependents)?,
                (None, Some(from)) => self.source_keys(from)?,
                (None, None) => None,
            };
            return match keys.map(|fresh| fresh.value) {
                Some(FoundKeys::Keys(keys)) => self.role(&profile, role, region, &keys).map(Some),
                _ => Err(PROFILE.broken("no keys are given for assuming the role")),
            };
        }
        if own.is_some() {
            return Ok(own);
        }
        if get("sso_account_id").is_some() {
            return self.sign_on(&profile).map(Some);
        }
        let others = ["sso_session", "sso_start_url", "credential_process", "login_session"];
        match others.iter().find(|how| profile.contains_key(**how)) {
            Some(how) => Err(unknown(how)),
            None => Ok(None),
        }
    }

    /// Returns the keys from the place that `credential_source` names.
    fn source_keys(&self, from: &str) -> Result<Option<Expiring<FoundKeys>>> {
        let env = |name: &str| self.options.env(name);
        match from {
            "Environment" => Ok(env("AWS_ACCESS_KEY_ID").zip(env("AWS_SECRET_ACCESS_KEY")).map(
                |(id, secret)| {
                    Expiring::always(FoundKeys::new(id, secret, env("AWS_SESSION_TOKEN")))
                },
            )),
            "EcsContainer" => container_keys(self.options),
            "Ec2InstanceMetadata" => Ok(machine_keys(self.options)),
            _ => Ok(None),
        }
    }

    /// Returns the session name for assuming the role of a profile.
    fn session(&self, profile: &Profile) -> String {
        profile.get("role_session_name").cloned().unwrap_or_else(|| session(self.options))
    }

    /// Assumes a role with keys that have permission to.
    fn role(
        &self,
        profile: &Profile,
        role: &str,
        region: &str,
        keys: &super::signing::Keys,
    ) -> Result<Expiring<FoundKeys>> {
        let get = |key: &str| profile.get(key).map(String::as_str);
        let name = self.session(profile);
        let mut form = format!(
            "Action=AssumeRole&Version=2011-06-15&RoleArn={}&RoleSessionName={}",
            encoded(role, false),
            encoded(&name, false)
        );
        for (key, parameter) in
            [("external_id", "ExternalId"), ("duration_seconds", "DurationSeconds")]
        {
            if let Some(value) = get(key) {
                form.push_str(&format!("&{parameter}={}", encoded(value, false)));
            }
        }
        let url = token_service(self.options, region)?;
        let mut request = HttpRequest::new("POST", url, form.as_bytes())
            .with("content-type", "application/x-www-form-urlencoded");
        v4(&mut request, keys, region, "sts", SystemTime::now());
        let body = fetch_credentials(&Client::new(self.policy), &request)
            .map_err(|e| e.within("assuming the role of the profile"))?;
        given(&body)
            .ok_or_else(|| refused("the token service returned no credentials for the role"))
    }

    /// Requests keys with the token that `aws sso login` has stored.
    fn sign_on(&self, profile: &Profile) -> Result<Expiring<FoundKeys>> {
        let options = self.options;
        let of_session = profile.get("sso_session").map(|name| {
            let all = section(
                &file(options, "AWS_CONFIG_FILE", ".aws/config"),
                &format!("sso-session {name}"),
            );
            (name.clone(), all)
        });
        let get = |key: &str| {
            let of_session = of_session.as_ref().and_then(|(_, all)| all.get(key));
            profile.get(key).or(of_session).cloned()
        };
        let wants = |key: &str| {
            get(key).ok_or_else(|| PROFILE.broken(format!("the profile has no `{key}`")))
        };
        let (account, role) = (wants("sso_account_id")?, wants("sso_role_name")?);
        let (region, start) = (wants("sso_region")?, wants("sso_start_url")?);
        let key = of_session.as_ref().map_or(start.as_str(), |(name, _)| name);
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
        let path =
            format!(".aws/sso/cache/{}.json", data_encoding::HEXLOWER.encode(digest.as_ref()));
        let sign_on = |what: &str| {
            CREDENTIALS.broken(what.to_owned()).with_hint("run `aws sso login` to sign in")
        };
        let kept = options.home(&path).and_then(|path| std::fs::read(path).ok());
        let kept = kept.ok_or_else(|| sign_on("not signed in with the profile"))?;
        let kept = fields(&kept)?;
        let until = kept.get("expiresAt").and_then(|text| moment(text));
        let token =
            kept.get("accessToken").filter(|_| until.is_none_or(|at| SystemTime::now() < at));
        let token = token.ok_or_else(|| sign_on("the sign-in with the profile has expired"))?;
        let base = options.env("AWS_ENDPOINT_URL_SSO");
        let base = base.unwrap_or_else(|| format!("https://portal.sso.{region}.amazonaws.com"));
        let (account, role) = (encoded(&account, false), encoded(&role, false));
        let target = format!("/federation/credentials?account_id={account}&role_name={role}");
        let url = endpoint(&base)?.with_target(target);
        let request =
            HttpRequest::new("GET", url, b"").with("x-amz-sso_bearer_token", token.as_str());
        let body = fetch_credentials(&Client::new(self.policy), &request)
            .map_err(|e| e.within("requesting the credentials of the profile"))?;
        let all = fields_in(&body, "roleCredentials")?;
        let get = |name: &str| all.get(name).cloned();
        let until = get("expiration").and_then(|ms| ms.parse().ok());
        let until = until.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
        match (get("accessKeyId"), get("secretAccessKey")) {
            (Some(id), Some(secret)) => {
                Ok(Expiring { value: FoundKeys::new(id, secret, get("sessionToken")), until })
            }
            _ => Err(refused("the response of the single sign-on service has no credentials")),
        }
    }
}

#[cold]
fn unknown(how: &str) -> Error {
    let e = PROFILE.broken(format!("the profile uses `{how}`, which is not supported"));
    e.with_hint(
        "`aws configure export-credentials --format env` prints what to set in the environment",
    )
}

#[cfg(test)]
mod tests {
    use super::super::credentials::find;
    use super::*;
    use crate::http::{Hosts, Schemes};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// A server that sends these responses one after the other, and returns the requests that it got.
    fn service(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut text, mut piece) = (String::new(), [0; 4096]);
                loop {
                    let len = stream.read(&mut piece).unwrap();
                    text.push_str(std::str::from_utf8(&piece[..len]).unwrap());
                    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
                    let is_all = head.lines().find_map(|line| {
                        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                    });
                    if text.contains("\r\n\r\n") && body.len() >= is_all.unwrap_or(0) {
                        break;
                    }
                }
                let len = answer.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n"
                );
                stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
                asked.push(text);
            }
            asked
        });
        (endpoint, asked)
    }

    /// Returns the keys of a profile, with these texts in the profile files.
    fn found(config: &str, profile: &str, more: &[(&str, &str)]) -> Result<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".aws/sso/cache");
        std::fs::create_dir_all(&cache).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        // SHA-1 of `mine`.
        let token = r#"{"accessToken":"hunter2","expiresAt":"2999-01-01T00:00:00Z"}"#;
        std::fs::write(cache.join("8034c43d15bb7ef42e2cc24255217acfc5f4b2f4.json"), token).unwrap();
        let of_old = r#"{"accessToken":"hunter2","expiresAt":"2001-01-01T00:00:00Z"}"#;
        // SHA-1 of `https://old`.
        std::fs::write(cache.join("3dbfcfb8178f8ce8f73712c57098fc9f2cb54d8c.json"), of_old)
            .unwrap();
        let home = home.path().to_str().unwrap();
        let environment = [&[("HOME", home)][..], more].concat();
        let options =
            StoreOptions::isolated().in_environment(&environment).with("profile", profile)?;
        let policy = Policy::new().with_hosts(Hosts::Any).with_schemes(Schemes::HttpToo);
        match find(&options, &policy, "eu-test-1")?.value {
            FoundKeys::Keys(keys) => Ok((keys.id, keys.token.unwrap_or_default())),
            FoundKeys::None => panic!("no keys"),
        }
    }

    fn keys_of(role: &str) -> String {
        format!(
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{role}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )
    }

    #[test]
    fn roles_are_taken_on_by_the_keys_of_another_profile() {
        let config = "[default]\naws_access_key_id = D\naws_secret_access_key = d\n\
            [profile one]\nrole_arn = arn:one\nsource_profile = default\nexternal_id = e/x\n\
            [profile two]\nrole_arn = arn:two\nsource_profile = one\nrole_session_name = me\n";
        let (endpoint, asked) = service(vec![keys_of("ONE"), keys_of("TWO")]);
        let more = [("AWS_ENDPOINT_URL_STS", endpoint.as_str())];
        assert_eq!(found(config, "two", &more).unwrap(), ("TWO".to_owned(), "t".to_owned()));
        let asked = asked.join().unwrap();
        assert!(asked[0].contains("RoleArn=arn%3Aone&RoleSessionName=holdall&ExternalId=e%2Fx"));
        assert!(asked[0].contains("Credential=D/") && asked[0].contains("/eu-test-1/sts/"));
        assert!(asked[1].contains("RoleArn=arn%3Atwo&RoleSessionName=me"));
        assert!(asked[1].contains("Credential=ONE/") && asked[1].contains("security-token: t"));
        // From the environment.
        let config = "[profile env]\nrole_arn = arn:env\ncredential_source = Environment\n";
        let (endpoint, asked) = service(vec![keys_of("ENV")]);
        let more = [
            ("AWS_ENDPOINT_URL_STS", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "E"),
            ("AWS_SECRET_ACCESS_KEY", "e"),
        ];
        assert_eq!(found(config, "env", &more).unwrap().0, "ENV");
        assert!(asked.join().unwrap()[0].contains("Credential=E/"));
    }

    #[test]
    fn roles_are_taken_on_by_the_token_of_a_web_identity() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "a.b+c\n").unwrap();
        let token = token.to_str().unwrap();
        let config = format!(
            "[profile named]\nrole_arn = arn:w\nweb_identity_token_file = {token}\nrole_session_name = my job\n\
             [profile other]\nrole_arn = arn:w\nweb_identity_token_file = {token}\n"
        );
        let (endpoint, asked) = service(vec![keys_of("N"), keys_of("O"), keys_of("P")]);
        let of_env = ("AWS_ROLE_SESSION_NAME", "env");
        let endpoint = ("AWS_ENDPOINT_URL_STS", endpoint.as_str());
        // The profile takes precedence over the environment.
        assert_eq!(found(&config, "named", &[endpoint, of_env]).unwrap().0, "N");
        assert_eq!(found(&config, "other", &[endpoint, of_env]).unwrap().0, "O");
        assert_eq!(found(&config, "other", &[endpoint]).unwrap().0, "P");
        let names = ["my%20job", "env", "holdall"];
        for (asked, name) in asked.join().unwrap().iter().zip(names) {
            let message = format!(
                "AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aw&RoleSessionName={name}&WebIdentityToken=a.b%2Bc"
            );
            assert!(asked.contains(&message), "{asked}");
        }
    }

    #[test]
    fn single_sign_on_uses_the_token_that_was_left() {
        let config = "[profile s]\nsso_session = mine\nsso_account_id = 12\nsso_role_name = r r\n\
            [sso-session mine]\nsso_region = eu-x-1\nsso_start_url = https://x\n\
            [profile none]\nsso_account_id = 1\nsso_role_name = r\nsso_region = x\nsso_start_url = https://none\n\
            [profile old]\nsso_account_id = 1\nsso_role_name = r\nsso_region = x\nsso_start_url = https://old\n";
        let answer = r#"{"roleCredentials":{"accessKeyId":"S","secretAccessKey":"s","sessionToken":"t","expiration":32503680000000}}"#;
        let (endpoint, asked) = service(vec![answer.to_owned()]);
        let more = [("AWS_ENDPOINT_URL_SSO", endpoint.as_str())];
        assert_eq!(found(config, "s", &more).unwrap(), ("S".to_owned(), "t".to_owned()));
        let asked = asked.join().unwrap();
        assert!(asked[0].starts_with("GET /federation/credentials?account_id=12&role_name=r%20r "));
        assert!(asked[0].contains("x-amz-sso_bearer_token: hunter2"));
        for (name, message) in [("none", "not signed in"), ("old", "has expired")] {
            let e = found(config, name, &[]).unwrap_err();
            assert_eq!(e.code(), "stores/credentials", "{e}");
            assert!(e.message().contains(message), "{e}");
            assert!(e.hint().unwrap().contains("aws sso login"), "{e}");
        }
    }

    #[test]
    fn unsupported_profiles_are_refused_with_advice() {
        let config = "[profile a]\nrole_arn = x\nsource_profile = b\n\
            [profile b]\nrole_arn = y\nsource_profile = a\n\
            [profile c]\nrole_arn = x\nsource_profile = gone\n\
            [profile d]\nrole_arn = x\n\
            [profile e]\nrole_arn = x\nmfa_serial = m\nsource_profile = k\n\
            [profile f]\ncredential_process = rm -rf /\n\
            [profile k]\naws_access_key_id = K\naws_secret_access_key = k\n";
        for (name, message) in [
            ("a", "is its own source"),
            ("c", "no profile `gone`"),
            ("d", "no keys are given"),
            ("e", "`mfa_serial`"),
            ("f", "`credential_process`"),
        ] {
            let e = found(config, name, &[]).unwrap_err();
            assert_eq!(e.code(), "stores/profile", "{e}");
            assert!(e.message().contains(message), "{name}: {e}");
            let is_by_hand = ["e", "f"].contains(&name);
            assert_eq!(e.hint().is_some_and(|h| h.contains("export-credentials")), is_by_hand);
        }
    }
}
