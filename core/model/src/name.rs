//! Names of hosts, switches and whoever acts for them.

/// Whether a text can be a name, also as part of a file's name: 1 to 64 letters, digits, `-`, `_` and `.`,
/// not a dot first. The domain name of a host is one.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&text.len()) && !text.starts_with('.') && text.chars().all(plain)
}
