//! Signing requests with Amazon's Signature Version 4 and Azure's shared key, and the time formats of both.

use crate::http::HttpRequest;
use holdall_schema::calendar::{date_of, day_of};
use ring::digest;
use ring::hmac as mac;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The keys with which requests are signed.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// Returns the SHA-256 hash in lowercase hexadecimal digits.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Returns the HMAC with SHA-256 (RFC 2104).
pub(super) fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    mac::sign(&mac::Key::new(mac::HMAC_SHA256, key), message).as_ref().to_vec()
}

/// Signs a request to S3 by adding the headers `x-amz-…` and `authorization`. All headers are signed, except
/// `accept-encoding`.
pub(super) fn v4(
    request: &mut HttpRequest<'_>,
    keys: &Keys,
    region: &str,
    service: &str,
    now: SystemTime,
) {
    let time = Civil::from_time(now);
    let (date, stamp) = (time.day_text(), time.basic());
    let payload = sha256_hex(request.body);
    request.headers.push(("x-amz-content-sha256", payload.clone()));
    request.headers.push(("x-amz-date", stamp.clone()));
    if let Some(token) = &keys.token {
        request.headers.push(("x-amz-security-token", token.clone()));
    }
    let host = request.url.authority();
    let mut headers = vec![("host", host.as_str())];
    let own = request.headers.iter().map(|(name, value)| (*name, value.trim()));
    headers.extend(own.filter(|(name, _)| *name != "accept-encoding"));
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let query = canonical(request.url.query());
    let (method, path) = (request.method, request.url.path());
    let whole = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256_hex(whole.as_bytes()));
    let mut key = hmac(format!("AWS4{}", keys.secret).as_bytes(), date.as_bytes());
    for part in [region, service, "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    let signature = data_encoding::HEXLOWER.encode(&hmac(&key, text.as_bytes()));
    let id = &keys.id;
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}"
    );
    request.headers.push(("authorization", value));
}

/// Returns a query with sorted parameters, each with a value.
fn canonical(query: &str) -> String {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let mut parts: Vec<String> = parts
        .map(|part| if part.contains('=') { part.to_owned() } else { format!("{part}=") })
        .collect();
    parts.sort_unstable();
    parts.join("&")
}

/// Signs a request with the key of the Azure account called `account`.
pub(super) fn shared_key(
    request: &mut HttpRequest<'_>,
    account: &str,
    key: &[u8],
    now: SystemTime,
) {
    request.headers.push(("x-ms-date", Civil::from_time(now).http()));
    let header = |name: &str| {
        let found = request.headers.iter().find(|(own, _)| *own == name);
        found.map_or("", |(_, value)| value.trim())
    };
    let len = if request.body.is_empty() { String::new() } else { request.body.len().to_string() };
    let mut text = format!("{}\n\n\n{len}\n\n{}\n\n", request.method, header("content-type"));
    for name in ["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"] {
        text.push_str(header(name));
        text.push('\n');
    }
    let mut own: Vec<_> =
        request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort_unstable();
    for (name, value) in own {
        text.push_str(&format!("{name}:{}\n", value.trim()));
    }
    text.push_str(&format!("/{account}{}", request.url.path()));
    let mut query: Vec<(String, String)> =
        request.url.query().split('&').filter_map(pair).collect();
    query.sort_unstable();
    for (name, value) in query {
        text.push_str(&format!("\n{name}:{value}"));
    }
    let signature = data_encoding::BASE64.encode(&hmac(key, text.as_bytes()));
    request.headers.push(("authorization", format!("SharedKey {account}:{signature}")));
}

/// Decodes a query parameter to its name, in lowercase, and its value.
fn pair(part: &str) -> Option<(String, String)> {
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    let plain = |text: &str| String::from_utf8_lossy(&crate::http::decoded(text)).into_owned();
    (!part.is_empty()).then(|| (plain(name).to_ascii_lowercase(), plain(value)))
}

/// Percent-encodes every byte except letters, digits, `-`, `.`, `_` and `~`, and except slashes if `keeps_slashes`.
pub(super) fn encoded(text: &str, keeps_slashes: bool) -> String {
    let out = holdall_json::percent_encoded(text);
    if keeps_slashes { out } else { out.replace('/', "%2F") }
}

/// A time in UTC, as a calendar date and seconds of the day.
struct Civil {
    year: i64,
    month: u8,
    day: u8,
    /// The number of days since 1970.
    days: u64,
    seconds: u64,
}

impl Civil {
    fn from_time(time: SystemTime) -> Civil {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let days = seconds / 86_400;
        let (year, month, day) = date_of(days as i64);
        Civil { year, month, day, days, seconds: seconds % 86_400 }
    }

    fn clock(&self) -> (u64, u64, u64) {
        (self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60)
    }

    fn day_text(&self) -> String {
        format!("{:04}{:02}{:02}", self.year, self.month, self.day)
    }

    /// Formats the time as `20130524T000000Z`.
    fn basic(&self) -> String {
        let (hours, minutes, seconds) = self.clock();
        format!("{}T{hours:02}{minutes:02}{seconds:02}Z", self.day_text())
    }

    /// Formats the time as `Fri, 24 May 2013 00:00:00 GMT`.
    fn http(&self) -> String {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (hours, minutes, seconds) = self.clock();
        let (name, month) = (DAYS[(self.days % 7) as usize], MONTHS[usize::from(self.month) - 1]);
        let (day, year) = (self.day, self.year);
        format!("{name}, {day:02} {month} {year:04} {hours:02}:{minutes:02}:{seconds:02} GMT")
    }
}

/// Parses a time such as `2013-05-24T00:00:00Z`, ignoring fractions of a second.
pub(super) fn moment(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)? as i32, number(5..7)? as u8, number(8..10)? as u8);
    let (hours, minutes, seconds) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let days = u64::try_from(day_of(year, month, day)?).ok()?;
    let seconds = days * 86_400 + hours * 3600 + minutes * 60 + seconds;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Url;

    /// The example of Amazon's documentation.
    #[test]
    fn a_request_is_signed_as_documented() {
        let url = Url::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let mut request = HttpRequest::new("GET", url, b"").with("range", "bytes=0-9");
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let now = moment("2013-05-24T00:00:00Z").unwrap();
        v4(&mut request, &keys, "us-east-1", "s3", now);
        let (_, value) = request.headers.last().unwrap();
        assert_eq!(
            value,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn messages_are_authenticated_as_the_standard_says() {
        let hex = |key: &[u8], message: &[u8]| data_encoding::HEXLOWER.encode(&hmac(key, message));
        // RFC 4231, cases 2 and 6.
        assert_eq!(
            hex(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn moments_go_there_and_back() {
        for (text, http) in [
            ("1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("2000-02-29T23:59:59Z", "Tue, 29 Feb 2000 23:59:59 GMT"),
            ("2013-05-24T00:00:01Z", "Fri, 24 May 2013 00:00:01 GMT"),
            ("2100-03-01T12:00:00Z", "Mon, 01 Mar 2100 12:00:00 GMT"),
        ] {
            assert_eq!(Civil::from_time(moment(text).unwrap()).http(), http);
        }
        for text in ["", "2013", "2013-13-01T00:00:00Z", "1913-01-01T00:00:00Z", "äöüäöüäöüäöü"]
        {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
