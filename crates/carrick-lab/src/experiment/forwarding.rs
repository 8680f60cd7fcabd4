//! How long a proxy takes to forward a request, and the first packet of the response, from the packets seen at its devices
//! (Rosu 2002, section 4.1). One request at a time.

use std::net::IpAddr;

use super::capture::Packet;
use super::results::Sample;

/// Who talks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The client.
    pub client: IpAddr,
    /// The server.
    pub server: IpAddr,
}

/// The delays of all exchanges that were seen as a whole, in nanoseconds: of the request, and of the response's first
/// packet.
#[must_use]
pub fn delays(packets: &[Packet], ends: Ends) -> Vec<(i128, i128)> {
    let mut delays = Vec::new();
    let mut exchange = Exchange::default();
    for packet in packets {
        if exchange.see(packet, ends) {
            if let Exchange {
                request_in: Some(request_in),
                request_out: Some(request_out),
                response_in: Some(response_in),
                response_out: Some(response_out),
            } = exchange
            {
                delays.push((request_out - request_in, response_out - response_in));
            }
            exchange = Exchange::default();
        }
    }
    delays
}

/// Puts the means into a sample; nothing if there was no whole exchange.
pub fn add(sample: &mut Sample, delays: &[(i128, i128)]) {
    if delays.is_empty() {
        return;
    }
    let mean_us = |pick: fn(&(i128, i128)) -> i128| {
        delays.iter().map(pick).sum::<i128>() as f64 / delays.len() as f64 / 1000.0
    };
    sample.insert("request_forwarding_us".into(), mean_us(|delays| delays.0));
    sample.insert("response_forwarding_us".into(), mean_us(|delays| delays.1));
}

/// When each of the four packets was seen first.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    request_in: Option<i128>,
    request_out: Option<i128>,
    response_in: Option<i128>,
    response_out: Option<i128>,
}

impl Exchange {
    /// Looks at a packet; whether the exchange is over. The rest of a response comes before the next request, and is not
    /// taken for one because each step needs the one before.
    fn see(&mut self, packet: &Packet, ends: Ends) -> bool {
        let at = packet.at_ns;
        match (
            packet.outgoing,
            packet.from == ends.client,
            packet.to == ends.server,
        ) {
            (false, true, _) if self.request_in.is_none() => self.request_in = Some(at),
            (true, _, true) if self.request_in.is_some() && self.request_out.is_none() => {
                self.request_out = Some(at);
            }
            (false, ..)
                if packet.from == ends.server
                    && self.request_out.is_some()
                    && self.response_in.is_none() =>
            {
                self.response_in = Some(at);
            }
            (true, ..) if packet.to == ends.client && self.response_in.is_some() => {
                self.response_out = Some(at);
                return true;
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests;
