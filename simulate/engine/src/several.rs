//! Several applications on one network, each as if it were alone.

use std::sync::Arc;

use model::{Directive, FlowId};
use units::{Bytes, Time};

use crate::{Actions, Application, World};

/// Applications that run at once, each under its name.
pub struct Several<'a, W>(Vec<(Arc<str>, Box<dyn Application<W> + 'a>)>);

impl<'a, W: World> Several<'a, W> {
    /// They act in this order where they act at the same time. Their jobs have different numbers.
    pub fn new(applications: Vec<(Arc<str>, Box<dyn Application<W> + 'a>)>) -> Self {
        Self(applications)
    }

    /// Has one of them act.
    fn with<T>(
        &mut self,
        number: usize,
        actions: &mut Actions<'_, W>,
        act: impl FnOnce(&mut dyn Application<W>, &mut Actions<'_, W>) -> T,
    ) -> Option<T> {
        let count = self.0.len();
        let (name, application) = self.0.get_mut(number)?;
        actions.speak_for(number, count, name);
        Some(act(&mut **application, actions))
    }

    /// Has the application act whose flow it is.
    fn of(
        &mut self,
        flow: FlowId,
        actions: &mut Actions<'_, W>,
        act: impl FnOnce(&mut dyn Application<W>, &mut Actions<'_, W>) -> Result<(), W::Error>,
    ) -> Result<(), W::Error> {
        let number = actions.flow(flow).application as usize;
        self.with(number, actions, act).unwrap_or(Ok(()))
    }
}

impl<W: World> Application<W> for Several<'_, W> {
    fn arrival(&mut self) -> Option<Time> {
        self.0.iter_mut().filter_map(|(_, application)| application.arrival()).min()
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let arrivals = self.0.iter_mut().map(|(_, application)| application.arrival());
        let arrivals = arrivals.enumerate().filter_map(|(number, time)| Some((time?, number)));
        let Some((_, number)) = arrivals.min() else {
            return Ok(());
        };
        self.with(number, actions, |application, actions| application.arrive(actions))
            .unwrap_or(Ok(()))
    }

    fn due(&mut self, token: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let count = self.0.len() as u64;
        let number = usize::try_from(token % count).unwrap_or(usize::MAX);
        self.with(number, actions, |application, actions| application.due(token / count, actions))
            .unwrap_or(Ok(()))
    }

    fn reached(
        &mut self,
        flow: FlowId,
        delivered: Bytes,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        self.of(flow, actions, |application, actions| application.reached(flow, delivered, actions))
    }

    fn ended(&mut self, flow: FlowId, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        self.of(flow, actions, |application, actions| application.ended(flow, actions))
    }

    fn directed(
        &mut self,
        directive: &Directive,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        for number in 0..self.0.len() {
            self.with(number, actions, |application, actions| {
                application.directed(directive, actions)
            })
            .unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}
