//! Ports: what they are, how they change (7.2.1, 7.3.4.3, 7.4.3).

use crate::wire::{code, plain};

code! {
    /// A port of a switch.
    PortNo(u32) {
        /// The greatest number of a physical or logical port.
        MAX = 0xffff_ff00;
        /// Back where the packet came from.
        IN_PORT = 0xffff_fff8;
        /// Through the tables, from a Packet-Out.
        TABLE = 0xffff_fff9;
        /// As a switch without OpenFlow would.
        NORMAL = 0xffff_fffa;
        /// To all ports but the one it came by and those blocked.
        FLOOD = 0xffff_fffb;
        /// To all ports but the one it came by.
        ALL = 0xffff_fffc;
        /// To the controllers.
        CONTROLLER = 0xffff_fffd;
        /// To the switch's own host.
        LOCAL = 0xffff_fffe;
        /// No particular port, in requests.
        ANY = 0xffff_ffff;
    }
}

plain! {
    /// A port.
    Port in Multipart {
        /// Its number.
        port: PortNo, pad 4;
        /// Its Ethernet address.
        hw_addr: [u8; 6], pad 2;
        /// Its name, filled up with zeros.
        name: [u8; 16];
        /// What it was told: bit 0 down, 2 no receiving, 5 no forwarding, 6 no Packet-In.
        config: u32;
        /// What it found: bit 0 no link, 1 blocked, 2 live.
        state: u32;
        /// What it does at present (7.2.1, `ofp_port_features`).
        curr: u32;
        /// What it tells its peer.
        advertised: u32;
        /// What it can do.
        supported: u32;
        /// What its peer tells.
        peer: u32;
        /// Its speed in kbit/s.
        curr_speed_kbps: u32;
        /// Its greatest speed in kbit/s.
        max_speed_kbps: u32;
    }
}

plain! {
    /// Changes a port.
    PortMod in Message {
        /// Which.
        port: PortNo, pad 4;
        /// Its Ethernet address, to be sure.
        hw_addr: [u8; 6], pad 2;
        /// The bits of its configuration.
        config: u32;
        /// Which of them are to change.
        mask: u32;
        /// What to tell its peer; zero for no change.
        advertise: u32, pad 4;
    }
}

code! {
    /// What happened to a port.
    PortReason(u8) {
        /// It came.
        ADD = 0;
        /// It went.
        DELETE = 1;
        /// It changed.
        MODIFY = 2;
    }
}

plain! {
    /// A port came, went or changed.
    PortStatus in Message {
        /// Which of the three.
        reason: PortReason, pad 7;
        /// The port.
        port: Port;
    }
}

impl Port {
    /// One that is up, without a name, of which nothing else is told.
    pub const fn up(number: u32, hw_addr: [u8; 6]) -> Self {
        Self {
            port: PortNo(number),
            hw_addr,
            name: [0; 16],
            config: 0,
            state: 4,
            curr: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            curr_speed_kbps: 0,
            max_speed_kbps: 0,
        }
    }

    /// Its name without the zeros, as long as it is UTF-8.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        core::str::from_utf8(&self.name[..end]).unwrap_or("")
    }
}
