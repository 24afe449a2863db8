//! What configuration files say of the way to a controller: its addresses, and certificates.

use std::path::Path;

use document::DocumentError;
use document::fields::Value;

use crate::client::Address;
use crate::controllers::{Controllers, MOST};
use crate::tls::Files;

/// Where the controllers are: the address of the only one, or a list. `tls`: whether there are certificates.
///
/// # Errors
/// One is no address, or can't be reached without certificates; the message names place, field and remedy.
pub fn controllers(value: &Value<'_>, tls: bool) -> Result<Controllers, DocumentError> {
    let address = |value: &Value<'_>| value.text()?.parse().map_err(|error| value.error(error));
    let all = match value.text() {
        Ok(_) => vec![address(value)?],
        Err(_) => value.list(MOST)?.iter().map(address).collect::<Result<_, _>>()?,
    };
    if !tls && all.iter().any(|address| matches!(address, Address::Tls(_))) {
        return Err(value.error("needs certificates; add a [tls] table"));
    }
    Controllers::new(all)
        .ok_or_else(|| value.error("names nobody; write \"https://10.0.0.1:7443\""))
}

/// Certificates; what is relative begins at `folder`. `whose` names an example's files.
///
/// # Errors
/// One is missing, or is no path; the message names place, field and remedy.
pub fn tls(value: &Value<'_>, folder: &Path, whose: &str) -> Result<Files, DocumentError> {
    let mut fields = value.fields()?;
    let mut path = |key, file: &str| fields.need(key, &format!("\"{file}\""))?.path(folder);
    let files = Files {
        ca: path("ca", "ca.crt")?,
        certificate: path("certificate", &format!("{whose}.crt"))?,
        key: path("key", &format!("{whose}.key"))?,
        crl: None,
    };
    fields.done()?;
    Ok(files)
}
