//! One connection, from its acceptance to its end.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::counters::Counters;
use super::date::Date;
use super::handshake::{Exchange, Handshake, Party, Step};
use super::intake::{Intake, Next};
use super::pump::{self, Fate};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Room for a head that we write, to begin with.
const HEAD_BYTES: usize = 512;
/// How long, and for how many bytes, a connection is read from after our FIN: closed with unread bytes, the kernel would
/// send RST, and the client could lose the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 4 << 20;
const LINGER_READ_BYTES: usize = 16 * 1024;

/// How a connection ends.
struct End {
    fate: Fate,
    lingers: bool,
}

impl End {
    const PLAIN: Self = Self {
        fate: Fate::Closes,
        lingers: false,
    };
}

/// Serves a client until it or we have enough: `quota` requests at most.
pub async fn serve(mut stream: TcpStream, quota: u64, counters: &Counters) {
    // An error says that the client is gone: that ends this connection and nothing else.
    match run(&mut stream, quota, counters).await {
        Ok(End {
            fate: Fate::IsReset,
            ..
        }) => {
            // Without it there would be a FIN: nothing to do.
            let _ = stream.set_zero_linger();
        }
        Ok(end) if end.lingers => linger(stream).await,
        Ok(_) => {}
        Err(_) => counters.aborted.add(1),
    }
}

async fn run(stream: &mut TcpStream, quota: u64, counters: &Counters) -> io::Result<End> {
    let mut intake = Intake::default();
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut wire = Vec::new();
    let mut left = quota;
    loop {
        match intake.next(&Date::now(), left <= 1, &mut head) {
            Next::More => {
                if !read(stream, &mut intake).await? {
                    if !intake.is_between_requests() {
                        counters.aborted.add(1);
                    }
                    return Ok(End::PLAIN);
                }
            }
            Next::Continue => stream.write_all(CONTINUE).await?,
            Next::Handshake(handshake) => {
                if !shake_hands(stream, &mut intake, handshake, counters).await? {
                    return Ok(End::PLAIN);
                }
            }
            Next::Answer(answer) => {
                counters.received_bytes.add(answer.received_bytes);
                if answer.delay_ms > 0 {
                    sleep(Duration::from_millis(answer.delay_ms)).await;
                }
                let fate = pump::send(stream, &head, &answer, &mut wire, counters).await?;
                counters.requests.add(1);
                left -= 1;
                if fate != Fate::GoesOn {
                    let lingers = answer.lingers || !intake.pending().is_empty();
                    return Ok(End { fate, lingers });
                }
            }
            Next::Malformed(answer) => {
                counters.malformed.add(1);
                let fate = pump::send(stream, &head, &answer, &mut wire, counters).await?;
                return Ok(End {
                    fate,
                    lingers: true,
                });
            }
        }
    }
}

/// Whether there was anything: `false` is the end of the client's stream.
async fn read(stream: &mut TcpStream, intake: &mut Intake) -> io::Result<bool> {
    let count = stream.read(intake.room()).await?;
    intake.filled(count);
    Ok(count > 0)
}

/// Goes through a handshake as the server; whether to go on with HTTP.
async fn shake_hands(
    stream: &mut TcpStream,
    intake: &mut Intake,
    handshake: Handshake,
    counters: &Counters,
) -> io::Result<bool> {
    let mut exchange = Exchange::new(handshake, Party::Server);
    loop {
        match exchange.step() {
            Step::Done => break,
            Step::Send(message) => {
                stream.write_all(&message).await?;
                exchange.sent();
            }
            Step::Receive(_) if intake.pending().is_empty() => {
                if !read(stream, intake).await? {
                    counters.aborted.add(1);
                    return Ok(false);
                }
            }
            Step::Receive(_) => match exchange.received(intake.pending()) {
                Ok(count) => intake.consume(count),
                Err(_) => {
                    counters.malformed.add(1);
                    return Ok(false);
                }
            },
        }
    }
    match handshake {
        Handshake::Full => counters.handshakes_full.add(1),
        Handshake::Abbreviated => counters.handshakes_abbreviated.add(1),
    }
    Ok(true)
}

/// Says that nothing more comes, and reads what the client still sends, within limits.
async fn linger(mut stream: TcpStream) {
    let rest = async {
        stream.shutdown().await?;
        let mut scrap = vec![0; LINGER_READ_BYTES];
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            match stream.read(&mut scrap).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        io::Result::Ok(())
    };
    // Whether it ended, failed or took too long: the connection is closed now.
    let _ = timeout(LINGER, rest).await;
}
