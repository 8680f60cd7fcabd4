//! A small relay in a thread of this process, which does one thing wrong.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Where in each direction something is done wrong, in bytes: behind the connection's number, early enough that short
/// streams get there.
const PLACE: u64 = 100;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Everything well.
    Honest,
    /// Leaves out one byte.
    DropsAByte,
    /// Changes one byte.
    ChangesAByte,
    /// Sends a few bytes twice.
    DoublesAPiece,
    /// Leaves out the last byte before the end.
    CutsTheTail,
    /// Makes an end of a reset.
    EndsAfterAReset,
    /// Makes a reset of an end.
    ResetsAtTheEnd,
    /// Ends both directions when one ends.
    ClosesBoth,
    /// Passes an end on when the other direction has ended, too.
    KeepsTheEnd,
    /// Stops passing on, and keeps the connections.
    FallsSilent,
    /// Takes what it is given, whether or not the receiver reads.
    Hoards,
    /// Closes what it accepts.
    ClosesAtOnce,
}

impl Manner {
    /// How long the suite waits for what is due: where it is not withheld, as long as a busy machine may need.
    pub fn patience(self) -> Duration {
        match self {
            Self::FallsSilent | Self::KeepsTheEnd | Self::ClosesAtOnce => Duration::from_secs(4),
            _ => carrick_test::PATIENCE,
        }
    }
}

/// The relay; it ends when it is dropped.
pub struct Relay {
    address: SocketAddr,
    _alive: oneshot::Sender<()>,
}

impl Relay {
    /// Starts it in front of this server. Up, the connection's number is left as it is.
    pub fn start(manner: Manner, server: SocketAddr) -> Self {
        Self::start_behind(manner, server, [8, 0])
    }

    /// Likewise; so many bytes up and down are left as they are.
    pub fn start_behind(manner: Manner, server: SocketAddr, before: [u64; 2]) -> Self {
        let (alive, ended) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let runtime = crate::program::runtime().unwrap();
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = serve(listener, manner, server, before) => {}
                    _ = ended => {}
                }
            });
        });
        Self {
            address: told.recv().unwrap(),
            _alive: alive,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, manner: Manner, server: SocketAddr, before: [u64; 2]) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if manner == Manner::ClosesAtOnce {
            continue;
        }
        tokio::task::spawn_local(async move {
            let server = TcpStream::connect(server).await.unwrap();
            relay(client, server, manner, before).await;
        });
    }
}

/// Both directions, to their ends; a failure of one resets both connections.
async fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    manner: Manner,
    [before_up, before_down]: [u64; 2],
) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (client_reader, client_writer) = client.split();
    let (server_reader, server_writer) = server.split();
    let up = pump(client_reader, server_writer, manner, before_up);
    let down = pump(server_reader, client_writer, manner, before_down);
    let done = match manner {
        Manner::ClosesBoth => tokio::select! {
            done = up => done.map(drop),
            done = down => done.map(drop),
        },
        Manner::KeepsTheEnd => tokio::try_join!(up, down).map(drop),
        _ => {
            let up = async { end(up.await?, manner).await };
            let down = async { end(down.await?, manner).await };
            tokio::try_join!(up, down).map(drop)
        }
    };
    let makes_a_reset = done.is_err() && manner != Manner::EndsAfterAReset;
    if makes_a_reset || manner == Manner::ResetsAtTheEnd {
        for stream in [&client, &server] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Passes an end on.
async fn end(mut writer: WriteHalf<'_>, manner: Manner) -> io::Result<()> {
    if manner == Manner::ResetsAtTheEnd {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    writer.shutdown().await
}

/// One direction up to its end, `place` bytes of which stand before what is checked.
async fn pump<'a>(
    mut reader: ReadHalf<'_>,
    mut writer: WriteHalf<'a>,
    manner: Manner,
    before: u64,
) -> io::Result<WriteHalf<'a>> {
    let place = before.saturating_add(PLACE);
    let mut buffer = vec![0; 64 << 10];
    let mut hoard = Vec::new();
    let mut passed: u64 = 0;
    // The last byte, which is kept back until another one follows.
    let mut tail: Option<u8> = None;
    loop {
        let read = if hoard.is_empty() {
            reader.read(&mut buffer).await?
        } else {
            tokio::select! {
                biased;
                read = reader.read(&mut buffer) => read?,
                written = writer.write(&hoard) => {
                    hoard.drain(..written?);
                    continue;
                }
            }
        };
        if read == 0 {
            writer.write_all(&hoard).await?;
            return Ok(writer);
        }
        let at = usize::try_from(place.saturating_sub(passed)).unwrap();
        let is_here = passed <= place && at < read;
        passed += read as u64;
        let mut bytes = buffer[..read].to_vec();
        match manner {
            Manner::DropsAByte if is_here => drop(bytes.remove(at)),
            Manner::ChangesAByte if is_here => bytes[at] ^= 1,
            Manner::DoublesAPiece if is_here => bytes.extend_from_within(at..),
            Manner::FallsSilent if is_here => std::future::pending().await,
            Manner::CutsTheTail if passed > before => {
                bytes.splice(..0, tail);
                tail = bytes.pop();
            }
            _ => {}
        }
        if manner == Manner::Hoards {
            hoard.append(&mut bytes);
        } else {
            writer.write_all(&bytes).await?;
        }
    }
}
