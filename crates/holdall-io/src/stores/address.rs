//! Addresses of objects.

use super::rules::ADDRESS;
use holdall_core::Result;
use holdall_core::error::Escape as _;
use std::fmt;

/// The storage provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
    Hub,
}

impl Kind {
    /// Returns the provider whose addresses have this scheme.
    pub(crate) fn from_scheme(scheme: &str) -> Option<Kind> {
        let is = |one: &str| scheme.eq_ignore_ascii_case(one);
        let found = SCHEMES.iter().find(|(_, names)| names.iter().any(|name| is(name)));
        found.map(|(kind, _)| *kind)
    }

    /// Returns the scheme with which addresses are displayed.
    fn scheme(self) -> &'static str {
        SCHEMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, names)| names[0])
    }
}

const SCHEMES: [(Kind, &[&str]); 4] = [
    (Kind::S3, &["s3", "s3a"]),
    (Kind::Google, &["gs", "gcs"]),
    (Kind::Azure, &["az", "azure", "abfs", "abfss"]),
    (Kind::Hub, &["hf"]),
];

/// The address of an object or of a prefix: `s3://BUCKET/KEY`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// The bucket or container. For the hub the repository, which begins with `datasets/` or `spaces/` unless it is a
    /// model.
    pub(crate) bucket: String,
    /// For Azure the host, for the hub the revision, if the address has one.
    pub(crate) detail: Option<String>,
    /// The key of the object in the bucket. Empty, or ending with a slash, for a folder.
    pub(crate) key: String,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// Returns [`ADDRESS`] if it is invalid.
    pub(crate) fn parse(text: &str) -> Result<Address> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let Some(kind) = Kind::from_scheme(scheme) else {
            return Err(ADDRESS.broken(format!("unknown scheme in `{}`", redacted(text).escaped())));
        };
        let address = match kind {
            Kind::Hub => parse_hub(rest)?,
            _ => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                let (bucket, detail) = match (kind, bucket.split_once('@')) {
                    (Kind::Azure, Some((bucket, host))) => (bucket, Some(host.to_owned())),
                    _ => (bucket, None),
                };
                Address { kind, bucket: bucket.to_owned(), detail, key: key.to_owned() }
            }
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_$".contains(c);
        for part in address.bucket.split('/').chain(address.detail.as_deref()) {
            let is_revision = kind == Kind::Hub && Some(part) == address.detail.as_deref();
            if part.is_empty() || !part.chars().all(|c| is_allowed(c) || is_revision && c == '/') {
                let e = "the bucket name is empty, or has other characters than letters, digits, `.`, `-` and `_`";
                return Err(ADDRESS.broken(e));
            }
        }
        if address.key.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(ADDRESS.broken("the key has a segment `.` or `..`"));
        }
        Ok(address)
    }

    /// Returns `true` if the address is that of a folder, not of an object.
    pub(crate) fn is_folder(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// Returns the address of the bucket, without the key. Objects with the same bucket address share a connection.
    pub(crate) fn bucket_address(&self) -> Address {
        Address { key: String::new(), ..self.clone() }
    }
}

/// Parses owner, name, revision and path of an address on the hub.
fn parse_hub(rest: &str) -> Result<Address> {
    let is_kind = |part: &&str| matches!(*part, "datasets" | "spaces" | "models");
    let mut parts = rest.splitn(2, '/');
    let kind = parts.next().filter(is_kind);
    let rest = if kind.is_some() { parts.next().unwrap_or_default() } else { rest };
    let mut parts = rest.splitn(3, '/');
    let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let path = parts.next().unwrap_or_default();
    if owner.is_empty() || name.is_empty() {
        let e = ADDRESS.broken("the owner or the name of the repository is missing");
        return Err(e.with_hint("write `hf://OWNER/NAME/PATH`, for example `hf://openai-community/gpt2/model.safetensors`"));
    }
    let (name, revision) = match name.split_once('@') {
        // A slash in a revision is written as `%2F`.
        Some((name, revision)) => (name, Some(revision.replace("%2F", "/").replace("%2f", "/"))),
        None => (name, None),
    };
    let prefix = match kind {
        Some(kind) if kind != "models" => format!("{kind}/"),
        _ => String::new(),
    };
    Ok(Address {
        kind: Kind::Hub,
        bucket: format!("{prefix}{owner}/{name}"),
        detail: revision,
        key: path.to_owned(),
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.kind.scheme(), self.bucket)?;
        if let Some(detail) = &self.detail {
            write!(f, "@{}", detail.replace('/', "%2F"))?;
        }
        write!(f, "/{}", self.key)
    }
}

/// Returns an address in a form that may be displayed, without keys that a user may have written into it.
pub(crate) fn redacted(text: &str) -> String {
    match Address::parse(text) {
        Ok(address) => address.to_string(),
        Err(_) => {
            let (scheme, rest) = text.split_once("://").unwrap_or_default();
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            format!("{scheme}://{}", rest.chars().take(200).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let parts = |text: &str| {
            let a = Address::parse(text).unwrap();
            (a.bucket, a.detail.unwrap_or_default(), a.key)
        };
        let expected = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("S3://my.bucket/a b/ü#?.zt"), expected("my.bucket", "", "a b/ü#?.zt"));
        assert_eq!(parts("gcs://b"), expected("b", "", ""));
        assert_eq!(parts("az://c/k"), expected("c", "", "k"));
        let host = "acc.dfs.core.windows.net";
        assert_eq!(parts(&format!("abfss://c@{host}/k/l")), expected("c", host, "k/l"));
        assert_eq!(parts("hf://o/n@refs%2Fpr%2F1/a/b"), expected("o/n", "refs/pr/1", "a/b"));
        assert_eq!(parts("hf://datasets/o/n/a"), expected("datasets/o/n", "", "a"));
        assert_eq!(parts("hf://o/n"), expected("o/n", "", ""));
        let text = "hf://o/n@refs%2Fpr%2F1/a/b";
        assert_eq!(Address::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn invalid_addresses_are_refused_without_showing_secrets() {
        for text in [
            "s3://",
            "s3:///k",
            "s3://b/../k",
            "s3://id:secret@b/k",
            "hf://gpt2",
            "az://c@/k",
            "s3://b\n/k",
        ] {
            assert_eq!(Address::parse(text).unwrap_err().code(), "stores/address", "{text}");
        }
        assert_eq!(redacted("s3://id:secret@b/k"), "s3://b/k");
    }
}
