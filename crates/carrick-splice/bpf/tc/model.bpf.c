// The packet engine's programs for the model in virtual time (src/engine/tc/tests/model): the same source,
// except that the model answers what they ask the kernel: the time, the state of local sockets, and which
// requests may be forwarded. Copies for a local socket (`bpf_clone_redirect`) go to the model.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include "tc.h"

// Longer than any frame of the model.
#define CLONE_BYTES 2048

struct tcp_sock;

// Replaces the classifier: the model says which requests are forwarded.
#define CARRICK_CLASSIFIER_H

struct parsed_head {
	__u32 upstream;
	__u32 method;
	__u64 response_bytes;
	__u32 interim_bytes;
	__u32 connection_at;
};

// Forwarded requests: their first bytes; their length, and where a line is that is left out (upper half).
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64);
	__type(value, __u32);
} model_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct parsed_head);
} model_parsed_heads SEC(".maps");

static __always_inline struct parsed_head *parsed_head(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&model_parsed_heads, &zero);
}

static __always_inline int is_for_host(const struct parsed_head *parsed, const struct request_fields *fields)
{
	return 1;
}

static __always_inline __u32 choices_of(__u32 upstream)
{
	return 0;
}

static __always_inline int classify_request(struct __sk_buff *skb, __u32 payload_at, __u32 payload_bytes, __u32 number,
					    __u32 generation)
{
	struct parsed_head *parsed;
	__u64 first = 0;
	__u32 *bytes;

	if (bpf_skb_load_bytes(skb, payload_at, &first, sizeof(first)))
		return -1;
	bytes = bpf_map_lookup_elem(&model_requests, &first);
	parsed = parsed_head();
	if (!bytes || !parsed || (*bytes & 0xffff) != payload_bytes)
		return -1;
	parsed->connection_at = *bytes >> 16;
	return 0;
}

// Responses: their first bytes, and their length.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64);
	__type(value, __u64);
} model_responses SEC(".maps");

static __always_inline int measure_response(struct __sk_buff *skb, __u32 at, __u32 bytes, __u32 method)
{
	struct parsed_head *parsed = parsed_head();
	__u64 first = 0, *length;
	__u8 status[12] = {}, end[4] = {};

	if (!parsed || bpf_skb_load_bytes(skb, at, &first, sizeof(first)))
		return 0;
	// An interim head fills its packet; what follows 101 is no longer HTTP.
	parsed->interim_bytes = 0;
	if (bytes >= 16 && !bpf_skb_load_bytes(skb, at, status, sizeof(status)) && !bpf_skb_load_bytes(skb, at + bytes - 4, end, sizeof(end)) &&
	    status[0] == 'H' && status[9] == '1' && status[11] != '1' && end[0] == '\r' && end[1] == '\n' && end[2] == '\r' && end[3] == '\n')
		parsed->interim_bytes = bytes;
	length = bpf_map_lookup_elem(&model_responses, &first);
	if (!length)
		return 0;
	parsed->response_bytes = *length;
	return 1;
}

// As in http/classifier.h.
struct telling {
	__u64 time_ns;
	__u64 sent_bytes;
	__u64 told_end;
	__u64 told_as;
	__u32 place;
	__u32 told_status;
};

static __always_inline int tell_request(const struct telling *telling)
{
	return 1;
}

static __u64 model_now(void);
static struct bpf_sock *model_lookup(const struct bpf_sock_tuple *tuple, __u32 tuple_bytes);
static struct tcp_sock *model_tcp(struct bpf_sock *socket);
static long model_clone(struct __sk_buff *skb);

#define bpf_ktime_get_ns() model_now()
// Uses the context, so that functions get it.
#define bpf_skc_lookup_tcp(skb, tuple, bytes, netns, flags) ({ asm volatile("" : : "r"(skb)); model_lookup(tuple, bytes); })
#define bpf_skc_to_tcp_sock(socket) model_tcp(socket)
#define bpf_sk_release(socket) ((void)(socket))
#define bpf_clone_redirect(skb, ifindex, flags) model_clone(skb)
// Structures have the layout given here, not the running kernel's.
#define preserve_access_index unused
#undef BPF_CORE_READ_BITFIELD
#define BPF_CORE_READ_BITFIELD(structure, field) ((structure)->field)
#undef bpf_core_field_exists
#define bpf_core_field_exists(field) 0
#undef bpf_ksym_exists
#define bpf_ksym_exists(function) 0

// There are no sockets, and the model writes to the maps.
#define TAKES_NOBODYS 1
#define PROCESS_ACCESS 0

#include "tc.bpf.c"

// The model's local socket.
struct model_socket {
	__u32 state; /* net/tcp_states.h */
	__u32 copied_seq;
	__u32 rcv_nxt;
	__u32 rcv_wnd;
	__u32 rcv_wup;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_wnd;
	__u32 write_seq;
	__u32 tsoffset;
	__u32 ts_recent;
	__u32 mss_cache;
	__u32 advmss;
	__u32 has_timestamps;
	__u32 has_sack;
	__u32 own_shift;
	__u32 peer_shift;
	__u32 is_out_of_order;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, struct flow);
	__type(value, struct model_socket);
} model_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} model_clock SEC(".maps");

// The latest frame for a local socket. The reader sets its length to 0.
struct model_frame {
	__u32 bytes;
	__u8 frame[CLONE_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct model_frame);
} model_clones SEC(".maps");

// A local socket as the programs see it.
struct model_seen {
	struct bpf_sock socket;
	struct tcp_sock tcp;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct model_seen);
} model_seen SEC(".maps");

static __always_inline __u64 model_now(void)
{
	__u32 zero = 0;
	__u64 *now = bpf_map_lookup_elem(&model_clock, &zero);

	return now ? *now : 0;
}

static __always_inline struct bpf_sock *model_lookup(const struct bpf_sock_tuple *tuple, __u32 tuple_bytes)
{
	struct model_socket *socket;
	struct model_seen *seen;
	struct flow flow = {};
	struct tcp_sock *tcp;
	__u32 zero = 0;

	if (tuple_bytes == sizeof(tuple->ipv6)) {
		__builtin_memcpy(flow.own, tuple->ipv6.daddr, sizeof(flow.own));
		__builtin_memcpy(flow.peer, tuple->ipv6.saddr, sizeof(flow.peer));
		flow.own_port = tuple->ipv6.dport;
		flow.peer_port = tuple->ipv6.sport;
	} else {
		flow.own[2] = flow.peer[2] = bpf_htonl(0xffff);
		flow.own[3] = tuple->ipv4.daddr;
		flow.peer[3] = tuple->ipv4.saddr;
		flow.own_port = tuple->ipv4.dport;
		flow.peer_port = tuple->ipv4.sport;
	}
	socket = bpf_map_lookup_elem(&model_sockets, &flow);
	seen = bpf_map_lookup_elem(&model_seen, &zero);
	if (!socket || !seen)
		return 0;
	tcp = &seen->tcp;
	__builtin_memset(tcp, 0, sizeof(*tcp));
	seen->socket.state = socket->state;
	tcp->copied_seq = socket->copied_seq;
	tcp->rcv_nxt = socket->rcv_nxt;
	tcp->rcv_wnd = socket->rcv_wnd;
	tcp->rcv_wup = socket->rcv_wup;
	tcp->snd_una = socket->snd_una;
	tcp->snd_nxt = socket->snd_nxt;
	tcp->snd_wnd = socket->snd_wnd;
	tcp->write_seq = socket->write_seq;
	tcp->tsoffset = socket->tsoffset;
	tcp->mss_cache = socket->mss_cache;
	tcp->advmss = socket->advmss;
	tcp->rx_opt.ts_recent = socket->ts_recent;
	tcp->rx_opt.tstamp_ok = socket->has_timestamps;
	tcp->rx_opt.sack_ok = socket->has_sack;
	tcp->rx_opt.rcv_wscale = socket->own_shift;
	tcp->rx_opt.snd_wscale = socket->peer_shift;
	tcp->out_of_order_queue.rb_node = (void *)(unsigned long)socket->is_out_of_order;
	return &seen->socket;
}

static __always_inline struct tcp_sock *model_tcp(struct bpf_sock *socket)
{
	return &((struct model_seen *)socket)->tcp;
}

static __always_inline long model_clone(struct __sk_buff *skb)
{
	__u32 zero = 0, bytes = skb->len;
	struct model_frame *clone = bpf_map_lookup_elem(&model_clones, &zero);

	if (!clone || !IS_WITHIN(bytes, 1, CLONE_BYTES) || bpf_skb_load_bytes(skb, 0, clone->frame, bytes))
		return -1;
	clone->bytes = bytes;
	return 0;
}
