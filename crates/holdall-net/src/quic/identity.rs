//! What a server shows who it is by.

use crate::rules::IDENTITY;
use data_encoding::HEXLOWER;
use holdall_core::Result;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
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
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| IDENTITY.broken("the system gives no random numbers"))?;
        Identity::of_key(key.as_ref())
    }

    /// The key in PKCS #8 (DER), with the certificate that it signs itself: the same one each time.
    ///
    /// # Errors
    /// `net/identity`.
    pub fn of_key(pkcs8: &[u8]) -> Result<Identity> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8)
            .map_err(|e| IDENTITY.broken(format!("the key is not Ed25519 in PKCS #8: {e}")))?;
        let der = certificate(&pair);
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, &der).as_ref());
        Ok(Identity {
            chain: vec![CertificateDer::from(der)],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec())),
            pin: Some(pin),
        })
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

    /// What makes the same identity again, by [`Identity::of_key`]: a secret.
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

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A certificate of version 3 in DER: for `holdall`, by itself, for ever. Its signature has no random part, so the same key has
/// the same certificate.
fn certificate(pair: &Ed25519KeyPair) -> Vec<u8> {
    // 1.3.101.112, Ed25519; 2.5.4.3, the common name.
    let algorithm = der(SEQUENCE, &[&der(0x06, &[&[0x2b, 0x65, 0x70]])]);
    let common = [der(0x06, &[&[0x55, 0x04, 0x03]]), der(0x0c, &[b"holdall"])].concat();
    let name = der(SEQUENCE, &[&der(0x31, &[&der(SEQUENCE, &[&common])])]);
    let valid =
        der(SEQUENCE, &[&der(0x17, &[b"000101000000Z"]), &der(0x18, &[b"99991231235959Z"])]);
    let public = pair.public_key().as_ref();
    let key = der(SEQUENCE, &[&algorithm, &der(BIT_STRING, &[&[0], public])]);
    let version = der(0xa0, &[&der(0x02, &[&[2]])]);
    let serial = der(0x02, &[&[1]]);
    let said = der(SEQUENCE, &[&version, &serial, &algorithm, &name, &valid, &name, &key]);
    let signature = pair.sign(&said);
    let signature = der(BIT_STRING, &[&[0], signature.as_ref()]);
    der(SEQUENCE, &[&said, &algorithm, &signature])
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
    fn a_key_has_one_certificate() {
        let first = Identity::generate().unwrap();
        let again = Identity::of_key(first.key()).unwrap();
        assert_eq!(first.pin().unwrap(), again.pin().unwrap());
        assert_eq!(first.pin().unwrap().len(), 64);
        assert_ne!(first.pin(), Identity::generate().unwrap().pin());
        assert!(!format!("{first:?}").contains("key"));
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Identity::of_key(b"no").unwrap_err().code(), "net/identity");
        for pem in ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let e = Identity::of_pem(pem.as_bytes(), b"").unwrap_err();
            assert_eq!(e.code(), "net/identity", "{pem}");
        }
    }
}
