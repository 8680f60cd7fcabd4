//! Pages, as browsers get them: a base, then the objects embedded in it, some at a time; each page on new connections.

use crate::load::tally::{Ending, Finish, Tally};
use crate::load::work::{Request, Work, part};

use super::{CONNECT_PAUSE_NS, Driver, Order, Orders, is_unreachable};

pub(super) struct Pages {
    work: Work,
    clients: Vec<Client>,
    /// Slots of a client.
    parallel: usize,
    /// The base and the embedded objects.
    parts: u64,
}

#[derive(Clone, Default)]
struct Client {
    page: Request,
    /// Of the page under way, or of the next one.
    serial: u64,
    /// Parts that were asked for.
    begun: u64,
    /// Parts that came.
    ended: u64,
    first_byte_ns: u64,
}

impl Pages {
    pub(super) fn new(work: Work, clients: usize, embedded: usize, parallel: usize) -> Self {
        Self {
            work,
            clients: vec![Client::default(); clients],
            parallel,
            parts: embedded as u64 + 1,
        }
    }

    fn begin_page(&mut self, number: usize, now_ns: u64, orders: &mut Orders) {
        let mut page = self.work.draw();
        page.begun_ns = now_ns;
        page.page = self.clients[number].serial;
        self.clients[number] = Client {
            page,
            serial: page.page,
            ..Client::default()
        };
        self.begin_part(number, number * self.parallel, now_ns, orders);
    }

    fn begin_part(&mut self, number: usize, slot: usize, now_ns: u64, orders: &mut Orders) {
        let client = &mut self.clients[number];
        if client.begun < self.parts {
            let mut request = part(&client.page, client.begun, self.parts);
            request.begun_ns = now_ns;
            client.begun += 1;
            orders.push_back(Order::Begin(slot, request));
        }
    }

    /// The page is over, well or not; its connections with it.
    fn end_page(&mut self, number: usize, pause: bool, now_ns: u64, orders: &mut Orders) {
        self.clients[number].serial += 1;
        for slot in number * self.parallel..(number + 1) * self.parallel {
            orders.push_back(Order::Close(slot));
        }
        if pause {
            orders.push_back(Order::Wake(now_ns + CONNECT_PAUSE_NS, number as u64));
        } else {
            self.begin_page(number, now_ns, orders);
        }
    }
}

impl Driver for Pages {
    fn slots(&self) -> usize {
        self.clients.len() * self.parallel
    }

    fn start(&mut self, now_ns: u64, orders: &mut Orders) {
        for client in 0..self.clients.len() {
            self.begin_page(client, now_ns, orders);
        }
    }

    fn ended(
        &mut self,
        slot: usize,
        request: &Request,
        ending: Ending,
        tally: &mut Tally,
        orders: &mut Orders,
    ) {
        let number = slot / self.parallel;
        let client = &mut self.clients[number];
        let now_ns = ending.ended_ns;
        if request.page != client.serial {
            // Of a page that failed between the order for this part and its beginning.
            return;
        }
        if client.ended == 0 {
            client.first_byte_ns = ending.first_byte_ns;
        }
        match ending.result {
            Ok(Finish::Completed) => {
                client.ended += 1;
                if client.ended == self.parts {
                    let whole = Ending {
                        first_byte_ns: client.first_byte_ns,
                        ..ending
                    };
                    tally.ended(&client.page, &whole);
                    self.end_page(number, false, now_ns, orders);
                } else if client.begun == 1 {
                    // The base is there, and with it the names of all others.
                    for slot in number * self.parallel..(number + 1) * self.parallel {
                        self.begin_part(number, slot, now_ns, orders);
                    }
                } else {
                    self.begin_part(number, slot, now_ns, orders);
                }
            }
            Ok(Finish::Aborted) => {
                tally.ended(&client.page, &ending);
                self.end_page(number, false, now_ns, orders);
            }
            Err(_) => {
                // In words, the part is named that failed.
                tally.ended(request, &ending);
                self.end_page(number, is_unreachable(&ending.result), now_ns, orders);
            }
        }
    }

    fn woken(&mut self, token: u64, now_ns: u64, orders: &mut Orders) {
        if let Ok(number) = usize::try_from(token) {
            self.begin_page(number, now_ns, orders);
        }
    }
}
