//! The origin: it does with each request what the plan says, and checks what reaches it.

use std::io;
use std::rc::Rc;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::torture::http::exchange::{Exchange, Framing, Kind};
use crate::torture::http::request::Request;
use crate::torture::http::shared::Play;
use crate::torture::stream::take_turns;

/// What is read at once.
const READ_BYTES: usize = 32 * 1024;

/// How a response went.
enum Done {
    /// The connection can go on.
    GoesOn,
    /// It is to be closed.
    Ends,
    /// It is to be reset.
    Resets,
}

/// Serves one connection to its end.
pub async fn serve(play: Rc<Play>, stream: TcpStream) {
    let number = play.next_connection();
    // Without it, a head and a body that follows it may wait for an acknowledgement; the origin works all the same.
    let _ = stream.set_nodelay(true);
    let mut input = Vec::new();
    loop {
        let request = match next_request(&play, &stream, &mut input).await {
            Some(request) => request,
            None => break,
        };
        let Some(exchange) = play.exchange(request.name) else {
            play.complain_of(
                "the origin",
                &format!("{request:?}, which is not in the plan"),
            );
            break;
        };
        note_arrival(&play, exchange, &request);
        play.busy.borrow_mut().insert(number, exchange.label());
        let done = match take_upload(&play, &stream, &mut input, exchange).await {
            Ok(()) => respond(&play, &stream, exchange, request.closes).await,
            Err(error) => Err(error),
        };
        play.busy.borrow_mut().remove(&number);
        match done {
            Ok(Done::GoesOn) => {}
            Ok(Done::Ends) => {
                end(&play, &stream).await;
                return;
            }
            Ok(Done::Resets) => {
                let _ = stream.set_zero_linger();
                return;
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::TimedOut {
                    play.complain(exchange, "the origin's connection stands still");
                }
                return;
            }
        }
    }
}

/// Says that nothing more comes, and waits for the other side: closing with something unread would be a reset, which may
/// overtake the response.
async fn end(play: &Play, stream: &TcpStream) {
    let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Write);
    let mut buffer = [0; 1024];
    while let Ok(1..) = play.read_some(stream, &mut buffer).await {}
}

/// The next head; none at the connection's end.
async fn next_request(play: &Play, stream: &TcpStream, input: &mut Vec<u8>) -> Option<Request> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match Request::parse(input) {
            Ok(Some((request, bytes))) => {
                input.drain(..bytes);
                return Some(request);
            }
            Ok(None) => {}
            Err(what) => {
                play.complain_of("the origin", &what);
                return None;
            }
        }
        // An idle connection may be kept for longer than anything that is due takes.
        stream.readable().await.ok()?;
        match play.read_some(stream, &mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(bytes) => input.extend_from_slice(&buffer[..bytes]),
        }
    }
}

fn note_arrival(play: &Play, exchange: &Exchange, request: &Request) {
    if let Some(difference) = request.difference(exchange) {
        play.complain(exchange, &difference);
    }
    let mut arrivals = play.arrivals.borrow_mut();
    let times = arrivals.entry(exchange.name).or_insert(0);
    *times += 1;
    // Not idempotent (RFC 9110, section 9.2.2).
    if *times > 1 && matches!(exchange.kind, Kind::Post { .. }) {
        play.complain(exchange, "it has reached the origin twice");
    }
}

/// Reads and checks the request's body.
async fn take_upload(
    play: &Play,
    stream: &TcpStream,
    input: &mut Vec<u8>,
    exchange: &Exchange,
) -> io::Result<()> {
    let (body, bytes) = exchange.upload();
    let mut taken = 0;
    let mut buffer = vec![0; READ_BYTES];
    while taken < bytes {
        if input.is_empty() {
            let read = play.read_some(stream, &mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            input.extend_from_slice(&buffer[..read]);
        }
        let most = usize::try_from(bytes - taken).unwrap_or(usize::MAX);
        let now = input.len().min(most);
        if let Some(at) = body.first_difference(taken, &input[..now]) {
            play.complain(
                exchange,
                &format!("byte {at} of the request's body is wrong"),
            );
            return Err(io::ErrorKind::InvalidData.into());
        }
        input.drain(..now);
        taken += now as u64;
    }
    Ok(())
}

async fn respond(
    play: &Play,
    stream: &TcpStream,
    exchange: &Exchange,
    is_last: bool,
) -> io::Result<Done> {
    let mut output = Output {
        play,
        stream,
        waiting: exchange.response_head().into_bytes(),
        piece_bytes: exchange.origin_piece_bytes,
        calls: 0,
    };
    let (body, from, bytes) = exchange.body();
    let cut = exchange.origin_cut.filter(|_| exchange.has_body());
    let end = cut.map_or(bytes, |cut| cut.at.min(bytes));
    let mut at = 0;
    let mut rest = exchange.origin_rest;
    while at < end {
        if let Some(pause) = rest.take_if(|rest| rest.at <= at) {
            output.flush().await?;
            tokio::time::sleep(pause.time).await;
        }
        let until = rest.map_or(end, |rest| rest.at.min(end));
        let most = usize::try_from(until - at).unwrap_or(usize::MAX);
        let piece = body.piece(from + at, most.min(exchange.origin_piece_bytes));
        match exchange.framing {
            Framing::Chunked { .. } => {
                let size = format!("{:x}\r\n", piece.len());
                output.put(size.as_bytes()).await?;
                output.put(piece).await?;
                output.put(b"\r\n").await?;
            }
            Framing::Length | Framing::UntilClose => output.put(piece).await?,
        }
        at += piece.len() as u64;
    }
    if let (Framing::Chunked { has_trailer }, None, true) =
        (exchange.framing, cut, exchange.has_body())
    {
        let last: &[u8] = if has_trailer {
            b"0\r\nX-Trailer: torture\r\n\r\n"
        } else {
            b"0\r\n\r\n"
        };
        output.put(last).await?;
    }
    output.flush().await?;
    Ok(match cut {
        Some(cut) if cut.is_reset => Done::Resets,
        Some(_) => Done::Ends,
        None if is_last || exchange.origin_ends() => Done::Ends,
        None => Done::GoesOn,
    })
}

/// Puts together what is small, so that a head and a short body, or a chunk with its size, are one packet.
struct Output<'a> {
    play: &'a Play,
    stream: &'a TcpStream,
    waiting: Vec<u8>,
    piece_bytes: usize,
    calls: u32,
}

impl Output<'_> {
    async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= self.piece_bytes {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        take_turns(&mut self.calls).await;
        for piece in self.waiting.chunks(self.piece_bytes.max(1)) {
            self.play.write_all(self.stream, piece).await?;
        }
        self.waiting.clear();
        Ok(())
    }
}
