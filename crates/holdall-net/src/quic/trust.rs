//! How a client verifies a server's certificate.

use crate::protocol::PROTOCOL;
use crate::rules::CERTIFICATE;
use data_encoding::HEXLOWER;
use holdall_core::{Error, Result};
use quinn::crypto::rustls::QuicClientConfig;
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// The condition under which a server's certificate is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificate has this SHA-256, which the file's address gives.
    Pin([u8; 32]),
    /// The certificate is signed by one of these authorities (DER); by one of Mozilla's list if the list is empty.
    Authorities(Vec<Vec<u8>>),
}

impl Trust {
    /// Returns the client configuration that verifies certificates in this way.
    ///
    /// # Errors
    /// Returns `net/certificate` if an authority is invalid.
    pub fn config(&self) -> Result<quinn::ClientConfig> {
        let wrong = |e: rustls::Error| CERTIFICATE.broken("TLS cannot be set up").because(e);
        let provider = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(wrong)?;
        let mut config = match self {
            Trust::Pin(pin) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { pin: *pin, provider }))
                .with_no_client_auth(),
            Trust::Authorities(own) => {
                let mut roots = RootCertStore::empty();
                if own.is_empty() {
                    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                }
                for der in own {
                    roots.add(CertificateDer::from(der.clone())).map_err(wrong)?;
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Early data may be replayed. That is harmless, because clients only request bytes.
        config.enable_early_data = true;
        let config = QuicClientConfig::try_from(config)
            .map_err(|e| CERTIFICATE.broken("TLS cannot be set up").because(e))?;
        Ok(quinn::ClientConfig::new(Arc::new(config)))
    }
}

/// Accepts the certificate with this SHA-256, whatever its content. The handshake's signature proves that the server
/// has its key.
#[derive(Debug)]
struct Pinned {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = digest(&SHA256, certificate);
        match found.as_ref() == self.pin {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC requires TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the error for a failed TLS handshake. `alert` is the number of the TLS alert, `reason` rustls' description.
pub(super) fn refused(trust: &Trust, alert: u8, reason: &str) -> Error {
    // 120: the sides have no protocol in common.
    if alert == 120 {
        return crate::rules::FAILED.broken("the server does not speak `holdall/1`");
    }
    match trust {
        Trust::Pin(pin) => CERTIFICATE.broken(format!(
            "the server does not have the certificate with the SHA-256 {}",
            HEXLOWER.encode(pin)
        )),
        Trust::Authorities(_) => {
            let e = CERTIFICATE.broken(format!("TLS failed: {reason}"));
            e.with_hint("if the server's certificate is self-signed, add its SHA-256 to the address: `#sha256=…`")
        }
    }
}
