//! A client: it says what its conversation has planned, and checks all that comes back.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::content::framing::Decoder;
use crate::load::fault::Fault;
use crate::torture::http::decode::Head;
use crate::torture::http::exchange::{Exchange, Framing, Kind};
use crate::torture::http::scenario::{Conversation, Farewell};
use crate::torture::http::shared::{Play, read_within};
use crate::torture::http::{PATIENCE_FOR_RESETS, Way};
use crate::torture::stream::take_turns;

/// Between two pieces of a head.
const SPLIT_PAUSE: Duration = Duration::from_millis(5);
/// What is sent of a request's body at once.
const UPLOAD_PIECE_BYTES: usize = 16 * 1024;

/// Plays a conversation to its end.
pub async fn converse(play: Rc<Play>, number: usize) {
    let conversation = &play.scenario.conversations[number];
    tokio::time::sleep(conversation.starts).await;
    let stream = match connect(&play, conversation, number).await {
        Ok(stream) => stream,
        Err(error) => {
            play.complain_of(
                &format!("connection {number}"),
                &format!("not made: {error}"),
            );
            return;
        }
    };
    play.tally.borrow_mut().connections += 1;
    let mut client = Client {
        play: &play,
        conversation,
        stream,
        input: Vec::new(),
        calls: 0,
        patience: play.patience,
    };
    if client.talk().await == Next::GoOn {
        client.say_farewell(number).await;
    }
}

async fn connect(play: &Play, conversation: &Conversation, number: usize) -> io::Result<TcpStream> {
    let socket = match play.proxy {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(address) = (play.clients)(&play.scenario, number) {
        socket.bind(address)?;
    }
    if let Some(bytes) = conversation.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    let stream = timeout(play.patience, socket.connect(play.proxy))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether the conversation goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Over,
}

/// How a response's bytes ended.
enum Ending {
    /// Where its framing says.
    Whole,
    /// The connection ended, by FIN.
    Fin,
    /// The connection broke.
    Broken(io::Error),
    /// The client has had enough.
    GivenUp,
}

struct Client<'a> {
    play: &'a Play,
    conversation: &'a Conversation,
    stream: TcpStream,
    /// What was read and not looked at yet.
    input: Vec<u8>,
    calls: u32,
    /// For the next byte.
    patience: Duration,
}

impl Client<'_> {
    async fn talk(&mut self) -> Next {
        let conversation = self.conversation;
        let mut exchanges = &conversation.exchanges[..];
        while !exchanges.is_empty() {
            let behind = exchanges[1..].iter().take_while(|next| next.is_pipelined);
            let (batch, later) = exchanges.split_at(1 + behind.count());
            if let Err(error) = self.ask(batch).await {
                // An origin that has answered already need not read on: the answer decides.
                let is_told = matches!(batch[0].kind, Kind::Post { .. });
                if !is_told && !self.is_excused(&batch[0]) {
                    self.play
                        .complain(&batch[0], &format!("it cannot be sent: {error}"));
                    return Next::Over;
                }
            }
            if later.is_empty() && conversation.farewell == Farewell::HalfClose {
                let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
            }
            for exchange in batch {
                if self.answer(exchange).await == Next::Over {
                    return Next::Over;
                }
            }
            let pause = batch.last().map_or(Duration::ZERO, |last| last.pause);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            exchanges = later;
        }
        Next::GoOn
    }

    /// Sends requests, all at once; the body of one behind its head.
    async fn ask(&mut self, batch: &[Exchange]) -> io::Result<()> {
        self.play.tally.borrow_mut().requests += batch.len() as u64;
        let (body, bytes) = batch[0].upload();
        let heads: Vec<String> = batch.iter().map(Exchange::request_head).collect();
        // Behind a body, the others follow by themselves.
        let (first, later) = if bytes > 0 {
            (heads[0].clone(), heads[1..].concat())
        } else {
            (heads.concat(), String::new())
        };
        let (first, second) = if batch[0].is_split {
            first.as_bytes().split_at(first.len() / 2)
        } else {
            (first.as_bytes(), &[][..])
        };
        self.play.write_all(&self.stream, first).await?;
        if !second.is_empty() {
            tokio::time::sleep(SPLIT_PAUSE).await;
            self.play.write_all(&self.stream, second).await?;
        }
        let mut at = 0;
        while at < bytes {
            let most = usize::try_from(bytes - at).unwrap_or(usize::MAX);
            let piece = body.piece(at, most.min(UPLOAD_PIECE_BYTES));
            self.play.write_all(&self.stream, piece).await?;
            at += piece.len() as u64;
        }
        self.play.write_all(&self.stream, later.as_bytes()).await
    }

    /// Reads and judges the response.
    async fn answer(&mut self, exchange: &Exchange) -> Next {
        if self.may_lose_its_end(exchange) {
            self.patience = PATIENCE_FOR_RESETS;
        }
        let head = match self.head().await {
            Ok(head) => head,
            Err(NoHead::Garbled(what)) => {
                self.play
                    .complain(exchange, &format!("instead of a response: {what}"));
                return Next::Over;
            }
            Err(NoHead::Ended(why)) => return self.without_answer(exchange, why),
        };
        if exchange.origin_cut.is_some()
            && matches!(head.status, 502 | 504)
            && head.exchange.is_none()
        {
            self.play.tally.borrow_mut().cut_by_origin += 1;
            return Next::Over;
        }
        if head.exchange.is_none() && matches!(head.status, 502 | 504) && self.is_excused(exchange)
        {
            self.play.tally.borrow_mut().excused += 1;
            return Next::Over;
        }
        if let Some(what) = self.difference(exchange, &head) {
            self.play.complain(exchange, &what);
            return Next::Over;
        }
        let mut decoder = Decoder::of(&head.fields, exchange.has_body());
        let mut received = 0;
        let ended = self.body(exchange, &mut decoder, &mut received).await;
        self.play.tally.borrow_mut().body_bytes += received;
        match ended {
            Ok(ending) => {
                let closes = head.fields.closes || exchange.client_closes;
                self.judge(exchange, ending, received, closes).await
            }
            Err(fault) => {
                self.play.complain(exchange, &fault.to_string());
                Next::Over
            }
        }
    }

    /// The connection ended before a head came.
    fn without_answer(&self, exchange: &Exchange, why: Option<io::Error>) -> Next {
        let is_silence = why
            .as_ref()
            .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
            && !self.may_lose_its_end(exchange);
        if why.is_some() {
            self.reset_behind(exchange);
        }
        let mut tally = self.play.tally.borrow_mut();
        if exchange.origin_cut.is_some() && !is_silence {
            tally.cut_by_origin += 1;
        } else if self.is_excused(exchange) && !is_silence {
            tally.excused += 1;
        } else {
            drop(tally);
            let what = why.map_or(String::from("an end"), |error| error.to_string());
            let so_far = self.input.len();
            let what = format!("no response, but {what} behind {so_far} bytes");
            self.play.complain(exchange, &what);
        }
        Next::Over
    }

    /// Whether the reset that signals a cut may be lost: resets are not sent again.
    fn may_lose_its_end(&self, exchange: &Exchange) -> bool {
        exchange.origin_cut.is_some() && self.play.scenario.network.loses_of_origins()
    }

    /// Resets the connection after waiting in vain: after a close, the client could still be reading.
    fn reset_behind(&self, exchange: &Exchange) {
        if self.may_lose_its_end(exchange) {
            self.play.tally.borrow_mut().resets += 1;
            let _ = self.stream.set_zero_linger();
        }
    }

    /// Whether the request may not be sent again after the origin's connection has ended: it is not idempotent, or no proxy is there to
    /// do so.
    fn is_excused(&self, exchange: &Exchange) -> bool {
        let is_lonely =
            matches!(exchange.kind, Kind::Post { .. }) || self.play.scenario.way == Way::Routed;
        self.play.scenario.has_silent_closes && is_lonely
    }

    /// What in the head is not as the origin has written it.
    fn difference(&self, exchange: &Exchange, head: &Head) -> Option<String> {
        let planned = [
            ("X-Exchange", &head.exchange, Some(exchange.label())),
            ("ETag", &head.etag, Some(exchange.etag())),
            (
                "Content-Range",
                &head.content_range,
                exchange.content_range(),
            ),
        ];
        let different = planned
            .iter()
            .find(|(_, came, planned)| **came != *planned)
            .map(|(name, came, planned)| format!("{name} is {came:?}, not {planned:?}"));
        let is_chunked = exchange.has_body() && matches!(exchange.framing, Framing::Chunked { .. });
        if head.status != exchange.status() {
            Some(format!("status {}: {different:?}", head.status))
        } else if different.is_some() {
            different
        } else if head.fields.length != exchange.announced_bytes() {
            let planned = exchange.announced_bytes();
            Some(format!(
                "Content-Length is {:?}, not {planned:?}",
                head.fields.length
            ))
        } else if head.fields.is_chunked != is_chunked {
            let came = head.fields.is_chunked;
            Some(format!("chunked: {came}, not {is_chunked}"))
        } else if exchange.client_closes
            && self.play.scenario.way.reads_heads()
            && !head.fields.closes
        {
            Some(String::from("it does not say that the connection ends"))
        } else {
            None
        }
    }

    async fn judge(
        &mut self,
        exchange: &Exchange,
        ending: Ending,
        received: u64,
        closes: bool,
    ) -> Next {
        let (_, _, bytes) = exchange.body();
        match ending {
            Ending::GivenUp => {
                self.play.tally.borrow_mut().cut_by_client += 1;
                return Next::Over;
            }
            Ending::Broken(error)
                if error.kind() == io::ErrorKind::TimedOut && !self.may_lose_its_end(exchange) =>
            {
                let place = format!("nothing came any more behind byte {received} of {bytes}");
                self.play.complain(exchange, &place);
                return Next::Over;
            }
            Ending::Whole | Ending::Fin if exchange.origin_cut.is_some() => {
                let is_whole =
                    matches!(ending, Ending::Whole) || exchange.framing == Framing::UntilClose;
                if is_whole {
                    let what = format!(
                        "the origin has cut it, and it looks whole: {received} of {bytes} bytes"
                    );
                    self.play.complain(exchange, &what);
                } else {
                    self.play.tally.borrow_mut().cut_by_origin += 1;
                }
                return Next::Over;
            }
            Ending::Broken(_) if exchange.origin_cut.is_some() => {
                self.reset_behind(exchange);
                self.play.tally.borrow_mut().cut_by_origin += 1;
                return Next::Over;
            }
            Ending::Broken(error) => {
                let what = format!(
                    "neither end cut it, but it broke behind byte {received} of {bytes}: {error}"
                );
                self.play.complain(exchange, &what);
                return Next::Over;
            }
            Ending::Fin if exchange.framing != Framing::UntilClose => {
                let what =
                    format!("neither end cut it, but it ended behind byte {received} of {bytes}");
                self.play.complain(exchange, &what);
                return Next::Over;
            }
            Ending::Whole | Ending::Fin => {}
        }
        if received != bytes {
            let what = format!("whole with {received} bytes instead of {bytes}");
            self.play.complain(exchange, &what);
            return Next::Over;
        }
        self.play.tally.borrow_mut().whole += 1;
        // What the origin says of its connection need not hold for the client's.
        if !closes && matches!(ending, Ending::Whole) {
            return Next::GoOn;
        }
        if matches!(ending, Ending::Whole) {
            self.expect_end(&format!(
                "connection {} behind its last response",
                exchange.name.0
            ))
            .await;
        }
        Next::Over
    }

    /// The next head that is none of a 1xx.
    async fn head(&mut self) -> Result<Head, NoHead> {
        loop {
            match Head::parse(&self.input).map_err(|garbled| NoHead::Garbled(garbled.0))? {
                Some((bytes, head)) => {
                    self.input.drain(..bytes);
                    if head.status >= 200 {
                        return Ok(head);
                    }
                }
                None => match self.fill().await {
                    Ok(0) => return Err(NoHead::Ended(None)),
                    Ok(_) => {}
                    Err(error) => return Err(NoHead::Ended(Some(error))),
                },
            }
        }
    }

    /// Reads more; 0 at the end.
    async fn fill(&mut self) -> io::Result<usize> {
        take_turns(&mut self.calls).await;
        let before = self.input.len();
        self.input.resize(before + self.conversation.read_bytes, 0);
        let read = read_within(self.patience, &self.stream, &mut self.input[before..]).await;
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    async fn body(
        &mut self,
        exchange: &Exchange,
        decoder: &mut Decoder,
        received: &mut u64,
    ) -> Result<Ending, Fault> {
        let (body, from, bytes) = exchange.body();
        let mut rest = exchange.client_rest;
        loop {
            let taken = decoder.take(&self.input, |piece| {
                let at = *received;
                *received += piece.len() as u64;
                if let Some(place) = body.first_difference(from + at, piece) {
                    return Err(Fault::WrongByte {
                        at: place,
                        received: piece[usize::try_from(place - from - at).unwrap_or(0)],
                        expected: body.piece(place, 1)[0],
                    });
                }
                if *received > bytes {
                    return Err(Fault::Surplus(*received - bytes));
                }
                Ok(())
            })?;
            self.input.drain(..taken);
            if let Some(cut) = exchange.client_cut.filter(|cut| *received >= cut.at) {
                // With something unread, a close is a reset, too.
                self.play.tally.borrow_mut().resets += 1;
                if cut.is_reset {
                    let _ = self.stream.set_zero_linger();
                }
                return Ok(Ending::GivenUp);
            }
            if decoder.is_done() {
                return Ok(Ending::Whole);
            }
            if let Some(rest) = rest.take_if(|rest| rest.at <= *received) {
                tokio::time::sleep(rest.time).await;
            }
            match self.fill().await {
                Ok(0) => return Ok(Ending::Fin),
                Ok(_) => {}
                Err(error) => return Ok(Ending::Broken(error)),
            }
        }
    }

    /// Checks that nothing but the end of the connection follows.
    async fn expect_end(&mut self, whom: &str) {
        let surplus = !self.input.is_empty();
        match self.fill().await {
            Ok(0) if !surplus => {}
            Ok(0) | Ok(_) => self.play.complain_of(
                whom,
                &format!(
                    "more than was asked for: `{}`",
                    self.input[..self.input.len().min(60)].escape_ascii()
                ),
            ),
            Err(error) => self
                .play
                .complain_of(whom, &format!("no end, but: {error}")),
        }
    }

    /// Goes as planned.
    async fn say_farewell(mut self, number: usize) {
        match self.conversation.farewell {
            Farewell::Close => {}
            Farewell::Reset => {
                self.play.tally.borrow_mut().resets += 1;
                let _ = self.stream.set_zero_linger();
            }
            Farewell::HalfClose => {
                self.expect_end(&format!("connection {number}, half closed"))
                    .await;
            }
            Farewell::Linger(time) => tokio::time::sleep(time).await,
        }
        if !self.input.is_empty() {
            let whom = format!("connection {number} at its end");
            let what = self.input[..self.input.len().min(60)].escape_ascii();
            self.play
                .complain_of(&whom, &format!("more than was asked for: `{what}`"));
        }
    }
}

/// Why there is no head.
enum NoHead {
    /// It is none.
    Garbled(String),
    /// The connection ended, or broke.
    Ended(Option<io::Error>),
}
