//! Several applications of a lab before a controller that is elsewhere: each speaks for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Declared, Directives, JobId, Network, Observation};
use policy::Policy;
use units::Time;
use wire::client::Address;

use crate::northbound::{Account, Northbound};
use crate::{Directory, Error};

/// Passes on what each application declares, under its name.
#[derive(Debug)]
pub struct Speakers {
    speakers: BTreeMap<Arc<str>, Northbound>,
    /// Whose each job is.
    jobs: BTreeMap<JobId, Arc<str>>,
}

impl Speakers {
    /// Speaks for these applications to `controller`, without TLS, of the flows in `directory`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new<'a>(
        applications: impl Iterator<Item = &'a str>,
        controller: &Address,
        directory: &Directory,
    ) -> Result<Self, Error> {
        let speakers = applications.map(|name| {
            let northbound = Northbound::new(name, controller.clone(), directory.clone())?;
            Ok((Arc::from(name), northbound))
        });
        let speakers = speakers.collect::<Result<_, Error>>()?;
        Ok(Self { speakers, jobs: BTreeMap::new() })
    }

    /// Tells, whenever it is asked, what became of the declarations of each application.
    pub fn accounts(&self) -> impl Fn() -> Vec<(Arc<str>, Account)> + use<> {
        let accounts = self.speakers.iter().map(|(name, one)| (Arc::clone(name), one.account()));
        let accounts: Vec<_> = accounts.collect();
        move || accounts.iter().map(|(name, account)| (Arc::clone(name), account())).collect()
    }

    fn owner(&mut self, job: JobId) -> Option<&mut Northbound> {
        self.speakers.get_mut(self.jobs.get(&job)?)
    }
}

impl Policy for Speakers {
    fn observe(&mut self, now: Time, network: &Network, seen: &Observation) {
        let Observation::Declared(declared) = seen else { return };
        let job = match declared {
            Declared::JobStart { job, application } => {
                self.jobs.insert(*job, Arc::clone(application));
                *job
            }
            Declared::FlowRequest { job, .. }
            | Declared::FlowComplete { job, .. }
            | Declared::JobComplete { job }
            | Declared::JobTerms { job, .. }
            | Declared::TaskHost { job, .. }
            | Declared::Size { job, .. } => *job,
            Declared::Gather(request) => request.id,
            Declared::Streams(samples) => {
                for speaker in self.speakers.values_mut() {
                    let own = speaker.own(samples);
                    if !own.is_empty() {
                        speaker.observe(now, network, &Declared::Streams(own).into());
                    }
                }
                return;
            }
        };
        if let Some(speaker) = self.owner(job) {
            speaker.observe(now, network, seen);
        }
        if matches!(declared, Declared::JobComplete { .. }) {
            self.jobs.remove(&job);
        }
    }

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}
}
