//! The Ethernet addresses of next hops: asked for when needed, learned from what comes, asked for again when old.
//! Packets wait meanwhile, so that the first ones are not lost.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::wan::packet::Mac;

/// Most neighbours that are remembered.
pub(crate) const NEIGHBOURS_MAX: usize = 65_536;
/// Most packets that wait for one neighbour; more are refused.
pub(crate) const WAITING_MAX: usize = 1_024;
/// Between two questions.
pub(crate) const ASK_EVERY_NS: u64 = 250_000_000;
/// Questions before a neighbour counts as gone: three seconds, as the kernel has it.
pub(crate) const QUESTIONS_MAX: u32 = 12;
/// After so long, an address is asked for again, when it is used.
pub(crate) const CONFIRM_AFTER_NS: u64 = 30_000_000_000;

/// Neighbours, with packets of type `P` that wait for them.
#[derive(Debug)]
pub(crate) struct Neighbours<P> {
    numbers: HashMap<(usize, IpAddr), usize>,
    list: Vec<Neighbour<P>>,
    /// Those that are being asked for.
    asked: Vec<usize>,
}

#[derive(Debug)]
struct Neighbour<P> {
    device: usize,
    address: IpAddr,
    mac: Option<Mac>,
    learned_ns: u64,
    question: Option<Question>,
    waiting: Vec<P>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    number: u32,
    next_ns: u64,
}

/// A question to be sent: on which device, for which address.
pub(crate) type Asked = (usize, IpAddr);

impl<P> Neighbours<P> {
    pub(crate) fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            list: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// The number of a neighbour, for quick use; `None`: there are too many.
    pub(crate) fn number(&mut self, device: usize, address: IpAddr) -> Option<usize> {
        if let Some(number) = self.numbers.get(&(device, address)) {
            return Some(*number);
        }
        if self.list.len() >= NEIGHBOURS_MAX {
            return None;
        }
        let number = self.list.len();
        self.numbers.insert((device, address), number);
        self.list.push(Neighbour {
            device,
            address,
            mac: None,
            learned_ns: 0,
            question: None,
            waiting: Vec::new(),
        });
        Some(number)
    }

    /// Which device a neighbour is at.
    #[inline]
    pub(crate) fn device(&self, number: usize) -> Option<usize> {
        self.list.get(number).map(|neighbour| neighbour.device)
    }

    /// Its Ethernet address. If that is unknown or old, it will be asked for.
    #[inline]
    pub(crate) fn mac(&mut self, number: usize, now_ns: u64) -> Option<Mac> {
        let neighbour = self.list.get_mut(number)?;
        let is_fresh = now_ns.saturating_sub(neighbour.learned_ns) < CONFIRM_AFTER_NS;
        if (neighbour.mac.is_none() || !is_fresh) && neighbour.question.is_none() {
            neighbour.question = Some(Question {
                number: 0,
                next_ns: now_ns,
            });
            self.asked.push(number);
        }
        neighbour.mac
    }

    /// Lets a packet wait for the neighbour's address; gives it back if too many do.
    pub(crate) fn wait(&mut self, number: usize, packet: P) -> Result<(), P> {
        match self.list.get_mut(number) {
            Some(neighbour) if neighbour.waiting.len() < WAITING_MAX => {
                neighbour.waiting.push(packet);
                Ok(())
            }
            _ => Err(packet),
        }
    }

    /// Notes a neighbour's Ethernet address; returns the packets that waited for it.
    pub(crate) fn learn(
        &mut self,
        device: usize,
        address: IpAddr,
        mac: Mac,
        now_ns: u64,
    ) -> Vec<P> {
        // Neither a group address nor zero can be a sender's.
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return Vec::new();
        }
        let Some(number) = self.number(device, address) else {
            return Vec::new();
        };
        if self.list[number].question.take().is_some() {
            self.asked.retain(|asked| *asked != number);
        }
        let neighbour = &mut self.list[number];
        neighbour.mac = Some(mac);
        neighbour.learned_ns = now_ns;
        std::mem::take(&mut neighbour.waiting)
    }

    /// When there is something to ask.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let questions = self.asked.iter().filter_map(|number| {
            let question = self.list.get(*number)?.question?;
            Some(question.next_ns)
        });
        questions.min()
    }

    /// What is to be asked now, and the packets that waited for neighbours that do not answer.
    pub(crate) fn questions(&mut self, now_ns: u64) -> (Vec<Asked>, Vec<P>) {
        let (mut questions, mut lost) = (Vec::new(), Vec::new());
        let list = &mut self.list;
        self.asked.retain(|number| {
            let Some(neighbour) = list.get_mut(*number) else {
                return false;
            };
            let Some(question) = neighbour.question else {
                return false;
            };
            if question.next_ns > now_ns {
                return true;
            }
            if question.number >= QUESTIONS_MAX {
                neighbour.mac = None;
                neighbour.question = None;
                lost.append(&mut neighbour.waiting);
                return false;
            }
            neighbour.question = Some(Question {
                number: question.number + 1,
                next_ns: now_ns + ASK_EVERY_NS,
            });
            questions.push((neighbour.device, neighbour.address));
            true
        });
        (questions, lost)
    }
}

#[cfg(test)]
mod tests;
