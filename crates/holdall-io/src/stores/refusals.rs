//! The meaning of stores' error responses.

use super::rules::{CREDENTIALS, DENIED, NO_BUCKET, NO_OBJECT, REGION};
use super::xml;
use crate::http::{Answer, FailedTry};
use holdall_core::error::Escape as _;

/// Converts an error response to an error, by the code in its header or in its XML. Returns `None` if the status alone
/// determines the error. `how` is the hint on how to give credentials.
pub(super) fn refusal(
    answer: &Answer,
    body: &[u8],
    store: &str,
    is_signed: bool,
    how: &'static str,
) -> Option<FailedTry> {
    let of_header = ["x-ms-error-code", "x-error-code"].iter().find_map(|name| answer.header(name));
    let code = of_header.map(str::to_owned).or_else(|| xml::find(body, "Code"));
    let code = code.unwrap_or_default();
    let status = answer.status;
    let message = match code.is_empty() {
        true => format!("{store} answers with status {status}"),
        false => format!("{store} answers with `{}`", code.escaped()),
    };
    let rule = match code.as_str() {
        "NoSuchKey" | "BlobNotFound" | "EntryNotFound" => &NO_OBJECT,
        "NoSuchBucket" | "ContainerNotFound" | "RevisionNotFound" | "RepoNotFound" => {
            // Without credentials, the hub does not reveal which repositories exist.
            if !is_signed && code == "RepoNotFound" {
                let e = NO_BUCKET.broken(format!("{message}, and no credentials were found"));
                return Some(e.with_hint(how).into());
            }
            &NO_BUCKET
        }
        "ExpiredToken"
        | "TokenRefreshRequired"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "AuthenticationFailed"
        | "InvalidAuthenticationInfo" => &CREDENTIALS,
        "RequestTimeTooSkewed" => {
            let e = CREDENTIALS.broken(message);
            return Some(e.with_hint("the clock of this machine is wrong").into());
        }
        "PermanentRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException" => &REGION,
        _ => match status {
            401 | 403 => &DENIED,
            404 => &NO_OBJECT,
            301 => &REGION,
            _ => return None,
        },
    };
    let is_denied = rule.code == DENIED.code || rule.code == CREDENTIALS.code;
    if is_denied && !is_signed {
        return Some(
            DENIED
                .broken(format!("{message}, and no credentials were found"))
                .with_hint(how)
                .into(),
        );
    }
    Some(rule.broken(message).into())
}
