//! What an engine in a lab consists of: fetched by Maven once, and kept.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use ::lab::Parts;
use clap::ValueEnum;

use crate::failure::{Failure, note};

/// What Hadoop consists of, for Maven.
const POM: &str = include_str!("../../../plugins/engines/hadoop/pom.xml");
/// Its folder among the engines, by the version that the pom has.
const HADOOP: &str = "hadoop-3.4.2";
/// Lines of Maven's output that an error shows.
const SHOWN: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    /// Hadoop 3.4.2: HDFS, YARN and MapReduce, with Watermaster's plug-in
    Hadoop,
}

impl Engine {
    pub(super) const fn in_lab(self) -> ::lab::Engine {
        match self {
            Self::Hadoop => ::lab::Engine::Hadoop,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hadoop => "Hadoop",
        }
    }

    /// A command to try first.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Hadoop => "hadoop jar examples teragen 30000 /in",
        }
    }

    /// What it needs; what isn't on this machine yet is fetched.
    pub(super) fn parts(self) -> Result<Parts, Failure> {
        let Self::Hadoop = self;
        let plugin = plugin("watermaster-hadoop")?;
        let java = java()?;
        let libraries = libraries(HADOOP, POM, "93 MB")?;
        Ok(Parts { libraries, plugin, java })
    }
}

/// A plug-in's jar, in the local Maven repository.
fn plugin(name: &str) -> Result<PathBuf, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let path = format!(".m2/repository/io/watermaster/{name}/{version}/{name}-{version}.jar");
    let homes = [env::home_dir(), home_before_sudo()];
    let mut jars: Vec<PathBuf> = homes.into_iter().flatten().map(|home| home.join(&path)).collect();
    jars.dedup();
    jars.iter().find(|jar| jar.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        Failure::misused(format_args!(
            "there is no plug-in {}; run make plugins in Watermaster's sources, which makes it",
            places.join(" or ")
        ))
    })
}

/// The home of the user who has run this by sudo: plug-ins are made without it.
fn home_before_sudo() -> Option<PathBuf> {
    let user = env::var("SUDO_USER").ok()?;
    let entry = Command::new("getent").args(["passwd", &user]).output().ok()?;
    Some(String::from_utf8(entry.stdout).ok()?.split(':').nth(5)?.into())
}

/// The home of Java.
fn java() -> Result<PathBuf, Failure> {
    if let Some(home) = env::var_os("JAVA_HOME").map(PathBuf::from)
        && home.join("bin/java").is_file()
    {
        return Ok(home);
    }
    // Behind links: HOME/bin/java.
    let java = find("java").and_then(|java| java.canonicalize().ok());
    java.and_then(|java| Some(java.parent()?.parent()?.to_owned())).ok_or_else(|| {
        Failure::misused("there is no java; install default-jre-headless, or set JAVA_HOME")
    })
}

/// A program by its name.
fn find(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|path| path.join(program)).find(|file| file.is_file())
}

/// The folder of jars for a pom, which are fetched unless they are there already.
fn libraries(name: &str, pom: &str, size: &str) -> Result<PathBuf, Failure> {
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = caches.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let Some(caches) = caches else {
        return Err(Failure::misused("there is no folder for caches; set XDG_CACHE_HOME"));
    };
    let engines = caches.join("watermaster/engines");
    let whole = engines.join(name);
    let fail = |error: std::io::Error| {
        Failure::failed(format_args!("{}: {error}; set XDG_CACHE_HOME", whole.display()))
    };
    // The pom is moved with the jars: beside one, all of its jars are.
    let is_whole = || fs::read_to_string(whole.join("pom.xml")).is_ok_and(|text| text == pom);
    if is_whole() {
        return Ok(whole.join("lib"));
    }
    fs::create_dir_all(&engines).map_err(fail)?;
    // Another may be fetching it.
    let lock = File::create(engines.join(".lock")).map_err(fail)?;
    lock.lock().map_err(fail)?;
    if !is_whole() {
        note(&format!("fetching {name} ({size}) into {}", whole.display()));
        let partial = engines.join(format!("{name}.partial"));
        for old in [&partial, &whole] {
            if old.exists() {
                fs::remove_dir_all(old).map_err(fail)?;
            }
        }
        fs::create_dir(&partial).map_err(fail)?;
        fs::write(partial.join("pom.xml"), pom).map_err(fail)?;
        fetch(&partial)?;
        fs::rename(&partial, &whole).map_err(fail)?;
    }
    Ok(whole.join("lib"))
}

/// Has Maven copy what the pom in `folder` names.
fn fetch(folder: &Path) -> Result<(), Failure> {
    if find("mvn").is_none() {
        return Err(Failure::misused("there is no mvn; install maven"));
    }
    // It ends with this process.
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "mvn", "-q", "-B", "dependency:copy-dependencies"])
        .current_dir(folder)
        .output()
        .map_err(|error| Failure::failed(format_args!("setpriv: {error}; install util-linux")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).take(SHOWN).collect();
    Err(Failure::failed(format_args!(
        "Maven could not fetch the engine; see whether this machine reaches its repository\n{}",
        lines.join("\n")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_the_version_of_the_pom() {
        let version = HADOOP.strip_prefix("hadoop-").unwrap();
        assert!(POM.contains(&format!("<hadoop.version>{version}</hadoop.version>")));
    }
}
