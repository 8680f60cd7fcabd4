//! What an attacker in the process can do with its descriptors: nothing to connections of other programs.
use super::lab::OWN_MARK;
use crate::engine::tc::command::{Answer, Command};
use crate::engine::tc::state;
use crate::engine::tc::state::Addresses;
use crate::engine::tc::table::{SlotProgram, SpliceTable};
use crate::engine::tc::{Connections, PacketEngine, skeleton};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

/// The maps as the process has them, and its table.
pub struct Sealed {
    flows: MapHandle,
    splices: MapHandle,
    interfaces: MapHandle,
    pub table: SpliceTable,
}

impl Sealed {
    /// `None` without root.
    pub fn load() -> Option<Sealed> {
        if !carrick_test::is_root() {
            return None;
        }
        let mut object = MaybeUninit::uninit();
        let loaded: skeleton::TcSkel<'_> =
            PacketEngine::load_maps(&mut object, 4, OWN_MARK, None, Connections::Own).unwrap();
        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).unwrap();
        let (flows, splices) = (handle(&loaded.maps.flows), handle(&loaded.maps.splices));
        let program = |program: &libbpf_rs::ProgramMut<'_>| program.as_fd().try_clone_to_owned();
        let slot_program = SlotProgram {
            program: program(&loaded.progs.carrick_place).unwrap(),
            owned: handle(&loaded.maps.owned),
        };
        let command = program(&loaded.progs.carrick_command).unwrap();
        Some(Sealed {
            interfaces: handle(&loaded.maps.interfaces),
            table: SpliceTable::new(
                handle(&loaded.maps.flows),
                handle(&loaded.maps.splices),
                command,
                Some(slot_program),
                4,
            ),
            flows,
            splices,
        })
    }
}

/// A connection over loopback: both ends.
fn connection() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [client, listener.accept().unwrap().0]
}

fn addresses(socket: &TcpStream) -> Addresses {
    (socket.local_addr().unwrap(), socket.peer_addr().unwrap())
}

fn is_refused(outcome: libbpf_rs::Result<()>) -> bool {
    outcome.is_err_and(|error| error.kind() == libbpf_rs::ErrorKind::PermissionDenied)
}

#[test]
fn the_descriptors_of_the_process_write_no_connection_into_the_maps() {
    let Some(sealed) = Sealed::load() else {
        return;
    };
    let [foreign, _] = connection();
    let key = state::key(addresses(&foreign));
    let (flows, splices) = (&sealed.flows, &sealed.splices);
    assert!(is_refused(flows.update(&key, &[0; 4], MapFlags::ANY)));
    assert!(is_refused(flows.delete(&key)));
    let splice = vec![0; state::BYTES];
    assert!(is_refused(splices.update(&[0; 4], &splice, MapFlags::ANY)));
    assert!(flows.lookup(&key, MapFlags::ANY).unwrap().is_none());
}

#[test]
fn only_connections_whose_sockets_the_process_has_get_a_place() {
    let Some(sealed) = Sealed::load() else {
        return;
    };
    let (ours, foreign) = (connection(), connection());
    let table = &sealed.table;
    table.show(ours[0].as_fd()).unwrap();
    let mixed = [addresses(&ours[0]), addresses(&foreign[0])];
    let refused = table.fill(0, mixed).unwrap_err();
    assert!(refused.to_string().contains("NotOurs"), "{refused}");
    let nobodys = [
        (
            "192.0.2.1:80".parse().unwrap(),
            "192.0.2.9:4000".parse().unwrap(),
        ),
        (
            "192.0.2.2:80".parse().unwrap(),
            "192.0.2.8:4000".parse().unwrap(),
        ),
    ];
    assert!(table.fill(0, nobodys).is_err());
    assert_eq!(sealed.flows.keys().count(), 0);

    let both = [addresses(&ours[0]), addresses(&ours[1])];
    table.show(ours[1].as_fd()).unwrap();
    assert!(!table.fill(0, both).unwrap());
    assert_eq!(sealed.flows.keys().count(), 2);
    assert_eq!(state::addresses(&table.read(0).unwrap()), both);
    // A slot in use is not overwritten, whoever asks.
    assert!(table.fill(0, both).is_err());
    // They were never in the kernel; a command on a closed connection is refused.
    drop(ours);
    let arm = Command::Arm { pace: [0; 2] };
    assert!(matches!(
        table.ask(0, arm).unwrap(),
        Answer::NotOurs | Answer::NoSocket
    ));
    assert_eq!(table.ask(0, Command::Forget).unwrap(), Answer::Done);
    assert_eq!(sealed.flows.keys().count(), 0);
    assert!(table.read(0).unwrap()[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn packets_go_by_no_other_interfaces_once_these_are_fixed() {
    let Some(sealed) = Sealed::load() else {
        return;
    };
    let ours = connection();
    let table = &sealed.table;
    for socket in &ours {
        table.show(socket.as_fd()).unwrap();
    }
    table
        .fill(0, [addresses(&ours[0]), addresses(&ours[1])])
        .unwrap();
    let one = 1_u32.to_ne_bytes();
    sealed.interfaces.update(&one, &one, MapFlags::ANY).unwrap();
    sealed.interfaces.freeze().unwrap();
    let two = 2_u32.to_ne_bytes();
    assert!(is_refused(sealed.interfaces.update(
        &two,
        &two,
        MapFlags::ANY
    )));
    let go_by = |interface| {
        let side = 0;
        table.ask(0, Command::GoBy { side, interface }).unwrap()
    };
    assert_eq!(go_by(1), Answer::Done);
    assert_eq!(go_by(2), Answer::NotOurs);
    assert_eq!(state::interfaces(&table.read(0).unwrap()), [1, 0]);
}

#[test]
fn a_place_that_there_is_not_is_not_given() {
    let Some(sealed) = Sealed::load() else {
        return;
    };
    let ours = connection();
    for socket in &ours {
        sealed.table.show(socket.as_fd()).unwrap();
    }
    let legs = [addresses(&ours[0]), addresses(&ours[1])];
    assert!(sealed.table.fill(4, legs).is_err());
    assert!(sealed.table.fill(u32::MAX, legs).is_err());
}
