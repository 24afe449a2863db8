//! Results on disk, a file for each policy's run, so that each is run once. A file begins with a
//! hash of the rest, which tells a truncated file from a result.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{WriteError, write_whole};

/// A folder of results by key.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// The cache in the folder `path`, which is made when it doesn't exist.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn open(path: &Path) -> Result<Self, WriteError> {
        let fail =
            |source: std::io::Error| WriteError { path: path.to_owned(), source: source.into() };
        fs::create_dir_all(path).map_err(fail)?;
        Ok(Self(path.to_owned()))
    }

    /// The result called `key`; `None` when there is none or it is damaged.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let text = fs::read_to_string(self.file(key)).ok()?;
        let (hash, body) = text.split_once('\n')?;
        if hash != hash_of(body) {
            return None;
        }
        serde_json::from_str(body).ok()
    }

    /// Stores `measured` as `key` and returns it as [`Cache::get`] will read it, so that later runs
    /// of a plan equal the first to the last digit.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn put<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        measured: &T,
    ) -> Result<T, WriteError> {
        let path = self.file(key);
        let fail =
            |source: serde_json::Error| WriteError { path: path.clone(), source: source.into() };
        let body = serde_json::to_string(measured).map_err(fail)?;
        write_whole(&path, |file| {
            file.write_all(format!("{}\n{body}", hash_of(&body)).as_bytes())
        })?;
        serde_json::from_str(&body).map_err(fail)
    }

    fn file(&self, key: &str) -> PathBuf {
        self.0.join(format!("{key}.json"))
    }
}

fn hash_of(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("{:016x}", hasher.finish())
}
