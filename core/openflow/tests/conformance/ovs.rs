//! Open vSwitch as the other end: its user-space datapath with ports that tests can write to, in
//! directories of its own, its clock stopped. Needs the programs, not root.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testing::wait::{PATIENCE, eventually};
use units::Span;

use crate::controller::Device;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const PORTS: u32 = 4;

/// A running Open vSwitch. It ends when this is dropped.
pub struct Ovs {
    directory: TempDir,
    daemons: Vec<Child>,
    stream: Option<UnixStream>,
    /// How much of each port's capture has been read.
    read: [usize; PORTS as usize],
    /// Messages have come since its caches were emptied.
    stale: bool,
}

impl Ovs {
    /// Starts one; without the programs, says why it can't.
    pub fn start() -> Result<Self, String> {
        for program in ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl"] {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            found.map_err(|error| format!("{program}: {error}; install openvswitch-switch"))?;
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let read = [24; PORTS as usize];
        let mut ovs = Self { directory, daemons: Vec::new(), stream: None, read, stale: false };
        ovs.run("ovsdb-tool", &["create", "conf.db", SCHEMA])?;
        let socket = ovs.path("db.sock");
        ovs.daemon("ovsdb-server", &["conf.db", &format!("--remote=punix:{socket}")])?;
        ovs.appears("db.sock")?;
        let database = format!("unix:{socket}");
        ovs.daemon("ovs-vswitchd", &["--enable-dummy", "--disable-system", &database])?;
        let controller = ovs.path("controller.sock");
        let listener = UnixListener::bind(&controller).map_err(|error| error.to_string())?;
        let mut arguments: Vec<String> = [
            &format!("--db={database}"),
            "--timeout=60",
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=dummy",
            "protocols=OpenFlow13",
            "fail_mode=secure",
            "other_config:datapath-id=00000000000000aa",
        ]
        .map(String::from)
        .to_vec();
        for port in 1..=PORTS {
            let capture = ovs.path(&format!("p{port}.pcap"));
            arguments.extend(["--", "add-port", "br0"].map(String::from));
            arguments.push(format!("p{port}"));
            arguments.extend(["--", "set", "interface"].map(String::from));
            arguments.extend([
                format!("p{port}"),
                "type=dummy".into(),
                format!("ofport_request={port}"),
                format!("options:tx_pcap={capture}"),
            ]);
        }
        arguments.extend(["--", "set-controller", "br0"].map(String::from));
        arguments.push(format!("unix:{controller}"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ovs.run("ovs-vsctl", &arguments)?;
        let (stream, _) = listener.accept().map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_millis(5))).map_err(|e| e.to_string())?;
        ovs.stream = Some(stream);
        ovs.control(&["time/stop"])?;
        Ok(ovs)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let here = self.directory.path();
        command.current_dir(here).stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, here);
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(program).args(arguments).output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let control = format!("--unixctl={}", self.path(&format!("{program}.ctl")));
        let mut command = self.command(program);
        command.args(arguments).arg(control).args(["--no-chdir", "-vconsole:off"]);
        let child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        self.daemons.push(child);
        Ok(())
    }

    fn appears(&self, name: &str) -> Result<(), String> {
        let path = self.path(name);
        if !eventually(|| Path::new(&path).exists()) {
            return Err(format!("{name} does not appear"));
        }
        Ok(())
    }

    fn control(&self, arguments: &[&str]) -> Result<String, String> {
        let target = format!("--target={}", self.path("ovs-vswitchd.ctl"));
        self.run("ovs-appctl", &[&[target.as_str()], arguments].concat())
    }

    /// The frames that a port has sent since they were last read, from its capture.
    fn captured(&mut self, port: u32) -> Vec<Vec<u8>> {
        let file = std::fs::read(self.path(&format!("p{port}.pcap"))).unwrap_or_default();
        let at = &mut self.read[port as usize - 1];
        let mut frames = Vec::new();
        while let Some(header) = file.get(*at..*at + 16) {
            let length = u32::from_le_bytes(*header[8..].first_chunk().unwrap()) as usize;
            let Some(frame) = file.get(*at + 16..*at + 16 + length) else { break };
            frames.push(frame.to_vec());
            *at += 16 + length;
        }
        frames
    }
}

impl Device for Ovs {
    fn exchange(&mut self, bytes: &[u8]) -> Vec<u8> {
        let stream = self.stream.as_mut().unwrap();
        stream.write_all(bytes).unwrap();
        self.stale |= !bytes.is_empty();
        let mut buffer = vec![0; 65536];
        match stream.read(&mut buffer) {
            Ok(0) => panic!("Open vSwitch has hung up"),
            Ok(count) => buffer.truncate(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                buffer.clear();
            }
            Err(error) => panic!("{error}"),
        }
        buffer
    }

    fn inject(&mut self, port: u32, frame: &[u8]) {
        // What a packet did before an entry changed is remembered until a thread finds the time.
        if self.stale {
            self.settle();
        }
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        self.control(&["netdev-dummy/receive", &format!("p{port}"), &hex]).unwrap();
    }

    fn emitted(&mut self, count: usize) -> Vec<(u32, Vec<u8>)> {
        let start = Instant::now();
        let mut frames = Vec::new();
        // A frame too many would follow the others at once.
        let mut rest = Duration::from_millis(20);
        loop {
            for port in 1..=PORTS {
                frames.extend(self.captured(port).into_iter().map(|frame| (port, frame)));
            }
            if frames.len() < count && start.elapsed() < PATIENCE {
                sleep(Duration::from_millis(2));
            } else if rest > Duration::ZERO {
                sleep(rest);
                rest = Duration::ZERO;
            } else {
                return frames;
            }
        }
    }

    fn pass(&mut self, span: Span) {
        let total = (span.as_nanos() / 1_000_000).to_string();
        // In steps, so that what is due meanwhile happens meanwhile.
        self.control(&["time/warp", &total, "100"]).unwrap();
    }

    fn settle(&mut self) {
        self.control(&["revalidator/purge"]).unwrap();
        self.stale = false;
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // Gone already is as good.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
