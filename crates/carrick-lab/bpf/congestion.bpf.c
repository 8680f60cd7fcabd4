// TCP senders as they were, as congestion controls: what an ACK adds to the window is limited. Everything else is the kernel's
// Reno. The lab loads them, each under a name of the process that does, and unloads them when it ends.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// What it tells the kernel: its own congestion controls are functions for programs under the GPL only.
char _license[] SEC("license") = "GPL";

// include/net/tcp.h
#define TCP_CA_NAME_MAX 16

// RFC 2581, section 3.1: an ACK adds one segment, however much it acknowledges.
#define SEGMENTS_RFC2581 1
// RFC 3465, section 2.3: bytes are counted, but an ACK adds no more than two segments in slow start.
#define SEGMENTS_RFC3465 2

// The few fields of the kernel's structures that are read, found by their names when the program is loaded (CO-RE).
struct sock {
	int unused;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
} __attribute__((preserve_access_index));

// Found by name, too: what is left out stays empty.
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *socket);
	void (*cong_avoid)(struct sock *socket, __u32 ack, __u32 acknowledged);
	__u32 (*undo_cwnd)(struct sock *socket);
	char name[TCP_CA_NAME_MAX];
};

// net/ipv4/tcp_cong.c; Linux 5.13 and later.
extern __u32 tcp_reno_ssthresh(struct sock *socket) __ksym;
extern void tcp_reno_cong_avoid(struct sock *socket, __u32 ack, __u32 acknowledged) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *socket) __ksym;

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *socket)
{
	return tcp_reno_ssthresh(socket);
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(undo_cwnd, struct sock *socket)
{
	return tcp_reno_undo_cwnd(socket);
}

// Once for each ACK that acknowledges something new: so many segments.
SEC("struct_ops/count_acks")
void BPF_PROG(count_acks, struct sock *socket, __u32 ack, __u32 acknowledged)
{
	tcp_reno_cong_avoid(socket, ack, SEGMENTS_RFC2581);
}

SEC("struct_ops/count_bytes")
void BPF_PROG(count_bytes, struct sock *socket, __u32 ack, __u32 acknowledged)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)socket;
	__u32 window = BPF_CORE_READ(tcp, snd_cwnd);

	if (window < BPF_CORE_READ(tcp, snd_ssthresh) && acknowledged > SEGMENTS_RFC3465)
		acknowledged = SEGMENTS_RFC3465;
	tcp_reno_cong_avoid(socket, ack, acknowledged);
}

// The names are changed before it is loaded.
SEC(".struct_ops.link")
struct tcp_congestion_ops rfc2581 = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)count_acks,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "rfc2581_0000000",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops rfc3465 = {
	.ssthresh = (void *)ssthresh,
	.cong_avoid = (void *)count_bytes,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "rfc3465_0000000",
};
