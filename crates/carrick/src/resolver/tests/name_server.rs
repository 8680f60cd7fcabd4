//! A fake name server on loopback; each test sets its answers.
use super::super::name_servers::{Found, NameServers};
use super::*;
use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// The answer to a question.
#[derive(Debug, Clone)]
pub enum Reply {
    Addresses(u32, Vec<&'static str>),
    Alias(u32, &'static str, &'static str),
    NoSuchName(u32),
    Nothing(u32),
    Fails,
    Refuses,
    Silent,
    Late(Duration, &'static str),
    /// Truncated by UDP, whole by TCP.
    TooLong(Vec<&'static str>),
}

pub type Behaviour = fn(&str, RecordType) -> Reply;

/// A UDP and a TCP socket on the same port. A port that is free for one may be in use for the other, even by a
/// connection in TIME_WAIT; then another port is tried.
async fn bind_both() -> (Arc<UdpSocket>, TcpListener, SocketAddr) {
    for _ in 0..100 {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        if let Ok(listener) = TcpListener::bind(address).await {
            return (Arc::new(socket), listener, address);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

/// A name server, and the questions that it received.
pub struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, RecordType)>>>,
    pub timeout: Duration,
}

impl NameServer {
    pub async fn start(behaviour: Behaviour) -> Self {
        // Generous limits, so that a busy machine neither times out nor retries.
        let is_silent = [RecordType::A, RecordType::AAAA]
            .into_iter()
            .all(|kind| matches!(behaviour("www.example.org.", kind), Reply::Silent));
        let timeout = Duration::from_secs(if is_silent { 3 } else { 60 });
        let (socket, listener, address) = bind_both().await;
        let asked: Arc<Mutex<Vec<(String, RecordType)>>> = Arc::default();
        let questions = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            loop {
                let (read, client) = socket.recv_from(&mut bytes).await.unwrap();
                let question = Message::from_vec(&bytes[..read]).unwrap();
                let (name, kind) = asked_for(&question);
                questions.lock().unwrap().push((name.clone(), kind));
                let reply = behaviour(&name, kind);
                let socket = Arc::clone(&socket);
                tokio::spawn(async move {
                    if let Reply::Late(delay, _) = &reply {
                        tokio::time::sleep(*delay).await;
                    }
                    if let Some(answer) = answer(&question, &reply, false) {
                        socket.send_to(&answer, client).await.unwrap();
                    }
                });
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                while let Ok(length) = stream.read_u16().await {
                    let mut bytes = vec![0; usize::from(length)];
                    stream.read_exact(&mut bytes).await.unwrap();
                    let question = Message::from_vec(&bytes).unwrap();
                    let (name, kind) = asked_for(&question);
                    let answer = answer(&question, &behaviour(&name, kind), true).unwrap();
                    stream
                        .write_u16(u16::try_from(answer.len()).unwrap())
                        .await
                        .unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        });
        Self {
            address,
            asked,
            timeout,
        }
    }

    pub fn options(&self) -> DnsOptions {
        DnsOptions {
            servers: vec![self.address],
            hosts: false,
            timeout: self.timeout,
            names_max: 100,
        }
    }

    pub fn asked(&self) -> Vec<(String, RecordType)> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }

    /// Forgets the questions received so far.
    pub fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }

    pub async fn look_up(&self, name: &str) -> Found {
        NameServers::new(&self.options())
            .unwrap()
            .look_up(name)
            .await
    }

    /// A resolver with a service that runs in this runtime.
    pub fn resolver(&self) -> (Resolver, Arc<ControlMetrics>) {
        let (resolver, metrics, _) = self.changing_resolver();
        (resolver, metrics)
    }

    /// The same; and changes of the options.
    pub fn changing_resolver(
        &self,
    ) -> (
        Resolver,
        Arc<ControlMetrics>,
        mpsc::UnboundedSender<DnsOptions>,
    ) {
        let metrics: Arc<ControlMetrics> = Arc::default();
        let (resolver, questions) = resolver(Arc::clone(&metrics));
        let (changes, receiver) = mpsc::unbounded_channel();
        let service = Service::new(&self.options(), Arc::clone(&metrics));
        tokio::spawn(service.run(questions, receiver));
        (resolver, metrics, changes)
    }
}

fn asked_for(question: &Message) -> (String, RecordType) {
    let query = &question.queries[0];
    (query.name().to_ascii().to_lowercase(), query.query_type())
}

fn record(name: &Name, ttl: u32, address: &str) -> Record {
    Record::from_rdata(
        name.clone(),
        ttl,
        RData::from(address.parse::<IpAddr>().unwrap()),
    )
}

fn answer(question: &Message, reply: &Reply, by_tcp: bool) -> Option<Vec<u8>> {
    let query = question.queries[0].clone();
    let name = query.name().clone();
    let mut message = Message::query();
    message.metadata = question.metadata;
    message.metadata.message_type = MessageType::Response;
    message.metadata.recursion_available = true;
    message.add_query(query);
    let negative = |ttl| {
        let soa = SOA::new(Name::root(), Name::root(), 1, 1, 1, 1, ttl);
        vec![Record::from_rdata(Name::root(), ttl, RData::SOA(soa))]
    };
    match reply {
        Reply::Addresses(ttl, addresses) => {
            message.insert_answers(
                addresses
                    .iter()
                    .map(|address| record(&name, *ttl, address))
                    .collect(),
            );
        }
        Reply::Alias(ttl, target, address) => {
            let target = Name::from_ascii(target).unwrap();
            let alias = Record::from_rdata(name, *ttl, RData::CNAME(CNAME(target.clone())));
            message.insert_answers(vec![alias, record(&target, 300, address)]);
        }
        Reply::NoSuchName(ttl) => {
            message.metadata.response_code = ResponseCode::NXDomain;
            message.insert_authorities(negative(*ttl));
        }
        Reply::Nothing(ttl) => {
            message.insert_authorities(negative(*ttl));
        }
        Reply::Fails => message.metadata.response_code = ResponseCode::ServFail,
        Reply::Refuses => message.metadata.response_code = ResponseCode::Refused,
        Reply::Silent => return None,
        Reply::Late(_, address) => {
            message.insert_answers(vec![record(&name, 300, address)]);
        }
        Reply::TooLong(_) if !by_tcp => message.metadata.truncation = true,
        Reply::TooLong(addresses) => {
            message.insert_answers(
                addresses
                    .iter()
                    .map(|address| record(&name, 300, address))
                    .collect(),
            );
        }
    }
    Some(message.to_vec().unwrap())
}

pub fn both(_: &str, kind: RecordType) -> Reply {
    Reply::Addresses(
        300,
        if kind == RecordType::A {
            vec!["192.0.2.1", "192.0.2.2"]
        } else {
            vec!["2001:db8::1"]
        },
    )
}
