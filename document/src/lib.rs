//! TOML documents whose values know where they were written, so that every error says file, line,
//! column, field and remedy; and what scenarios and configurations have in common in them:
//! topologies ([`topology`]) and the parameters of policies ([`policies`]).
#![forbid(unsafe_code)]

mod document;
mod error;
pub mod fields;
mod file;
mod objectives;
pub mod policies;
mod setting;
pub mod topology;
mod written;

pub use document::{Below, Document, Item, Node, Place, Table};
pub use error::{DocumentError, Override, shown};
pub use file::text_of;
pub use setting::Setting;
