//! TLS of a server: certificate and key from PEM files.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;

/// Reads a certificate chain and its key.
///
/// # Errors
/// A file that cannot be read or has no certificate or key, or a key that does not belong to the
/// certificate.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, why: String| ServeError::Secret { path: path.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(certificate, format!("{error}, expected certificates as PEM")))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it has no certificate, expected PEM: -----BEGIN CERTIFICATE-----".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| wrong(key, format!("{error}, expected a private key as PEM, without a password")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(key, format!("{error}: key and certificate must belong together")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
