// The socket engine: redirects what one socket receives to its peer in the kernel, while the peer has room
// for it.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "sockmap.h"
#include "../pacing/pacing.h"

// Some helpers require a GPL license.
char _license[] SEC("license") = "GPL";

// The most that a piece costs in the receiver's send buffer beyond its bytes: a socket buffer of its own, and
// one more per 16 KB (PIECE_COST_BYTES << BYTES_PER_COST_BYTE_SHIFT; 17 fragments of one segment:
// tcp_stream_alloc_skb, MAX_SKB_FRAGS).
#define PIECE_COST_BYTES 2048
#define BYTES_PER_COST_BYTE_SHIFT 3

// The most pieces that may wait for the receiver's TCP: bounds the memory of many tiny pieces.
#define PIECES_MAX 64

// In a TCP header (RFC 9293 section 3.1): the offset of the flags, and the FIN flag.
#define TCP_FLAGS_OFFSET 13
#define TCP_FIN 1

// The most that bpf_skb_adjust_room removes per call, and how many calls cover the largest piece: TCP merges
// queued segments, up to 17 fragments of 32 KB (tcp_try_coalesce, MAX_SKB_FRAGS), and sometimes more.
#define CUT_BYTES_MAX 0xfff
#define CUTS_MAX 256

// A socket filter's verdict to keep a packet whole.
#define WHOLE -1

// One direction at a time is sheltered, so this bounds all of them.
#define SHELTERED_BYTES_MAX (64 << 20)

// The fields of kernel structures that are read, relocated by name at load time (CO-RE).
struct netns_ipv4 {
	unsigned int sysctl_tcp_notsent_lowat;
} __attribute__((preserve_access_index));

struct net {
	struct netns_ipv4 ipv4;
} __attribute__((preserve_access_index));

struct sock_common {
	struct {
		struct net *net;
	} skc_net;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	int sk_wmem_queued;
	int sk_sndbuf;
} __attribute__((preserve_access_index));

struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_acked;
	__u32 copied_seq;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 notsent_lowat;
} __attribute__((preserve_access_index));

struct tcp_skb_cb {
	__u32 seq;
} __attribute__((preserve_access_index));

struct sk_buff {
	char cb[48];
} __attribute__((preserve_access_index));

// The sockets of splice n at 2n and 2n + 1; the shelter behind all of them. The process sets the sizes of all
// maps when it loads them.
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

// The receivers of one-way splices, indexed like the sender's peer. This map has no program: what these
// sockets receive stays with them.
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} receivers SEC(".maps");

// A socket's cookie, and its index in `sockets` and `directions`.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, __u64);
	__type(value, __u32);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct direction);
} directions SEC(".maps");

// Directions whose process must wake up. A direction is queued once per wait, so there is room for all. The
// process sets the size.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

// Whether the receiver's TCP can take its backlog and `bytes` more before the receiver reads. Only then is
// the backlog short, and nothing behind it is held up.
static __always_inline int has_room(struct direction *way, struct tcp_sock *receiver, __u64 bytes)
{
	// In this order, an acknowledgement in between makes the backlog look larger, never smaller.
	__u64 acked = *(volatile __u64 *)&receiver->bytes_acked;
	__u32 unacked = *(volatile __u32 *)&receiver->snd_una, unsent = *(volatile __u32 *)&receiver->snd_nxt;
	__u32 unsent_max = receiver->notsent_lowat, pieces;
	__s64 written, backlog, cost;

	unsent = receiver->write_seq - unsent;
	unacked = receiver->write_seq - unacked;
	if (!unsent_max)
		unsent_max = receiver->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->ipv4.sysctl_tcp_notsent_lowat;
	written = acked + unacked - way->receiver_base;
	backlog = way->forwarded_bytes + way->relayed_bytes - written;
	if (backlog <= 0) {
		backlog = 0;
		way->pieces_before = 0;
		way->pieces_since = 0;
		way->mark_bytes = way->forwarded_bytes;
	} else if (written >= (__s64)(way->mark_bytes + way->relayed_bytes)) {
		way->pieces_before = way->pieces_since;
		way->pieces_since = 0;
		way->mark_bytes = way->forwarded_bytes;
	}
	pieces = way->pieces_before + way->pieces_since;
	backlog += bytes;
	if (pieces >= PIECES_MAX || backlog > (__s64)way->backlog_max)
		return 0;
	// Beyond it (tcp_stream_memory_free), the kernel tries again each tick for as long as the receiver does not read.
	if (unsent + backlog > unsent_max)
		return 0;
	cost = backlog + (backlog >> BYTES_PER_COST_BYTE_SHIFT) + (__s64)(pieces + 1) * PIECE_COST_BYTES;
	return receiver->inet_conn.icsk_inet.sk.sk_wmem_queued + cost <=
	       receiver->inet_conn.icsk_inet.sk.sk_sndbuf;
}

struct cut {
	struct __sk_buff *skb;
	__u32 left; /* bytes */
};

// Cuts a part off the beginning of a piece. A callback of bpf_loop(): not 0 if done, or if it fails.
static long cut_a_part(__u32 number, void *context)
{
	struct cut *cut = context;
	__u32 part = cut->left < CUT_BYTES_MAX ? cut->left : CUT_BYTES_MAX;

	if (bpf_skb_adjust_room(cut->skb, -(__s32)part, 0, 0))
		return 1;
	cut->left -= part;
	return !cut->left;
}

// Makes the piece begin where the last one ended: a retransmission with new bytes, or a buffer that was read
// in part, is queued whole, but tcp_read_skb has no offset. False if it cannot, and the splice is broken.
static __always_inline int begins_anew(struct __sk_buff *skb, struct direction *way)
{
	struct tcp_skb_cb *control = (void *)&((struct sk_buff *)skb)->cb;
	struct tcp_sock *sender = 0;
	__u32 seq, repeated;

	if (bpf_probe_read_kernel(&seq, sizeof(seq), &control->seq))
		goto broken;
	if (!way->is_begun) {
		if (skb->sk)
			sender = bpf_skc_to_tcp_sock(skb->sk);
		if (!sender)
			goto broken;
		way->next_seq = sender->copied_seq;
		way->is_begun = 1;
	}
	repeated = way->next_seq - seq;
	if (repeated) {
		// Also if it wraps below 0: then bytes are missing.
		if (repeated >= skb->len)
			goto broken;
		struct cut cut = { .skb = skb, .left = repeated };

		bpf_loop(CUTS_MAX, cut_a_part, &cut, 0);
		if (cut.left)
			goto broken;
	}
	way->next_seq += skb->len;
	return 1;
broken:
	way->gap = 1;
	return 0;
}

// Wakes the process if it waits: it has work in this direction that no other event reports.
static __always_inline void tell(struct direction *way, __u32 own)
{
	__u32 wake = *(volatile __u32 *)&way->wake;

	if (wake && way->told != wake && !bpf_ringbuf_output(&events, &own, sizeof(own), 0))
		way->told = wake;
}

// Whether pacing allows a piece now. Otherwise it is left to the process, which waits: the piece stays in the
// sender's queue and closes its window.
static __always_inline int keeps_pace(const struct direction *way, __u64 bytes)
{
	struct pace_block *block = pace_find(way->pace);
	struct pace_class *class;

	if (!block || pace_left_of(block, way->pace, bpf_ktime_get_ns(), 0) >= bytes)
		return 1;
	class = pace_class_of(block, way->pace);
	if (class)
		__sync_fetch_and_add(&class->held, 1);
	return 0;
}

// Whether `bytes` more make one side's run too long: the kernel path suits chatter, not bulk.
static __always_inline int is_bulk(struct direction *way, __u32 peer, __u64 bytes)
{
	struct direction *other;
	__u64 answered;

	if (!way->run_bytes_max)
		return 0;
	other = bpf_map_lookup_elem(&directions, &peer);
	if (!other)
		return 0;
	answered = *(volatile __u64 *)&other->forwarded_bytes;
	if (answered != way->run_answered) {
		way->run_answered = answered;
		way->run_start = way->forwarded_bytes;
	}
	return way->forwarded_bytes - way->run_start + bytes > way->run_bytes_max;
}

SEC("sk_skb/stream_verdict")
int splice_verdict(struct __sk_buff *skb)
{
	__u64 cookie, bytes, look;
	struct tcp_sock *tcp;
	struct direction *way;
	struct bpf_sock *receiver;
	__u32 *place, own, peer, shelter, only_receives;
	int fits = 0;
	long redirected;

	// A FIN without data. TCP has recorded it already; passed up behind a backlog, it would break the connection
	// (sk_psock_backlog treats a piece of length 0 as an error).
	if (!skb->len)
		return SK_DROP;
	cookie = bpf_get_socket_cookie(skb);
	place = bpf_map_lookup_elem(&places, &cookie);
	if (!place)
		return SK_PASS;
	own = *place;
	peer = own ^ 1;
	way = bpf_map_lookup_elem(&directions, &own);
	if (!way)
		return SK_PASS;
	if (!begins_anew(skb, way)) {
		tell(way, own);
		return SK_DROP;
	}
	bytes = skb->len;
	// The process is removing this socket from the map, which would lose everything queued here.
	shelter = *(volatile __u32 *)&way->shelter;
	if (shelter) {
		// This takes microseconds unless the process is stopped just then. What exceeds the shelter is lost, and
		// the splice broken.
		if (way->sheltered_bytes + bytes > SHELTERED_BYTES_MAX ||
		    bpf_sk_redirect_map(skb, &sockets, shelter - 1, BPF_F_INGRESS) != SK_PASS) {
			way->gap = 1;
			return SK_DROP;
		}
		way->sheltered_bytes += bytes;
		return SK_PASS;
	}
	// Data that the process holds must not be overtaken.
	if (!*(volatile __u32 *)&way->redirecting ||
	    way->passed_bytes != *(volatile __u64 *)&way->relayed_bytes)
		goto pass;
	// The process cuts a piece that extends beyond the boundary.
	if (way->forwarded_bytes + way->passed_bytes + bytes > way->bytes_max)
		goto pass;
	if (is_bulk(way, peer, bytes))
		goto pass;
	if (!keeps_pace(way, bytes))
		goto pass;
	only_receives = way->only_receives;
	if (only_receives)
		receiver = bpf_map_lookup_elem(&receivers, &peer);
	else
		receiver = bpf_map_lookup_elem(&sockets, &peer);
	if (!receiver)
		goto pass;
	tcp = bpf_skc_to_tcp_sock(receiver);
	if (tcp)
		fits = has_room(way, tcp, bytes);
	bpf_sk_release(receiver);
	if (!fits)
		goto pass;
	if (only_receives)
		redirected = bpf_sk_redirect_map(skb, &receivers, peer, 0);
	else
		redirected = bpf_sk_redirect_map(skb, &sockets, peer, 0);
	if (redirected != SK_PASS)
		goto pass;
	way->pieces_since += 1;
	if (way->pace)
		pace_take(pace_find(way->pace), way->pace, bytes, 0, bpf_ktime_get_ns());
	// With a barrier: either the program sees that the process waits, or the process sees these bytes.
	__sync_fetch_and_add(&way->forwarded_bytes, bytes);
	// A socket whose queue is empty again is not readable, so epoll does not report it.
	look = *(volatile __u64 *)&way->look_bytes;
	if (way->forwarded_bytes + way->passed_bytes == way->bytes_max || (look && way->forwarded_bytes >= look))
		tell(way, own);
	return SK_PASS;
pass:
	// With a barrier, as above.
	__sync_fetch_and_add(&way->passed_bytes, bytes);
	// Otherwise epoll reports it.
	if (*(volatile __u32 *)&way->is_asleep)
		tell(way, own);
	return SK_PASS;
}

// Attached to a socket while it leaves the map. A high SO_RCVLOWAT keeps arriving data in its queue without
// calling the verdict program, except with a FIN (tcp_data_ready, SOCK_DONE): data with a FIN that arrived
// while the map unlinks the socket would be lost. So the filter drops it, and the sender retransmits it.
SEC("socket")
int hold_end(struct __sk_buff *skb)
{
	__u8 flags;

	// A TCP socket's filter gets the segment from its TCP header on.
	if (bpf_skb_load_bytes(skb, TCP_FLAGS_OFFSET, &flags, sizeof(flags)))
		return WHOLE;
	return flags & TCP_FIN ? 0 : WHOLE;
}
