//! A server under the test's control: connections are accepted one by one, or served by a function in threads.
use super::{End, PATIENCE, Peer, Place, wait_until};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on a free port of the test's address.
    pub fn listen(place: &Place) -> Self {
        Self::listen_at(place.at(0))
    }

    /// Listens on an address.
    pub fn listen_at(address: SocketAddr) -> Self {
        let listener = carrick_test::until_free(|| TcpListener::bind(address))
            .unwrap_or_else(|error| panic!("listen on {address}: {error}"));
        let address = listener.local_addr().expect("an address");
        Self { listener, address }
    }

    /// Listens with small socket buffers, which accepted connections inherit.
    pub fn listen_with_buffers(place: &Place, bytes: usize) -> Self {
        Self::listen_at_with_buffers(place.at(0), bytes)
    }

    /// Like [`listen_with_buffers`](Self::listen_with_buffers), on an address.
    pub fn listen_at_with_buffers(address: SocketAddr, bytes: usize) -> Self {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a buffer size");
        socket.set_send_buffer_size(bytes).expect("a buffer size");
        carrick_test::until_free(|| socket.bind(&address.into())).expect("an address");
        socket.listen(1024).expect("a listening socket");
        let listener: TcpListener = socket.into();
        let address = listener.local_addr().expect("an address");
        Self { listener, address }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens no more; its address, for a program that is to listen there. Another program that a test starts meanwhile has the socket, too,
    /// from fork(2) to execve(2): that is waited for.
    pub fn close(self) -> SocketAddr {
        let Self { listener, address } = self;
        drop(listener);
        let end = End {
            local: address,
            far: (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        wait_until("the end of the listener", || end.look().is_none());
        address
    }

    /// Waits for the next connection.
    pub fn accept(&self) -> Peer {
        self.accept_until(Instant::now() + PATIENCE)
            .unwrap_or_else(|| panic!("no connection to {}", self.address))
    }

    /// A waiting connection, if there is one.
    pub fn try_accept(&self) -> Option<Peer> {
        self.listener
            .set_nonblocking(true)
            .expect("a socket option");
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket option");
                Some(Peer::new(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("accept: {error}"),
        }
    }

    /// `None`: none has come, or the socket no longer listens.
    fn accept_until(&self, deadline: Instant) -> Option<Peer> {
        // The time limit of accept(2) is the socket's receive time-out.
        let left = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        SockRef::from(&self.listener)
            .set_read_timeout(Some(left))
            .expect("a time-out");
        self.listener
            .set_nonblocking(false)
            .expect("a socket option");
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Some(Peer::new(stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("accept: {error}"),
            }
        }
    }

    /// Checks that no connection was made.
    pub fn expect_no_connection(&self) {
        if let Some(mut peer) = self.try_accept() {
            let came = peer.has_more();
            panic!(
                "unexpected connection to {} (with data: {came})",
                self.address
            );
        }
    }

    /// Serves every connection with `serve` in a thread of its own, until the returned guard is dropped.
    ///
    /// `serve` gets the connection and its number, from 0. A panic in it fails the test when the guard is dropped.
    pub fn serve(self, serve: impl Fn(Peer, usize) + Send + Sync + 'static) -> Serving {
        let address = self.address;
        let listener = self.listener.try_clone().expect("a second descriptor");
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let thread = std::thread::spawn(move || {
            let serve = Arc::new(serve);
            let mut threads = Vec::new();
            while let Some(peer) = self.accept_until(Instant::now() + PATIENCE) {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                threads.push(std::thread::spawn(move || serve(peer, number)));
            }
            drop(self);
            // Threads that wait for a running carrick are abandoned; only failures matter.
            threads
                .into_iter()
                .filter(JoinHandle::is_finished)
                .filter_map(|thread| thread.join().err())
                .count()
        });
        Serving {
            address,
            listener,
            accepted,
            thread: Some(thread),
        }
    }
}

/// A server that runs by itself, until dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    listener: TcpListener,
    accepted: Arc<AtomicUsize>,
    thread: Option<JoinHandle<usize>>,
}

impl Serving {
    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Ends the accepting thread, whatever network namespace it is in: the socket no longer listens
        // (inet_csk_wait_for_connect).
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        let failures = self.thread.take().and_then(|thread| thread.join().ok());
        if !std::thread::panicking() {
            assert_eq!(
                failures,
                Some(0),
                "threads of the server at {} panicked",
                self.address
            );
        }
    }
}

/// Answers requests without bodies until the client closes: `answer` gets the head and returns the whole response.
pub fn answer_requests(mut peer: Peer, mut answer: impl FnMut(&str) -> Vec<u8>) {
    while peer.waits_for_head() {
        let head = peer.read_head();
        let response = answer(&head);
        if peer.try_send(response).is_err() {
            return;
        }
    }
}

impl Peer {
    /// Waits until more arrives; false: the other side ended instead, and no bytes are left.
    pub fn waits_for_head(&mut self) -> bool {
        if !self.buffered().is_empty() {
            return true;
        }
        let mut byte = [0];
        // An idle pooled connection may stay for the whole test: a time-out counts as an end, too.
        self.stream().peek(&mut byte).is_ok_and(|count| count > 0)
    }
}
