//! The ports of a run that are captured.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use model::{LinkId, Network, NodeId};
use units::Time;

use super::{CaptureFile, Frame};
use crate::RunError;

/// A port to capture: every packet as it leaves the queue onto the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The directed link.
    pub link: LinkId,
    /// The file to write.
    pub path: PathBuf,
}

/// Capture files by link, and the first thing that went wrong with one.
#[derive(Debug)]
pub(crate) struct Taps {
    files: Vec<Option<Box<(PathBuf, CaptureFile)>>>,
    error: Option<RunError>,
}

impl Taps {
    /// No captures in a network of so many links.
    pub(crate) fn new(links: usize) -> Self {
        Self { files: std::iter::repeat_with(|| None).take(links).collect(), error: None }
    }

    /// Captures a port from now on.
    pub(crate) fn open(&mut self, network: &Network, capture: &Capture) -> Result<(), RunError> {
        let failed = |source| RunError::Capture { path: capture.path.clone(), source };
        let topology = network.topology();
        let link = topology.links().get(capture.link.index()).ok_or_else(|| {
            failed(Error::new(ErrorKind::NotFound, "the topology has no such link"))
        })?;
        let name = |node: NodeId| topology.nodes()[node.index()].name.as_str();
        let interface = format!("{}-{}", name(link.from), name(link.to));
        let file = CaptureFile::create(&capture.path, &interface, link.spec.capacity);
        let file = file.map_err(failed)?;
        self.files[capture.link.index()] = Some(Box::new((capture.path.clone(), file)));
        Ok(())
    }

    pub(crate) fn has(&self, link: usize) -> bool {
        self.files[link].is_some()
    }

    /// Adds a packet that leaves the port at `at`.
    pub(crate) fn packet(&mut self, link: usize, at: Time, frame: &Frame) {
        if let Some(capture) = &mut self.files[link]
            && let Err(source) = capture.1.packet(at, frame)
        {
            self.error.get_or_insert(RunError::Capture { path: capture.0.clone(), source });
        }
    }

    /// Tells of a capture that could not be written.
    pub(crate) fn check(&mut self) -> Result<(), RunError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Completes the files.
    pub(crate) fn finish(&mut self) -> Result<(), RunError> {
        self.check()?;
        for (path, file) in self.files.drain(..).flatten().map(|capture| *capture) {
            file.finish().map_err(|source| RunError::Capture { path, source })?;
        }
        Ok(())
    }
}
