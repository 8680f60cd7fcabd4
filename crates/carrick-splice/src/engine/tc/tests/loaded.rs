//! Loaded objects that tests use one after another: the verifier needs half a second for each.

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, RingBufferBuilder};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Objects of one kind that no test uses at the moment.
pub type Pool = Mutex<Vec<Parts>>;

/// The programs and maps of an object.
#[derive(Default)]
pub struct Parts {
    programs: Vec<(OsString, OwnedFd)>,
    maps: Vec<MapHandle>,
}

impl Parts {
    pub fn of(object: &Object) -> Parts {
        let owned = |program: libbpf_rs::Program<'_>| {
            let descriptor = program.as_fd().try_clone_to_owned().unwrap();
            (program.name().to_owned(), descriptor)
        };
        let handle = |map: libbpf_rs::Map<'_>| MapHandle::try_from(&map).unwrap();
        Parts {
            programs: object.progs().map(owned).collect(),
            maps: object.maps().map(handle).collect(),
        }
    }
}

/// An object for one test. It returns to its pool afterwards, unless the test has failed.
pub struct Loaded {
    parts: Parts,
    pool: &'static Pool,
}

impl Loaded {
    /// From the pool, with maps as they were after loading; or a new one.
    pub fn take(pool: &'static Pool, load: impl FnOnce() -> Parts) -> Loaded {
        let used = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let parts = used.map_or_else(load, |parts| {
            parts.maps.iter().for_each(reset);
            parts
        });
        Loaded { parts, pool }
    }

    pub fn program(&self, name: &str) -> OwnedFd {
        let mut all = self.parts.programs.iter();
        let (_, program) = all.find(|(other, _)| other == name).unwrap();
        program.try_clone().unwrap()
    }

    pub fn map(&self, name: &str) -> MapHandle {
        let mut all = self.parts.maps.iter();
        MapHandle::try_from(all.find(|map| map.name() == name).unwrap()).unwrap()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            pool.push(std::mem::take(&mut self.parts));
        }
    }
}

/// Makes a map what it was after loading: empty, or zeros.
fn reset(map: &MapHandle) {
    let zeros = || vec![0; map.value_size() as usize];
    match map.map_type() {
        // Constants.
        MapType::Array if map.name().as_encoded_bytes().ends_with(b".rodata") => {}
        MapType::Array => (0..map.max_entries()).for_each(|index| {
            let index = index.to_ne_bytes();
            map.update(&index, &zeros(), MapFlags::ANY).unwrap();
        }),
        MapType::PercpuArray => (0..map.max_entries()).for_each(|index| {
            let zeros = vec![zeros(); libbpf_rs::num_possible_cpus().unwrap()];
            map.update_percpu(&index.to_ne_bytes(), &zeros, MapFlags::ANY)
                .unwrap();
        }),
        MapType::Hash => map.keys().collect::<Vec<_>>().iter().for_each(|key| {
            map.delete(key).unwrap();
        }),
        MapType::Queue => while map.lookup_and_delete(&[]).unwrap().is_some() {},
        MapType::RingBuf => {
            let mut reader = RingBufferBuilder::new();
            reader.add(map, |_| 0).unwrap();
            reader.build().unwrap().consume().unwrap();
        }
        // Its entries end with their sockets; and tables of requests, which only the process writes, are not tested here.
        MapType::SkStorage | MapType::ArrayOfMaps => {}
        other => panic!("{:?} is a {other:?}", map.name()),
    }
}
