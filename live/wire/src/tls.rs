//! Both ends of TLS. Each end shows a certificate of the same authority; nobody else gets in.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};
use x509_parser::{parse_x509_certificate, parse_x509_crl};

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
    /// What its authority has revoked, PEM. Only the end that listens asks for it.
    pub crl: Option<PathBuf>,
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
            pem::Error::MissingSectionEnd { .. } => {
                format!(
                    "is cut off: its last section has no end; bring the whole {wanted} here again"
                )
            }
            pem::Error::IllegalSectionStart { .. } => {
                format!("has a section that begins with no whole line; name a PEM {wanted}")
            }
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

/// The authorities whose certificates are in the file `ca`.
fn roots(ca: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(ca)? {
        let parsed = parse_x509_certificate(&root);
        if parsed.is_ok_and(|(_, root)| !root.is_ca()) {
            return Err(TlsError::new(ca, "is no authority's certificate; name the authority's"));
        }
        roots.add(root).map_err(|error| TlsError::new(ca, error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn load(files: &Files) -> Result<Loaded, TlsError> {
    let roots = roots(&files.ca)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| TlsError::unread(&files.key, error, "private key"))?;
    Ok(Loaded { roots, chain: certificates(&files.certificate)?, key })
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

/// Certificates that their authority has revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(BTreeSet<Vec<u8>>);

impl Revoked {
    /// Whether a certificate is among them; one that can't be read isn't.
    #[must_use]
    pub fn has(&self, der: &[u8]) -> bool {
        parse_x509_certificate(der).is_ok_and(|(_, shown)| self.0.contains(shown.raw_serial()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was revoked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What the authority has revoked; nothing where no list is named. That it signed the list is checked where a
/// connection is.
///
/// # Errors
/// A file that is no list of revoked certificates.
pub fn revoked(files: &Files) -> Result<Revoked, TlsError> {
    let Some(file) = &files.crl else { return Ok(Revoked::default()) };
    let der = revocations(file)?;
    let (_, list) = parse_x509_crl(&der).map_err(|_| {
        TlsError::new(file, "is no list of revoked certificates; name a PEM X509 CRL")
    })?;
    let signer = certificates(&files.ca)?;
    let signed =
        signer.iter().filter_map(|root| parse_x509_certificate(root).ok()).any(|(_, root)| {
            root.subject() == list.issuer() && list.verify_signature(root.public_key()).is_ok()
        });
    if !signed {
        let reason =
            format!("is not signed by the authority of {}; name its list", files.ca.display());
        return Err(TlsError::new(file, reason));
    }
    Ok(Revoked(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect()))
}

fn revocations(file: &Path) -> Result<CertificateRevocationListDer<'static>, TlsError> {
    CertificateRevocationListDer::from_pem_file(file)
        .map_err(|error| TlsError::unread(file, error, "X509 CRL"))
}

/// When a certificate ends, in seconds since 1970; nothing where it can't be read.
#[must_use]
pub fn ends(der: &[u8]) -> Option<i64> {
    let (_, shown) = parse_x509_certificate(der).ok()?;
    Some(shown.validity().not_after.timestamp())
}

/// When our own certificate and those of its authority end: the file, and seconds since 1970.
///
/// # Errors
/// A file that can't be read.
pub fn own_ends(files: &Files) -> Result<Vec<(PathBuf, i64)>, TlsError> {
    let mut all = Vec::new();
    for file in [&files.certificate, &files.ca] {
        // The first to end matters.
        let end = certificates(file)?.iter().filter_map(|one| ends(one)).min();
        all.extend(end.map(|end| (file.clone(), end)));
    }
    Ok(all)
}

/// Whether our own certificate has not ended: of what a peer asks that isn't ours, all that can be known here.
///
/// # Errors
/// It has, or the file can't be read.
pub fn lasts(files: &Files) -> Result<(), TlsError> {
    let now = i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX);
    let mut ends = certificates(&files.certificate)?.into_iter().filter_map(|one| ends(&one));
    if ends.any(|end| end <= now) {
        let reason = "has expired; bring a new one here, with its key";
        return Err(TlsError::new(&files.certificate, reason));
    }
    Ok(())
}

/// Our own certificates and those of the authority, as the files hold them.
///
/// # Errors
/// A file that can't be used.
pub fn held(files: &Files) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    Ok([certificates(&files.certificate)?, certificates(&files.ca)?].concat())
}

/// The end that listens: a peer without a certificate of the authority is refused, and one whose certificate it
/// has revoked.
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
    revoked(files)?;
    let lists = files.crl.as_deref().map(revocations).transpose()?;
    let verifier = WebPkiClientVerifier::builder_with_provider(loaded.roots, provider.clone())
        .with_crls(lists)
        .only_check_end_entity_revocation()
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

/// The end that connects and shows no certificate, to one that shows a certificate of an authority in the file `ca`.
///
/// # Errors
/// A file that can't be used.
pub fn anonymous(ca: &Path) -> Result<ClientConfig, TlsError> {
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(ca, error.to_string()))?
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth();
    Ok(config)
}

/// Whether peers with the same authority would take our own certificate now: its authority, its time, its purpose, and
/// whom it names. `name` is what it must name, where that matters.
///
/// # Errors
/// They would not, or a file can't be used.
pub fn check(files: &Files, role: Role, name: Option<&str>) -> Result<(), TlsError> {
    let Loaded { roots, chain, .. } = load(files)?;
    let wrong = |reason: String| TlsError::new(&files.certificate, reason);
    let (own, between) = chain.split_first().ok_or_else(|| wrong("is empty".to_owned()))?;
    let named = Identity::of_certificate(own).map_err(|nameless| wrong(nameless.to_string()))?;
    if named.role != role || name.is_some_and(|name| name != named.name) {
        let wanted = name.map(|name| format!(" {name}")).unwrap_or_default();
        return Err(wrong(format!("is for the {named}; name that of the {role}{wanted}")));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (now, purpose) =
        (UnixTime::now(), if role == Role::Controller { "server" } else { "client" });
    let taken = if role == Role::Controller {
        let algorithms = provider.signature_verification_algorithms.all;
        ParsedCertificate::try_from(own).and_then(|own| {
            verify_server_cert_signed_by_trust_anchor(&own, &roots, between, now, algorithms)
        })
    } else {
        WebPkiClientVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| TlsError::new(&files.ca, error.to_string()))?
            .verify_client_cert(own, between, now)
            .map(drop)
    };
    taken.map_err(|error| {
        wrong(match error {
            rustls::Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => "has expired; make a new one with `watermaster certs`".to_owned(),
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => "is not valid yet; set the clock, or make a new one".to_owned(),
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => format!("is not signed by {}; name its authority", files.ca.display()),
            rustls::Error::InvalidCertificate(
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
            ) => format!("is not for a {purpose}; make one with `watermaster certs`"),
            error => error.to_string(),
        })
    })
}

/// Why one end doesn't trust the other, if that is what an error says: trying again changes nothing.
pub(crate) fn distrust(error: &io::Error) -> Option<String> {
    use rustls::AlertDescription as Alert;
    let why = match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(error) => {
            return Some(format!("the certificate shown there can't be trusted ({error})"));
        }
        rustls::Error::AlertReceived(alert) => match alert {
            Alert::CertificateRevoked => "it has been revoked",
            Alert::CertificateExpired => "it has expired",
            Alert::UnknownCA => "another authority has signed it",
            Alert::CertificateRequired | Alert::NoCertificate => "none was shown",
            Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied => "it is not good there",
            _ => return None,
        },
        _ => return None,
    };
    Some(format!("it refuses our certificate: {why}"))
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
    #![allow(clippy::unwrap_used)] // a test may panic

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

    /// A certificate that the authority of a folder signs, valid until so many seconds from now.
    fn sign(folder: &Path, usage: rcgen::ExtendedKeyUsagePurpose, until: i64) -> Files {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let key = rcgen::KeyPair::from_pem(&read("ca.key")).unwrap();
        let issuer = rcgen::Issuer::from_ca_cert_pem(&read("ca.crt"), key).unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::OrganizationalUnitName, "controller");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "c");
        parameters.extended_key_usages = vec![usage];
        let now = std::time::SystemTime::now();
        let ago = |seconds: i64| {
            let span = std::time::Duration::from_secs(seconds.unsigned_abs());
            if seconds < 0 { now.checked_sub(span) } else { now.checked_add(span) }.unwrap()
        };
        parameters.not_before = ago(-7_200).into();
        parameters.not_after = ago(until).into();
        let own = rcgen::KeyPair::generate().unwrap();
        let made = parameters.signed_by(&own, &issuer).unwrap();
        let files = files(folder, "controller-signed");
        std::fs::write(&files.certificate, made.pem()).unwrap();
        std::fs::write(&files.key, own.serialize_pem()).unwrap();
        files
    }

    fn files(folder: &Path, of: &str) -> Files {
        Files {
            ca: folder.join("ca.crt"),
            certificate: folder.join(format!("{of}.crt")),
            key: folder.join(format!("{of}.key")),
            crl: None,
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_named_as_that() {
        let folder = std::env::temp_dir().join(format!("watermaster-crl-{}", std::process::id()));
        crate::certs::make(&folder, &[], true).unwrap();
        let (list, _) = crate::certs::revoke(&folder, &[]).unwrap();
        let whole = std::fs::read_to_string(&list).unwrap();
        let with = Files { crl: Some(list.clone()), ..files(&folder, "controller-c") };
        assert!(revoked(&with).unwrap().is_empty());
        for (length, wrong) in
            [(whole.len() / 2, "is cut off: "), (15, "begins with no whole line")]
        {
            std::fs::write(&list, &whole[..length]).unwrap();
            let said = revoked(&with).unwrap_err().to_string();
            assert!(
                said.starts_with(&list.display().to_string()) && said.contains(wrong),
                "{said}"
            );
            assert!(said.contains("X509 CRL") && !said.contains('['), "{said}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_certificate_that_peers_would_not_take_is_told_before() {
        let folder = std::env::temp_dir().join(format!("watermaster-tls-{}", std::process::id()));
        let (ours, others) = (folder.join("ours"), folder.join("others"));
        let order = |role, name: &str| crate::certs::Order {
            identity: Identity { role, name: name.to_owned() },
            reached_by: Vec::new(),
        };
        let orders =
            [order(Role::Controller, "c"), order(Role::Agent, "h1"), order(Role::Operator, "me")];
        for at in [&ours, &others] {
            crate::certs::make(at, &orders, true).unwrap();
        }
        let told = |files: &Files, role, name| check(files, role, name).unwrap_err().to_string();
        check(&files(&ours, "controller-c"), Role::Controller, None).unwrap();
        let agent = files(&ours, "agent-h1");
        check(&agent, Role::Agent, Some("h1")).unwrap();
        let said = told(&agent, Role::Agent, Some("h2"));
        assert!(said.ends_with("is for the agent h1; name that of the agent h2"), "{said}");
        let said = told(&files(&ours, "operator-me"), Role::Agent, Some("h1"));
        assert!(said.contains("is for the operator me"), "{said}");
        for (of, role) in [("agent-h1", Role::Agent), ("controller-c", Role::Controller)] {
            let foreign = Files { ca: others.join("ca.crt"), ..files(&ours, of) };
            let said = told(&foreign, role, None);
            assert!(said.contains("is not signed by"), "{said}");
        }
        let server = || rcgen::ExtendedKeyUsagePurpose::ServerAuth;
        let good = sign(&ours, server(), 3_600);
        check(&good, Role::Controller, None).unwrap();
        lasts(&good).unwrap();
        let over = sign(&ours, server(), -3_600);
        let said = told(&over, Role::Controller, None);
        assert!(said.contains("has expired"), "{said}");
        let said = lasts(&over).unwrap_err().to_string();
        assert!(said.contains("bring a new one"), "{said}");
        let client = rcgen::ExtendedKeyUsagePurpose::ClientAuth;
        let said = told(&sign(&ours, client, 3_600), Role::Controller, None);
        assert!(said.contains("is not for a server"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
