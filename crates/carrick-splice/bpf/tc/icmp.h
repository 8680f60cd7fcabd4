/* Forwards "packet too big" messages (RFC 1191, RFC 8201) to the sender of the packet, in its own numbers; and
 * reports expired packets. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_ICMP_H
#define CARRICK_TC_ICMP_H

#define ICMP_UNREACHABLE 3
#define ICMP_TOO_LONG 4
#define ICMPV6_TOO_LONG 2
#define ICMP_EXPIRED 11
#define ICMPV6_EXPIRED 3
#define ICMP_HOPS 64

/* Minimum interval between reports of expired packets, per CPU. */
#define EXPIRED_NS 1000000ULL

/* ICMP header: type, code, checksum, and the MTU. */
#define MESSAGE_HEADER_BYTES 8
#define MESSAGE_CHECKSUM_AT 2

/* The part of the TCP header that every message quotes (RFC 792). */
struct quoted {
	__u16 source_port;
	__u16 destination_port;
	__u32 seq;
};

/* A message. In a map, since a program's stack is small. */
struct message {
	struct flow flow;  /* of the quoted packet, which was sent from `own` */
	struct flow to;    /* of the connection whose peer gets the message */
	__u32 ifindex;     /* by which it does */
	__u32 is_ipv6;
	__u32 message_at;
	__u32 packet_at;   /* offset of the quoted IP header */
	__u32 tcp_at;      /* offset of the quoted TCP header */
	struct quoted tcp;
	struct quoted new_tcp;
	__u32 source[4];   /* the router's address; IPv4 in the last word */
	__u32 old[8];
	__u32 new[8];
	struct iphdr ip;
	__u32 difference;  /* added to the quoted number, it gives the sender's own */
	__u32 direction;   /* the connection's number, as in `flows` */
	__u64 expired_ns;  /* when an expired packet was last reported */
	__u8 text[128];    /* headers of a message made here; `quoted` is its body */
	__u8 quoted[128];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct message);
} messages SEC(".maps");

static __always_inline int read_message_v4(struct __sk_buff *skb, struct message *message)
{
	struct iphdr *ip = &message->ip;
	__u16 kind = 0;
	__u32 to;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, ip, sizeof(*ip)) || ip->protocol != IPPROTO_ICMP || ip->version != 4 || ip->ihl < 5 ||
	    ip->frag_off & bpf_htons(0x3fff))
		return 0;
	message->message_at = ETH_HLEN + ip->ihl * 4;
	message->packet_at = message->message_at + MESSAGE_HEADER_BYTES;
	message->source[3] = ip->saddr;
	to = ip->daddr;
	if (bpf_skb_load_bytes(skb, message->message_at, &kind, sizeof(kind)) ||
	    kind != bpf_htons(ICMP_UNREACHABLE << 8 | ICMP_TOO_LONG) ||
	    bpf_skb_load_bytes(skb, message->packet_at, ip, sizeof(*ip)) || ip->protocol != IPPROTO_TCP || ip->version != 4 ||
	    ip->ihl < 5 || ip->frag_off & bpf_htons(0x1fff) || ip->saddr != to)
		return 0;
	message->tcp_at = message->packet_at + ip->ihl * 4;
	message->flow.own[2] = message->flow.peer[2] = bpf_htonl(0xffff);
	message->flow.own[3] = ip->saddr;
	message->flow.peer[3] = ip->daddr;
	return 1;
}

static __always_inline int read_message_v6(struct __sk_buff *skb, struct message *message)
{
	__u32 *source = message->old, *to = message->old + 4;
	__u8 kind = 0, next = 0;

	message->is_ipv6 = 1;
	message->message_at = ETH_HLEN + sizeof(struct ipv6hdr);
	message->packet_at = message->message_at + MESSAGE_HEADER_BYTES;
	message->tcp_at = message->packet_at + sizeof(struct ipv6hdr);
	if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, 1) || next != IPPROTO_ICMPV6 ||
	    bpf_skb_load_bytes(skb, message->message_at, &kind, 1) || kind != ICMPV6_TOO_LONG ||
	    bpf_skb_load_bytes(skb, message->packet_at + offsetof(struct ipv6hdr, nexthdr), &next, 1) || next != IPPROTO_TCP ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, saddr), message->old, sizeof(message->old)) ||
	    bpf_skb_load_bytes(skb, message->packet_at + offsetof(struct ipv6hdr, saddr), message->new, sizeof(message->new)))
		return 0;
	__builtin_memcpy(message->source, source, sizeof(message->source));
	__builtin_memcpy(message->flow.own, message->new, sizeof(message->flow.own));
	__builtin_memcpy(message->flow.peer, message->new + 4, sizeof(message->flow.peer));
	return to[0] == message->flow.own[0] && to[1] == message->flow.own[1] && to[2] == message->flow.own[2] &&
	       to[3] == message->flow.own[3];
}

/* Parses a message. False if it is not about a packet that was too long and sent from here. */
static __always_inline int read_message(struct __sk_buff *skb, struct message *message)
{
	int is_message = 0;

	message->is_ipv6 = 0;
	message->flow.own[0] = message->flow.own[1] = message->flow.peer[0] = message->flow.peer[1] = 0;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		is_message = read_message_v4(skb, message);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		is_message = read_message_v6(skb, message);
	if (!is_message || bpf_skb_load_bytes(skb, message->tcp_at, &message->tcp, sizeof(message->tcp)))
		return 0;
	message->flow.own_port = message->tcp.source_port;
	message->flow.peer_port = message->tcp.destination_port;
	return 1;
}

/* The recipient: the other peer, if it has sent the packet and that is in flight; otherwise the local socket. Both
 * check the number: one that is not in flight is forged or outdated (RFC 5927 section 4.1). */
static __always_inline enum fate fate_of_message(const struct packet_splice *splice, struct message *message)
{
	__u32 side = message->direction & 1, seq = bpf_ntohl(message->tcp.seq);
	const struct packet_leg *leg = &splice->legs[side];
	const struct packet_way *way = &splice->ways[~side & 1];
	__u32 start = way->acked, end = way->end, delta = way->delta;

	if (!is_of_leg(leg, message->flow.own_port, message->flow.peer_port, message->flow.peer[3]))
		return FATE_DROP;
	message->difference = -leg->send_offset;
	if (splice->state == PACKET_PROCESS || splice->state == PACKET_DUE)
		return FATE_LOCAL;
	/* The local socket retransmits its own data. */
	if (!is_before(seq, leg->local_acked) && is_before(seq, leg->local_end))
		return FATE_LOCAL;
	/* In RESPONSES only requests are forwarded to the server, with their own offset. */
	if (side && splice->state != PACKET_SPLICED && !is_over(splice)) {
		start = splice->legs[0].received;
		end = splice->classified_end;
		delta = splice->classified_delta;
	}
	if (is_before(seq - delta, start) || !is_before(seq - delta, end))
		return FATE_LOCAL;
	message->difference = -delta;
	message->to = splice->legs[~side & 1].flow;
	message->ifindex = splice->legs[~side & 1].ifindex;
	return FATE_FORWARD;
}

/* Writes the sender's sequence number and the ports into the quoted packet. */
static __always_inline int write_quoted(struct __sk_buff *skb, struct message *message, __u16 source_port, __u16 destination_port)
{
	struct quoted *new = &message->new_tcp;
	__s64 difference;

	new->source_port = source_port;
	new->destination_port = destination_port;
	new->seq = bpf_htonl(bpf_ntohl(message->tcp.seq) + message->difference);
	difference = bpf_csum_diff((__be32 *)&message->tcp, sizeof(*new), (__be32 *)new, sizeof(*new), 0);
	return !bpf_skb_store_bytes(skb, message->tcp_at, new, sizeof(*new), 0) &&
	       !bpf_l4_csum_replace(skb, message->message_at + MESSAGE_CHECKSUM_AT, 0, difference, 0);
}

/* Writes both addresses into an IPv4 header and its checksum. The message's checksum stays right. */
static __always_inline int write_ipv4(struct __sk_buff *skb, struct message *message, __u32 at, __u32 old_source,
				      __u32 old_destination, __u32 source, __u32 destination)
{
	__s64 difference;

	message->old[0] = old_source;
	message->old[1] = old_destination;
	message->new[0] = source;
	message->new[1] = destination;
	difference = bpf_csum_diff(message->old, 8, message->new, 8, 0);
	return !bpf_skb_store_bytes(skb, at + offsetof(struct iphdr, saddr), message->new, 8, 0) &&
	       !bpf_l3_csum_replace(skb, at + offsetof(struct iphdr, check), 0, difference, 0);
}

/* The same for IPv6. The message's checksum is over both the quoted addresses and its own. */
static __always_inline int write_ipv6(struct __sk_buff *skb, struct message *message, __u32 at, const __u32 *old_source,
				      const __u32 *old_destination, const __u32 *source, const __u32 *destination)
{
	__s64 difference;

	__builtin_memcpy(message->old, old_source, 16);
	__builtin_memcpy(message->old + 4, old_destination, 16);
	__builtin_memcpy(message->new, source, 16);
	__builtin_memcpy(message->new + 4, destination, 16);
	difference = bpf_csum_diff(message->old, sizeof(message->old), message->new, sizeof(message->new), 0);
	return !bpf_skb_store_bytes(skb, at + offsetof(struct ipv6hdr, saddr), message->new, sizeof(message->new), 0) &&
	       !bpf_l4_csum_replace(skb, message->message_at + MESSAGE_CHECKSUM_AT, 0, difference, 0);
}

/* Turns it into a message to the other peer about that peer's own packet, as if this host were the router. */
static __always_inline int turn_message(struct __sk_buff *skb, struct message *message)
{
	const struct flow *old = &message->flow, *flow = &message->to;

	if (!write_quoted(skb, message, flow->peer_port, flow->own_port))
		return 0;
	if (message->is_ipv6)
		return write_ipv6(skb, message, message->packet_at, old->own, old->peer, flow->peer, flow->own) &&
		       write_ipv6(skb, message, ETH_HLEN, message->source, old->own, flow->own, flow->peer);
	return write_ipv4(skb, message, message->packet_at, old->own[3], old->peer[3], flow->peer[3], flow->own[3]) &&
	       write_ipv4(skb, message, ETH_HLEN, message->source[3], old->own[3], flow->own[3], flow->peer[3]);
}

/* Writes the headers of a "time exceeded" message that quotes `bytes` of the packet. */
static __always_inline void write_expired(struct message *message, const struct packet *packet, __u32 bytes)
{
	__u8 *text = message->text, *icmp = text + (packet->is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	__s64 sum;

	__builtin_memset(text, 0, sizeof(struct ipv6hdr) + MESSAGE_HEADER_BYTES);
	icmp[0] = packet->is_ipv6 ? ICMPV6_EXPIRED : ICMP_EXPIRED;
	if (packet->is_ipv6) {
		struct ipv6hdr *ip = (struct ipv6hdr *)text;

		ip->version = 6;
		ip->payload_len = bpf_htons(MESSAGE_HEADER_BYTES + bytes);
		ip->nexthdr = IPPROTO_ICMPV6;
		ip->hop_limit = ICMP_HOPS;
		__builtin_memcpy(&ip->saddr, packet->headers->flow.own, 16);
		__builtin_memcpy(&ip->daddr, packet->headers->flow.peer, 16);
		sum = bpf_csum_diff(0, 0, (__be32 *)&ip->saddr, 32, bpf_htonl(MESSAGE_HEADER_BYTES + bytes));
		sum += bpf_htonl(IPPROTO_ICMPV6);
	} else {
		struct iphdr *ip = (struct iphdr *)text;

		ip->version = 4;
		ip->ihl = sizeof(*ip) / 4;
		ip->tos = 0xc0;
		ip->tot_len = bpf_htons(sizeof(*ip) + MESSAGE_HEADER_BYTES + bytes);
		ip->ttl = ICMP_HOPS;
		ip->protocol = IPPROTO_ICMP;
		ip->saddr = packet->headers->flow.own[3];
		ip->daddr = packet->headers->flow.peer[3];
		ip->check = ~fold(bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0));
		sum = 0;
	}
	sum = fold(sum) + (__u64)*(__u16 *)icmp + fold(bpf_csum_diff(0, 0, (__be32 *)message->quoted, bytes & ~3, 0));
	*(__u16 *)(icmp + MESSAGE_CHECKSUM_AT) = ~fold(sum);
}

/* Turns a packet whose TTL ends here into a "time exceeded" message to its sender, as a router does (RFC 792, RFC
 * 4443 section 3.3), quoting its IP header and TCP header without options. False: drop it silently. */
static __attribute__((noinline)) int answer_expired(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 zero = 0, bytes = packet->tcp_at - ETH_HLEN + TCP_HEADER_MIN;
	__u32 headers_bytes = MESSAGE_HEADER_BYTES + (packet->is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	struct message *message = bpf_map_lookup_elem(&messages, &zero);
	__u64 now = bpf_ktime_get_ns();
	__u8 *addresses;

	if (!message || now - message->expired_ns < EXPIRED_NS || !IS_WITHIN(bytes, TCP_HEADER_MIN, sizeof(message->quoted)))
		return 0;
	message->expired_ns = now;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, message->quoted, bytes))
		return 0;
	write_expired(message, packet, bytes);
	addresses = message->quoted;
	if (bpf_skb_change_tail(skb, ETH_HLEN + bytes, 0) || bpf_skb_adjust_room(skb, headers_bytes, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_load_bytes(skb, 0, addresses, 12))
		return 0;
	/* Swap the Ethernet addresses. */
	__builtin_memcpy(addresses + 12, addresses, 6);
	return !bpf_skb_store_bytes(skb, 0, addresses + 6, 12, 0) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN, message->text, headers_bytes, BPF_F_RECOMPUTE_CSUM);
}

#endif
