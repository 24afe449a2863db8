//! The compiled programs, and their maps by name.

use std::sync::Once;

use libbpf_rs::{
    Map, MapCore, MapMut, Object, ObjectBuilder, OpenMapMut, OpenObject, Program, ProgramMut,
};

use crate::Error;
use crate::layout::{CONNECTION, LEASE};

/// A compiled object with the sizes that the library's layouts count on.
pub(crate) struct Compiled {
    pub(crate) name: &'static str,
    bytes: &'static [u8],
    sizes: &'static [(&'static str, usize, usize)],
}

pub(crate) static PACE: Compiled = Compiled {
    name: "pace",
    bytes: include_bytes!("../bpf/objects/pace.bpf.o"),
    sizes: &[
        ("leases", 4, LEASE as usize),
        ("limits", CONNECTION, 16),
        ("sockets", 4, 24),
        ("group", 4, 8),
        ("held", 4, 8),
        ("lost", 4, 8),
    ],
};

pub(crate) static PORT: Compiled = Compiled {
    name: "port",
    bytes: include_bytes!("../bpf/objects/port.bpf.o"),
    sizes: &[
        ("leases", 4, LEASE as usize),
        ("port", 4, 64),
        ("counters", 4, 88),
        ("flows", CONNECTION, 24),
        ("windows", CONNECTION, 48),
        ("spaces", 4, 32),
        ("classes", CONNECTION, 16),
    ],
};

pub(crate) static DCTCP: Compiled =
    Compiled { name: "dctcp", bytes: include_bytes!("../bpf/objects/dctcp.bpf.o"), sizes: &[] };

impl Compiled {
    pub(crate) fn open(&self) -> Result<OpenObject, Error> {
        // libbpf prints on standard error by itself; what it returns says enough.
        static QUIET: Once = Once::new();
        QUIET.call_once(|| {
            libbpf_rs::set_print(None);
        });
        let object = ObjectBuilder::default().open_memory(self.bytes).map_err(self.failed())?;
        for (name, key, value) in self.sizes {
            let fits = object.maps().any(|map| {
                map.name() == *name
                    && map.key_size() as usize == *key
                    && map.value_size() as usize == *value
            });
            assert!(fits, "bpf/watermaster.h and src/layout.rs agree on {name}");
        }
        Ok(object)
    }

    pub(crate) fn load(&self, object: OpenObject) -> Result<Object, Error> {
        object.load().map_err(self.failed())
    }

    fn failed(&self) -> impl FnOnce(libbpf_rs::Error) -> Error {
        let object = self.name;
        move |source| Error::Load { object, source }
    }
}

pub(crate) fn open_map<'a>(object: &'a mut OpenObject, name: &str) -> OpenMapMut<'a> {
    object.maps_mut().find(|map| map.name() == name).expect("the object has this map")
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object.maps().find(|map| map.name() == name).expect("the object has this map")
}

pub(crate) fn map_mut<'a>(object: &'a mut Object, name: &str) -> MapMut<'a> {
    object.maps_mut().find(|map| map.name() == name).expect("the object has this map")
}

pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Program<'a> {
    object.progs().find(|program| program.name() == name).expect("the object has this program")
}

pub(crate) fn program_mut<'a>(object: &'a Object, name: &str) -> ProgramMut<'a> {
    object.progs_mut().find(|program| program.name() == name).expect("the object has this program")
}
