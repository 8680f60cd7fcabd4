//! Random operations on the store and on a simple model of it: what is found is what was put last, bounds hold, and nothing
//! is left over.
use super::super::BodyState;
use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::HashMap;

/// What is done.
#[derive(Debug, Clone)]
enum Operation {
    Put(Name, usize),
    Begin(Name, usize, bool),
    Append(Index, usize),
    Finish(Index),
    Abandon(Index),
    Cut(Index, Name),
    Get(Name, bool),
    Freshen(Index),
    Purge(Group, bool),
    Release(Index),
}

/// Key and variant.
type Name = (u8, u8);

/// Which objects are purged.
#[derive(Debug, Clone)]
enum Group {
    Key(u8),
    Even,
    Tag(u8),
    All,
}

fn name() -> impl Strategy<Value = Name> {
    (0..6_u8, 0..3_u8)
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![0..3000_usize, 64_000..67_000_usize, 0..120_000_usize]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let which = any::<Index>;
    let group = prop_oneof![
        (0..6_u8).prop_map(Group::Key),
        Just(Group::Even),
        (0..3_u8).prop_map(Group::Tag),
        Just(Group::All),
    ];
    prop_oneof![
        4 => (name(), bytes()).prop_map(|(name, bytes)| Put(name, bytes)),
        4 => (name(), bytes(), any::<bool>()).prop_map(|(name, bytes, known)| Begin(name, bytes, known)),
        8 => (which(), 1..60_000_usize).prop_map(|(which, bytes)| Append(which, bytes)),
        3 => which().prop_map(Finish),
        1 => which().prop_map(Abandon),
        1 => (which(), name()).prop_map(|(which, name)| Cut(which, name)),
        8 => (name(), any::<bool>()).prop_map(|(name, hold)| Get(name, hold)),
        2 => which().prop_map(Freshen),
        1 => (group, any::<bool>()).prop_map(|(group, outdates)| Purge(group, outdates)),
        3 => which().prop_map(Release),
    ]
}

/// What the model knows of an object.
#[derive(Debug, Clone)]
struct Known {
    seed: u64,
    object: Weakly,
}

/// The object, which the model does not keep alive.
type Weakly = std::sync::Weak<Object>;

/// A body under way: what it will be, and how far it is.
struct UnderWay {
    writer: BodyWriter,
    name: Name,
    seed: u64,
    bytes: usize,
    done: usize,
}

/// The store, and what should be in it at most.
struct Pair {
    store: Arc<Store>,
    limits: Limits,
    model: HashMap<Name, Known>,
    under_way: Vec<UnderWay>,
    held: Vec<(Arc<Object>, u64)>,
    seeds: u64,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        Self {
            store: store(limits),
            limits,
            model: HashMap::new(),
            under_way: Vec::new(),
            held: Vec::new(),
            seeds: 0,
        }
    }

    fn put(&mut self, name: Name, seed: u64, body: &Arc<super::super::Body>) {
        let request = request(name);
        let variant = Variant::of(Fields::of_text(b"Vary: A\r\n"), Fields::of_text(&request));
        let head = format!("Vary: A\r\nCache-Tag: t{}\r\nSeed: {seed}\r\n", name.1);
        let key_bytes = key_bytes(name.0);
        let key = self.store.key(&key_bytes);
        let put = self
            .store
            .put(key, &variant.unwrap(), meta(1000), head.as_bytes(), body);
        match put {
            Ok(object) => {
                let object = Arc::downgrade(&object);
                self.model.insert(name, Known { seed, object });
            }
            Err(error) => assert!(matches!(error, NotTaken::Full | NotTaken::TooLarge)),
        }
    }

    fn get(&mut self, name: Name, hold: bool) {
        let key_bytes = key_bytes(name.0);
        let request = request(name);
        let key = self.store.key(&key_bytes);
        let Found::Object(object) = self.store.find(key, Fields::of_text(&request)) else {
            return;
        };
        let known = &self.model[&name];
        assert!(std::ptr::eq(known.object.as_ptr(), Arc::as_ptr(&object)));
        assert_eq!(object.key().bytes(), key_bytes);
        let seed = format!("{}", known.seed);
        assert_eq!(object.fields().first(b"seed"), Some(seed.as_bytes()));
        let progress = object.body().progress();
        assert_ne!(progress.state, BodyState::Broken);
        let is_under_way = self.under_way.iter().any(|one| one.seed == known.seed);
        assert_eq!(progress.state == BodyState::Filling, is_under_way);
        assert!(read(&object) == content(known.seed, 0, progress.bytes as usize));
        if hold {
            self.held.push((object, known.seed));
        }
    }

    fn do_one(&mut self, operation: Operation) {
        self.seeds += 1;
        let seed = self.seeds;
        match operation {
            Operation::Put(name, bytes) => {
                if let Ok(body) = filled(&self.store, seed, bytes) {
                    self.put(name, seed, &body);
                }
            }
            Operation::Begin(name, bytes, known) => {
                if let Ok(writer) = self.store.fill(known.then_some(bytes as u64)) {
                    self.put(name, seed, &Arc::clone(writer.body()));
                    self.under_way.push(UnderWay {
                        writer,
                        name,
                        seed,
                        bytes,
                        done: 0,
                    });
                }
            }
            Operation::Get(name, hold) => self.get(name, hold),
            Operation::Purge(group, outdates) => self.purge(&group, outdates),
            Operation::Append(which, _)
            | Operation::Finish(which)
            | Operation::Abandon(which)
            | Operation::Cut(which, _) => {
                if !self.under_way.is_empty() {
                    let place = which.index(self.under_way.len());
                    self.go_on(place, &operation);
                }
            }
            Operation::Freshen(which) if !self.held.is_empty() => {
                let (object, seed) = &self.held[which.index(self.held.len())];
                if let Ok(new) = self.store.replace(object, meta(2000), object.head()) {
                    let known = self.model.values_mut().find(|known| known.seed == *seed);
                    known.unwrap().object = Arc::downgrade(&new);
                }
            }
            Operation::Release(which) if !self.held.is_empty() => {
                let place = which.index(self.held.len());
                let (object, seed) = self.held.swap_remove(place);
                assert!(read(&object) == content(seed, 0, read(&object).len()));
            }
            Operation::Freshen(_) | Operation::Release(_) => {}
        }
    }

    fn go_on(&mut self, place: usize, operation: &Operation) {
        let one = &mut self.under_way[place];
        match operation {
            Operation::Append(_, bytes) => {
                let count = (*bytes).min(one.bytes - one.done);
                let piece = content(one.seed, one.done as u64, count);
                one.done += count;
                if one.writer.append(&piece).is_err() {
                    self.ended(place, false);
                }
            }
            Operation::Finish(_) => {
                let rest = content(one.seed, one.done as u64, one.bytes - one.done);
                let whole = one.writer.append(&rest).is_ok();
                let name = one.name;
                let (writer, seed) = self.ended(place, whole);
                assert_eq!(writer.finish(), whole);
                self.follow_move(name, seed);
            }
            Operation::Cut(_, name) => {
                let (writer, seed) = self.ended(place, false);
                let body = writer.cut();
                if self.under_way.iter().all(|one| one.name != *name) {
                    self.put(*name, seed, &body);
                }
            }
            _ => drop(self.ended(place, false)),
        }
    }

    /// A short body moves into its object, which is another one then.
    fn follow_move(&mut self, name: Name, seed: u64) {
        let moved = self.store.objects().find(|object| name_of(object) == name);
        let known = self.model.get_mut(&name).filter(|known| known.seed == seed);
        if let (Some(moved), Some(known)) = (moved, known) {
            known.object = Arc::downgrade(&moved);
        }
    }

    /// Removes a body that has ended. If it is not whole, it must not be found.
    fn ended(&mut self, place: usize, whole: bool) -> (BodyWriter, u64) {
        let one = self.under_way.swap_remove(place);
        if !whole {
            self.model.retain(|_, known| known.seed != one.seed);
        }
        (one.writer, one.seed)
    }

    fn purge(&mut self, group: &Group, outdates: bool) {
        let how = if outdates {
            Purge::Outdate
        } else {
            Purge::Remove
        };
        let belongs = |name: &Name| match group {
            Group::Key(key) => name.0 == *key,
            Group::Even => name.0.is_multiple_of(2),
            Group::Tag(tag) => name.1 == *tag,
            Group::All => true,
        };
        match group {
            Group::Key(key) => self.store.purge(&Pattern::key(&key_bytes(*key)), how, None),
            Group::Even => {
                self.store
                    .purge(&Pattern::UrlPrefix((*b"http://even/").into()), how, None)
            }
            Group::Tag(tag) => self
                .store
                .purge(&Pattern::tag(&format!("t{tag}")), how, None),
            Group::All => self.store.purge(&Pattern::All, how, None),
        };
        if !outdates {
            self.model.retain(|name, _| !belongs(name));
            assert!(
                self.store
                    .objects()
                    .all(|object| !belongs(&name_of(&object)))
            );
            return;
        }
        for object in self.store.objects() {
            let name = name_of(&object);
            if belongs(&name) {
                assert!(!object.meta().is_fresh(UnixTime(0)));
            }
            self.model.get_mut(&name).unwrap().object = Arc::downgrade(&object);
        }
    }

    fn check(&self) {
        let stats = self.store.stats();
        assert!(stats.bytes <= self.limits.bytes);
        assert!(stats.objects <= self.limits.objects);
        assert!(stats.objects as usize <= self.model.len());
        assert_eq!(stats.fills, self.under_way.len() as u64);
        assert_eq!(self.store.objects().count() as u64, stats.objects);
    }
}

fn key_bytes(key: u8) -> Vec<u8> {
    let host = if key.is_multiple_of(2) { "even" } else { "odd" };
    format!("x http://{host}/{key}").into_bytes()
}

fn request((_, variant): Name) -> Vec<u8> {
    format!("A: v{variant}\r\n").into_bytes()
}

fn name_of(object: &Object) -> Name {
    let digit = |text: &[u8]| text.last().map_or(0, |digit| digit - b'0');
    (
        digit(object.key().bytes()),
        digit(object.fields().first(b"cache-tag").unwrap()),
    )
}

fn play(operations: Vec<Operation>, limits: Limits) {
    let mut pair = Pair::new(limits);
    for operation in operations {
        pair.do_one(operation);
        pair.check();
    }
    let Pair { store, .. } = {
        pair.under_way.clear();
        pair.held.clear();
        pair
    };
    store.purge(&Pattern::All, Purge::Remove, None);
    assert_nothing_leaks(&store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_its_model_does(
        operations in prop::collection::vec(operation(), 1..80),
        bytes in 150_000..1_500_000_u64,
        objects in prop_oneof![Just(5_u64), Just(1000)],
    ) {
        let limits = Limits { bytes, objects, object_bytes_max: 100_000 };
        play(operations, limits);
    }

    /// With room for all objects, none is lost.
    #[test]
    fn with_room_for_all_everything_that_was_put_is_found(
        puts in prop::collection::vec((name(), 0..40_000_usize), 1..60),
    ) {
        let mut pair = Pair::new(Limits { bytes: 100 << 20, objects: 1000, object_bytes_max: 1 << 20 });
        for (name, bytes) in puts {
            pair.do_one(Operation::Put(name, bytes));
        }
        let names: Vec<Name> = pair.model.keys().copied().collect();
        for name in &names {
            pair.get(*name, true);
        }
        prop_assert_eq!(pair.held.len(), names.len());
    }
}
