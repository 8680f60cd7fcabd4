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
    BUILD = Info "carrick_build" "The running version.";
    DRAINING = Gauge "carrick_draining" "1 between SIGTERM and the end.";
    RELOADS = Counter "carrick_reloads" "Reloads of the configuration, by result: ok, all workers use the new one; failed (the old one stays in force, or a worker could not apply the new one).";
    ENGINE_USABLE = Gauge "carrick_engine_usable" "1 if this machine supports the engine, all settings of TCP profiles (tcp_profile), or deferred SYNs (syn_defer).";
    ENGINE_REASON = Gauge "carrick_engine_reason" "1 if the engine cannot be used, with the reason.";
    SANDBOX = Gauge "carrick_sandbox" "1 if the kernel enforces the sandbox, by part: files (Landlock), calls (seccomp).";

    REQUESTS = Counter "carrick_requests" "Requests answered and tunnels ended, by the listener's mode and the status; 499: the client reset its connection or stream, or closed before the end of its request.";
    REQUEST_SECONDS = Histogram "carrick_request_seconds" "Time from a request's first byte to its response's last, by the listener's mode.";
    CONNECT_SECONDS = Histogram "carrick_connect_seconds" "Time to open a connection to an upstream.";
    FIRST_BYTE_SECONDS = Histogram "carrick_first_byte_seconds" "Time from a request's first byte to its response's first byte.";
    TUNNELS = Counter "carrick_tunnels" "Tunnels opened (CONNECT, upgrades, TCP, SNI), by the listener's mode.";
    TUNNELS_OPEN = Gauge "carrick_tunnels_open" "Open tunnels, by the listener's mode.";
    TUNNEL_SECONDS = Histogram "carrick_tunnel_seconds" "Lifetime of tunnels, by the listener's mode.";
    RETRIES = Counter "carrick_retries" "Requests that were retried.";
    REFUSALS = Counter "carrick_refusals" "carrick's own answers (errors, refusals, redirects, answers to ACME challenges), and connections and streams that it closed without one, by reason; docs/modes/http.md lists the reasons.";

    CLIENT_CONNECTIONS = Counter "carrick_client_connections" "Connections accepted from clients.";
    TLS_HANDSHAKES = Counter "carrick_tls_handshakes" "TLS handshakes with clients, by result: full, resumed; or why they failed: alert (the client refused, often the certificate), challenge (an authority saw the answer to tls-alpn-01), client_certificate (missing, not trusted, or revoked), closed, incompatible (no common version, cipher suite or protocol), malformed, plain_http, timeout, other.";
    KTLS = Counter "carrick_ktls" "TLS connections that the kernel was to take over for a long body, by result: done; or why the process still encrypts: cipher (the kernel does not support it), record (a part of the client's next record had been read), busy (the client had ended its side, or not read what was sent before), refused (by the kernel); failed: the kernel refused the keys, and the connection was closed.";
    CERTIFICATE_EXPIRY = Gauge "carrick_certificate_expiry_timestamp_seconds" "When a certificate of a listener's ends, in seconds since 1970, by name and file; `file` is empty for one by ACME, which is absent while there is none.";
    CERTIFICATE_FAILURES = Gauge "carrick_certificate_failures" "Attempts in a row that failed to get a certificate by ACME, by name.";
    ACME_ORDERS = Counter "carrick_acme_orders" "Orders of certificates by ACME, by result: issued, failed.";
    HTTP2_CONNECTIONS = Counter "carrick_http2_connections" "Connections of clients that speak HTTP/2.";
    HTTP2_REQUESTS = Counter "carrick_http2_requests" "Requests on them, malformed ones included.";
    INTERCEPTED = Counter "carrick_intercepted_connections" "Connections intercepted by transparent listeners.";
    DEFERRED_SYNS = Counter "carrick_deferred_syns" "Deferred SYNs of clients, by event.";
    DEFERRED_SYNS_WAITING = Gauge "carrick_deferred_syns_waiting" "Deferred SYNs that wait for their server, and server connections that wait for their client.";
    CLIENT_CONNECTIONS_OPEN = Gauge "carrick_client_connections_open" "Open connections from clients, by worker.";
    CLIENT_BYTES = Counter "carrick_client_bytes" "Body and tunnel bytes received from and sent to clients.";
    UPSTREAM_BYTES = Counter "carrick_upstream_bytes" "Body and tunnel bytes received from and sent to upstreams.";
    UPSTREAM_OPENED = Counter "carrick_upstream_connections_opened" "Connections opened to upstreams.";
    UPSTREAM_REUSED = Counter "carrick_upstream_connections_reused" "Requests sent on a reused upstream connection.";
    UPSTREAM_FAILED = Counter "carrick_upstream_connections_failed" "Connections to upstreams that could not be opened.";
    UPSTREAM_TLS_HANDSHAKES = Counter "carrick_upstream_tls_handshakes" "TLS handshakes with servers for requests, by result: full, resumed; or why they failed: alert (the server refused, often because carrick has no certificate that it accepts; with TLS 1.3 it may be counted as full as well), certificate (the server's cannot be trusted), closed, incompatible (no common version, cipher suite or protocol), malformed, not_tls, timeout, other.";
    UPSTREAM_HTTP2_CONNECTIONS = Counter "carrick_upstream_http2_connections" "Connections opened to servers on which HTTP/2 is spoken.";
    UPSTREAM_HTTP2_REQUESTS = Counter "carrick_upstream_http2_requests" "Requests sent on them, each as a stream.";
    UPSTREAM_OPEN = Gauge "carrick_upstream_connections_open" "Open connections to upstreams, including idle ones.";
    UPSTREAM_IDLE = Gauge "carrick_upstream_connections_idle" "Idle connections to upstreams.";

    SERVER_REQUESTS = Counter "carrick_server_requests" "Requests sent and tunnels opened, by upstream and server.";
    SERVER_FAILURES = Counter "carrick_server_failures" "Connections that failed and responses that did not come, by upstream and server.";
    SERVER_BYTES = Counter "carrick_server_bytes" "Body and tunnel bytes, by upstream, server and direction.";
    SERVER_ACTIVE = Gauge "carrick_server_active" "Requests and tunnels in progress, by upstream and server.";
    SERVER_UP = Gauge "carrick_server_up" "1 if the active health check finds the server healthy, or there is none.";
    HEALTH_CHECKS = Counter "carrick_health_checks" "Active health checks done, by result: good, failed, unmade (this machine was short of descriptors, memory or ports, which says nothing about the server).";

    SPLICES = Counter "carrick_splices" "Directions of transfers and tunnels that moved bytes, by engine.";
    SPLICE_BYTES = Counter "carrick_splice_bytes" "Bytes moved, by engine.";
    SPLICE_CHOICES = Counter "carrick_splice_choices" "Decisions for an engine, by reason.";
    SPLICE_PASSED_BYTES = Counter "carrick_splice_passed_bytes" "Bytes that the socket engine passed to the process because the receiver had no room.";
    SPLICES_BROKEN = Counter "carrick_splices_broken" "Splices that were reset because the kernel did not return their connections in time.";
    SPLICE_LOCAL_COPY_BYTES = Counter "carrick_splice_local_copy_bytes" "Bytes also delivered to a local copy.";
    UNSPLICES = Counter "carrick_unsplices" "Splices detached while bytes were in flight.";
    STALLED_SPLICES = Gauge "carrick_stalled_splices" "Transfers and tunnels whose receivers have taken next to nothing for a second or longer.";
    STALLED_BYTES = Gauge "carrick_stalled_bytes" "Kernel memory held by stalled transfers and tunnels.";
    PIPES_OPEN = Gauge "carrick_pipes_open" "Open pipes, including pooled ones.";
    PIPES_POOLED = Gauge "carrick_pipes_pooled" "Open pipes that are unused.";
    BUFFERS_IN_USE = Gauge "carrick_copy_buffers_in_use" "Copy buffers that hold bytes in flight now.";

    TUNNEL_CLIENT_RTT = Histogram "carrick_tunnel_client_rtt_seconds" "Round-trip time (smoothed) of the client's connection of each tunnel, at its end.";
    TUNNEL_UPSTREAM_RTT = Histogram "carrick_tunnel_upstream_rtt_seconds" "Round-trip time (smoothed) of the upstream's connection of each tunnel, at its end.";
    TUNNEL_RETRANSMISSIONS = Counter "carrick_tunnel_retransmissions" "Retransmitted segments on the connections of tunnels, by leg; counted at the tunnel's end.";
    TUNNELS_BY_ENGINE = Gauge "carrick_tunnels_by_engine" "Open tunnels, by the engine that moves most of their bytes; socket while the kernel has both connections.";
    SOCKET_SPLICES = Gauge "carrick_socket_splices" "Splices now in the kernel.";
    PACKET_SPLICES = Gauge "carrick_packet_splices" "Pairs of connections whose packets the kernel may forward now (open), and those that have ended or gone on by themselves, which it still knows for a while (over).";
    KERNEL_REQUESTS = Counter "carrick_kernel_requests" "Requests seen by the kernel's classifier, by who handled them: kernel or process.";
    KERNEL_REQUESTS_UNREPORTED = Counter "carrick_kernel_requests_unreported" "Requests forwarded by the kernel that other counters and the access log lack, because the process was too slow to read the kernel's reports.";
    PACKET_LOSSY_PATHS = Gauge "carrick_packet_lossy_paths" "Pairs of networks between which packets are not spliced for now, because the path loses too many.";
    ADOPTED = Counter "carrick_tunnels_adopted" "Tunnels of an earlier carrick that this one has taken over.";
    ADOPTED_OPEN = Gauge "carrick_adopted_tunnels_open" "Adopted tunnels that are open.";
    ADOPTED_ENDED = Counter "carrick_adopted_tunnels_ended" "Adopted tunnels that have ended, by result: closed, reset, idle. Their bytes are in carrick_client_bytes, carrick_upstream_bytes and carrick_splice_bytes.";
    SOCKET_SPLICE_BYTES = Gauge "carrick_socket_splice_bytes" "Bytes that the kernel has forwarded for the tunnels that it has now, by direction.";
    SOCKET_BACKLOG_BYTES = Gauge "carrick_socket_backlog_bytes" "Of these, bytes not yet passed to the receiver's TCP, by direction.";
    SOCKET_RETRANSMISSIONS = Gauge "carrick_socket_retransmissions" "Retransmitted segments of the tunnels that the kernel has now, by leg.";
    SOCKET_RTT = Gauge "carrick_socket_rtt_seconds" "Mean round-trip time of the tunnels that the kernel has now, by leg; 0 without any.";

    CACHE_REQUESTS = Counter "carrick_cache_requests" "Requests by what the cache did for them: hit, hit-disk (from the disk, or with a body there), collapsed (a hit after waiting for another request's answer), revalidated, stale, miss, shared (a hit of the shared cache), peer (answered by another cache, which had it), bypass, refused (only-if-cached).";
    CACHE_WAITED = Counter "carrick_cache_waited" "Requests that waited for another request's answer.";
    CACHE_BYTES_SAVED = Counter "carrick_cache_saved_bytes" "Body bytes sent from the cache instead of from the origin.";
    CACHE_ANSWERS = Counter "carrick_cache_answers" "Whole answers of origins, by whether they were stored.";
    CACHE_INVALIDATED = Counter "carrick_cache_invalidated" "Objects removed because an unsafe method may have changed the resource.";
    CACHE_REFRESHES = Counter "carrick_cache_refreshes" "Validations in the background (stale-while-revalidate).";
    CACHE_GIVEN_UP = Counter "carrick_cache_fills_given_up" "Bodies whose fetch was aborted because no client was waiting.";
    CACHE_PREFETCH_PAGES = Counter "carrick_cache_prefetch_pages" "Pages scanned for embedded objects (prefetch).";
    CACHE_PREFETCHES = Counter "carrick_cache_prefetches" "Embedded objects, by result: asked (of these: stored, not_stored, too_large, failed), used (stored ones that a client has asked for since, once each), or not asked: foreign (another host, port or scheme), denied (the listener's rules, or no cache there), fresh (stored already), in_flight (already being fetched), not_stored (known not to be), too_many, aborted (the page's client had gone).";
    CACHE_FIND_SECONDS = Histogram "carrick_cache_find_seconds" "Time of a cache look-up, hit or miss.";
    CACHE_FIRST_BYTE_SECONDS = Histogram "carrick_cache_first_byte_seconds" "From a request's first byte to the first of its answer, where the cache had it and the origin was not asked.";
    CACHE_OBJECTS = Gauge "carrick_cache_objects" "Objects in the cache.";
    CACHE_BYTES = Gauge "carrick_cache_bytes" "Bytes used by the cache, including removed objects that are still being sent.";
    CACHE_FILLS = Gauge "carrick_cache_fills" "Bodies being stored in the cache.";
    CACHE_EVICTIONS = Counter "carrick_cache_evictions" "Objects that had to make room, by queue: small (not asked for since they came), main.";
    CACHE_DISK_OBJECTS = Gauge "carrick_cache_disk_objects" "Objects on the cache's disk.";
    CACHE_DISK_BYTES = Gauge "carrick_cache_disk_bytes" "Bytes of the cache's files, in blocks of 4 KB, and of bodies that wait to be written.";
    CACHE_DISK_INDEXED = Gauge "carrick_cache_disk_indexed" "1 when all files that were there at the start are in the index, 0 before.";
    CACHE_DISK_LOADS = Counter "carrick_cache_disk_loads" "Objects loaded from the disk into memory; bodies only if short.";
    CACHE_DISK_LOADS_AT_ONCE = Counter "carrick_cache_disk_loads_at_once" "Of those, loads served from the page cache without a disk thread.";
    CACHE_DISK_SECONDS = Histogram "carrick_cache_disk_seconds" "Time that requests waited for a load from the disk, including checksum verification.";
    CACHE_DISK_WRITES = Counter "carrick_cache_disk_writes" "Objects written to the disk.";
    CACHE_DISK_WRITTEN = Counter "carrick_cache_disk_written_bytes" "Bytes of them, in blocks of 4 KB.";
    CACHE_DISK_REFUSED = Counter "carrick_cache_disk_refused" "Objects not written because the write queue was full.";
    CACHE_DISK_EVICTIONS = Counter "carrick_cache_disk_evictions" "Objects that had to make room on the disk, by queue: small (not asked for since they came), main.";
    CACHE_DISK_ERRORS = Counter "carrick_cache_disk_errors" "Disk errors, by kind: read and write (failed calls), damaged (corrupt files).";

    CACHE_PEER_ANSWERS = Counter "carrick_cache_peer_answers" "Requests to cache peers, by peer and result: hit, miss, refused (it answered something else), failed (it did not answer, or not to the end).";
    CACHE_PEER_UP = Gauge "carrick_cache_peer_up" "1 while the cache peer is used; 0 while it is skipped after a failure.";

    SHARED_REQUESTS = Counter "carrick_shared_requests" "Look-ups in the shared cache, by result: hit, miss, garbage (a value that carrick did not write), failed.";
    SHARED_WRITES = Counter "carrick_shared_writes" "Writes to the shared cache, by result: written, dropped (the queue was full), not_written (the server refused or failed).";
    SHARED_UP = Gauge "carrick_shared_up" "1 while the shared cache is used; 0 while it is skipped after a failure, or if there is none.";

    LINK_OPENED = Counter "carrick_link_connections_opened" "Connections opened to the other ends of links.";
    LINK_FAILED = Counter "carrick_link_connections_failed" "Connections to the other ends of links that could not be opened, or whose other end violated the protocol.";
    LINK_OPEN = Gauge "carrick_link_connections_open" "Open connections to the other ends of links, including idle ones.";
    LINK_IDLE = Gauge "carrick_link_connections_idle" "Idle connections to the other ends of links.";
    LINK_RELAYED = Counter "carrick_link_relayed" "Clients' connections that were sent over a link.";
    LINK_REUSED = Counter "carrick_link_reused" "Of these, those over a connection that had carried others before.";
    LINK_REFUSED = Counter "carrick_link_refused" "Of these, those that the other end refused.";
    LINK_LOST = Counter "carrick_link_lost" "Relayed connections that were reset because the connection over the link broke; at both ends.";
    LINK_DIRECT = Counter "carrick_link_direct" "Clients' connections that went directly to their servers, because there was no connection over their link.";
    LINK_MALFORMED = Counter "carrick_link_malformed" "Link connections closed because the other end violated the protocol; at both ends.";
    LINK_BYTES = Counter "carrick_link_bytes" "Relayed bytes received from and sent to the other ends of links; at both ends.";

    PACE_BYTES = Counter "carrick_pace_bytes" "Bytes passed, by class and by where they were paced: process or kernel.";
    PACE_YIELDS = Counter "carrick_pace_yields" "How often a splice waited for the worker's own work, by class.";
    PACE_RATE_WAITS = Counter "carrick_pace_rate_waits" "How often a splice waited because of a rate, by class.";
    PACE_KERNEL_HOLDS = Counter "carrick_pace_kernel_holds" "How often a kernel program delayed a splice, for either reason, by class.";
    PACE_WAITED = Counter "carrick_pace_waited_seconds" "Total time that splices in the process have waited, for either reason, by class.";
    PACE_OVERDUE = Counter "carrick_pace_overdue" "How often a splice continued because it had waited for hold_max, by class.";
    PACE_UNBOUNDED = Counter "carrick_pace_unbounded" "Splices without a rate of their own or of their client's network because all buckets were in use, by class.";
    SPLIT_CONNECTIONS = Counter "carrick_split_connections" "Connections of splitters that ended, by what they were: split, joined (end to end), mixed (joined late), unmeasured (they broke off or carried nothing).";
    SPLIT_DECISIONS = Counter "carrick_split_decisions" "Connections of splitters, by why they were split or joined; the reasons are in docs/internals/splitting.md.";
    SPLIT_REFUSED = Counter "carrick_split_joins_refused" "Connections of splitters whose joining the packet engine refused.";
    SPLIT_LEFT_OUT = Counter "carrick_split_pairs_left_out" "How often a pair of networks was excluded from interception for a while, because splitting gains nothing and its connections cannot be joined in time.";
    SPLIT_PAIRS = Gauge "carrick_split_pairs" "Pairs of networks in the path history.";
    SPLIT_PAIRS_EVICTED = Counter "carrick_split_pairs_evicted" "Pairs of networks evicted from the path history.";
    SPLIT_GAIN = Gauge "carrick_split_gain" "What splitting gains (GoS: 0.5 is half more throughput), by size of the connection; mean, and the bounds (low, high) of its confidence interval of 95 %. Only where enough was seen.";
    SPLIT_GAIN_SAMPLES = Gauge "carrick_split_gain_samples" "Connections by which that is known, split and joined ones; old ones count less.";

    PACE_SPLICES = Gauge "carrick_pace_splices" "Tunnels, and clients' connections for HTTP, that are paced now, by class.";
    WORKER_RUNNABLE = Counter "carrick_worker_runnable_seconds" "Time each worker had work of its own; measured for pacing.";
    WORKER_FORWARDING = Counter "carrick_worker_forwarding_seconds" "Time each worker forwarded bytes that pacing had delayed.";

    LIMIT = Gauge "carrick_limit" "Configured limits on resources, over all workers: connections, log_queue, dns_cache, pipes, socket_splices, packet_splices, split_pairs, stalled.";
    LIMIT_REACHED = Counter "carrick_limit_reached" "How often each limit was reached.";

    DNS_HITS = Counter "carrick_dns_cache_hits" "Names answered from a cache: the worker's own, or the control thread's.";
    DNS_LOOKUPS = Counter "carrick_dns_lookups" "Names looked up in the hosts file or at name servers, by result.";
    DNS_JOINED = Counter "carrick_dns_joined" "Look-ups that joined one already in progress.";
    DNS_NAMES = Gauge "carrick_dns_cache_names" "Names in the control thread's cache.";
    DNS_UNDER_WAY = Gauge "carrick_dns_lookups_under_way" "Look-ups in progress.";

    LOG_LINES = Counter "carrick_log_lines" "Access log lines written.";
    LOG_DROPPED = Counter "carrick_log_lines_dropped" "Access log lines lost, by reason: queue (the log thread could not keep up), write (the target refused them).";
    LOG_WAITING = Gauge "carrick_log_lines_waiting" "Access log lines waiting to be written.";
    MESSAGES_DROPPED = Counter "carrick_messages_dropped" "Messages lost because standard error did not accept them in time.";

    PROCESS_CPU = Counter "process_cpu_seconds" "User and system time of the process, without soft interrupts on its behalf.";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" "Resident memory of the process.";
    PROCESS_OPEN_FDS = Gauge "process_open_fds" "Open file descriptors.";
    PROCESS_MAX_FDS = Gauge "process_max_fds" "Limit on open file descriptors.";
    PROCESS_START = Gauge "process_start_time_seconds" "When the process started, in seconds since 1970.";
}
