//! The classes, their buckets, and their splices.

use super::block::{BUCKETS, Block, CLASSES};
use super::class::{ClassSettings, NetworkRate, PaceError};
use super::skeleton::types::{pace_bucket, pace_class};
use super::{ClassCounts, PaceHandle, bucket, check};
use crate::sys::clock::now_ns;
use std::collections::HashMap;
use std::mem::offset_of;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::Duration;

/// The burst, as a time at a bucket's rate: longer than timers are late.
const BURST: Duration = Duration::from_millis(40);

/// Directions of a splice: towards the server, and towards the client.
pub(super) const DIRECTIONS: usize = 2;

/// One bucket for each direction.
type Buckets = [u32; DIRECTIONS];

/// The process's view of classes and buckets. Behind a lock that is taken when a splice begins or ends, and
/// to change them.
pub(super) struct ClassTable {
    classes: Vec<Option<Class>>,
    free_buckets: Vec<u32>,
    networks: HashMap<(u8, u8, u128), Network>,
    /// Classes of the buckets of single splices.
    splices: HashMap<u32, u8>,
    pub(super) interval: Duration,
}

struct Class {
    settings: ClassSettings,
    buckets: Buckets,
    users: u64,
    /// Removed from the configuration, but still has splices.
    is_gone: bool,
}

struct Network {
    buckets: Buckets,
    users: u64,
}

/// One splice's part of the table.
pub(super) struct Share {
    pub(super) class: u8,
    pub(super) handles: [PaceHandle; DIRECTIONS],
    network: Option<(u8, u8, u128)>,
    splice: Option<Buckets>,
    /// Its class limits networks or splices, and no bucket was free for that.
    pub(super) is_unbounded: bool,
}

impl ClassTable {
    pub(super) fn new(interval: Duration) -> ClassTable {
        ClassTable {
            classes: (0..CLASSES).map(|_| None).collect(),
            free_buckets: (0..BUCKETS as u32).rev().collect(),
            networks: HashMap::new(),
            splices: HashMap::new(),
            interval,
        }
    }

    /// Replaces the classes; `counts` are the counters at each index. Nothing has changed after an error.
    pub(super) fn configure(
        &mut self,
        block: &Block,
        counts: &[ClassCounts; CLASSES],
        classes: &[ClassSettings],
        interval: Duration,
    ) -> Result<(), PaceError> {
        check::classes(classes, interval)?;
        let gone = |class: &Class| {
            !classes
                .iter()
                .any(|settings| settings.name == class.settings.name)
        };
        let is_new = |settings: &&ClassSettings| self.find(&settings.name).is_none();
        let new = classes.iter().filter(is_new).count();
        let free = self.classes.iter().filter(|place| match place {
            None => true,
            Some(class) => gone(class) && class.users == 0,
        });
        let refuse = |why| Err(PaceError { class: None, why });
        if new > free.count() {
            return refuse(format!(
                "there is room for {CLASSES} classes, those included that are not asked for any more but have splices"
            ));
        }
        if new * DIRECTIONS > self.free_buckets.len() {
            self.forget_networks(block);
        }
        if new * DIRECTIONS > self.free_buckets.len() {
            return refuse(
                "client networks, tunnels and connections use all rates; a class can be added when some have ended".into(),
            );
        }
        for number in 0..CLASSES {
            if self.classes[number].as_ref().is_some_and(gone) {
                self.retire(block, number);
            }
        }
        for settings in classes {
            self.put(block, counts, settings);
        }
        for settings in classes {
            self.write(block, settings);
        }
        self.interval = interval;
        block.changes().fetch_add(1, Release);
        Ok(())
    }

    pub(super) fn settings(&self) -> Vec<ClassSettings> {
        self.there()
            .map(|(_, class)| class.settings.clone())
            .collect()
    }

    /// The number, splices and networks of each class.
    pub(super) fn users(&self) -> Vec<(u8, &ClassSettings, u64, u64)> {
        self.there()
            .map(|(number, class)| {
                let networks = (self.networks.iter())
                    .filter(|(key, network)| key.0 == number && network.users > 0);
                (
                    number,
                    &class.settings,
                    class.users,
                    networks.count() as u64,
                )
            })
            .collect()
    }

    /// Adds a splice to this class, with a client of this address.
    pub(super) fn open(
        &mut self,
        block: &Block,
        name: &str,
        client: IpAddr,
        worker: u8,
    ) -> Option<Share> {
        let number = self.find(name)?;
        let class = self.classes[usize::from(number)].as_mut()?;
        class.users += 1;
        let (mut buckets, network_rate, splice_rate) =
            (class.buckets, class.settings.network, class.settings.splice);
        let network = network_rate.and_then(|rate| {
            let key = network_of(number, rate, client);
            if let Some(network) = self.networks.get_mut(&key) {
                network.users += 1;
                buckets = network.buckets;
                return Some(key);
            }
            let own = self.take_buckets(block, Some(rate.ceiling), buckets)?;
            buckets = own;
            let network = Network {
                buckets: own,
                users: 1,
            };
            self.networks.insert(key, network);
            Some(key)
        });
        let splice = splice_rate.and_then(|rate| self.take_buckets(block, Some(rate), buckets));
        if let Some(own) = splice {
            buckets = own;
            self.splices.extend(own.map(|bucket| (bucket, number)));
        }
        let is_unbounded = (network_rate.is_some() && network.is_none())
            || (splice_rate.is_some() && splice.is_none());
        Some(Share {
            class: number,
            handles: buckets.map(|bucket| PaceHandle::new(worker, number, Some(bucket))),
            network,
            splice,
            is_unbounded,
        })
    }

    /// Removes a splice.
    pub(super) fn close(&mut self, block: &Block, share: &Share) {
        if let Some(buckets) = share.splice {
            for bucket in buckets {
                self.splices.remove(&bucket);
                self.free_buckets.push(bucket);
            }
        }
        if let Some(key) = share.network
            && let Some(network) = self.networks.get_mut(&key)
        {
            // What it owes stays for its next splice.
            network.users -= 1;
        }
        let number = usize::from(share.class);
        if let Some(class) = &mut self.classes[number] {
            class.users -= 1;
            if class.is_gone {
                self.retire(block, number);
            }
        }
    }

    fn there(&self) -> impl Iterator<Item = (u8, &Class)> {
        let places = (0..).zip(&self.classes);
        places
            .filter_map(|(number, place)| Some((number, place.as_ref()?)))
            .filter(|(_, class)| !class.is_gone)
    }

    fn find(&self, name: &str) -> Option<u8> {
        self.there()
            .find(|(_, class)| class.settings.name == name)
            .map(|(number, _)| number)
    }

    /// Stores the settings at the index of that name, or at a new one, whose counters start from zero.
    fn put(&mut self, block: &Block, counts: &[ClassCounts; CLASSES], settings: &ClassSettings) {
        if let Some(number) = self.find(&settings.name) {
            if let Some(class) = &mut self.classes[usize::from(number)] {
                class.settings = settings.clone();
            }
            return;
        }
        let Some(place) = self.classes.iter().position(Option::is_none) else {
            return;
        };
        let Some(buckets) = self.pop_buckets(block) else {
            return;
        };
        counts[place].forget();
        for field in [
            offset_of!(pace_class, granted),
            offset_of!(pace_class, held),
        ] {
            block.class(place as u8, field).store(0, Relaxed);
        }
        self.classes[place] = Some(Class {
            settings: settings.clone(),
            buckets,
            users: 0,
            is_gone: false,
        });
    }

    /// Writes a class to the block, with all its buckets and those of its splices.
    fn write(&self, block: &Block, settings: &ClassSettings) {
        let Some(number) = self.find(&settings.name) else {
            return;
        };
        let Some(class) = &self.classes[usize::from(number)] else {
            return;
        };
        let parent = settings.parent.as_ref().and_then(|name| {
            let parent = self.classes[usize::from(self.find(name)?)].as_ref()?;
            Some(parent.buckets)
        });
        write_class(block, number, settings);
        for (direction, bucket) in class.buckets.into_iter().enumerate() {
            let parent = parent.map(|buckets| buckets[direction]);
            let of = |field| block.bucket(bucket, field);
            bucket::change_rate(block, bucket, settings.rate);
            of(offset_of!(pace_bucket, urgency)).store(self.urgency(settings), Release);
            write_bucket(block, bucket, settings.ceiling, parent);
        }
        for (key, network) in &self.networks {
            if key.0 == number {
                for bucket in network.buckets {
                    let ceiling = settings.network.map(|rate| rate.ceiling);
                    bucket::change_ceiling(block, bucket, ceiling);
                }
            }
        }
        for (&bucket, &of_class) in &self.splices {
            if of_class == number {
                bucket::change_ceiling(block, bucket, settings.splice);
            }
        }
    }

    /// The urgency of a class at its parent: the number of lower priorities among its siblings.
    fn urgency(&self, settings: &ClassSettings) -> u64 {
        let siblings = self.there().map(|(_, class)| &class.settings);
        let mut behind: Vec<u8> = siblings
            .filter(|other| other.parent == settings.parent && other.priority > settings.priority)
            .map(|other| other.priority)
            .collect();
        behind.sort_unstable();
        behind.dedup();
        behind.len().min(bucket::URGENCIES) as u64
    }

    /// Retires a class: it holds nothing back, and its index is freed with its last splice.
    fn retire(&mut self, block: &Block, number: usize) {
        let Some(class) = &mut self.classes[number] else {
            return;
        };
        class.is_gone = true;
        let settings = ClassSettings::new(class.settings.name.clone());
        write_class(block, number as u8, &settings);
        for bucket in class.buckets {
            bucket::change_rate(block, bucket, None);
            (block.bucket(bucket, offset_of!(pace_bucket, urgency))).store(0, Release);
            write_bucket(block, bucket, None, None);
        }
        let networks = self
            .networks
            .iter()
            .filter(|(key, _)| usize::from(key.0) == number);
        for bucket in networks.flat_map(|(_, network)| network.buckets) {
            bucket::change_ceiling(block, bucket, None);
        }
        for (&bucket, _) in self
            .splices
            .iter()
            .filter(|(_, of)| usize::from(**of) == number)
        {
            bucket::change_ceiling(block, bucket, None);
        }
        if class.users == 0 {
            self.free_buckets.extend(class.buckets);
            self.classes[number] = None;
            let free = &mut self.free_buckets;
            self.networks.retain(|key, network| {
                let stays = usize::from(key.0) != number;
                if !stays {
                    free.extend(network.buckets);
                }
                stays
            });
        }
    }

    /// Two buckets that owe nothing, without limits.
    fn pop_buckets(&mut self, block: &Block) -> Option<Buckets> {
        if self.free_buckets.len() < DIRECTIONS {
            self.forget_networks(block);
        }
        if self.free_buckets.len() < DIRECTIONS {
            return None;
        }
        let buckets = [self.free_buckets.pop()?, self.free_buckets.pop()?];
        for bucket in buckets {
            block.clear_bucket(bucket);
        }
        Some(buckets)
    }

    /// Frees the buckets of networks without splices that owe nothing any more.
    fn forget_networks(&mut self, block: &Block) {
        let now = now_ns();
        let free = &mut self.free_buckets;
        self.networks.retain(|_, network| {
            let stays = network.users > 0
                || (network.buckets.iter()).any(|bucket| bucket::owes(block, *bucket, now));
            if !stays {
                free.extend(network.buckets);
            }
            stays
        });
    }

    /// Buckets for both directions below these.
    fn take_buckets(
        &mut self,
        block: &Block,
        ceiling: Option<u64>,
        parents: Buckets,
    ) -> Option<Buckets> {
        let buckets = self.pop_buckets(block)?;
        for (bucket, parent) in buckets.into_iter().zip(parents) {
            write_bucket(block, bucket, ceiling, Some(parent));
        }
        Some(buckets)
    }
}

fn write_class(block: &Block, number: u8, settings: &ClassSettings) {
    let of = |field| block.class(number, field);
    let hold_max_ns = u64::try_from(settings.hold_max.as_nanos()).unwrap_or(u64::MAX);
    of(offset_of!(pace_class, hold_max_ns)).store(hold_max_ns, Release);
    let condition = super::condition_of(settings.policy);
    of(offset_of!(pace_class, condition)).swap(condition, AcqRel);
}

fn write_bucket(block: &Block, bucket: u32, ceiling: Option<u64>, parent: Option<u32>) {
    let of = |field| block.bucket(bucket, field);
    of(offset_of!(pace_bucket, burst_ns)).store(BURST.as_nanos() as u64, Release);
    of(offset_of!(pace_bucket, parent))
        .store(parent.map_or(0, |parent| u64::from(parent) + 1), Release);
    bucket::change_ceiling(block, bucket, ceiling);
}

/// The network that a client belongs to, among those of a class.
fn network_of(class: u8, rate: NetworkRate, client: IpAddr) -> (u8, u8, u128) {
    match client.to_canonical() {
        IpAddr::V4(address) => {
            let bits = u128::from(address.to_bits());
            (class, 4, bits >> (32 - rate.prefix_v4.min(32)))
        }
        IpAddr::V6(address) => {
            let shift = 128 - u32::from(rate.prefix_v6.min(128));
            (class, 6, address.to_bits().checked_shr(shift).unwrap_or(0))
        }
    }
}
