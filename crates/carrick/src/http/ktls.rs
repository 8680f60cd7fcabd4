//! When the kernel encrypts for a client with TLS: for a long body that it can move itself.
use crate::context::client::Client;
use crate::net::transport::Transport;
use crate::net::transport::tls::kernel::{NotHandedOver, SENT_BYTES_MAX};
use crate::telemetry::metrics::HandOver;

/// A body of at least this many bytes is worth what the kernel needs to take over: four system calls, and memory.
const BODY_BYTES_MIN: u64 = 256 << 10;

/// A longer one may need new keys on its way, which only the process makes.
const BODY_BYTES_MAX: u64 = SENT_BYTES_MAX / 2;

/// Before so many bytes are sent to the client, from a file or from a server's TCP connection.
pub fn before_body(client: &mut Client, body_bytes: u64) {
    let context = &client.context;
    if !(BODY_BYTES_MIN..=BODY_BYTES_MAX).contains(&body_bytes)
        || !context.live.plan().may_use_ktls()
    {
        return;
    }
    let Transport::Tls(stream) = &client.downstream.transport else {
        return;
    };
    let result = match stream.hand_over(&context.worker.ktls) {
        Ok(true) => HandOver::Done,
        Ok(false) => {
            client.downstream.is_last |= stream.is_worn();
            return;
        }
        Err(why) => {
            tracing::debug!("connection of {}: {why}", context.address);
            match why {
                NotHandedOver::Cipher(_) => HandOver::Cipher,
                NotHandedOver::Record => HandOver::Record,
                NotHandedOver::Busy => HandOver::Busy,
                NotHandedOver::Refused(_) => HandOver::Refused,
                NotHandedOver::Failed(_) => HandOver::Failed,
            }
        }
    };
    context.metrics().ktls.count(result);
}
