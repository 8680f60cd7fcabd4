//! The jobs: what happens to a client's connection from its first byte to its last.
//!
//! | module | what it does |
//! |---|---|
//! | `arrival` | the PROXY header, and which job a connection gets |
//! | `session` | HTTP/1 on one client connection: request after request |
//! | `sender` | whose a request is, and whether it may be served at all |
//! | `head` | reads a request's head, with its limits |
//! | `circle` | requests that come back from where carrick sends them |
//! | `decide` | forward and switch: where a request goes, or why it is refused |
//! | `original` | where a client that was intercepted wanted to go |
//! | `held` | clients whose SYN is held until their server has accepted |
//! | `pace` | by which class what is spliced for a client is paced |
//! | `upstream` | connections to servers |
//! | `relay` | sends a request, waits for the response's head, tries again where that is safe |
//! | `request_body`, `response_body` | relay bodies |
//! | `bound` | responses that the kernel forwards |
//! | `ahead` | objects that pages embed, fetched into the cache before they are asked for |
//! | `cached` | requests that the cache answers, and answers that it keeps |
//! | `link` | both ends of a link: connections that are relayed one after the other over those that stand |
//! | `tunnel` | CONNECT, upgrades, TCP and SNI |
//! | `reply` | carrick's own answers |
mod ahead;
mod arrival;
mod bound;
mod cached;
mod circle;
mod decide;
mod head;
mod held;
pub mod legs;
pub mod link;
mod original;
mod pace;
mod relay;
mod reply;
mod request_body;
mod response_body;
mod sender;
mod session;
mod split;
mod trace;
mod tunnel;
mod unread;
pub mod upstream;

pub use arrival::serve;
pub use held::run as decide_held;

pub use trace::engine_name;
