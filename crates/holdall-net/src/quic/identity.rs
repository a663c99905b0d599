//! What a server shows who it is by.

use crate::rules::IDENTITY;
use data_encoding::{BASE64, HEXLOWER};
use holdall_core::Result;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::sync::Arc;

/// A certificate and its key: made here, or given.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pin: Option<[u8; 32]>,
}

impl Identity {
    /// A new key, with a certificate that it signs itself.
    ///
    /// # Errors
    /// `net/identity`, where the system has no random numbers.
    pub fn generate() -> Result<Identity> {
        let random = SystemRandom::new();
        let made = || {
            let key = EcdsaKeyPair::generate_pkcs8(ALGORITHM, &random)?;
            let pair = EcdsaKeyPair::from_pkcs8(ALGORITHM, key.as_ref(), &random);
            let pair = pair.map_err(|_| ring::error::Unspecified)?;
            Ok((key.as_ref().to_vec(), certificate(&pair, &random)?))
        };
        let made: Result<_, ring::error::Unspecified> = made();
        let (key, der) = made.map_err(|_| IDENTITY.broken("the system gives no random numbers"))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        Ok(Identity { chain: vec![CertificateDer::from(der)], key, pin: None }.pinned())
    }

    /// The one that [`Identity::to_pem`] wrote.
    ///
    /// # Errors
    /// `net/identity`.
    pub fn of_own(pem: &[u8]) -> Result<Identity> {
        let identity = Identity::of_pem(pem, pem)?;
        // A key of another certificate is found out now, not by who connects.
        identity.tls(&[])?;
        Ok(identity.pinned())
    }

    /// The same, vouched for by the SHA-256 of its certificate.
    fn pinned(mut self) -> Identity {
        let digest = self.chain.first().map(|der| digest(&SHA256, der));
        self.pin = digest.and_then(|digest| digest.as_ref().try_into().ok());
        self
    }

    /// A certificate that an authority signed, those between them, and its key, all in PEM.
    ///
    /// # Errors
    /// `net/identity`.
    pub fn of_pem(certificates: &[u8], key: &[u8]) -> Result<Identity> {
        let wrong = |e: rustls::pki_types::pem::Error| {
            IDENTITY.broken(format!("the PEM text is broken: {e}"))
        };
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(wrong)?;
        if chain.is_empty() {
            return Err(IDENTITY.broken("the PEM text has no certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong)?;
        Ok(Identity { chain, key, pin: None })
    }

    /// The key and the certificates in PEM, which make the same identity again by [`Identity::of_own`]: a secret.
    pub fn to_pem(&self) -> String {
        let mut out = String::new();
        let keys = [("PRIVATE KEY", self.key())];
        let certificates = self.certificates().map(|der| ("CERTIFICATE", der));
        for (label, der) in keys.into_iter().chain(certificates) {
            out.push_str(&format!("-----BEGIN {label}-----\n"));
            for line in der.chunks(LINE) {
                out.push_str(&BASE64.encode(line));
                out.push('\n');
            }
            out.push_str(&format!("-----END {label}-----\n"));
        }
        out
    }

    /// The key in DER: a secret.
    pub fn key(&self) -> &[u8] {
        self.key.secret_der()
    }

    /// What is shown: its certificate, and those between that and an authority (DER).
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.chain.iter().map(|der| der.as_ref())
    }

    /// TLS 1.3 by it, for these protocols.
    pub(crate) fn tls(&self, protocols: &[&[u8]]) -> Result<rustls::ServerConfig> {
        let wrong = |e: rustls::Error| {
            IDENTITY.broken("the certificate and the key are of no use").because(e)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(wrong)?;
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(tls)
    }

    /// What an address has behind `#sha256=`, where the certificate was made here.
    pub fn pin(&self) -> Option<String> {
        self.pin.map(|pin| HEXLOWER.encode(&pin))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

/// Browsers know keys of it, as they do not those of Ed25519.
static ALGORITHM: &EcdsaSigningAlgorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
/// Bytes of a line of PEM.
const LINE: usize = 48;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A certificate of version 3 in DER: for `holdall`, by itself, for ever.
fn certificate(
    pair: &EcdsaKeyPair,
    random: &SystemRandom,
) -> Result<Vec<u8>, ring::error::Unspecified> {
    // Browsers take no second certificate with the name and the number of another. A positive one, in as few bytes as it takes.
    let mut serial = [0; 8];
    random.fill(&mut serial)?;
    serial[0] = serial[0] & 0x3f | 0x40;
    // 1.2.840.10045.4.3.2, ECDSA with SHA-256; 1.2.840.10045.2.1, a key on a curve; 1.2.840.10045.3.1.7, P-256; 2.5.4.3, the
    // common name.
    let algorithm =
        der(SEQUENCE, &[&der(0x06, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]])]);
    let curve = der(
        SEQUENCE,
        &[
            &der(0x06, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]]),
            &der(0x06, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]]),
        ],
    );
    let common = [der(0x06, &[&[0x55, 0x04, 0x03]]), der(0x0c, &[b"holdall"])].concat();
    let name = der(SEQUENCE, &[&der(0x31, &[&der(SEQUENCE, &[&common])])]);
    let valid =
        der(SEQUENCE, &[&der(0x17, &[b"000101000000Z"]), &der(0x18, &[b"99991231235959Z"])]);
    let public = pair.public_key().as_ref();
    let key = der(SEQUENCE, &[&curve, &der(BIT_STRING, &[&[0], public])]);
    let version = der(0xa0, &[&der(0x02, &[&[2]])]);
    let serial = der(0x02, &[&serial]);
    let said = der(SEQUENCE, &[&version, &serial, &algorithm, &name, &valid, &name, &key]);
    let signature = pair.sign(random, &said)?;
    let signature = der(BIT_STRING, &[&[0], signature.as_ref()]);
    Ok(der(SEQUENCE, &[&said, &algorithm, &signature]))
}

/// One value in DER; none here is longer than 65,535 bytes.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut out = vec![tag];
    match content.len() {
        0..0x80 => out.push(low),
        0x80..0x100 => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    out.extend(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_the_same_again() {
        let first = Identity::generate().unwrap();
        let again = Identity::of_own(first.to_pem().as_bytes()).unwrap();
        assert_eq!(first.pin().unwrap(), again.pin().unwrap());
        assert_eq!(first.pin().unwrap().len(), 64);
        assert_ne!(first.pin(), Identity::generate().unwrap().pin());
        assert!(!format!("{first:?}").contains("key"));
    }

    #[test]
    fn what_is_none_is_refused() {
        let (one, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mixed = Identity { chain: one.chain, ..other }.to_pem();
        for own in [&b"no"[..], mixed.as_bytes()] {
            assert_eq!(Identity::of_own(own).unwrap_err().code(), "net/identity");
        }
        for pem in ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let e = Identity::of_pem(pem.as_bytes(), b"").unwrap_err();
            assert_eq!(e.code(), "net/identity", "{pem}");
        }
    }
}
