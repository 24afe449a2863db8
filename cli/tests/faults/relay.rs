//! A control channel that can be cut: it stands between an agent and its controller, and passes
//! octets on while it is told to.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(5);

pub struct Relay(Arc<Shared>);

struct Shared {
    target: Mutex<PathBuf>,
    cut: AtomicBool,
    over: AtomicBool,
    open: Mutex<Vec<UnixStream>>,
}

impl Relay {
    /// Listens at `path` and passes on to `target`.
    pub fn start(path: &Path, target: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(target.to_owned()),
            cut: AtomicBool::new(false),
            over: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            while !own.over.load(Ordering::Relaxed) {
                match listener.accept() {
                    // While it is cut nobody is let in, and nobody is told.
                    Ok((near, _)) => own.join(near),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        Self(shared)
    }

    /// Nothing passes any more, in neither direction, and nobody is told.
    pub fn cut(&self) {
        self.0.cut.store(true, Ordering::Relaxed);
    }

    /// What waits, and all that follows, passes again.
    pub fn mend(&self) {
        self.0.cut.store(false, Ordering::Relaxed);
    }

    /// Ends what is open; new connections lead to `target`.
    pub fn turn(&self, target: &Path) {
        target.clone_into(&mut self.0.target.lock().unwrap());
        for stream in self.0.open.lock().unwrap().drain(..) {
            // One end may have gone.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn join(self: &Arc<Self>, near: UnixStream) {
        let own = Arc::clone(self);
        thread::spawn(move || {
            own.wait();
            let target = own.target.lock().unwrap().clone();
            // Nobody listens there: this end is closed, as the other would be.
            let Ok(far) = UnixStream::connect(target) else { return };
            let clones = [&near, &far].map(|stream| stream.try_clone().unwrap());
            own.open.lock().unwrap().extend(clones);
            let (back, there) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let other = Arc::clone(&own);
            thread::spawn(move || other.pass(far, back));
            own.pass(near, there);
        });
    }

    fn wait(&self) {
        while self.cut.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }

    fn pass(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut chunk = [0; 16 << 10];
        loop {
            let read = match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            self.wait();
            if to.write_all(&chunk[..read]).is_err() {
                break;
            }
        }
        self.wait();
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        for stream in self.0.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
