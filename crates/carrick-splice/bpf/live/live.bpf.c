// Reports spliced sockets on each read: an iterator over the map. It takes no socket lock.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "live.h"
#include "../sockmap/sockmap.h"

// Some helpers require a GPL license.
char _license[] SEC("license") = "GPL";

// The fields of kernel structures that are read, relocated by name at load time (CO-RE).
struct sock_common {
	volatile unsigned char skc_state;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	int sk_wmem_queued;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u64 bytes_acked;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 srtt_us;
	__u32 mdev_us;
	__u32 snd_cwnd;
	__u32 total_retrans;
} __attribute__((preserve_access_index));

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__sockmap {
	struct bpf_iter_meta *meta;
	void *key;
	struct sock *sk;
} __attribute__((preserve_access_index));

// The map of sockmap/sockmap.bpf.c; the process passes its descriptor.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct direction);
} directions SEC(".maps");

// Initializes each record, and puts the type into the skeleton.
const volatile struct leg_record nothing_yet;

static __always_inline __u64 backlog_bytes(struct direction *way, struct tcp_sock *receiver)
{
	// In this order nothing handed over is missed; an acknowledgement in between counts twice for a moment.
	__u64 handed = *(volatile __u64 *)&way->forwarded_bytes + *(volatile __u64 *)&way->relayed_bytes;
	__u64 acked = *(volatile __u64 *)&receiver->bytes_acked;
	__u32 unacked = *(volatile __u32 *)&receiver->snd_una;
	__s64 backlog;

	unacked = *(volatile __u32 *)&receiver->write_seq - unacked;
	backlog = way->receiver_base + handed - acked - unacked;
	return backlog > 0 ? backlog : 0;
}

// TCP may update its numbers between reads, so a difference may be negative for a moment.
static __always_inline __u32 difference(__u32 later, __u32 earlier)
{
	return (__s32)(later - earlier) > 0 ? later - earlier : 0;
}

SEC("iter/sockmap")
int tell_of_leg(struct bpf_iter__sockmap *context)
{
	struct leg_record record = nothing_yet;
	struct sock *socket = context->sk;
	__u32 *index = context->key;
	struct direction *way;
	struct tcp_sock *tcp;
	__u32 from;

	if (!socket || !index)
		return 0;
	// This socket receives from its peer. The shelter has none.
	from = *index ^ 1;
	way = bpf_map_lookup_elem(&directions, &from);
	tcp = bpf_skc_to_tcp_sock(socket);
	if (!way || !tcp)
		return 0;
	record.index = *index;
	record.backlog_bytes = backlog_bytes(way, tcp);
	record.state = socket->__sk_common.skc_state;
	record.rtt_us = tcp->srtt_us >> 3;
	record.rtt_variation_us = tcp->mdev_us >> 2;
	record.retransmissions = tcp->total_retrans;
	record.congestion_window = tcp->snd_cwnd;
	record.in_flight_bytes = difference(tcp->snd_nxt, tcp->snd_una);
	record.unsent_bytes = difference(tcp->write_seq, tcp->snd_nxt);
	record.unread_bytes = difference(tcp->rcv_nxt, tcp->copied_seq);
	record.send_memory_bytes = difference(socket->sk_wmem_queued, 0);
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}
