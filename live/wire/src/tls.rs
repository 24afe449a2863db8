//! Both ends of TLS. Each end shows a certificate of the same authority; nobody else gets in.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::parse_x509_certificate;

use crate::identity::{Identity, Role};

/// Where the certificates are, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The authority, which must have signed what the peer shows.
    pub ca: PathBuf,
    /// Our own certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Certificates that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct TlsError {
    file: PathBuf,
    reason: String,
}

impl TlsError {
    fn new(file: &Path, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), reason: reason.into() }
    }

    /// `wanted` is what the file should hold.
    fn unread(file: &Path, error: pem::Error, wanted: &str) -> Self {
        let reason = match error {
            pem::Error::Io(error) => format!("{error}; name a file that this user may read"),
            error => format!("{error}; name a PEM {wanted}, `watermaster certs` makes them"),
        };
        Self::new(file, reason)
    }
}

struct Loaded {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error| TlsError::unread(file, error, "certificate");
    let read = CertificateDer::pem_file_iter(file).map_err(wrong)?;
    let found = read.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsError::new(file, "holds no certificate; name a PEM file"));
    }
    Ok(found)
}

fn load(files: &Files) -> Result<Loaded, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(&files.ca)? {
        let parsed = parse_x509_certificate(&root);
        if parsed.is_ok_and(|(_, root)| !root.is_ca()) {
            return Err(TlsError::new(
                &files.ca,
                "is no authority's certificate; name the authority's",
            ));
        }
        roots.add(root).map_err(|error| TlsError::new(&files.ca, error.to_string()))?;
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| TlsError::unread(&files.key, error, "private key"))?;
    Ok(Loaded { roots: Arc::new(roots), chain: certificates(&files.certificate)?, key })
}

fn unpaired(files: &Files, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = files.certificate.display();
            TlsError::new(&files.key, format!("is not the key of {certificate}; name the pair"))
        }
        error => TlsError::new(&files.certificate, error.to_string()),
    }
}

/// The end that listens: a peer without a certificate of the authority is refused.
///
/// # Errors
/// A file that can't be used.
pub fn server(files: &Files) -> Result<ServerConfig, TlsError> {
    let loaded = load(files)?;
    let own = loaded.chain.first().and_then(|own| Identity::of_certificate(own).ok());
    if let Some(Identity { role, name }) = own.filter(|own| own.role != Role::Controller) {
        let reason = format!("is for the {} {name}; name a controller's", role.name());
        return Err(TlsError::new(&files.certificate, reason));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(loaded.roots, provider.clone())
        .build()
        .map_err(|error| TlsError::new(&files.ca, error.to_string()))?;
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(&files.certificate, error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(loaded.chain, loaded.key)
        .map_err(|error| unpaired(files, &error))
}

/// The end that connects.
///
/// # Errors
/// A file that can't be used.
pub fn client(files: &Files) -> Result<ClientConfig, TlsError> {
    let loaded = load(files)?;
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(&files.certificate, error.to_string()))?
        .with_root_certificates(loaded.roots)
        .with_client_auth_cert(loaded.chain, loaded.key)
        .map_err(|error| unpaired(files, &error))
}
/// Why a connection, perhaps with TLS, is no more, in our own words where there are some.
pub fn why_lost(error: &io::Error) -> String {
    let why = error.get_ref().and_then(|why| why.downcast_ref());
    match error.kind() {
        // A process that ends takes no leave of TLS.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the other end has gone without a word: its process or machine stopped, or something \
             between cut the connection"
                .to_owned()
        }
        _ if matches!(why, Some(rustls::Error::InvalidMessage(_))) => {
            "the other end does not speak TLS; give it certificates, `watermaster certs` makes them"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_says_of_a_peer_that_is_gone_is_said_in_our_words() {
        let said =
            "peer closed connection without sending TLS close_notify: https://docs.rs/rustls";
        let told = why_lost(&io::Error::new(ErrorKind::UnexpectedEof, said));
        assert!(
            told.contains("has gone without a word") && !told.contains("close_notify"),
            "{told}"
        );
        let foreign = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let told = why_lost(&io::Error::new(ErrorKind::InvalidData, foreign));
        assert!(told.contains("does not speak TLS"), "{told}");
        assert_eq!(why_lost(&io::Error::other("something else")), "something else");
    }
}
