//! Starting an engine in a lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use model::NodeId;

use crate::place::{self, HOSTS, Parts};
use crate::{Engine, Error, Lab, hadoop};

/// The link to an engine's folder in its lab's.
const LINK: &str = "engine";

impl Lab {
    /// Starts an engine, which the daemons govern that were started before. `tell` hears how far it is.
    /// Returns when all of it works.
    ///
    /// # Errors
    /// [`Error::Engine`], with the end of the log of what has failed.
    pub fn run_engine(
        &mut self,
        engine: Engine,
        parts: &Parts,
        tell: &dyn Fn(&str),
    ) -> Result<(), Error> {
        let names = self.blueprint.topology.hosts().map(|host| self.host_name(host));
        if let Some(name) = names.into_iter().find(|name| name.contains('_')) {
            return Err(Error::Engine(format!(
                "host {name}: Java takes no name with _; rename it"
            )));
        }
        self.journal.engine = Some(engine);
        self.journal.write()?;
        let folder = place::folder(&self.journal.name);
        self.lay(&folder)
            .map_err(|error| Error::Engine(format!("{}: {error}", folder.display())))?;
        match engine {
            Engine::Hadoop => hadoop::start(self, &folder, parts, tell),
        }
    }

    pub(crate) fn host_name(&self, host: NodeId) -> &str {
        &self.blueprint.topology.nodes()[host.index()].name
    }

    /// Makes the engine's folder anew.
    fn lay(&self, folder: &Path) -> std::io::Result<()> {
        // What a lab left that ended with the machine.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        symlink(folder, self.folder().join(LINK))?;
        let line = |host| format!("{} {}\n", self.blueprint.address(host), self.host_name(host));
        let hosts: String = self.blueprint.topology.hosts().map(line).collect();
        fs::write(folder.join(HOSTS), format!("127.0.0.1 localhost\n{hosts}"))
    }
}
