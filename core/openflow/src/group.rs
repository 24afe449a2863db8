//! Groups: several ways to send a packet on (7.3.4.2).

use crate::action::Action;
use crate::port::PortNo;
use crate::wire::{code, growing};

code! {
    /// A group.
    GroupId(u32) {
        /// Every group, in a deletion or request.
        ALL = 0xffff_fffc;
        /// No particular group, in requests for flow entries.
        ANY = 0xffff_ffff;
    }
}

code! {
    /// What a group modification does.
    GroupCommand(u16) {
        /// Adds a group.
        ADD = 0;
        /// Changes one that is there.
        MODIFY = 1;
        /// Deletes a group and the flow entries that use it.
        DELETE = 2;
    }
}

code! {
    /// How a group chooses among its buckets.
    GroupKind(u8) {
        /// A copy to each.
        ALL = 0;
        /// One, by weight.
        SELECT = 1;
        /// The only one.
        INDIRECT = 2;
        /// The first that lives.
        FAST_FAILOVER = 3;
    }
}

growing! {
    /// One way of a group.
    Bucket in Bucket, length at 0, least 16, lead 2 {
        /// Its share, in groups of kind [`GroupKind::SELECT`].
        weight: u16;
        /// It lives while this port does, unless [`PortNo::ANY`].
        watch_port: PortNo;
        /// It lives while this group does, unless [`GroupId::ANY`].
        watch_group: GroupId, pad 4;
    } list {
        /// What it does.
        actions: Action<'a>;
    }
}

growing! {
    /// Adds, changes or deletes a group.
    GroupMod {
        /// What to do.
        command: GroupCommand;
        /// How it chooses.
        kind: GroupKind, pad 1;
        /// Which group.
        group: GroupId;
    } list {
        /// Its buckets.
        buckets: Bucket<'a>;
    }
}
