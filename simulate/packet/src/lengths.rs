//! How long packets are (sync-vs-async, section III-C).

use model::FlowId;

/// A law of packet lengths, in frame octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lengths {
    /// As long as the transport allows.
    #[default]
    Full,
    /// 40 octets with probability 0.4, else full: about what Hadoop sends.
    Bimodal,
    /// A web server's: 15 % are full, half are at most 150 octets. The text gives no more; below the
    /// median every length from 40 is equally likely, and above it every one up to 300.
    Web,
    /// As `Web`, with the least mean that the text allows: half 40 octets, 35 % 150.
    WebShortest,
    /// As `Web`, with every length above the median up to a full packet's equally likely.
    WebLonger,
    /// Full and 40 octets in turn: the text's adversary of timeslots.
    Alternating,
}

impl Lengths {
    /// The shortest packet, octets.
    pub const SHORTEST: u16 = 40;
    const MEDIAN: u16 = 150;
    const LONG: u16 = 300;

    /// Length of a flow's packet of this number. It depends only on the two numbers, so that a flow
    /// has the same packets under every policy.
    pub(crate) fn of(self, full: u16, flow: FlowId, number: u32) -> u16 {
        /// Draws are in parts of this.
        const WHOLE: u64 = 1 << 20;
        let draw = mix(u64::from(flow.0) << 32 | u64::from(number)) % WHOLE;
        let below = |percent: u64| draw * 100 < WHOLE * percent;
        // Linear from `low`, at `from` percent, to `high`, at `to` percent.
        let between = |low: u16, high: u16, from: u64, to: u64| {
            let part = (draw * 100 - WHOLE * from) * u64::from(high - low) / (WHOLE * (to - from));
            low + u16::try_from(part).unwrap_or(high - low)
        };
        let length = match self {
            Self::Full => full,
            Self::Bimodal if below(40) => Self::SHORTEST,
            Self::Web | Self::WebLonger if below(50) => {
                between(Self::SHORTEST, Self::MEDIAN, 0, 50)
            }
            Self::Web if below(85) => between(Self::MEDIAN, Self::LONG, 50, 85),
            Self::Alternating if number % 2 == 1 => Self::SHORTEST,
            Self::WebShortest if below(50) => Self::SHORTEST,
            Self::WebShortest if below(85) => Self::MEDIAN,
            Self::WebLonger if below(85) => between(Self::MEDIAN, full.max(Self::MEDIAN), 50, 85),
            Self::Bimodal | Self::Web | Self::WebShortest | Self::WebLonger | Self::Alternating => {
                full
            }
        };
        length.min(full)
    }
}

/// Spreads every input bit over the output (SplitMix64's finaliser).
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
