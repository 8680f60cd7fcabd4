// Defers SYNs that a netfilter rule leads to a transparent listener, until the process knows whether the
// server accepts.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include "../common/bounds.h"
#include "syn_defer.h"

char _license[] SEC("license") = "GPL";

// The number of reader threads; each reads the flows that hash to it.
const volatile __u32 readers = 1;

// Whether only SYNs that have a socket are deferred.
const volatile __u32 assigned_only = 0;

// A reader without a heartbeat for this long is dead, or hangs.
const volatile __u64 unattended_ns = 1000000000;

// For as long as clients retransmit an unanswered SYN (tcp(7), `tcp_syn_retries`: 127 s).
#define REMEMBERED_NS (130ULL * 1000000000)

// linux/netfilter.h, linux/if.h, linux/if_arp.h
#define NF_DROP 0
#define NF_ACCEPT 1
#define LOOPBACK 8
#define ARPHRD_ETHER 1

// The fields of kernel structures that are read, relocated by name at load time (CO-RE).
struct net_device {
	unsigned int flags;
	int ifindex;
	unsigned short type;
} __attribute__((preserve_access_index));

struct sk_buff {
	void *sk;
	unsigned int len;
	__u32 mark;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	__u16 mac_header;
	unsigned int tail;
	unsigned char *head;
} __attribute__((preserve_access_index));

struct nf_hook_state {
	struct net_device *in;
} __attribute__((preserve_access_index));

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
} __attribute__((preserve_access_index));

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *dynptr) __ksym;
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SYN_ENTRIES_MAX);
	__type(key, struct syn_flow);
	__type(value, struct syn_entry);
} syn_entries SEC(".maps");

// The marks of the listeners.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SYN_MARKS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} syn_marks SEC(".maps");

struct syn_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SYN_RING_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SYN_READERS_MAX);
	__type(key, __u32);
	__array(values, struct syn_ring);
} syn_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syn_beats);
} syn_beats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syn_counts);
} syn_counts SEC(".maps");

// The record that describes the SYN to the process.
struct telling {
	struct syn_report told;
	__u8 packet[SYN_PACKET_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct telling);
} tellings SEC(".maps");

// Puts these types into the BTF.
struct syn_report *told_type __attribute__((unused));
struct syn_decision *decision_type __attribute__((unused));
enum syn_state state_type __attribute__((unused));
enum syn_answer answer_type __attribute__((unused));

enum kind {
	OTHER,          // no SYN
	NOT_UNDERSTOOD, // maybe a SYN
	DEFERRABLE,
};

// asm-generic/errno-base.h
#define EPERM 1

// Offset of the acknowledgement number in a TCP header.
#define ACKNOWLEDGEMENT_AT 8

// An ICMP error's own header, and its kinds (linux/icmp.h, linux/icmpv6.h).
#define ICMP_BYTES 8
#define ICMP_DEST_UNREACH 3
#define ICMPV6_DEST_UNREACH 1

// Offset and bits of the TCP flags.
#define FLAGS_AT 13
#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

// A byte of the packet's linear part, as the first one of a type that begins with bytes: one load, where
// `bpf_probe_read_kernel` takes three calls.
static __always_inline __u8 byte_at(const struct sk_buff *skb, __u32 at)
{
	const struct in6_addr *bytes = bpf_rdonly_cast(skb->head + at, bpf_core_type_id_kernel(struct in6_addr));

	return bytes->in6_u.u6_addr8[0];
}

// Whether a packet is certainly not a SYN. Nearly all packets are not, so this comes first and reads the
// packet once or twice. It is unknown if TCP's flags are outside the linear part, or behind IPv6 extension
// headers.
static __always_inline int is_no_syn(const struct sk_buff *skb)
{
	__u32 flags_at = skb->transport_header + FLAGS_AT;

	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		flags_at = skb->network_header + sizeof(struct ipv6hdr) + FLAGS_AT;
		if (byte_at(skb, skb->network_header + offsetof(struct ipv6hdr, nexthdr)) != IPPROTO_TCP)
			return 0;
	}
	return flags_at < skb->tail && (byte_at(skb, flags_at) & (FIN | SYN | RST | ACK)) != SYN;
}

// Parses a packet into `told`.
static __always_inline enum kind read_syn(const struct bpf_dynptr *packet, __u32 len, struct syn_report *told)
{
	__u32 tcp_at, ip_bytes;
	struct tcphdr tcp;
	__u8 version;

	if (bpf_dynptr_read(&version, 1, packet, 0, 0))
		return OTHER;
	__builtin_memset(&told->flow, 0, sizeof(told->flow));
	if (version >> 4 == 4) {
		struct iphdr ip;

		if (bpf_dynptr_read(&ip, sizeof(ip), packet, 0, 0) || ip.protocol != IPPROTO_TCP)
			return OTHER;
		if (ip.frag_off & bpf_htons(0x3fff) || ip.ihl < 5)
			return NOT_UNDERSTOOD;
		tcp_at = ip.ihl * 4;
		ip_bytes = bpf_ntohs(ip.tot_len);
		told->flow.client[2] = told->flow.server[2] = bpf_htonl(0xffff);
		told->flow.client[3] = ip.saddr;
		told->flow.server[3] = ip.daddr;
	} else {
		struct ipv6hdr ip;

		if (bpf_dynptr_read(&ip, sizeof(ip), packet, 0, 0))
			return OTHER;
		if (ip.nexthdr != IPPROTO_TCP)
			return NOT_UNDERSTOOD;
		tcp_at = sizeof(ip);
		ip_bytes = bpf_ntohs(ip.payload_len) + sizeof(ip);
		__builtin_memcpy(told->flow.client, &ip.saddr, sizeof(told->flow.client));
		__builtin_memcpy(told->flow.server, &ip.daddr, sizeof(told->flow.server));
	}
	if (bpf_dynptr_read(&tcp, sizeof(tcp), packet, tcp_at, 0))
		return OTHER;
	if (!tcp.syn || tcp.ack || tcp.rst || tcp.fin)
		return OTHER;
	if (ip_bytes > len || ip_bytes > SYN_PACKET_MAX || tcp_at + tcp.doff * 4 > ip_bytes || tcp.doff < 5)
		return NOT_UNDERSTOOD;
	told->flow.client_port = tcp.source;
	told->flow.server_port = tcp.dest;
	told->sequence = bpf_ntohl(tcp.seq);
	told->packet_bytes = ip_bytes;
	return DEFERRABLE;
}

// The reader of a flow.
static __always_inline __u32 reader_of(const struct syn_flow *flow)
{
	__u32 hash = (__u32)flow->client_port << 16 | flow->server_port, i;

	for (i = 0; i < 4; i++)
		hash = (hash ^ flow->client[i] ^ flow->server[i] << 7) * 0x9e3779b1;
	hash ^= hash >> 16;
	return readers ? hash % readers : 0;
}

static __always_inline int is_attended(__u32 reader, __u64 now)
{
	struct syn_beats *beats;
	__u64 beat, place = reader;
	__u32 zero = 0;

	beats = bpf_map_lookup_elem(&syn_beats, &zero);
	if (!beats)
		return 0;
	// The verifier no longer knows its bounds.
	asm volatile("" : "+r"(place));
	beat = *(volatile __u64 *)&beats->beat_ns[place & (SYN_READERS_MAX - 1)];
	// A beat may be later than `now`.
	return beat && (__s64)(now - beat) < (__s64)unattended_ns;
}

// Whether a rule has given the packet a socket (`nf_tproxy_assign_sock`).
static __always_inline int is_assigned(const struct sk_buff *skb)
{
	void *socket = NULL;

	// Read as a number: kernels differ in what they know of this pointer.
	return !bpf_core_read(&socket, sizeof(socket), &skb->sk) && socket;
}

// The addresses of the Ethernet header, for a direct reply.
static __always_inline void read_neighbours(struct sk_buff *skb, const struct net_device *in, struct syn_report *told)
{
	__builtin_memset(told->source, 0, sizeof(told->source));
	__builtin_memset(told->destination, 0, sizeof(told->destination));
	if (in->type != ARPHRD_ETHER || skb->network_header - skb->mac_header != ETH_HLEN)
		return;
	bpf_probe_read_kernel(told->destination, ETH_ALEN, skb->head + skb->mac_header);
	bpf_probe_read_kernel(told->source, ETH_ALEN, skb->head + skb->mac_header + ETH_ALEN);
}

// Reports a new SYN to the process. If that fails, the SYN passes, and so do its retransmissions.
static __always_inline int ask(struct bpf_nf_ctx *ctx, const struct bpf_dynptr *packet, struct telling *telling,
			       struct syn_counts *counts, __u64 now)
{
	struct syn_entry entry = {.since_ns = now,
				  .sequence = telling->told.sequence,
				  .state = SYN_WAITING,
				  .interface = ctx->state->in->ifindex};
	__u32 reader = reader_of(&telling->told.flow), bytes = telling->told.packet_bytes;
	void *ring;

	if (!is_attended(reader, now)) {
		counts->unattended += 1;
		goto pass;
	}
	if (!IS_WITHIN(bytes, sizeof(struct iphdr), SYN_PACKET_MAX) ||
	    bpf_dynptr_read(telling->packet, bytes, packet, 0, 0)) {
		counts->not_understood += 1;
		goto pass;
	}
	telling->told.mark = ctx->skb->mark;
	telling->told.interface = entry.interface;
	read_neighbours(ctx->skb, ctx->state->in, &telling->told);
	// The entry comes first: the process may decide at once.
	if (bpf_map_update_elem(&syn_entries, &telling->told.flow, &entry, BPF_ANY)) {
		counts->crowded += 1;
		return NF_ACCEPT;
	}
	ring = bpf_map_lookup_elem(&syn_rings, &reader);
	if (!ring || bpf_ringbuf_output(ring, telling, sizeof(telling->told) + bytes, 0)) {
		counts->crowded += 1;
		goto pass;
	}
	counts->deferred += 1;
	return NF_DROP;
pass:
	entry.state = SYN_RELEASED;
	bpf_map_update_elem(&syn_entries, &telling->told.flow, &entry, BPF_ANY);
	return NF_ACCEPT;
}

// Runs behind the rules that mark packets for a listener.
SEC("netfilter")
int carrick_syn_defer(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	__u32 mark = skb->mark, zero = 0;
	struct bpf_dynptr packet;
	struct syn_counts *counts;
	struct syn_entry *entry;
	struct telling *telling;
	__u64 now;

	if (!mark || is_no_syn(skb) || !bpf_map_lookup_elem(&syn_marks, &mark))
		return NF_ACCEPT;
	if (assigned_only && !is_assigned(skb))
		return NF_ACCEPT;
	// From this machine.
	if (!ctx->state->in || ctx->state->in->flags & LOOPBACK)
		return NF_ACCEPT;
	telling = bpf_map_lookup_elem(&tellings, &zero);
	counts = bpf_map_lookup_elem(&syn_counts, &zero);
	if (!telling || !counts || bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &packet))
		return NF_ACCEPT;
	switch (read_syn(&packet, skb->len, &telling->told)) {
	case OTHER:
		return NF_ACCEPT;
	case NOT_UNDERSTOOD:
		counts->not_understood += 1;
		return NF_ACCEPT;
	case DEFERRABLE:
		break;
	}
	now = bpf_ktime_get_ns();
	entry = bpf_map_lookup_elem(&syn_entries, &telling->told.flow);
	if (!entry || entry->sequence != telling->told.sequence || entry->state == SYN_REFUSED ||
	    now - entry->since_ns > REMEMBERED_NS)
		return ask(ctx, &packet, telling, counts, now);
	if (entry->state == SYN_RELEASED)
		return NF_ACCEPT;
	if (is_attended(reader_of(&telling->told.flow), now)) {
		counts->repeated += 1;
		return NF_DROP;
	}
	counts->unattended += 1;
	__sync_val_compare_and_swap(&entry->state, SYN_WAITING, SYN_RELEASED);
	return NF_ACCEPT;
}

// Records the process's decision, unless it is too late. Run by the process on a packet of its own.
SEC("tc")
int carrick_syn_decide(struct __sk_buff *skb)
{
	struct syn_decision decision;
	struct syn_entry *entry;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &decision, sizeof(decision)))
		return SYN_TOO_LATE;
	entry = bpf_map_lookup_elem(&syn_entries, &decision.flow);
	// If the entry was evicted, the client's next SYN is reported anew: the process creates no entries.
	if (!entry || entry->sequence != decision.sequence)
		return SYN_TOO_LATE;
	if (__sync_val_compare_and_swap(&entry->state, SYN_WAITING, decision.state) != SYN_WAITING)
		return SYN_TOO_LATE;
	if (!decision.state)
		bpf_map_delete_elem(&syn_entries, &decision.flow);
	return SYN_DONE;
}

// Reads addresses, ports and sequence number of the (possibly quoted) IP packet at `at`. Returns the offset
// of its TCP header, or 0.
static __always_inline __u32 read_flow(struct __sk_buff *skb, __u32 at, struct syn_flow *flow, __u32 *sequence)
{
	__u16 ports[2];
	__u8 version;

	__builtin_memset(flow, 0, sizeof(*flow));
	if (bpf_skb_load_bytes(skb, at, &version, 1))
		return 0;
	if (version >> 4 == 4) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.protocol != IPPROTO_TCP || ip.ihl < 5)
			return 0;
		flow->client[2] = flow->server[2] = bpf_htonl(0xffff);
		flow->client[3] = ip.saddr;
		flow->server[3] = ip.daddr;
		at += ip.ihl * 4;
	} else {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.nexthdr != IPPROTO_TCP)
			return 0;
		__builtin_memcpy(flow->client, &ip.saddr, sizeof(flow->client));
		__builtin_memcpy(flow->server, &ip.daddr, sizeof(flow->server));
		at += sizeof(ip);
	}
	if (bpf_skb_load_bytes(skb, at, ports, sizeof(ports)) || bpf_skb_load_bytes(skb, at + sizeof(ports), sequence, 4))
		return 0;
	flow->client_port = ports[0];
	flow->server_port = ports[1];
	*sequence = bpf_ntohl(*sequence);
	return at;
}

// Whether a SYN of this flow came in on this interface, with this number or up to `bytes_max` less, and
// `state` was decided for it.
static __always_inline int is_decided(const struct __sk_buff *skb, const struct syn_flow *flow, __u32 sequence, __u32 bytes_max,
				      __u32 state)
{
	struct syn_entry *entry = bpf_map_lookup_elem(&syn_entries, flow);

	return entry && entry->state == state && sequence - entry->sequence <= bytes_max && entry->interface == skb->ifindex;
}

// Whether a packet is a deferred SYN that was released.
static __always_inline int is_released(struct __sk_buff *skb)
{
	struct syn_flow flow;
	__u32 sequence, at;
	__u8 flags;

	at = read_flow(skb, ETH_HLEN, &flow, &sequence);
	return at && !bpf_skb_load_bytes(skb, at + FLAGS_AT, &flags, 1) && (flags & (FIN | SYN | RST | ACK)) == SYN &&
	       is_decided(skb, &flow, sequence, 0, SYN_RELEASED);
}

// Whether a packet refuses a deferred SYN: a RST, or an ICMP message that its server is unreachable, which
// quotes it.
static __always_inline int is_refusal(struct __sk_buff *skb)
{
	__u32 sequence, at, i;
	__u8 flags, kind = 0, version;
	struct syn_flow flow, told;

	at = read_flow(skb, ETH_HLEN, &flow, &sequence);
	if (at) {
		if (bpf_skb_load_bytes(skb, at + FLAGS_AT, &flags, 1) || !(flags & RST) || flags & SYN ||
		    bpf_skb_load_bytes(skb, at + ACKNOWLEDGEMENT_AT, &sequence, 4))
			return 0;
		__builtin_memcpy(told.client, flow.server, sizeof(told.client));
		__builtin_memcpy(told.server, flow.client, sizeof(told.server));
		told.client_port = flow.server_port;
		told.server_port = flow.client_port;
		// It acknowledges the SYN and its TCP Fast Open data.
		return is_decided(skb, &told, bpf_ntohl(sequence) - 1, SYN_PACKET_MAX, SYN_REFUSED);
	}
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &version, 1))
		return 0;
	if (version >> 4 == 4) {
		__u32 to;

		at = ETH_HLEN + sizeof(struct iphdr);
		if (bpf_skb_load_bytes(skb, at, &kind, 1) || kind != ICMP_DEST_UNREACH ||
		    !read_flow(skb, at + ICMP_BYTES, &told, &sequence) ||
		    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, daddr), &to, sizeof(to)) || to != told.client[3])
			return 0;
	} else {
		__u32 to[4];

		at = ETH_HLEN + sizeof(struct ipv6hdr);
		if (bpf_skb_load_bytes(skb, at, &kind, 1) || kind != ICMPV6_DEST_UNREACH ||
		    !read_flow(skb, at + ICMP_BYTES, &told, &sequence) ||
		    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, daddr), to, sizeof(to)))
			return 0;
		for (i = 0; i < 4; i++)
			if (to[i] != told.client[i])
				return 0;
	}
	return is_decided(skb, &told, sequence, 0, SYN_REFUSED);
}

// Sends a packet made by the process: a released SYN into the interface, as if it arrived again (`cb[0]` is
// not 0), or a refusal out of it. Nothing else, even if the process is compromised.
SEC("tc")
int carrick_syn_send(struct __sk_buff *skb)
{
	if (skb->cb[0] ? !is_released(skb) : !is_refusal(skb))
		return -EPERM;
	return bpf_clone_redirect(skb, skb->ifindex, skb->cb[0] ? BPF_F_INGRESS : 0);
}
