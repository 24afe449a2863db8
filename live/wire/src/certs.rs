//! Makes an authority and the certificates that it signs: ECDSA P-256, PEM, as Watermaster and Open
//! vSwitch read them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};
use rustls::pki_types::ServerName;

use crate::identity::{Identity, Role};

/// How long the authority is valid.
const AUTHORITY: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long what it signs is valid.
const LEAF: Duration = Duration::from_secs(2 * 365 * 86_400);
/// Clocks of other machines may be behind by so much.
const SKEW: Duration = Duration::from_secs(3_600);

/// A certificate to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Whom it names.
    pub identity: Identity,
    /// Names and addresses that the peer is reached by; for whom others connect to.
    pub reached_by: Vec<String>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    Written,
    /// It was there and stays.
    Kept,
}

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A file could not be read or written.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is there that isn't what was asked for.
    #[error(
        "{}: is there and {reason}; remove {} and run again to have them made anew", file.display(), pair(file)
    )]
    Exists {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// One file of the authority was taken away.
    #[error(
        "{}: is there and {reason}; bring {} back to sign with it; --force makes another authority, and all \
         certificates must be made anew then", file.display(), other(file)
    )]
    Halved {
        /// The other.
        file: PathBuf,
        /// Which is away.
        reason: &'static str,
    },
    /// What can't be revoked, or no list of what was.
    #[error("{}: {reason}", file.display())]
    Revoked {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A name that no certificate can bear.
    #[error("{0:?} {why}", why = model::NO_NAME)]
    Name(String),
    /// Nobody can connect to that.
    #[error("{0:?} is no address; write 10.0.0.1 or control.example.org")]
    Address(String),
    /// A certificate could not be made or read.
    #[error("{}: {error}", file.display())]
    Certificate {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: rcgen::Error,
    },
}

/// Makes the authority `ca.crt`, `ca.key` in `directory` and a certificate `ROLE-NAME.crt`,
/// `ROLE-NAME.key` for each order. What is there already stays, unless `force` has all made anew.
/// Keys can be read by their owner alone.
///
/// # Errors
/// A file that can't be written, or one that is there and isn't what was asked for.
pub fn make(
    directory: &Path,
    orders: &[Order],
    force: bool,
) -> Result<Vec<(PathBuf, Made)>, CertsError> {
    orders.iter().try_for_each(check_order)?;
    let at = |error| CertsError::File { file: directory.to_owned(), error };
    fs::create_dir_all(directory).map_err(at)?;
    let mut done = Vec::new();
    let (ca, ca_key) = (directory.join("ca.crt"), directory.join("ca.key"));
    let is_there = present(&ca, &ca_key).map_err(|error| match error {
        CertsError::Exists { file, reason } => CertsError::Halved { file, reason },
        error => error,
    });
    if force || !is_there? {
        let key = new_key(&ca_key)?;
        let made = authority(&key).self_signed(&key);
        let made = made.map_err(|error| CertsError::Certificate { file: ca.clone(), error })?;
        write_pair(&ca, &made.pem(), &ca_key, &key)?;
        done.push((ca.clone(), Made::Written));
    } else {
        done.push((ca.clone(), Made::Kept));
    }
    let pem = read(&ca)?;
    let key = read_key(&ca_key)?;
    let issuer = Issuer::from_ca_cert_pem(&pem, key)
        .map_err(|error| CertsError::Certificate { file: ca.clone(), error })?;
    for order in orders {
        let Identity { role, name } = &order.identity;
        let file = directory.join(format!("{role}-{name}.crt"));
        let key_file = directory.join(format!("{role}-{name}.key"));
        if !force && present(&file, &key_file)? {
            check(&file, &ca, order)?;
            done.push((file, Made::Kept));
            continue;
        }
        let wrong = |error| CertsError::Certificate { file: file.clone(), error };
        let key = new_key(&key_file)?;
        let made = leaf(order).map_err(wrong)?.signed_by(&key, &issuer).map_err(wrong)?;
        write_pair(&file, &made.pem(), &key_file, &key)?;
        done.push((file, Made::Written));
    }
    Ok(done)
}

/// Revokes certificates of the authority in `directory`, where files are also looked for: `ca.crl` lists them beside
/// those that were revoked before. Of none it makes an empty list, unless there is one.
/// Controllers that name the list cut them off when they are reloaded. Returned is the list, and how many are on it.
///
/// # Errors
/// A certificate that can't be read or is of another authority, or a file that can't be written; nothing has changed
/// then.
pub fn revoke(directory: &Path, files: &[PathBuf]) -> Result<(PathBuf, usize), CertsError> {
    use x509_parser::prelude::*;
    let (ca, list) = (directory.join("ca.crt"), directory.join("ca.crl"));
    let wrong = |file: &Path, reason| CertsError::Revoked { file: file.to_owned(), reason };
    let now = SystemTime::now();
    let ca_pem = read(&ca)?;
    // One after another: each list has what the one before has.
    let held = File::open(&ca).and_then(|file| file.lock().map(|()| file));
    let _held = held.map_err(|error| CertsError::File { file: ca.clone(), error })?;
    let mut revoked: Vec<RevokedCertParams> = Vec::new();
    let exists = list.try_exists().map_err(|error| CertsError::File { file: list.clone(), error });
    if exists? {
        let text = read(&list)?;
        let (_, pem) = parse_x509_pem(text.as_bytes())
            .map_err(|_| wrong(&list, "can't be read as a list of revoked certificates"))?;
        let (_, before) = parse_x509_crl(&pem.contents)
            .map_err(|_| wrong(&list, "can't be read as a list of revoked certificates"))?;
        revoked.extend(before.iter_revoked_certificates().map(|one| RevokedCertParams {
            serial_number: SerialNumber::from_slice(one.raw_serial()),
            revocation_time: one.revocation_date.to_datetime(),
            reason_code: None,
            invalidity_date: None,
        }));
    }
    let (_, ca_der) = parse_x509_pem(ca_pem.as_bytes()).map_err(|_| wrong(&ca, "can't be read"))?;
    let authority = ca_der.parse_x509().map_err(|_| wrong(&ca, "can't be read"))?;
    for named in files {
        let file = &if named.exists() { named.clone() } else { directory.join(named) };
        let text = read(file)?;
        let (_, pem) = parse_x509_pem(text.as_bytes())
            .map_err(|_| wrong(file, "is no certificate; name a .crt"))?;
        let certificate =
            pem.parse_x509().map_err(|_| wrong(file, "is no certificate; name a .crt"))?;
        if certificate.issuer() != authority.subject()
            || certificate.verify_signature(Some(authority.public_key())).is_err()
        {
            return Err(wrong(file, "is of another authority; name one of this directory's"));
        }
        if certificate.is_ca() {
            let reason = "is the authority's own, and no list of its own can revoke it; name the certificate of whom is to \
                          be cut off, such as agent-h1.crt, or have all made anew with --force";
            return Err(wrong(file, reason));
        }
        let serial = SerialNumber::from_slice(certificate.raw_serial());
        if revoked.iter().all(|one| one.serial_number != serial) {
            revoked.push(RevokedCertParams {
                serial_number: serial,
                revocation_time: now.into(),
                reason_code: None,
                invalidity_date: None,
            });
        }
    }
    let count = revoked.len();
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, read_key(&directory.join("ca.key"))?)
        .map_err(|error| CertsError::Certificate { file: ca.clone(), error })?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made = CertificateRevocationListParams {
        this_update: now.into(),
        // Whoever has the list goes on with it until there is another.
        next_update: now.checked_add(AUTHORITY).unwrap_or(now).into(),
        crl_number: SerialNumber::from(seconds),
        issuing_distribution_point: None,
        revoked_certs: revoked,
        key_identifier_method: KeyIdMethod::Sha256,
    }
    .signed_by(&issuer)
    .and_then(|made| made.pem());
    let made = made.map_err(|error| CertsError::Certificate { file: list.clone(), error })?;
    write(&list, &made, 0o644)?;
    Ok((list, count))
}

/// Before anything is made.
fn check_order(order: &Order) -> Result<(), CertsError> {
    let name = &order.identity.name;
    if !model::is_name(name) {
        return Err(CertsError::Name(name.clone()));
    }
    let is_address =
        |host: &str| ServerName::try_from(host.strip_prefix("*.").unwrap_or(host)).is_ok();
    match order.reached_by.iter().find(|host| !is_address(host)) {
        Some(host) => Err(CertsError::Address(host.clone())),
        None => Ok(()),
    }
}

fn authority(key: &KeyPair) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters.distinguished_name = DistinguishedName::new();
    // Lists of revoked certificates are found by the issuer's name, also where two authorities are trusted.
    let mut name = DefaultHasher::new();
    name.write(key.public_key_raw());
    let name = format!("Watermaster authority {:016x}", name.finish());
    parameters.distinguished_name.push(DnType::CommonName, name);
    valid(&mut parameters, AUTHORITY);
    parameters
}

fn leaf(order: &Order) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(order.reached_by.clone())?;
    parameters.distinguished_name = DistinguishedName::new();
    let Identity { role, name } = &order.identity;
    parameters.distinguished_name.push(DnType::OrganizationalUnitName, role.name());
    parameters.distinguished_name.push(DnType::CommonName, name.as_str());
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let usage = if *role == Role::Controller {
        ExtendedKeyUsagePurpose::ServerAuth
    } else {
        ExtendedKeyUsagePurpose::ClientAuth
    };
    parameters.extended_key_usages = vec![usage];
    parameters.use_authority_key_identifier_extension = true;
    valid(&mut parameters, LEAF);
    Ok(parameters)
}

fn valid(parameters: &mut CertificateParams, span: Duration) {
    let now = SystemTime::now();
    parameters.not_before = now.checked_sub(SKEW).unwrap_or(now).into();
    parameters.not_after = now.checked_add(span).unwrap_or(now).into();
}

/// The other file of the authority's pair.
fn other(file: &Path) -> &'static str {
    if file.extension().is_some_and(|extension| extension == "key") { "ca.crt" } else { "ca.key" }
}

/// A certificate and its key, by the name of either.
fn pair(file: &Path) -> String {
    let file = |extension| file.with_extension(extension).display().to_string();
    format!("{} and {}", file("crt"), file("key"))
}

/// Whether both files of a pair are there; one alone is a half-made pair, made anew.
fn present(certificate: &Path, key: &Path) -> Result<bool, CertsError> {
    let exists = |file: &Path| {
        let error = |error| CertsError::File { file: file.to_owned(), error };
        file.try_exists().map_err(error)
    };
    match (exists(certificate)?, exists(key)?) {
        (true, true) => Ok(true),
        (false, false) => Ok(false),
        (true, false) => {
            Err(CertsError::Exists { file: certificate.to_owned(), reason: "its key is missing" })
        }
        (false, true) => {
            Err(CertsError::Exists { file: key.to_owned(), reason: "its certificate is missing" })
        }
    }
}

/// Whether the certificate that is there is the one ordered.
fn check(file: &Path, ca: &Path, order: &Order) -> Result<(), CertsError> {
    use x509_parser::prelude::*;
    let wrong = |reason| CertsError::Exists { file: file.to_owned(), reason };
    let (pem, ca) = (read(file)?, read(ca)?);
    let unreadable = "can't be read";
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|_| wrong(unreadable))?;
    let (_, ca) = parse_x509_pem(ca.as_bytes()).map_err(|_| wrong(unreadable))?;
    let certificate = pem.parse_x509().map_err(|_| wrong(unreadable))?;
    let ca = ca.parse_x509().map_err(|_| wrong(unreadable))?;
    if Identity::of_certificate(&pem.contents).as_ref() != Ok(&order.identity) {
        return Err(wrong("names somebody else"));
    }
    if certificate.issuer() != ca.subject()
        || certificate.verify_signature(Some(ca.public_key())).is_err()
    {
        return Err(wrong("is of another authority"));
    }
    if !certificate.validity().is_valid() {
        return Err(wrong("has expired"));
    }
    if is_revoked(&file.with_file_name("ca.crl"), certificate.raw_serial())? {
        return Err(wrong("has been revoked"));
    }
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map_or(0, |names| names.value.general_names.len());
    let shown = |wanted: &str| {
        let extension = certificate.subject_alternative_name().ok().flatten();
        extension.is_some_and(|extension| {
            extension.value.general_names.iter().any(|name| match name {
                GeneralName::DNSName(name) => *name == wanted,
                GeneralName::IPAddress(octets) => match wanted.parse() {
                    Ok(std::net::IpAddr::V4(address)) => **octets == address.octets(),
                    Ok(std::net::IpAddr::V6(address)) => **octets == address.octets(),
                    Err(_) => false,
                },
                _ => false,
            })
        })
    };
    if names != order.reached_by.len() || !order.reached_by.iter().all(|name| shown(name)) {
        return Err(wrong("is for other names and addresses"));
    }
    Ok(())
}

/// Whether the list, where there is one, has a certificate of this number.
fn is_revoked(list: &Path, serial: &[u8]) -> Result<bool, CertsError> {
    use x509_parser::prelude::*;
    if !list.try_exists().map_err(|error| CertsError::File { file: list.to_owned(), error })? {
        return Ok(false);
    }
    let text = read(list)?;
    let wrong = || CertsError::Revoked {
        file: list.to_owned(),
        reason: "can't be read as a list of revoked certificates",
    };
    let (_, pem) = parse_x509_pem(text.as_bytes()).map_err(|_| wrong())?;
    let (_, list) = parse_x509_crl(&pem.contents).map_err(|_| wrong())?;
    Ok(list.iter_revoked_certificates().any(|one| one.raw_serial() == serial))
}

fn new_key(file: &Path) -> Result<KeyPair, CertsError> {
    KeyPair::generate().map_err(|error| CertsError::Certificate { file: file.to_owned(), error })
}

fn read_key(file: &Path) -> Result<KeyPair, CertsError> {
    KeyPair::from_pem(&read(file)?)
        .map_err(|error| CertsError::Certificate { file: file.to_owned(), error })
}

fn read(file: &Path) -> Result<String, CertsError> {
    fs::read_to_string(file).map_err(|error| CertsError::File { file: file.to_owned(), error })
}

/// The key first: a certificate without its key is the worse half to find.
fn write_pair(certificate: &Path, pem: &str, key: &Path, pair: &KeyPair) -> Result<(), CertsError> {
    write(key, &pair.serialize_pem(), 0o600)?;
    write(certificate, pem, 0o644)
}

/// Writes beside the file and moves it there: it is never half, and never readable too early.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), CertsError> {
    let wrong = |error| CertsError::File { file: file.to_owned(), error };
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    let mut out =
        options.write(true).create(true).truncate(true).mode(mode).open(&beside).map_err(wrong)?;
    out.set_permissions(Permissions::from_mode(mode)).map_err(wrong)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).map_err(wrong)?;
    fs::rename(&beside, file).map_err(wrong)
}
