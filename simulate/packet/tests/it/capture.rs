//! Captures, byte by byte against the formats, and as tshark reads them.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::{FlowId, NodeId};
use units::{Rate, Time};
use watermaster_packet::{CaptureFile, Frame};

type Checked = Result<(), Box<dyn Error>>;

/// A directory of the test's own, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> std::io::Result<Self> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn names(&self) -> std::io::Result<Vec<String>> {
        fs::read_dir(&self.0)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn data(flow: u32, seq: u32) -> Frame {
    Frame {
        src: NodeId(0),
        dst: NodeId(2),
        flow: FlowId(flow),
        from_sender: true,
        header: 40,
        payload: 1460,
        seq,
        window: 8192,
        ect: true,
        ..Frame::default()
    }
}

fn ack(flow: u32, ack: u32) -> Frame {
    Frame {
        src: NodeId(2),
        dst: NodeId(0),
        flow: FlowId(flow),
        header: 40,
        ack,
        window: 1 << 20,
        ..Frame::default()
    }
}

fn capture(path: &Path, frames: &[(u64, Frame)]) -> std::io::Result<Vec<u8>> {
    let mut file = CaptureFile::create(path, "s0>h2", Rate::from_mbps(100))?;
    for (at, frame) in frames {
        file.packet(Time::from_nanos(*at), frame)?;
    }
    file.finish()?;
    fs::read(path)
}

/// The blocks of a little-endian pcapng file: type and body.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let word = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let length = word(&bytes[4..]) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(word(&bytes[length - 4..]) as usize, length);
        blocks.push((word(bytes), &bytes[8..length - 4]));
        bytes = &bytes[length..];
    }
    blocks
}

/// The one's complement sum of RFC 1071 over 16-bit words; all ones when a checksum is right.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(0)
}

/// Whether the checksums of an IPv4 packet hold, its payload taken as zeros.
fn checksums_hold(packet: &[u8]) -> bool {
    let (ip, transport) = packet.split_at(20);
    let length = u16::from_be_bytes([ip[2], ip[3]]) - 20;
    let pseudo = [&ip[12..20], &[0, ip[9]], &length.to_be_bytes()].concat();
    sum(&[ip]) == 0xffff && sum(&[&pseudo, transport]) == 0xffff
}

#[test]
fn section_and_interface_are_as_the_format_lays_them() -> Checked {
    let dir = Dir::new("format")?;
    let bytes = capture(&dir.0.join("x.pcapng"), &[])?;
    let blocks = blocks(&bytes);
    assert_eq!(blocks.len(), 2);

    let (kind, section) = blocks[0];
    assert_eq!(kind, 0x0a0d_0d0a);
    assert_eq!(section[..4], [0x4d, 0x3c, 0x2b, 0x1a]);
    assert_eq!(section[4..8], [1, 0, 0, 0]);
    assert_eq!(section[8..16], [0xff; 8]);

    let (kind, interface) = blocks[1];
    assert_eq!(kind, 1);
    let expected: Vec<u8> = [
        &[101, 0, 0, 0, 80, 0, 0, 0][..],
        &[2, 0, 5, 0],
        b"s0>h2\0\0\0",
        &[8, 0, 8, 0],
        &100_000_000u64.to_le_bytes(),
        &[9, 0, 1, 0, 9, 0, 0, 0],
        &[0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(interface, expected);
    Ok(())
}

#[test]
fn a_data_packet_is_as_the_standards_lay_it() -> Checked {
    let dir = Dir::new("data")?;
    let at = (7 << 32) + 5;
    let bytes = capture(&dir.0.join("x.pcapng"), &[(at, data(1, 2920))])?;
    let (kind, body) = blocks(&bytes)[2];
    assert_eq!(kind, 6);
    // Interface, time (upper half first), 40 octets stored of 1500.
    let fields: Vec<u8> =
        [0u32, 7, 5, 40, 1500].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(body[..20], fields);
    let packet = &body[20..];
    // RFC 791: version and length, ECT(0), 1500 octets, don't fragment, TTL 64, TCP.
    assert_eq!(packet[..10], [0x45, 2, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6]);
    assert_eq!(packet[12..20], [10, 0, 0, 1, 10, 0, 0, 3]);
    // RFC 9293: ports, sequence number, offset 5 and ACK, window.
    assert_eq!(packet[20..24], [0xc0, 0x01, 0x13, 0x89]);
    assert_eq!(packet[24..28], 2920u32.to_be_bytes());
    assert_eq!(packet[32..36], [0x50, 0x10, 0x20, 0x00]);
    assert!(checksums_hold(packet));
    Ok(())
}

#[test]
fn an_acknowledgement_carries_its_block_and_marks() -> Checked {
    let dir = Dir::new("ack")?;
    let frame =
        Frame { sack: Some((0x1122_3344, 0x5566_7788)), ece: true, ce: true, ..ack(1, 2920) };
    let bytes = capture(&dir.0.join("x.pcapng"), &[(1, frame)])?;
    let (_, body) = blocks(&bytes)[2];
    let packet = &body[20..];
    assert_eq!(packet.len(), 52);
    assert_eq!(packet[..4], [0x45, 3, 0, 52]);
    assert_eq!(packet[12..24], [10, 0, 0, 3, 10, 0, 0, 1, 0x13, 0x89, 0xc0, 0x01]);
    assert_eq!(packet[28..32], 2920u32.to_be_bytes());
    // Offset 8, ECE and ACK, a window that no scale can say.
    assert_eq!(packet[32..36], [0x80, 0x50, 0xff, 0xff]);
    // RFC 2018: two no-operations, kind 5, length 10, left and right edge.
    let option = [1, 1, 5, 10, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    assert_eq!(packet[40..], option);
    assert!(checksums_hold(packet));
    Ok(())
}

#[test]
fn every_packet_is_as_long_as_it_was_simulated() -> Checked {
    let dir = Dir::new("length")?;
    let timestamps = Frame { header: 52, payload: 1448, ..data(0, 0) };
    let with_room = Frame { header: 52, sack: Some((1, 2)), ..ack(0, 0) };
    let datagram = Frame { datagram: true, payload: 6, ..data(0, 0) };
    let frames = [timestamps, with_room, datagram].map(|frame| (0, frame));
    let bytes = capture(&dir.0.join("x.pcapng"), &frames)?;
    let lengths: Vec<(u16, u8)> = blocks(&bytes)[2..]
        .iter()
        .map(|(_, body)| {
            assert!(checksums_hold(&body[20..][..usize::from(body[12])]));
            (u16::from_be_bytes([body[22], body[23]]), body[12])
        })
        .collect();
    assert_eq!(lengths, [(1500, 52), (52, 52), (46, 28)]);
    Ok(())
}

#[test]
fn only_a_finished_capture_is_left() -> Checked {
    let dir = Dir::new("finish")?;
    let path = dir.0.join("x.pcapng");
    fs::write(&path, "before")?;
    let mut file = CaptureFile::create(&path, "s0>h2", Rate::from_mbps(100))?;
    file.packet(Time::ZERO, &data(0, 0))?;
    drop(file);
    assert_eq!(fs::read(&path)?, b"before");
    assert_eq!(dir.names()?, ["x.pcapng"]);

    capture(&path, &[(0, data(0, 0))])?;
    assert_eq!(fs::read(&path)?[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert_eq!(dir.names()?, ["x.pcapng"]);
    Ok(())
}

#[test]
fn what_cannot_be_written_is_an_error() -> Checked {
    let dir = Dir::new("error")?;
    let kind = |result: std::io::Result<()>| result.map_err(|error| error.kind());
    let nowhere = CaptureFile::create(&dir.0.join("no/x"), "p", Rate::ZERO).map(drop);
    assert_eq!(kind(nowhere), Err(ErrorKind::NotFound));
    let name = "p".repeat(65_536);
    let nameless = CaptureFile::create(&dir.0.join("x"), &name, Rate::ZERO).map(drop);
    assert_eq!(kind(nameless), Err(ErrorKind::InvalidInput));

    let mut file = CaptureFile::create(&dir.0.join("x"), "p", Rate::ZERO)?;
    for payload in [65_495, 65_496, 65_535, 65_536, u32::MAX] {
        for datagram in [false, true] {
            let frame = Frame { payload, datagram, ..data(0, 0) };
            let fits = payload == 65_495;
            assert_eq!(file.packet(Time::NEVER, &frame).is_ok(), fits, "{frame:?}");
        }
    }
    drop(file);
    assert!(dir.names()?.is_empty());
    Ok(())
}

#[test]
fn tshark_reads_it() -> Checked {
    let tshark = |arguments: &[&str]| Command::new("tshark").args(arguments).output();
    if tshark(&["--version"]).is_err() {
        testing::needs::skipped("there is no tshark; make conformance installs it");
        return Ok(());
    }
    let dir = Dir::new("tshark")?;
    let path = dir.0.join("x.pcapng");
    let mut frames = Vec::new();
    for number in 0..10 {
        frames.push((u64::from(number) * 120_000, data(7, number * 1460)));
    }
    let hole = Frame { sack: Some((2920, 4380)), ..ack(7, 1460) };
    frames.push((1_200_000, hole));
    frames.push((1_200_001, ack(7, 14_600)));
    capture(&path, &frames)?;
    let path = path.to_str().ok_or("the path isn't UTF-8")?;

    let read = tshark(&["-q", "-z", "conv,tcp", "-r", path])?;
    let said = String::from_utf8(read.stdout)?;
    assert!(read.status.success(), "{}", String::from_utf8(read.stderr)?);
    let line = said
        .lines()
        .find(|line| line.contains("10.0.0.1:49159") && line.contains("10.0.0.3:5001"))
        .ok_or_else(|| said.clone())?;
    // 10 packets of 1500 octets one way, acknowledgements of 52 and 40 the other.
    assert!(line.contains("15 kB") && line.contains("92 bytes"), "{line}");

    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.options.sack_le",
        "_ws.malformed",
    ];
    let mut arguments = vec!["-r", path, "-T", "fields", "-E", "separator=,"];
    arguments.extend(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    arguments.extend(["-o", "tcp.relative_sequence_numbers:FALSE"]);
    arguments.extend(fields.iter().flat_map(|field| ["-e", *field]));
    let said = String::from_utf8(tshark(&arguments)?.stdout)?;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 12, "{said}");
    // Checksum status 1 is good, 2 is not verified (the payload isn't there).
    assert_eq!(lines[1], "0.000120000,s0>h2,1,2,,");
    assert_eq!(lines[10], "0.001200000,s0>h2,1,1,2920,");
    assert_eq!(lines[11], "0.001200001,s0>h2,1,1,,");
    Ok(())
}
