//! Addresses of objects.

use super::rules::ADDRESS;
use holdall_core::Result;
use holdall_core::error::Shown as _;
use std::fmt;

/// Who keeps an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
    Hub,
}

impl Kind {
    /// Whose addresses begin with this scheme.
    pub(crate) fn from_scheme(scheme: &str) -> Option<Kind> {
        let is = |one: &str| scheme.eq_ignore_ascii_case(one);
        let found = SCHEMES.iter().find(|(_, names)| names.iter().any(|name| is(name)));
        found.map(|(kind, _)| *kind)
    }

    /// The scheme that addresses are shown with.
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

/// An object, or what has a prefix: `s3://BUCKET/KEY`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// The bucket or container; of the hub the repository, with `datasets/` before it where it is one of data.
    pub(crate) bucket: String,
    /// Of Azure the host that the address names, of the hub the revision.
    pub(crate) detail: Option<String>,
    /// What is in the bucket, as it is named there; nothing, or ending with a slash, where it is a folder.
    pub(crate) key: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`ADDRESS`].
    pub(crate) fn parse(text: &str) -> Result<Address> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let Some(kind) = Kind::from_scheme(scheme) else {
            return Err(ADDRESS.broken(format!("`{}` has another scheme", shown(text).shown())));
        };
        let address = match kind {
            Kind::Hub => hub(rest)?,
            _ => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                let (bucket, detail) = match (kind, bucket.split_once('@')) {
                    (Kind::Azure, Some((bucket, host))) => (bucket, Some(host.to_owned())),
                    _ => (bucket, None),
                };
                Address { kind, bucket: bucket.to_owned(), detail, key: key.to_owned() }
            }
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || ".-_$".contains(c);
        for part in address.bucket.split('/').chain(address.detail.as_deref()) {
            let is_revision = kind == Kind::Hub && Some(part) == address.detail.as_deref();
            if part.is_empty() || !part.chars().all(|c| fine(c) || is_revision && c == '/') {
                let e = "its bucket has letters, digits, `.`, `-` and `_` only, and is not empty";
                return Err(ADDRESS.broken(e));
            }
        }
        if address.key.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(ADDRESS.broken("its key has `.` or `..` between slashes"));
        }
        Ok(address)
    }

    /// Whether it names a folder, not an object.
    pub(crate) fn is_folder(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// What the bucket is shared under: all but the key.
    pub(crate) fn bucket_address(&self) -> Address {
        Address { key: String::new(), ..self.clone() }
    }
}

/// Owner, name, revision and path of what is on the hub.
fn hub(rest: &str) -> Result<Address> {
    let is_kind = |part: &&str| matches!(*part, "datasets" | "spaces" | "models");
    let mut parts = rest.splitn(2, '/');
    let kind = parts.next().filter(is_kind);
    let rest = if kind.is_some() { parts.next().unwrap_or_default() } else { rest };
    let mut parts = rest.splitn(3, '/');
    let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let path = parts.next().unwrap_or_default();
    if owner.is_empty() || name.is_empty() {
        let e = ADDRESS.broken("it does not name an owner and a repository");
        return Err(e.with_hint("write `hf://OWNER/NAME/PATH`, for example `hf://openai-community/gpt2/model.safetensors`"));
    }
    let (name, revision) = match name.split_once('@') {
        // A slash in it is written as `%2F`.
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

/// An address as it may be printed: without what may be secret, where somebody wrote keys into it.
pub(crate) fn shown(text: &str) -> String {
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
        let of = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(parts("S3://my.bucket/a b/ü#?.zt"), of("my.bucket", "", "a b/ü#?.zt"));
        assert_eq!(parts("gcs://b"), of("b", "", ""));
        assert_eq!(parts("az://c/k"), of("c", "", "k"));
        let host = "acc.dfs.core.windows.net";
        assert_eq!(parts(&format!("abfss://c@{host}/k/l")), of("c", host, "k/l"));
        assert_eq!(parts("hf://o/n@refs%2Fpr%2F1/a/b"), of("o/n", "refs/pr/1", "a/b"));
        assert_eq!(parts("hf://datasets/o/n/a"), of("datasets/o/n", "", "a"));
        assert_eq!(parts("hf://o/n"), of("o/n", "", ""));
        let text = "hf://o/n@refs%2Fpr%2F1/a/b";
        assert_eq!(Address::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_none_is_refused_and_shows_no_secret() {
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
        assert_eq!(shown("s3://id:secret@b/k"), "s3://b/k");
    }
}
