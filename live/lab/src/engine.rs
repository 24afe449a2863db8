//! Starting an engine in a lab.

use model::NodeId;

use crate::cluster::Cluster;
use crate::{Engine, Error, Lab, Parts, flink, hadoop, spark, storm};

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
        let mut cluster = Cluster::new(self, parts)?;
        match engine {
            Engine::Flink => flink::start(&mut cluster, tell),
            Engine::Hadoop => hadoop::start(&mut cluster, tell),
            Engine::Spark => spark::start(&mut cluster, tell),
            Engine::Storm => storm::start(&mut cluster, tell),
        }
    }

    pub(crate) fn host_name(&self, host: NodeId) -> &str {
        &self.blueprint.topology.nodes()[host.index()].name
    }
}
