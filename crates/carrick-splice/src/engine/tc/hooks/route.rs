//! Asks the kernel by which interface packets leave.

use crate::netlink::{self, Family};
use std::io;
use std::net::IpAddr;

/// linux/rtnetlink.h: `RTM_GETROUTE`, `RTM_NEWROUTE`, `struct rtmsg`, `RTA_DST`, `RTA_SRC`, `RTA_OIF`,
/// `RTA_MARK`.
const RTM_GETROUTE: u16 = 26;
const RTM_NEWROUTE: u16 = 24;
const RTMSG_BYTES: usize = 12;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_MARK: u16 = 16;

/// The number of the interface by which packets of this mark (0: none) leave for `peer` now, from `own` if that is given, an address
/// of this machine.
///
/// # Errors
/// The kernel's; there may be no way.
pub fn interface_towards(own: Option<IpAddr>, peer: IpAddr, mark: u32) -> io::Result<u32> {
    let octets = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (own, peer) = (own.map(octets), octets(peer));
    let (family, bits) = if peer.len() == 4 {
        (libc::AF_INET as u8, 32)
    } else {
        (libc::AF_INET6 as u8, 128)
    };
    let mut body = vec![0; RTMSG_BYTES];
    body[..3].copy_from_slice(&[family, bits, if own.is_some() { bits } else { 0 }]);
    netlink::put_attribute(&mut body, RTA_DST, &peer);
    if let Some(own) = own {
        netlink::put_attribute(&mut body, RTA_SRC, &own);
    }
    if mark > 0 {
        netlink::put_attribute(&mut body, RTA_MARK, &mark.to_ne_bytes());
    }
    let messages = netlink::ask(Family::Route, RTM_GETROUTE, &body)?;
    messages
        .iter()
        .filter(|message| message.kind == RTM_NEWROUTE)
        .find_map(|message| {
            let attributes = message.body.get(RTMSG_BYTES..)?;
            netlink::u32_at(netlink::attribute(attributes, RTA_OIF)?, 0)
        })
        .ok_or_else(|| io::Error::from(io::ErrorKind::NetworkUnreachable))
}
