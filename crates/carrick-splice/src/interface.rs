//! The interface of the papers, and where each part of it is here.
//!
//! TCP Splice was a kernel service with two calls: `splice(A, B)` gives a pair of sockets to the kernel, which moves data
//! between them; `unsplice` takes them back. Sources:
//!
//! - *Rosu 2002*: M.-C. Rosu and D. Rosu, An Evaluation of TCP Splice Benefits in Web Proxy Servers, WWW 2002: the system
//!   call of AIX, and (section 2.1) the attributes that it was to have.
//! - *kThread 2003*: M.-C. Rosu and D. Rosu, kThread TCP Splice, 2003: a device of Linux 2.4 with the `ioctl`s `splice`,
//!   `unsplice` and `forward`, attributes, and `POLLPRI`.
//! - *BSD*: `SO_SPLICE` of OpenBSD and FreeBSD, what came of the idea elsewhere.
//!
//! Here a splice is a future. It is made by a [`Splicer`], of which each thread has one, and it runs while it is polled.
//!
//! # Calls
//!
//! | papers | here | what differs, and why |
//! |---|---|---|
//! | `splice(A, B)`, both ways (Rosu 2002, Figure 2, `ProcessCONNECT`) | [`Splicer::exchange`]`(&a, &b, order)`, then [`Exchange::run`] | Nothing moves before `run`. The connections are lent, or given for good ([`Leg`]): then nobody is woken while the kernel moves the bytes. Given ones come back by [`Exchange::into_connections`] and [`Exchange::unsplice_own`]. |
//! | `splice`, one way (`ProcessGET`: the response, once its head was read) | [`Splicer::transfer`]`(&from, &to, order)`, then [`Transfer::run`] | The head that was read and rewritten goes in [`Order::prefix`], so that it leaves in the same segments as the body. |
//! | `splice`, one way, in the kernel | [`Choice::Socket`] in an [`Order`] | The first burst takes the prefix along, by the process; what follows is the kernel's. The boundary is exact. What a sender sent behind it and the kernel had already taken comes back by `unsplice`, as [`HandOver::surplus`]. |
//! | `unsplice` | [`Exchange::unsplice`], [`Transfer::unsplice`] | Works at any moment, also before the end: drop the future that `run` returned, call `unsplice`. It gives a [`HandOver`]: the count, what was taken from the sender and not written to the receiver, and what was taken from behind the end. So the connections are exact; the papers do not say what becomes of such bytes. |
//! | packets that wait in A's receive queue are forwarded within the call `splice` ("for small files, splicing might complete at this time") | the first poll of `run` | The same: what is there is relayed at once, and a short body is done without waiting. |
//! | the data path runs in interrupts (Rosu 2002) | [`Choice::Socket`]: BPF in the kernel, by [`SocketService::load`] | The process does no work while bytes fit into the receiver's send buffer. The other engines move bytes when the future is polled, so in turn with everything else of the thread. |
//! | `forward`, yield conditions, what the application tells of itself (kThread 2003, section 2) | [`Pacer::forward`](crate::Pacer::forward), and policies by class | With [`Engine::Copy`] and [`Engine::Pipe`], spliced traffic is work of the same thread and asks the pacer for leave, burst by burst; with the engines of the kernel, verdicts and receive windows say how much goes. |
//! | `recvmsg`, `sendmsg`, `poll` of a spliced socket are replaced | the caller does not use them meanwhile | The borrows do not enforce it. Only the receiver's input may be awaited: [`Order::stop_on_input`]. |
//!
//! # Attributes
//!
//! | papers | here | what differs, and why |
//! |---|---|---|
//! | bidirectional or unidirectional | [`ExchangeOrder`] or [`Order`] | |
//! | ends by transfer size | [`End::AfterBytes`] | To the byte: the next one stays in the sender's socket, or comes back by `unsplice`. This is what HTTP/1.1 on kept connections needs (Rosu 2002, section 2.1). Only one way; an exchange has no size. |
//! | ends by connection close | [`End::EndOfStream`]; every exchange | Rosu 2002 ends "until one of the endpoints closes"; an exchange ends when *both* have, because a client may close its side and still wait for the answer. One way, the end of the stream is passed on if [`Order::pass_end`] says so. |
//! | how new data of the client is dealt with (Rosu 2002, section 2.1: "the method of handling new data packets received from the client") | [`Order::stop_on_input`], [`Transfer::ignore_input`] | Ends with [`Ended::Input`]; the input is not read. |
//! | with local copy | [`Order::local_copy`]: [`LocalCopy::To`] a function, [`LocalCopy::File`] | One way only, as a cache wants responses. For a file with `pipe` by `tee(2)`, by reference; for a function always with `copy`. In the kernel there is none: an `sk_skb` program can redirect a piece, not duplicate it; handing the process a copy through a ring buffer would cost what `copy` costs, and lose bytes whenever the process is late, as nothing holds the sender back. So a transfer with a local copy never uses `socket` ([`Reason::SocketLocalCopy`] is counted). |
//! | without local copy | [`LocalCopy::None`] | The default. |
//! | the client aborts, the response is still collected for the cache (Rosu 2002, section 2.1) | [`Order::keep_reading_bytes_max`] | Has a bound. The transfer ends with the receiver's [`Fault`]; [`HandOver::copy_complete`] says whether the copy is whole. |
//! | size of send and receive buffers couples the two connections | the same, plus [`PoolLimits`] | If B's send buffer is full, nothing more is taken from A, whose window closes. The process holds one burst at most. |
//! | not there | [`Order::idle`], [`ExchangeOrder::idle`], [`Order::rate_min`] | A proxy must not keep what does not move. |
//! | not there | [`ExchangeOrder::a_prefix`], [`ExchangeOrder::b_prefix`] | What was read ahead of the splice, such as a ClientHello. |
//! | not there | [`Order::choice`], [`ExchangeOrder::choice`] | Which engine: no single one is the best for all. |
//!
//! # Events
//!
//! | papers | here | what differs, and why |
//! |---|---|---|
//! | `POLLPRI` on the socket: the splice has ended | the future that `run` returned is ready | The runtime's readiness takes the place of the event. [`Exchange::poll_run`] and [`Transfer::poll_run`] are for those who poll themselves. |
//! | completed by size | [`Ended::Bytes`] | |
//! | completed by close | [`Ended::EndOfStream`], [`ExchangeEnd::Closed`] | A body that ends before its size is `EndOfStream`, never `Bytes`. |
//! | input on one of the connections | [`Ended::Input`] | |
//! | error of a connection | [`Fault`], [`ExchangeEnd::Fault`] | Names the side, the system call and the error. An exchange delivers what the other direction still can; then the caller waits until the peer has that ([`Splicer::deliver`]), and resets ([`tcp::reset_on_close`]), so that half does not look whole. |
//! | byte count | [`HandOver::bytes`]; at any time [`Transfer::bytes`], [`Exchange::a_to_b_bytes`], [`Exchange::b_to_a_bytes`] | What was written to the receiver, prefixes not counted. |
//! | statistics for the application (kThread 2003, section 2) | [`Counters`]; [`SocketService::live`] for splices that are in the kernel | Also which engine was chosen how often, and why ([`Reason`]). Of each splice in the kernel: bytes both ways, queues, RTT, retransmissions; it is found by [`Order::label`] and [`ExchangeOrder::label`]. |
//! | not there | [`Ended::Idle`], [`Ended::TooSlow`], [`ExchangeEnd::Idle`] | `run` may be called again and goes on. |
//!
//! # `SO_SPLICE` of BSD
//!
//! `setsockopt(source, SOL_SOCKET, SO_SPLICE, &(struct splice){ fd, max, idle })` is one direction; two calls make both.
//!
//! | BSD | here |
//! |---|---|
//! | `sp_fd` = the drain | `to` of [`Splicer::transfer`]; `a` and `b` of [`Splicer::exchange`] are both calls in one |
//! | `sp_fd` = -1, or no value: unsplice | `unsplice` |
//! | `sp_max` = N | [`End::AfterBytes`]`(N)` |
//! | `sp_max` = 0: no limit | [`End::EndOfStream`] |
//! | `sp_idle` | [`Order::idle`], [`ExchangeOrder::idle`]; noticed up to a quarter of it late. There is always one: give a long one for none |
//! | `getsockopt(SO_SPLICE)`: bytes so far | [`Transfer::bytes`], [`Exchange::a_to_b_bytes`] |
//! | the source becomes readable: the splice is over | the future is ready |
//! | `SO_ERROR` = `EFBIG` | [`Ended::Bytes`], which is no error |
//! | `SO_ERROR` = `ETIMEDOUT` | [`Ended::Idle`], [`ExchangeEnd::Idle`] |
//! | `SO_ERROR` = `EPIPE`, or the drain's error | a [`Fault`] at [`Side::To`] |
//! | end of stream: unspliced, the process reads 0 and calls `shutdown` on the drain | [`Order::pass_end`] does that; an exchange always does |
//! | privileges: none | `copy` and `pipe`: none; `socket`: see [`SocketService::load`] |
//!
//! # Figure 2 of Rosu 2002
//!
//! A proxy's two procedures, with this library:
//!
//! ```
//! use carrick_splice::{End, Ended, ExchangeEnd, ExchangeOrder, LocalCopy, Order, Splicer, tcp};
//! use tokio::net::TcpStream;
//!
//! /// ProcessCONNECT: both ways, until both have closed. The paper: `splice(sockClient, sockServer)`.
//! async fn process_connect(splicer: &Splicer, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
//!     let mut exchange = splicer.exchange(client, server, ExchangeOrder::default());
//!     match exchange.run().await {
//!         ExchangeEnd::Closed => {}
//!         ExchangeEnd::Idle | ExchangeEnd::Stalled | ExchangeEnd::Fault { .. } => {
//!             tcp::reset_on_close(client)?;
//!             tcp::reset_on_close(server)?;
//!         }
//!     }
//!     Ok(())
//! }
//!
//! /// ProcessGET, after the response's head was read: so many bytes of body, with a copy for the cache, even if the client
//! /// goes away. True if both connections can be used for the next request.
//! async fn process_get(
//!     splicer: &Splicer,
//!     client: &TcpStream,
//!     server: &TcpStream,
//!     head: &[u8],
//!     body_bytes: u64,
//!     cached: &mut Vec<u8>,
//! ) -> bool {
//!     let mut store = |bytes: &[u8]| cached.extend_from_slice(bytes);
//!     let order = Order {
//!         prefix: head,
//!         local_copy: LocalCopy::To(&mut store),
//!         keep_reading_bytes_max: 1 << 20,
//!         ..Order::new(End::AfterBytes(body_bytes))
//!     };
//!     let mut transfer = splicer.transfer(server, client, order);
//!     let ended = transfer.run().await;
//!     let hand_over = transfer.unsplice().await;
//!     // What the cache may keep does not depend on the client.
//!     let is_whole = hand_over.copy_complete;
//!     # assert!(is_whole);
//!     matches!(ended, Ok(Ended::Bytes)) && is_whole
//! }
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # async fn connection() -> (TcpStream, TcpStream) {
//! #     let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
//! #     let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
//! #     (near.unwrap(), far.unwrap().0)
//! # }
//! # #[tokio::main(flavor = "local")]
//! # async fn main() {
//! #     let splicer = Splicer::new(Default::default(), Default::default());
//! #     let ((mut origin, server), (client, mut browser)) = (connection().await, connection().await);
//! #     origin.write_all(b"the body, and the next head").await.unwrap();
//! #     let mut cached = Vec::new();
//! #     assert!(process_get(&splicer, &client, &server, b"head ", 8, &mut cached).await);
//! #     assert_eq!(cached, b"the body");
//! #     let mut got = [0; 13];
//! #     browser.read_exact(&mut got).await.unwrap();
//! #     assert_eq!(&got, b"head the body");
//! #     // The client goes away, and the copy is whole all the same.
//! #     tcp::reset_on_close(&browser).unwrap();
//! #     drop(browser);
//! #     let mut cached = Vec::new();
//! #     assert!(!process_get(&splicer, &client, &server, b"", 14, &mut cached).await);
//! #     assert_eq!(cached, b", and the next");
//! #     let (client, mut browser) = connection().await;
//! #     let talk = async {
//! #         browser.write_all(b"ask").await.unwrap();
//! #         browser.shutdown().await.unwrap();
//! #         let mut asked = Vec::new();
//! #         origin.read_to_end(&mut asked).await.unwrap();
//! #         drop(origin);
//! #         let mut answer = Vec::new();
//! #         browser.read_to_end(&mut answer).await.unwrap();
//! #         (asked, answer)
//! #     };
//! #     let (outcome, (asked, answer)) = tokio::join!(process_connect(&splicer, &client, &server), talk);
//! #     outcome.unwrap();
//! #     assert_eq!((&asked[..], &answer[..]), (&b"ask"[..], &b" head"[..]));
//! # }
//! ```
//!
//! # A TCP relay
//!
//! `examples/relay.rs`, whole:
//!
#![doc = concat!("```no_run\n", include_str!("../examples/relay.rs"), "```")]
//!
//! It depends on this crate and on `tokio` with the features `rt`, `net`, `time` and `macros`, and runs as
//!
//! ```text
//! cargo run -p carrick-splice --example relay -- 127.0.0.1:8080 example.org:80 socket
//! ```

#[cfg(doc)]
use crate::*;
