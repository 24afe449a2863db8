//! Names of hosts, switches and whoever acts for them.

/// What is wrong with a text that can't be a name, and the remedy.
pub const NO_NAME: &str = "is no name; use 1 to 64 letters, digits, -, _ and ., no dot first";

/// Whether a text can be a name, also as part of a file's name: 1 to 64 letters, digits, `-`, `_` and `.`,
/// not a dot first. The domain name of a host is one.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&text.len()) && !text.starts_with('.') && text.chars().all(plain)
}
