//! HTTP on a client's connection.
//!
//! | module | what it does |
//! |---|---|
//! | `session` | waits for requests of HTTP/1, one after the other, and takes each through what follows |
//! | `http2`, `stream_tasks` | a connection of HTTP/2: each stream has a session |
//! | `head`, `sender`, `loop_detection` | reads the head; finds out who sent it; refuses what has been here before |
//! | `reload` | what a reload means to connections that are open |
//! | `decide` | where the request goes, or why it is refused |
//! | `cached`, `prefetch` | what the cache answers and keeps; what is fetched before it is asked for |
//! | `background` | requests that no client waits for |
//! | `relay` | sends the request and passes the response on; tries again where that is safe |
//! | `request_out`, `own_fields` | the head as the next hop gets it; what of it tells of carrick and the client |
//! | `request_body`, `response_body` | relay bodies |
//! | `kernel_forward` | responses and requests that the kernel forwards |
//! | `outcome` | how passing a response on ended, and why there was none |
pub mod background;
pub mod cached;
pub mod decide;
pub mod head;
pub mod http2;
pub mod kernel_forward;
pub mod ktls;
mod least_rate;
pub mod loop_detection;
pub mod outcome;
pub mod own_fields;
pub mod prefetch;
pub mod relay;
mod reload;
pub mod request_body;
pub mod request_out;
pub mod response_body;
pub mod sender;
pub mod session;
pub mod stream_tasks;
mod while_taken;

#[cfg(test)]
mod tests;
