//! Every metric: its name, its kind, and what it means. `docs/operations.md` is compared with this list in a test.

/// Kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are OpenMetrics'")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// A metric's declaration.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDeclaration {
    /// The metric family's name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// What it means.
    pub help: &'static str,
}

impl MetricDeclaration {
    /// The name to ask Prometheus for: OpenMetrics appends `_total` to counters and `_info` to infos.
    #[must_use]
    pub fn sample_name(&self) -> String {
        let suffix = match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }
}

/// Declares each metric as a constant, and the list of all of them.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal $help:literal;)*) => {
        $(#[expect(missing_docs, reason = "its help says it")]
        pub const $constant: MetricDeclaration =
            MetricDeclaration { name: $name, kind: MetricKind::$kind, help: $help };)*
        /// All metrics, in the order in which they are shown.
        pub const METRICS: &[MetricDeclaration] = &[$($constant),*];
    };
}

metrics! {
    BUILD = Info "carrick_build" "The version that runs.";
    DRAINING = Gauge "carrick_draining" "1 between SIGTERM and the end.";
    RELOADS = Counter "carrick_reloads" "Reloads of the configuration, by result: ok, when all workers have followed; failed (the old one was kept, or a worker could not follow).";
    ENGINE_USABLE = Gauge "carrick_engine_usable" "1 where the engine, leg profiles as a whole (legs), or handshakes after the server's (hold) can be used on this machine.";
    ENGINE_REASON = Gauge "carrick_engine_reason" "1 where the engine cannot be used, with the reason.";
    SANDBOX = Gauge "carrick_sandbox" "1 where the kernel keeps carrick from what it does not need, by part: files (Landlock), calls (seccomp).";

    REQUESTS = Counter "carrick_requests" "Responses sent to clients, by the listener's mode and the status; 499: the client went away first.";
    REQUEST_SECONDS = Histogram "carrick_request_seconds" "From a request's first byte to its response's last, by the listener's mode.";
    CONNECT_SECONDS = Histogram "carrick_connect_seconds" "Time to open a connection to an upstream.";
    FIRST_BYTE_SECONDS = Histogram "carrick_first_byte_seconds" "From a request's being sent to its response's first byte.";
    TUNNELS = Counter "carrick_tunnels" "Tunnels begun (CONNECT, upgrades, TCP, SNI), by the listener's mode.";
    TUNNELS_OPEN = Gauge "carrick_tunnels_open" "Tunnels that stand now, by the listener's mode.";
    TUNNEL_SECONDS = Histogram "carrick_tunnel_seconds" "How long tunnels stood, by the listener's mode.";
    RETRIES = Counter "carrick_retries" "Requests that were sent once more.";
    REFUSALS = Counter "carrick_refusals" "Requests and responses that were refused, by reason.";

    CLIENT_CONNECTIONS = Counter "carrick_client_connections" "Connections accepted from clients.";
    INTERCEPTED = Counter "carrick_intercepted_connections" "Connections from clients to others that came in by transparent listeners.";
    HELD = Counter "carrick_held_handshakes" "SYNs of clients whose listener asks the server first, and what became of them, by event.";
    HELD_WAITING = Gauge "carrick_held_handshakes_waiting" "SYNs that wait for their server, and servers' connections that wait for their client.";
    CLIENT_CONNECTIONS_OPEN = Gauge "carrick_client_connections_open" "Connections from clients that are open now, by worker.";
    CLIENT_BYTES = Counter "carrick_client_bytes" "Body and tunnel bytes received from and sent to clients.";
    UPSTREAM_BYTES = Counter "carrick_upstream_bytes" "Body and tunnel bytes received from and sent to upstreams.";
    UPSTREAM_OPENED = Counter "carrick_upstream_connections_opened" "Connections to upstreams that were opened.";
    UPSTREAM_REUSED = Counter "carrick_upstream_connections_reused" "Requests that went over an upstream connection that was open already.";
    UPSTREAM_FAILED = Counter "carrick_upstream_connections_failed" "Connections to upstreams that could not be opened.";
    UPSTREAM_OPEN = Gauge "carrick_upstream_connections_open" "Connections to upstreams that are open now, idle ones included.";
    UPSTREAM_IDLE = Gauge "carrick_upstream_connections_idle" "Connections to upstreams that wait for a request.";

    SERVER_REQUESTS = Counter "carrick_server_requests" "Requests sent and tunnels opened, by upstream and server.";
    SERVER_FAILURES = Counter "carrick_server_failures" "Connections that failed and responses that did not come, by upstream and server.";
    SERVER_BYTES = Counter "carrick_server_bytes" "Body and tunnel bytes, by upstream, server and direction.";
    SERVER_ACTIVE = Gauge "carrick_server_active" "Requests and tunnels under way, by upstream and server.";
    SERVER_UP = Gauge "carrick_server_up" "1 while the active health check lets the server be used (always, without one).";
    HEALTH_CHECKS = Counter "carrick_health_checks" "Active health checks done, by result: good, failed, unmade (this machine was short of descriptors, memory or ports, which says nothing about the server).";

    SPLICES = Counter "carrick_splices" "Directions of transfers and tunnels that moved bytes, by engine.";
    SPLICE_BYTES = Counter "carrick_splice_bytes" "Bytes moved, by engine.";
    SPLICE_CHOICES = Counter "carrick_splice_choices" "Decisions for an engine, by reason.";
    SPLICE_PASSED_BYTES = Counter "carrick_splice_passed_bytes" "Bytes that the socket engine left to the process, because the receiver had no room for them.";
    SPLICES_BROKEN = Counter "carrick_splices_broken" "Splices whose connections the kernel did not give back in time, so that they were reset.";
    SPLICE_LOCAL_COPY_BYTES = Counter "carrick_splice_local_copy_bytes" "Bytes that were also given to a local copy.";
    UNSPLICES = Counter "carrick_unsplices" "Splices that were taken back while bytes were in flight.";
    STALLED_SPLICES = Gauge "carrick_stalled_splices" "Transfers and tunnels whose receivers have taken next to nothing for a second or longer.";
    STALLED_BYTES = Gauge "carrick_stalled_bytes" "The kernel's memory that these hold.";
    PIPES_OPEN = Gauge "carrick_pipes_open" "Pipes that are open now, pooled ones included.";
    PIPES_POOLED = Gauge "carrick_pipes_pooled" "Pipes that are open now and unused.";
    BUFFERS_IN_USE = Gauge "carrick_copy_buffers_in_use" "Copy buffers that hold bytes in flight now.";

    TUNNEL_CLIENT_RTT = Histogram "carrick_tunnel_client_rtt_seconds" "Round-trip time (smoothed) of the client's connection of each tunnel, at its end.";
    TUNNEL_UPSTREAM_RTT = Histogram "carrick_tunnel_upstream_rtt_seconds" "Round-trip time (smoothed) of the upstream's connection of each tunnel, at its end.";
    TUNNEL_RETRANSMISSIONS = Counter "carrick_tunnel_retransmissions" "Segments that were sent again on the connections of tunnels, by leg; counted at the tunnel's end.";
    TUNNELS_BY_ENGINE = Gauge "carrick_tunnels_by_engine" "Tunnels that stand now, by the engine that moves most of their bytes; socket while the kernel has both connections.";
    SOCKET_SPLICES = Gauge "carrick_socket_splices" "Splices that are in the kernel now.";
    PACKET_SPLICES = Gauge "carrick_packet_splices" "Pairs of connections whose packets the kernel may forward now (open), and those that have ended or gone on by themselves, which it still knows for a while (over).";
    KERNEL_REQUESTS = Counter "carrick_kernel_requests" "Requests that a program in the kernel was asked about, by its answer: forwarded by the kernel, or left to the process.";
    PACKET_BAD_LEGS = Gauge "carrick_packet_bad_legs" "Pairs of networks between which packets are not spliced for now, because one leg is bad.";
    ADOPTED = Counter "carrick_tunnels_adopted" "Tunnels of an earlier carrick that this one looks after since it began.";
    ADOPTED_OPEN = Gauge "carrick_adopted_tunnels_open" "Those of them that stand now.";
    ADOPTED_ENDED = Counter "carrick_adopted_tunnels_ended" "Those of them that have ended, by result: closed, reset, idle. Their bytes are in carrick_client_bytes, carrick_upstream_bytes and carrick_splice_bytes.";
    SOCKET_SPLICE_BYTES = Gauge "carrick_socket_splice_bytes" "Bytes that the kernel has handed on for the tunnels that it has now, by direction.";
    SOCKET_BACKLOG_BYTES = Gauge "carrick_socket_backlog_bytes" "Of these bytes: those that the receivers' TCP does not have yet, by direction.";
    SOCKET_RETRANSMISSIONS = Gauge "carrick_socket_retransmissions" "Segments that the tunnels which the kernel has now have sent again, by leg.";
    SOCKET_RTT = Gauge "carrick_socket_rtt_seconds" "Mean round-trip time of the tunnels that the kernel has now, by leg; 0 without any.";

    CACHE_REQUESTS = Counter "carrick_cache_requests" "Requests by what the cache did for them: hit, hit-disk (from the disk, or with a body there), collapsed (a hit after waiting for somebody else's answer), revalidated, stale, miss, shared (a hit of the second level), cache peer (answered by another cache, which had it), bypass, refused (only-if-cached).";
    CACHE_WAITED = Counter "carrick_cache_waited" "Requests that waited for the answer to another one.";
    CACHE_BYTES_SAVED = Counter "carrick_cache_saved_bytes" "Bytes of bodies that were sent out of the cache without the origin's having sent them for that.";
    CACHE_ANSWERS = Counter "carrick_cache_answers" "Whole answers of origins, by whether they were stored.";
    CACHE_INVALIDATED = Counter "carrick_cache_invalidated" "Objects taken out because an unsafe method changed what they are copies of.";
    CACHE_REFRESHES = Counter "carrick_cache_refreshes" "Validations in the background (stale-while-revalidate).";
    CACHE_GIVEN_UP = Counter "carrick_cache_fills_given_up" "Bodies that were not fetched to their end because nobody waited for them.";
    CACHE_PAGES = Counter "carrick_cache_ahead_pages" "Pages that were read for what they embed (prefetch).";
    CACHE_AHEAD = Counter "carrick_cache_ahead" "Objects that such pages embed, by what became of them: asked (of these: stored, not_stored, too_large, failed), used (stored ones that a client has asked for since, once each), or not asked: foreign (another host, port or scheme), denied (the listener's rules, or no cache there), fresh (stored already), in_flight (somebody was asking), not_stored (known not to be), too_many, aborted (the page's client had gone).";
    CACHE_FIND_SECONDS = Histogram "carrick_cache_find_seconds" "Time to look for an answer in the cache, whether or not there is one.";
    CACHE_FIRST_BYTE_SECONDS = Histogram "carrick_cache_first_byte_seconds" "From a request's first byte to the first of its answer, where the cache had it and the origin was not asked.";
    CACHE_OBJECTS = Gauge "carrick_cache_objects" "Objects in the cache.";
    CACHE_BYTES = Gauge "carrick_cache_bytes" "Bytes that the cache takes: stored, or only held by readers of what is stored no more.";
    CACHE_FILLS = Gauge "carrick_cache_fills" "Bodies on their way into the cache.";
    CACHE_EVICTIONS = Counter "carrick_cache_evictions" "Objects that had to make room, by queue: small (not asked for since they came), main.";
    CACHE_DISK_OBJECTS = Gauge "carrick_cache_disk_objects" "Objects on the cache's disk.";
    CACHE_DISK_BYTES = Gauge "carrick_cache_disk_bytes" "Bytes of the cache's files, in blocks of 4 KB, and of bodies that wait to be written.";
    CACHE_DISK_INDEXED = Gauge "carrick_cache_disk_indexed" "1 when all files that were there at the start are in the index, 0 before.";
    CACHE_DISK_LOADS = Counter "carrick_cache_disk_loads" "Objects that were brought from the disk into memory, their bodies only if they are short.";
    CACHE_DISK_LOADS_AT_ONCE = Counter "carrick_cache_disk_loads_at_once" "Of those, which no thread of the disk's was needed for: all was in the page cache.";
    CACHE_DISK_SECONDS = Histogram "carrick_cache_disk_seconds" "How long requests waited until something was brought from the disk, the check of its checksum included.";
    CACHE_DISK_WRITES = Counter "carrick_cache_disk_writes" "Objects that were written to the disk.";
    CACHE_DISK_WRITTEN = Counter "carrick_cache_disk_written_bytes" "Bytes of them, in blocks of 4 KB.";
    CACHE_DISK_REFUSED = Counter "carrick_cache_disk_refused" "Objects that were not written because too much waited to be written already.";
    CACHE_DISK_EVICTIONS = Counter "carrick_cache_disk_evictions" "Objects that had to make room on the disk, by queue: small (not asked for since they came), main.";
    CACHE_DISK_ERRORS = Counter "carrick_cache_disk_errors" "What went wrong on the disk, by kind: read and write (calls that failed), damaged (files that were not what was written).";

    CACHE_PEER_ANSWERS = Counter "carrick_cache_peer_answers" "What came of asking other caches, by cache peer: hit, miss, refused (it answered something else), failed (it did not answer, or not to the end).";
    CACHE_PEER_UP = Gauge "carrick_cache_peer_up" "1 while the cache peer is asked; 0 while it is left out, since it failed.";

    SHARED_REQUESTS = Counter "carrick_shared_requests" "Questions to the cache's second level, by result: hit, miss, garbage (it has something else there), failed.";
    SHARED_WRITES = Counter "carrick_shared_writes" "Responses for the second level, by result: written, dropped (too much was waiting), not_written (it did not take them).";
    SHARED_UP = Gauge "carrick_shared_up" "1 while the second level is asked; 0 while it is left out, since it failed, or if there is none.";

    LINK_OPENED = Counter "carrick_link_connections_opened" "Connections to the other ends of links that were opened.";
    LINK_FAILED = Counter "carrick_link_connections_failed" "Connections to the other ends of links that could not be opened, or whose other end spoke something else.";
    LINK_OPEN = Gauge "carrick_link_connections_open" "Connections to the other ends of links that are open now, idle ones included.";
    LINK_IDLE = Gauge "carrick_link_connections_idle" "Connections to the other ends of links that wait for something to carry.";
    LINK_RELAYED = Counter "carrick_link_relayed" "Clients' connections that were sent over a link.";
    LINK_REUSED = Counter "carrick_link_reused" "Of these, those over a connection that had carried others before.";
    LINK_REFUSED = Counter "carrick_link_refused" "Of these, those that the other end has refused.";
    LINK_LOST = Counter "carrick_link_lost" "Relayed connections that were reset because the connection over the link broke; at both ends.";
    LINK_DIRECT = Counter "carrick_link_direct" "Clients' connections that went directly to their servers, because there was no connection over their link.";
    LINK_MALFORMED = Counter "carrick_link_malformed" "Connections over links that were given up because of what came on them; at both ends.";
    LINK_BYTES = Counter "carrick_link_bytes" "Relayed bytes received from and sent to the other ends of links; at both ends.";

    PACE_BYTES = Counter "carrick_pace_bytes" "Bytes that were let pass, by class, and by who held them: the process, or programs in the kernel.";
    PACE_YIELDS = Counter "carrick_pace_yields" "How often something relayed had to wait for the worker's own work, by class.";
    PACE_RATE_WAITS = Counter "carrick_pace_rate_waits" "How often something relayed had to wait because of a rate, by class.";
    PACE_KERNEL_HOLDS = Counter "carrick_pace_kernel_holds" "How often a program in the kernel held something back, for either reason, by class.";
    PACE_WAITED = Counter "carrick_pace_waited_seconds" "How long what is relayed by the process has waited, for either reason, all of it together, by class.";
    PACE_OVERDUE = Counter "carrick_pace_overdue" "How often something relayed went on because it had waited for hold_max, by class.";
    PACE_UNBOUNDED = Counter "carrick_pace_unbounded" "Splices that went without a rate of their own or of their client's network, because all buckets for that were taken, by class.";
    SPLIT_CONNECTIONS = Counter "carrick_split_connections" "Connections of splitters that ended, by what they were: split, joined (end to end), mixed (joined late), unmeasured (they broke off or carried nothing, so nothing was learned of them).";
    SPLIT_DECISIONS = Counter "carrick_split_decisions" "Connections of splitters, by why they were split or joined; the reasons are in docs/internals/splitting.md.";
    SPLIT_REFUSED = Counter "carrick_split_joins_refused" "Connections of splitters that were to be joined and that the packet engine refused.";
    SPLIT_LEFT_OUT = Counter "carrick_split_pairs_left_out" "How often a pair of networks was left out of what is intercepted for a while, because splitting gains nothing and its connections cannot be joined in time.";
    SPLIT_PAIRS = Gauge "carrick_split_pairs" "Pairs of networks that splitters know.";
    SPLIT_PAIRS_EVICTED = Counter "carrick_split_pairs_evicted" "Pairs of networks that were forgotten for others.";
    SPLIT_GAIN = Gauge "carrick_split_gain" "What splitting gains (GoS: 0.5 is half more throughput), by size of the connection; mean, and the bounds (low, high) of its confidence interval of 95 %. Only where enough was seen.";
    SPLIT_GAIN_SAMPLES = Gauge "carrick_split_gain_samples" "Connections by which that is known, split and joined ones; old ones count less.";

    PACE_SPLICES = Gauge "carrick_pace_splices" "Tunnels, and clients' connections for HTTP, that are paced now, by class.";
    WORKER_RUNNABLE = Counter "carrick_worker_runnable_seconds" "How long each worker had work of its own. Measured for pacing.";
    WORKER_FORWARDING = Counter "carrick_worker_forwarding_seconds" "How long each worker forwarded what had waited for its leave.";

    LIMIT = Gauge "carrick_limit" "What the configuration allows over all workers, for limits on something that is held: connections, log_queue, dns_cache, pipes, socket_splices, packet_splices, stalled.";
    LIMIT_REACHED = Counter "carrick_limit_reached" "How often each limit was reached.";

    DNS_HITS = Counter "carrick_dns_cache_hits" "Names answered from a cache: the worker's own, or the control thread's.";
    DNS_LOOKUPS = Counter "carrick_dns_lookups" "Names looked up in the hosts file or at name servers, by result.";
    DNS_JOINED = Counter "carrick_dns_joined" "Names that were being looked up already when they were asked for.";
    DNS_NAMES = Gauge "carrick_dns_cache_names" "Names in the control thread's cache.";
    DNS_UNDER_WAY = Gauge "carrick_dns_lookups_under_way" "Look-ups under way now.";

    LOG_LINES = Counter "carrick_log_lines" "Access log lines written.";
    LOG_DROPPED = Counter "carrick_log_lines_dropped" "Access log lines lost, by reason: queue (the log thread could not keep up), write (the target refused them).";
    LOG_WAITING = Gauge "carrick_log_lines_waiting" "Access log lines that wait to be written.";

    PROCESS_CPU = Counter "process_cpu_seconds" "User and system time of the process. What the kernel does for it in soft interrupts is not in it.";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" "Memory of the process that is in RAM.";
    PROCESS_OPEN_FDS = Gauge "process_open_fds" "File descriptors that are open.";
    PROCESS_MAX_FDS = Gauge "process_max_fds" "File descriptors that may be open.";
    PROCESS_START = Gauge "process_start_time_seconds" "When the process started, in seconds since 1970.";
}
