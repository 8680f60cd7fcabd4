//! HTTP/1 on a client's connection, request after request: reading, deciding, cache, server, bodies, replies.
pub mod cached;
pub mod circle;
pub mod decide;
pub mod failure;
pub mod head;
pub mod kernel_forward;
pub mod prefetch;
pub mod relay;
pub mod request_body;
pub mod request_out;
pub mod response_body;
pub mod sender;
pub mod session;
