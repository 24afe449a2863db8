//! The transport of a lab's hosts: the kernel's TCP with the settings of a scenario.

use std::fs;

use kernel::Dctcp;
use units::{Bytes, Span};

use crate::Error;

/// Octets of the IP and TCP headers without options, and with timestamps.
const PLAIN: u16 = 40;
const WITH_TIMESTAMPS: u16 = 52;
/// The congestion control that obeys marks.
const DCTCP: &str = "dctcp";
/// Send buffer.
const SEND_BUFFER: u64 = 8 << 20;

/// A transport with the parameters of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The congestion control as the kernel calls it; for `dctcp` a BPF program replaces it if the
    /// kernel has none.
    pub congestion_control: &'static str,
    /// Payload of a full packet, octets.
    pub mss: u16,
    /// IP and TCP header, octets: 40, or 52 with timestamps.
    pub header: u16,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Least retransmission timeout; whole milliseconds.
    pub min_rto: Span,
    /// Whether acknowledgements are delayed: by the kernel, at least 40 ms.
    pub delayed_ack: bool,
    /// Most that a receiver advertises, about.
    pub receive_window: Bytes,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// Whether SYNs queue like other packets. Otherwise they go first, which approximates
    /// connections that exist from the start.
    pub handshake: bool,
}

impl Transport {
    /// Octets of a full packet.
    pub(crate) fn mtu(&self) -> u32 {
        u32::from(self.mss) + u32::from(self.header)
    }

    /// Refuses what this kernel can't do.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.header != PLAIN && self.header != WITH_TIMESTAMPS {
            return Err(Error::Transport(format!(
                "header = {}: the kernel's are {PLAIN} octets, or {WITH_TIMESTAMPS} with timestamps",
                self.header
            )));
        }
        // The limits of a veth, and the least IP packet.
        if !(576..=65_000).contains(&self.mtu()) {
            return Err(Error::Transport(format!(
                "mss and header make packets of {} B; the lab carries 576 to 65000 B",
                self.mtu()
            )));
        }
        const KNOWN: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = fs::read_to_string(KNOWN).unwrap_or_default();
        let is_known = known.split_ascii_whitespace().any(|name| name == self.congestion_control);
        if !is_known && self.congestion_control != DCTCP {
            return Err(Error::Transport(format!(
                "this kernel has no congestion control {0}, but {1}; modprobe tcp_{0}, or load it \
                 otherwise",
                self.congestion_control,
                known.trim()
            )));
        }
        Ok(())
    }

    /// What the hosts are to speak, where that isn't there by itself.
    pub(crate) fn obtain(&self) -> Result<Option<Dctcp>, Error> {
        let wanted = (self.congestion_control == DCTCP).then(Dctcp::obtain);
        wanted.transpose().map_err(|error| {
            Error::Transport(format!(
                "this kernel has no dctcp, and takes none ({error}); modprobe tcp_dctcp, or see \
                 watermaster doctor"
            ))
        })
    }

    /// Settings below `/proc/sys/net/ipv4` of each host.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let flag = |on: bool| u8::from(on).to_string();
        // The kernel keeps part of a buffer for what isn't payload.
        let receive = 2 * self.receive_window.get();
        vec![
            ("tcp_no_metrics_save", flag(true)),
            ("tcp_ecn", flag(self.ecn)),
            ("tcp_sack", flag(self.sack)),
            // As agents have it: `kernel::Namespace::shorten_bursts`.
            ("tcp_tso_rtt_log", flag(false)),
            ("tcp_timestamps", flag(self.header == WITH_TIMESTAMPS)),
            ("tcp_rmem", format!("4096 {receive} {receive}")),
            ("tcp_wmem", format!("4096 65536 {SEND_BUFFER}")),
            ("tcp_max_syn_backlog", "65536".to_owned()),
            ("ip_local_port_range", "10000 65000".to_owned()),
        ]
    }

    /// Metrics of a host's route to the others, where the congestion control is called `control`.
    pub(crate) fn metrics(&self, control: &str) -> String {
        let rto = self.min_rto.as_nanos().div_ceil(Span::from_millis(1).as_nanos()).max(1);
        let quick = if self.delayed_ack { "" } else { " quickack 1" };
        // By route, because a namespace's default must be one that unprivileged users may use.
        let window = self.initial_window;
        format!("rto_min {rto}ms initcwnd {window} congctl {control}{quick}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport() -> Transport {
        Transport {
            congestion_control: "reno",
            mss: 1460,
            header: 40,
            initial_window: 10,
            min_rto: Span::from_micros(200_500),
            delayed_ack: false,
            receive_window: Bytes::new(1 << 20),
            sack: true,
            ecn: false,
            handshake: false,
        }
    }

    #[test]
    fn what_the_kernel_cannot_speak_is_refused() {
        assert!(transport().check().is_ok());
        let error = Transport { header: 60, ..transport() }.check().unwrap_err().to_string();
        assert!(error.contains("header = 60"), "{error}");
        let none = Transport { congestion_control: "nosuch", ..transport() };
        let error = none.check().unwrap_err().to_string();
        assert!(error.contains("modprobe tcp_nosuch"), "{error}");
    }

    #[test]
    fn a_timeout_is_never_shorter_than_asked() {
        assert_eq!(
            transport().metrics("reno"),
            "rto_min 201ms initcwnd 10 congctl reno quickack 1"
        );
    }
}
