//! What an engine in a lab consists of: fetched by Maven once, and kept.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Engine, Error};

/// Lines of Maven's output that an error shows.
const SHOWN: usize = 6;

/// What an engine needs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The folder with its jars.
    pub libraries: PathBuf,
    /// The jar of the plug-in.
    pub plugin: PathBuf,
    /// The jar of our own applications, where there are such.
    pub examples: Option<PathBuf>,
    /// The home of Java.
    pub java: PathBuf,
}

/// What an engine is called, and is made of.
struct Make {
    name: &'static str,
    /// A command to try first.
    example: &'static str,
    /// What it consists of, for Maven.
    pom: &'static str,
    /// Its folder among the engines, by the version that the pom has.
    folder: &'static str,
    /// How much is fetched.
    size: &'static str,
    /// Our jars for it.
    plugin: &'static str,
    examples: Option<&'static str>,
}

const FLINK: Make = Make {
    name: "Flink",
    example: "flink run -d -c io.watermaster.examples.Trucking examples trucking",
    pom: include_str!("../../../plugins/engines/flink/pom.xml"),
    folder: "flink-2.3.0",
    size: "81 MB",
    plugin: "watermaster-flink",
    examples: Some("watermaster-flink-examples"),
};

const HADOOP: Make = Make {
    name: "Hadoop",
    example: "hadoop jar examples teragen 30000 /in",
    pom: include_str!("../../../plugins/engines/hadoop/pom.xml"),
    folder: "hadoop-3.4.2",
    size: "93 MB",
    plugin: "watermaster-hadoop",
    examples: None,
};

const SPARK: Make = Make {
    name: "Spark",
    example: "spark-submit --class io.watermaster.examples.TeraSort examples",
    pom: include_str!("../../../plugins/engines/spark/pom.xml"),
    folder: "spark-4.2.0",
    size: "220 MB",
    plugin: "watermaster-spark",
    examples: Some("watermaster-spark-examples"),
};

const STORM: Make = Make {
    name: "Storm",
    example: "storm jar examples io.watermaster.examples.Trucking trucking",
    pom: include_str!("../../../plugins/engines/storm/pom.xml"),
    folder: "storm-2.8.3",
    size: "136 MB",
    plugin: "watermaster-storm",
    examples: Some("watermaster-storm-examples"),
};

impl Engine {
    /// All of them, by their names in commands and scenarios.
    pub const NAMED: &[(&str, Self)] = &[
        ("flink", Self::Flink),
        ("hadoop", Self::Hadoop),
        ("spark", Self::Spark),
        ("storm", Self::Storm),
    ];

    /// Its name in commands and scenarios.
    pub fn name(self) -> &'static str {
        let mut named = Self::NAMED.iter();
        named.find(|(_, engine)| *engine == self).map_or("", |(name, _)| name)
    }

    const fn make(self) -> &'static Make {
        match self {
            Self::Flink => &FLINK,
            Self::Hadoop => &HADOOP,
            Self::Spark => &SPARK,
            Self::Storm => &STORM,
        }
    }

    /// Its name, for people.
    pub const fn title(self) -> &'static str {
        self.make().name
    }

    /// A command to try first.
    pub const fn example(self) -> &'static str {
        self.make().example
    }

    /// What it needs; what isn't on this machine yet is fetched, which `tell` hears.
    ///
    /// # Errors
    /// [`Error::Missing`]: Java, Maven or the plug-in; [`Error::Engine`]: it can't be fetched or kept.
    pub fn parts(self, tell: &dyn Fn(&str)) -> Result<Parts, Error> {
        let make = self.make();
        let plugin = jar(make.plugin)?;
        let examples = make.examples.map(jar).transpose()?;
        let java = java()?;
        let libraries = libraries(make, tell)?;
        Ok(Parts { libraries, plugin, examples, java })
    }
}

/// A jar of ours, in the local Maven repository.
fn jar(name: &str) -> Result<PathBuf, Error> {
    let version = env!("CARGO_PKG_VERSION");
    let path = format!(".m2/repository/io/watermaster/{name}/{version}/{name}-{version}.jar");
    let homes = [env::home_dir(), home_before_sudo()];
    let mut jars: Vec<PathBuf> = homes.into_iter().flatten().map(|home| home.join(&path)).collect();
    jars.dedup();
    jars.iter().find(|jar| jar.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        Error::Missing(format!(
            "there is no {}; run make plugins in Watermaster's sources, which makes it",
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
fn java() -> Result<PathBuf, Error> {
    if let Some(home) = env::var_os("JAVA_HOME").map(PathBuf::from)
        && home.join("bin/java").is_file()
    {
        return Ok(home);
    }
    // Behind links: HOME/bin/java.
    let java = find("java").and_then(|java| java.canonicalize().ok());
    java.and_then(|java| Some(java.parent()?.parent()?.to_owned())).ok_or_else(|| {
        Error::Missing("there is no java; install default-jre-headless, or set JAVA_HOME".into())
    })
}

/// A program by its name.
fn find(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|path| path.join(program)).find(|file| file.is_file())
}

/// The folder of an engine's jars, which are fetched unless they are there already.
fn libraries(make: &Make, tell: &dyn Fn(&str)) -> Result<PathBuf, Error> {
    let Make { pom, folder: name, size, .. } = *make;
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = caches.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let Some(caches) = caches else {
        return Err(Error::Missing("there is no folder for caches; set XDG_CACHE_HOME".into()));
    };
    let engines = caches.join("watermaster/engines");
    let whole = engines.join(name);
    let fail = |error: std::io::Error| {
        Error::Engine(format!("{}: {error}; set XDG_CACHE_HOME", whole.display()))
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
        tell(&format!("fetching {name} ({size}) into {}", whole.display()));
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
fn fetch(folder: &Path) -> Result<(), Error> {
    if find("mvn").is_none() {
        return Err(Error::Missing("there is no mvn; install maven".into()));
    }
    // It ends with this process.
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "mvn", "-q", "-B", "dependency:copy-dependencies"])
        .current_dir(folder)
        .output()
        .map_err(|error| Error::Engine(format!("setpriv: {error}; install util-linux")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).take(SHOWN).collect();
    Err(Error::Engine(format!(
        "Maven could not fetch the engine; see whether this machine reaches its repository\n{}",
        lines.join("\n")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_the_version_of_the_pom() {
        for make in [&FLINK, &HADOOP, &SPARK, &STORM] {
            let (name, version) = make.folder.split_once('-').unwrap();
            let line = format!("<{name}.version>{version}</{name}.version>");
            assert!(make.pom.contains(&line), "{line}");
        }
    }
}
