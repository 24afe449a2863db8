//! What is checked when a run has ended.

use super::World;

impl World {
    /// Checks what the events themselves don't ensure: bytes are conserved, the last packets of each link keep
    /// its rate, no queue or receive buffer has exceeded its room, no flow delivered more than it has. Builds
    /// with debug assertions have held each packet against the link's [`crate::book`], too.
    pub(super) fn audit(&self) -> Result<(), String> {
        #[cfg(debug_assertions)]
        self.wires.links.books.verdict()?;
        for link in 0..self.wires.links.len() {
            if !self.wires.links.kept_its_rate(link) {
                return Err(format!("link {link} sent more than its capacity"));
            }
            if !self.wires.links.kept_its_room(link) {
                return Err(format!("the queue of link {link} exceeded its buffer"));
            }
        }
        let waiting = self.wires.schedulers.iter().flatten().map(|s| s.bytes());
        let passages = self.flows.iter().filter_map(|flow| flow.passage.as_ref()?.held);
        let syns: u64 = passages.map(|(_, packet)| u64::from(packet.size)).sum();
        let held = self.switches.iter().map(|switches| switches.carried() + syns);
        let carried = self.wires.links.carried() + waiting.chain(held).sum::<u64>();
        if self.injected != self.arrived + self.dropped + carried {
            return Err(format!(
                "{} bytes entered the network, but {} arrived, {} were dropped and {carried} are \
                 on their way",
                self.injected, self.arrived, self.dropped
            ));
        }
        if let Some(flow) = self.flows.iter().find(|flow| !flow.receiver.kept_its_room()) {
            return Err(format!("the receive buffer of flow {} exceeded its room", flow.id.0));
        }
        match self.flows.iter().find(|flow| flow.delivered() > flow.size) {
            Some(flow) => Err(format!("flow {} delivered more than it has", flow.id.0)),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, debug_assertions))]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use engine::{Notice, World as _};
    use model::{Buffer, FlowId, LinkSpec, Network, build};
    use units::{Bytes, Rate, Span, Time};

    use super::World;
    use crate::scheduler::{Discipline, Scheduler};
    use crate::{Limiter, Setup, Transport};

    /// Three flows from h0, h1 and h2 to h3 over queues that have room for so much; a hundred packets or so wait
    /// for the last link when they have room. Its defects are put in after each event.
    fn audited(
        room: Buffer,
        queue: Discipline,
        mut defect: impl FnMut(&mut World),
    ) -> Result<(), String> {
        let link = LinkSpec {
            capacity: Rate::from_mbps(100),
            delay: Span::from_micros(10),
            buffer: room,
            mark: None,
        };
        let access = build::Access { link, nic: Buffer::Unlimited };
        let network = Network::new(build::star(4, &access).unwrap());
        let setup = Setup {
            network: network.clone(),
            transport: Transport { initial_window: 50, ..Transport::default() },
            application: Box::new(engine::Jobs::new(std::iter::empty())),
            policy: None,
            enforcement: Limiter::Pacing,
            host_queue: Discipline::Fifo,
            switch_queue: queue,
            control_delay: Span::ZERO,
            processing: Span::ZERO,
            until: Time::NEVER,
            captures: Vec::new(),
            monitors: Vec::new(),
            rates: None,
        };
        let mut world = World::new(&setup).unwrap();
        let hosts: Vec<_> = network.topology().hosts().collect();
        for src in 0..3 {
            world.start(&network, hosts[src], hosts[3], Bytes::new(200_000)).unwrap();
        }
        for step in 1..5_000 {
            defect(&mut world);
            let limit = Time::from_nanos(step * 50_000);
            while world.run(limit) != Notice::Limit {}
            world.advance(limit);
        }
        assert!(world.state(FlowId(0)).is_none(), "the flows have ended");
        world.audit()
    }

    fn refused(room: Buffer, queue: Discipline, defect: impl FnMut(&mut World)) -> String {
        audited(room, queue, defect).unwrap_err()
    }

    const PACKETS: Buffer = Buffer::Packets(20);
    const OCTETS: Buffer = Buffer::Bytes(Bytes::new(30_000));

    /// All links of the world.
    fn links(world: &World) -> std::ops::Range<usize> {
        0..world.wires.links.len()
    }

    #[test]
    fn runs_without_defects_pass() {
        for room in [PACKETS, OCTETS, Buffer::Unlimited] {
            for queue in [Discipline::Fifo, Discipline::PerFlow, Discipline::ByTag] {
                audited(room, queue, |_| {}).unwrap();
            }
        }
    }

    /// Once in the run, near its end, the last link sends a packet in half its time.
    fn hurry(world: &mut World, done: &mut bool) {
        let last = links(world).max_by_key(|link| world.wires.links.bytes(*link)).unwrap_or(0);
        let (now, links) = (world.now, &mut world.wires.links);
        if links.packets(last) > 350
            && links.queue_length(last, now) > 2
            && !std::mem::replace(done, true)
        {
            links.hurry(last, 60_000);
        }
    }

    #[test]
    fn a_link_that_sends_too_fast_is_refused() {
        let mut done = false;
        let said = refused(Buffer::Unlimited, Discipline::Fifo, |world| hurry(world, &mut done));
        assert!(said.contains("sent more than its capacity at"), "{said}");
    }

    #[test]
    fn without_books_the_last_packets_show_it() {
        let mut done = false;
        let said = refused(Buffer::Unlimited, Discipline::Fifo, |world| {
            hurry(world, &mut done);
            world.wires.links.books.forget();
        });
        assert!(said.ends_with("sent more than its capacity"), "{said}");
    }

    #[test]
    fn a_queue_that_takes_more_than_its_room_is_refused() {
        let look =
            |world: &mut World| links(world).for_each(|link| world.wires.links.never_look(link));
        let said = refused(PACKETS, Discipline::Fifo, look);
        assert!(said.contains("held more than its buffer"), "{said}");
        let said = refused(OCTETS, Discipline::Fifo, |world| world.wires.links.forget_room());
        assert!(said.contains("held more than its buffer"), "{said}");
    }

    #[test]
    fn a_scheduler_that_takes_more_than_its_room_is_refused() {
        for room in [PACKETS, OCTETS] {
            let mut widened = false;
            let said = refused(room, Discipline::PerFlow, |world| {
                if !std::mem::replace(&mut widened, true) {
                    for port in world.wires.schedulers.iter_mut().flatten() {
                        **port = Scheduler::new(Discipline::PerFlow, Buffer::Unlimited);
                    }
                }
            });
            assert!(said.contains("held more than its buffer"), "{said}");
        }
    }

    #[test]
    fn octets_that_are_lost_uncounted_are_refused() {
        let said = refused(PACKETS, Discipline::Fifo, |world| world.dropped = 0);
        assert!(said.contains("bytes entered the network"), "{said}");
    }
}
