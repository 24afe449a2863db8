//! Profiles: ways to controllers that have names, in a file of the user's.

use std::env;
use std::path::PathBuf;

use document::fields::{Once, Value};
use document::{Document, DocumentError};
use wire::controllers::Controllers;
use wire::settings;
use wire::tls::Files;

use crate::failure::Failure;

/// Longest file, in octets, and most profiles.
const MOST_BYTES: u64 = 1 << 20;
const MOST: usize = 1_000;

/// The controllers of the profile of this name, and the certificates to show them.
pub(super) fn named(name: &str) -> Result<(Controllers, Option<Files>), Failure> {
    let file = file().ok_or_else(|| {
        Failure::misused("--profile: where is your home? set HOME, or XDG_CONFIG_HOME")
    })?;
    let (said, text) = document::text_of(&file, MOST_BYTES).map_err(Failure::misused)?;
    let folder = file.parent().unwrap_or(&file);
    let mut all = read(&said, &text, folder).map_err(Failure::misused)?;
    match all.iter().position(|profile| profile.0 == name) {
        Some(at) => {
            let (_, controllers, tls) = all.swap_remove(at);
            Ok((controllers, tls))
        }
        None => {
            let names: Vec<_> = all.iter().map(|(name, ..)| &**name).collect();
            let names = names.join(", ");
            Err(Failure::misused(format_args!("{said}: has no profile {name:?}, but: {names}")))
        }
    }
}

/// The file of profiles, whether it exists or not.
fn file() -> Option<PathBuf> {
    let folder = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let all = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(all.join("watermaster/profiles.toml"))
}

type Profile = (String, Controllers, Option<Files>);

fn read(file: &str, text: &str, folder: &std::path::Path) -> Result<Vec<Profile>, DocumentError> {
    let document = Document::read(file, text, &[])?;
    let mut root = Value::root(&document).fields()?;
    let mut names = Once::default();
    let profiles = root.need("profile", "a [[profile]] table")?.list(MOST)?;
    let profiles = profiles.iter().map(|value| {
        let mut fields = value.fields()?;
        let named = fields.need("name", "\"main\"")?;
        let name = names.take(named.name()?, &named)?;
        let of = |value: &Value<'_>| settings::tls(value, folder, "operator-me");
        let tls = fields.optional("tls", of)?;
        let value = fields.need("controller", "\"https://10.0.0.1:7443\"")?;
        let controllers = settings::controllers(&value, tls.is_some())?;
        fields.done()?;
        Ok((name, controllers, tls))
    });
    let profiles = profiles.collect::<Result<_, DocumentError>>()?;
    root.done()?;
    Ok(profiles)
}
