//! Starting an engine in a lab.

use std::fs;
use std::os::unix::fs::symlink;

use model::NodeId;

use crate::cluster::Cluster;
use crate::place::{self, HOSTS};
use crate::{Engine, Error, Lab, Parts, flink, hadoop, spark, storm};

/// The link to the folder of all engines in their lab's.
const LINK: &str = "engines";

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
        let is_first = self.journal.engines.is_empty();
        self.journal.engines.push(engine);
        self.journal.write()?;
        if is_first {
            self.house()?;
        }
        let mut cluster = Cluster::new(self, engine, parts)?;
        match engine {
            Engine::Flink => flink::start(&mut cluster, tell),
            Engine::Hadoop => hadoop::start(&mut cluster, tell),
            Engine::Spark => spark::start(&mut cluster, tell),
            Engine::Storm => storm::start(&mut cluster, tell),
        }
    }

    /// Makes the folder that engines and applications share.
    fn house(&self) -> Result<(), Error> {
        let topology = &self.blueprint.topology;
        let line = |host| format!("{} {}\n", self.blueprint.address(host), self.host_name(host));
        let hosts: String = topology.hosts().map(line).collect();
        let folder = place::folder(&self.journal.name);
        let lay = || {
            // What a lab left that ended with the machine.
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder)?;
            symlink(&folder, self.folder().join(LINK))?;
            fs::write(folder.join(HOSTS), format!("127.0.0.1 localhost\n{hosts}"))
        };
        lay().map_err(|error| {
            Error::Engine(format!("{} can't be filled: {error}", folder.display()))
        })
    }

    pub(crate) fn host_name(&self, host: NodeId) -> &str {
        &self.blueprint.topology.nodes()[host.index()].name
    }
}
