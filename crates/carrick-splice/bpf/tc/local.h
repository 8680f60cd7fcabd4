/* Reads the state of a local socket. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_LOCAL_H
#define CARRICK_TC_LOCAL_H

/* net/tcp_states.h */
#define ESTABLISHED 1
#define SYN_RECV 3
#define CLOSE_WAIT 8
#define LISTEN 10

/* Bytes of options in each segment of a connection with timestamps. */
#define TIMESTAMPS_BYTES 12

/* The fields of kernel structures that are read, relocated by name at load time (CO-RE). */
struct rb_root {
	void *rb_node;
} __attribute__((preserve_access_index));

struct sock {
	struct {
		void *tail;
	} sk_backlog;
	struct dst_entry *sk_dst_cache;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} __attribute__((preserve_access_index));

struct tcp_options_received {
	__u32 ts_recent;
	__u16 saw_tstamp : 1, tstamp_ok : 1, dsack : 1, wscale_ok : 1, sack_ok : 3, smc_ok : 1, snd_wscale : 4, rcv_wscale : 4;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 copied_seq;
	__u32 rcv_nxt;
	__u32 rcv_wnd;
	__u32 rcv_wup;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_wnd;
	__u32 write_seq;
	__u32 tsoffset;
	__u32 mss_cache;
	__u16 advmss;
	__u8 ecn_flags;
	__u8 tcp_usec_ts : 1;
	struct tcp_options_received rx_opt;
	struct rb_root out_of_order_queue;
	void *md5sig_info;
	void *ao_info;
} __attribute__((preserve_access_index));

/* The process's sockets. The kernel accepts an entry only with a descriptor of the socket, and removes it with the
 * socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} owned SEC(".maps");

/* Set when the programs are loaded for measurements or tests: connections without a socket are accepted, too. */
#ifndef TAKES_NOBODYS
const volatile __u32 takes_nobodys = 0;
#define TAKES_NOBODYS takes_nobodys
#endif

/* net/tcp.h: the two kinds of ECN, the second from Linux 6.18 on (RFC 3168, and accurate ECN). */
#define ECN_CLASSIC 1
#define ECN_ACCURATE 16

/* The state of a local socket. */
struct local {
	__u32 rcv_nxt;
	__u32 copied_seq; /* read by the process */
	__u32 snd_una;
	__u32 write_seq;
	__u32 window_end; /* right edge of the window advertised to its peer */
	__u32 offered_end; /* right edge of its peer's window */
	__u32 window;     /* its receive window */
	__u32 tsval;      /* the timestamp it would send when the clock stands at 0 */
	__u32 ts_recent;  /* its peer's latest timestamp */
	__u32 segment_bytes; /* longest segment its peer takes, options included */
	__u32 advertised_bytes; /* longest segment it takes */
	__u8 is_there;
	__u8 is_whole;   /* it has sequence numbers, in any state */
	__u8 is_established;
	__u8 is_half_closed; /* it has received its peer's FIN, and has not sent its own */
	__u8 is_opening; /* its peer sent data with the SYN (TCP Fast Open), and has not acknowledged the SYN-ACK yet */
	__u8 is_empty;   /* nothing to be received or sent */
	__u8 is_in_order; /* it holds nothing out of order or in its backlog */
	__u8 has_timestamps;
	__u8 has_sack;
	__u8 has_ecn;
	__u8 has_accurate_ecn;
	__u8 has_microseconds; /* in its timestamps */
	__u8 is_signed;
	__u8 own_shift;
	__u8 peer_shift;
};

/* A connection's local socket; also a listening one, where there is no other. To be released. */
static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb, const struct flow *flow, int is_ipv6)
{
	struct bpf_sock_tuple tuple = {};

	/* As in a packet from the peer. */
	if (is_ipv6) {
		__builtin_memcpy(tuple.ipv6.saddr, flow->peer, sizeof(tuple.ipv6.saddr));
		__builtin_memcpy(tuple.ipv6.daddr, flow->own, sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = flow->peer_port;
		tuple.ipv6.dport = flow->own_port;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	tuple.ipv4.saddr = flow->peer[3];
	tuple.ipv4.daddr = flow->own[3];
	tuple.ipv4.sport = flow->peer_port;
	tuple.ipv4.dport = flow->own_port;
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
}

/* Reads a local socket. (Not static, so that the verifier checks it once: for each
 * kernel field, it goes through all kernel types.) */
GLOBAL_FUNCTION int look_at(struct __sk_buff *skb, const struct packet_leg *leg, struct local *local)
{
	struct bpf_sock *socket;
	struct tcp_sock *tcp;

	if (!leg || !local)
		return 0;
	__builtin_memset(local, 0, sizeof(*local));
	socket = socket_of(skb, &leg->flow, leg->is_ipv6);
	if (!socket)
		return 0;
	/* The lookup also finds a listening socket. */
	local->is_there = socket->state != LISTEN;
	tcp = socket->state != LISTEN ? bpf_skc_to_tcp_sock(socket) : 0;
	if (tcp) {
		local->is_whole = 1;
		local->is_established = socket->state == ESTABLISHED;
		local->is_half_closed = socket->state == CLOSE_WAIT;
		local->is_opening = socket->state == SYN_RECV;
		local->rcv_nxt = tcp->rcv_nxt;
		local->write_seq = tcp->write_seq;
		local->snd_una = tcp->snd_una;
		local->copied_seq = tcp->copied_seq;
		local->is_in_order = !tcp->out_of_order_queue.rb_node && !tcp->inet_conn.icsk_inet.sk.sk_backlog.tail;
		local->is_empty = tcp->copied_seq == tcp->rcv_nxt && tcp->snd_nxt == tcp->write_seq &&
				  !tcp->out_of_order_queue.rb_node;
		local->window = tcp->rcv_wnd;
		local->window_end = tcp->rcv_wup + tcp->rcv_wnd;
		local->offered_end = tcp->snd_una + tcp->snd_wnd;
		local->has_timestamps = BPF_CORE_READ_BITFIELD(tcp, rx_opt.tstamp_ok);
		local->has_sack = BPF_CORE_READ_BITFIELD(tcp, rx_opt.sack_ok) != 0;
		local->own_shift = BPF_CORE_READ_BITFIELD(tcp, rx_opt.rcv_wscale);
		local->peer_shift = BPF_CORE_READ_BITFIELD(tcp, rx_opt.snd_wscale);
		local->tsval = tcp->tsoffset;
		local->ts_recent = tcp->rx_opt.ts_recent;
		local->segment_bytes = tcp->mss_cache + (local->has_timestamps ? TIMESTAMPS_BYTES : 0);
		local->advertised_bytes = tcp->advmss;
		local->has_ecn = tcp->ecn_flags & ECN_CLASSIC;
		local->has_accurate_ecn = !!(tcp->ecn_flags & ECN_ACCURATE);
		if (bpf_core_field_exists(tcp->tcp_usec_ts))
			local->has_microseconds = BPF_CORE_READ_BITFIELD(tcp, tcp_usec_ts);
		if (bpf_core_field_exists(tcp->md5sig_info))
			local->is_signed = tcp->md5sig_info != 0;
		if (bpf_core_field_exists(tcp->ao_info))
			local->is_signed |= tcp->ao_info != 0;
	}
	bpf_sk_release(socket);
	return 0;
}

/* The result of `look_for`: a program's stack is small. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct local);
} looked_at SEC(".maps");

/* Likewise, with one result at a time per CPU. */
static __always_inline struct local *look_for(struct __sk_buff *skb, const struct packet_leg *leg)
{
	__u32 zero = 0;
	struct local *local = bpf_map_lookup_elem(&looked_at, &zero);

	if (local)
		look_at(skb, leg, local);
	return local;
}

#endif
