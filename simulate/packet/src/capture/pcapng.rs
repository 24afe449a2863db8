//! Writes pcapng (draft-ietf-opsawg-pcapng): one section, one interface, its packets, in
//! little-endian order. Sections cited are those of the draft.

use std::io::{self, Write};

use units::{Rate, Time};

/// Block types (section 11.1).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Tells a reader the byte order (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Raw IPv4 or IPv6, by the version in the packet (tcpdump's list of link types).
const LINKTYPE_RAW: u16 = 101;
/// Options (sections 3.5, 4.1, 4.2).
const END_OF_OPTIONS: u16 = 0;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_SPEED: u16 = 8;
const INTERFACE_TIMESTAMP_RESOLUTION: u16 = 9;
/// Timestamps count units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// A capture of raw IP packets at one interface.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Starts a file on `out` for an interface called `name` with the speed `capacity`; at most
    /// `snap` octets of a packet are going to be stored.
    pub(super) fn new(mut out: W, name: &str, capacity: Rate, snap: u32) -> io::Result<Self> {
        let mut body = Vec::new();
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend(1u16.to_le_bytes()); // version 1.0
        body.extend(0u16.to_le_bytes());
        body.extend((-1i64).to_le_bytes()); // section of unstated length
        let application = concat!("watermaster ", env!("CARGO_PKG_VERSION"));
        option(&mut body, SECTION_APPLICATION, application.as_bytes())?;
        option(&mut body, END_OF_OPTIONS, &[])?;
        block(&mut out, SECTION_HEADER, &[&body])?;

        body.clear();
        body.extend(LINKTYPE_RAW.to_le_bytes());
        body.extend(0u16.to_le_bytes()); // reserved
        body.extend(snap.to_le_bytes());
        option(&mut body, INTERFACE_NAME, name.as_bytes())?;
        option(&mut body, INTERFACE_SPEED, &capacity.as_bps().to_le_bytes())?;
        option(&mut body, INTERFACE_TIMESTAMP_RESOLUTION, &[NANOSECONDS])?;
        option(&mut body, END_OF_OPTIONS, &[])?;
        block(&mut out, INTERFACE_DESCRIPTION, &[&body])?;
        Ok(Self { out })
    }

    /// Adds a packet of `length` octets seen at `at`, of which `stored` is kept.
    pub(super) fn packet(&mut self, at: Time, length: u32, stored: &[u8]) -> io::Result<()> {
        let at = at.as_nanos().to_le_bytes();
        let mut fields = [0; 20];
        // The interface, number 0, comes first; then the upper half of the timestamp.
        fields[4..8].copy_from_slice(&at[4..]);
        fields[8..12].copy_from_slice(&at[..4]);
        fields[12..16].copy_from_slice(&length_u32(stored.len())?.to_le_bytes());
        fields[16..20].copy_from_slice(&length.to_le_bytes());
        block(&mut self.out, ENHANCED_PACKET, &[&fields, stored])
    }

    /// Hands on what is buffered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Octets that bring `length` to a multiple of four, as every field of variable length needs.
fn padding(length: usize) -> &'static [u8] {
    &[0; 3][..length.next_multiple_of(4) - length]
}

fn length_u32(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Adds an option to the body of a block (section 3.5).
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) -> io::Result<()> {
    let length = u16::try_from(value.len())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    body.extend(code.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(value);
    body.extend(padding(value.len()));
    Ok(())
}

/// Writes a block (section 3.1); its total length stands at both ends.
fn block(out: &mut impl Write, kind: u32, body: &[&[u8]]) -> io::Result<()> {
    const FRAME: usize = 12;
    let length: usize = body.iter().map(|part| part.len()).sum();
    let padding = padding(length);
    let total = length_u32(FRAME + length + padding.len())?.to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&total)?;
    for part in body {
        out.write_all(part)?;
    }
    out.write_all(padding)?;
    out.write_all(&total)
}
