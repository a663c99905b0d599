//! The certificate and key of a server.

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

/// A server's certificate and its key, either self-signed or issued by a certificate authority.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    pin: Option<[u8; 32]>,
}

impl Identity {
    /// Generates a key and a self-signed certificate.
    ///
    /// # Errors
    /// Returns `net/identity` if the system provides no random numbers.
    pub fn generate() -> Result<Identity> {
        let random = SystemRandom::new();
        let generated = || {
            let key = EcdsaKeyPair::generate_pkcs8(ALGORITHM, &random)?;
            let pair = EcdsaKeyPair::from_pkcs8(ALGORITHM, key.as_ref(), &random);
            let pair = pair.map_err(|_| ring::error::Unspecified)?;
            Ok((key.as_ref().to_vec(), certificate(&pair, &random)?))
        };
        let generated: Result<_, ring::error::Unspecified> = generated();
        let (key, der) =
            generated.map_err(|_| IDENTITY.broken("the system provides no random numbers"))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        Ok(Identity { chain: vec![CertificateDer::from(der)], key, pin: None }.pinned())
    }

    /// Reads a self-signed identity in the form that [`Identity::to_pem`] writes.
    ///
    /// # Errors
    /// Returns `net/identity` if the text is invalid, or the key does not belong to the certificate.
    pub fn from_self_signed_pem(pem: &[u8]) -> Result<Identity> {
        let identity = Identity::from_pem(pem, pem)?;
        // Report a key that does not belong to the certificate now, rather than when a client connects.
        identity.tls(&[])?;
        Ok(identity.pinned())
    }

    /// Lets clients trust the certificate by its SHA-256.
    fn pinned(mut self) -> Identity {
        let digest = self.chain.first().map(|der| digest(&SHA256, der));
        self.pin = digest.and_then(|digest| digest.as_ref().try_into().ok());
        self
    }

    /// Reads the certificate chain (the server's certificate first) and the key, both in PEM.
    ///
    /// # Errors
    /// Returns `net/identity` if either text is invalid, or there is no certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Identity> {
        let wrong = |e: rustls::pki_types::pem::Error| IDENTITY.broken(format!("invalid PEM: {e}"));
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(wrong)?;
        if chain.is_empty() {
            return Err(IDENTITY.broken("there is no certificate in the PEM text"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong)?;
        Ok(Identity { chain, key, pin: None })
    }

    /// Returns the key and the certificates in PEM, for [`Identity::from_self_signed_pem`]. The text is a secret.
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

    /// Returns the key in DER. It is a secret.
    pub fn key(&self) -> &[u8] {
        self.key.secret_der()
    }

    /// Returns the certificate chain in DER, the server's certificate first.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.chain.iter().map(|der| der.as_ref())
    }

    /// Returns a TLS 1.3 configuration with this identity and these protocols (ALPN).
    pub(crate) fn tls(&self, protocols: &[&[u8]]) -> Result<rustls::ServerConfig> {
        let wrong = |e: rustls::Error| {
            IDENTITY.broken("the certificate and the key cannot be used").because(e)
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

    /// Returns the SHA-256 of a self-signed certificate, for `#sha256=` in addresses; `None` if a certificate authority
    /// issued it.
    pub fn pin(&self) -> Option<String> {
        self.pin.map(|pin| HEXLOWER.encode(&pin))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

/// ECDSA rather than Ed25519, which not all browsers support.
static ALGORITHM: &EcdsaSigningAlgorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
/// Number of bytes encoded in a line of PEM.
const LINE: usize = 48;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// Returns a self-signed X.509 version 3 certificate in DER, for the name `holdall`, that never expires.
fn certificate(
    pair: &EcdsaKeyPair,
    random: &SystemRandom,
) -> Result<Vec<u8>, ring::error::Unspecified> {
    // The serial number is random: browsers refuse two certificates with the same issuer and serial number. The first
    // byte is 0x40 to 0x7f, so that the number is positive and minimally encoded.
    let mut serial = [0; 8];
    random.fill(&mut serial)?;
    serial[0] = serial[0] & 0x3f | 0x40;
    // Object identifiers: 1.2.840.10045.4.3.2 is ECDSA with SHA-256, 1.2.840.10045.2.1 an elliptic-curve key,
    // 1.2.840.10045.3.1.7 the curve P-256, 2.5.4.3 the common name.
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
    let signed = der(SEQUENCE, &[&version, &serial, &algorithm, &name, &valid, &name, &key]);
    let signature = pair.sign(random, &signed)?;
    let signature = der(BIT_STRING, &[&[0], signature.as_ref()]);
    Ok(der(SEQUENCE, &[&signed, &algorithm, &signature]))
}

/// Encodes a value of at most 65,535 bytes in DER.
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
    fn written_identities_can_be_read() {
        let first = Identity::generate().unwrap();
        let again = Identity::from_self_signed_pem(first.to_pem().as_bytes()).unwrap();
        assert_eq!(first.pin().unwrap(), again.pin().unwrap());
        assert_eq!(first.pin().unwrap().len(), 64);
        assert_ne!(first.pin(), Identity::generate().unwrap().pin());
        assert!(!format!("{first:?}").contains("key"));
    }

    #[test]
    fn invalid_identities_are_refused() {
        let (one, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mixed = Identity { chain: one.chain, ..other }.to_pem();
        for own in [&b"no"[..], mixed.as_bytes()] {
            assert_eq!(Identity::from_self_signed_pem(own).unwrap_err().code(), "net/identity");
        }
        for pem in ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            let e = Identity::from_pem(pem.as_bytes(), b"").unwrap_err();
            assert_eq!(e.code(), "net/identity", "{pem}");
        }
    }
}
