/* Reads and rewrites the headers of a TCP packet, IPv4 or IPv6, over Ethernet. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_HEADERS_H
#define CARRICK_TC_HEADERS_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <stddef.h>
#include "../common/bounds.h"

#define TCP_HEADER_MIN 20
#define TCP_HEADER_MAX 60

/* Bits of the fourteenth byte of a TCP header (RFC 9293 section 3.1). */
#define FLAG_FIN 0x01
#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_PSH 0x08
#define FLAG_ACK 0x10
#define FLAG_URG 0x20
#define FLAGS_OF_ECN 0xc0 /* CWR, ECE (RFC 3168) */

/* Kinds of options (RFC 9293, 2018, 7323). */
#define OPTION_END 0
#define OPTION_NOTHING 1
#define OPTION_SACK 5
#define OPTION_TIMESTAMPS 8

/* NOP, NOP, timestamps of ten bytes. */
#define TIMESTAMPS_ALONE 0x0101080a

/* The most options in a header, those that are one byte of padding included. */
#define OPTIONS_MAX (HEADER_ROOM - 4 - TCP_HEADER_MIN)
#define SACK_BLOCKS_MAX 4

/* Room for a TCP header, as it came and as it goes. In a map, since the stack cannot be indexed freely; masking with
 * HEADER_INDEX shows the verifier that an index is inside. */
#define HEADER_ROOM 64
#define HEADER_INDEX 63

/* Pacing of a packet: looked up before the splice is locked, noted by the state machine, settled afterwards. */
struct pace_view {
	__u64 now;
	__u64 left;        /* bytes that may be granted; ~0: as many as the receiver takes */
	__u64 hold_max_ns; /* after waiting for this long, a way gets a small grant; ~0: never */
	__u32 piece_bytes; /* the smallest grant, unless the receiver takes less */
	__u32 told_way;    /* the way whose sender may get a larger window, plus 1; 0: that way is not paced */
	/* Noted: */
	__u32 acked;       /* with says_window: what the packet acknowledges, in that sender's numbers */
	__u32 window;      /* the receiver's window beyond it */
	__u32 shift;       /* the window's shift */
	__u32 sent_from;   /* with has_sent: end of the other way before this packet */
	__u8 says_window;
	__u8 is_stale;     /* it only opens the window */
	__u8 has_sent;
	/* Settled: */
	__u8 is_held;      /* the way is to be queued */
	__u8 is_idle;      /* the packet says nothing new */
	__u16 field;       /* the window */
	__u32 taken[2];    /* bytes to charge, of each way */
};

/* The options found in a packet. */
struct options {
	__u32 at;  /* offset of the next option */
	__u32 end; /* of the header */
	__u8 timestamps_at; /* as in `struct packet` */
	__u8 sack_at;
	__u8 sack_blocks;
	__u8 is_odd; /* not only those of an established connection */
};

/* How to change a packet's TCP header. Differences are added. */
struct rewriting {
	__u32 seq;
	__u32 ack;
	__u32 sack;
	__u32 tsval;
	__u32 tsecr;
	__u16 window; /* the new value */
	__u8 is_reset; /* a FIN becomes a reset */
	__u8 is_calmed : 1;   /* a reset becomes an acknowledgement */
	__u8 is_plain : 1;    /* clears FIN and URG */
	__u8 is_sackless : 1; /* removes SACK blocks */
};

/* What to do with a packet. */
enum fate {
	FATE_LOCAL,   /* pass it, to or from the local socket */
	FATE_FORWARD, /* send it to the other peer, on that connection */
	FATE_DROP,
	FATE_FORGET,  /* pass it; its connection, or the other one, is the splice's no more: forget it */
	FATE_CUT,     /* let it enter again with only the first `part` bytes of its payload */
};

/* The decision about a packet. In a map, whose values the verifier does not track: so it checks the code behind the
 * decision once, not once for each outcome. */
struct plan {
	enum fate fate;
	struct rewriting rewriting;
	__u8 is_copied : 1;
	__u8 is_head : 1;       /* its payload belongs to the beginning of a response: for the record */
	__u8 is_tail : 1;       /* it holds the last bytes sent so far: for the record */
	__u8 is_told : 1;       /* notify the process */
	__u8 is_request : 1;    /* FORWARD: it is a classified request */
	__u8 is_acknowledging : 1; /* it acknowledges more of a response: for the record */
	__u8 is_changed : 1;    /* FORWARD: the server gets another payload; see below */
	__u8 is_extended : 1;   /* likewise, it ends with the record's field lines */
	union {
		__u32 ifindex; /* FORWARD: the outgoing interface */
		__u32 part;    /* CUT */
	};
	__u32 head_from;    /* with is_head: its payload's offset in the response */
	__u32 head_at;      /* likewise: the response, by its `head_at` in the record (lower half) */
	__u32 local_ack;    /* with is_copied: the acknowledgement in the local socket's copy */
	/* with is_changed: the payload's first bytes, those behind them that are left out, and those behind these */
	__u32 kept_bytes;
	__u32 left_out_bytes;
	__u32 rest_bytes;
};

struct headers {
	struct flow flow; /* of the packet; `own` is its destination */
	struct flow to;   /* of the connection that it is forwarded to */
	/* of its TCP header, in host byte order; the timestamps if it has any */
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u8 old[HEADER_ROOM + 16];
	__u8 new[HEADER_ROOM + 16];
	struct pace_view pace;
	__u64 response_bytes; /* length of the response that begins in this packet; 0: unknown, or none begins */
	struct options options;
	struct bpf_redir_neigh next_hop; /* as the kernel wants it */
	/* its checksum is known to be left to the hardware: the field has the pseudo header's sum only */
	__u32 is_partial;
	__u32 interim_bytes; /* length of the interim head (1xx) at the start of this packet */
	__u32 method; /* method of the request classified in this packet, an `enum request_method` */
	__u32 left_out_at; /* likewise, the offset of a line that is left out; 0: none */
	struct plan plan;
	__u64 blurred[3]; /* see `blur` */
	struct packet_request payload; /* with has_payload: the packet's payload */
	__u8 room[PACKET_REQUEST_BYTES]; /* for the verifier: as many bytes from anywhere in it are in the map */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct headers);
} headers SEC(".maps");

/* A parsed packet. Numbers are in host byte order; some are in `headers`, since Linux 6.1 has no room for them on the stack. */
struct packet {
	struct headers *headers;
	__u32 payload_bytes;
	__u32 seq;
	__u16 window;
	__u16 tcp_at;      /* offset of the TCP header */
	__u8 header_bytes; /* length of the TCP header, with options */
	__u8 flags;
	__u8 is_ipv6 : 1;
	__u8 is_odd : 1;      /* it has IP options, or TCP options that an established connection does not use */
	__u8 is_expiring : 1; /* its TTL ends here, unless it is for a local socket */
	__u8 is_unforwardable : 1; /* the first fragment of a segment, or behind IPv6 extension headers: for local sockets only */
	__u8 has_payload : 1; /* its payload is in `headers`, where the sender can no longer change it */
	__u8 timestamps_at; /* offset of their values in the TCP header; 0: there are none */
	__u8 sack_at;       /* likewise */
	__u8 sack_blocks;
};

/* Makes the verifier forget what it knows of a packet's numbers: it follows the code behind once, not once for each kind
 * of packet. */
static __always_inline void blur(struct packet *packet)
{
	enum { BYTES = sizeof(*packet) - offsetof(struct packet, payload_bytes) };

	_Static_assert(BYTES == sizeof(packet->headers->blurred), "all of them");
	__builtin_memcpy(packet->headers->blurred, &packet->payload_bytes, BYTES);
	asm volatile("" ::: "memory");
	__builtin_memcpy(&packet->payload_bytes, packet->headers->blurred, BYTES);
}

static __always_inline __u32 read_u32(const __u8 *at)
{
	return bpf_ntohl(*(const __u32 *)at);
}

static __always_inline void write_u32(__u8 *at, __u32 value)
{
	*(__u32 *)at = bpf_htonl(value);
}

/* Options may be unaligned. */
static __always_inline __u32 read_u32_anywhere(const __u8 *at)
{
	return (__u32)at[0] << 24 | (__u32)at[1] << 16 | (__u32)at[2] << 8 | at[3];
}

static __always_inline void write_u32_anywhere(__u8 *at, __u32 value)
{
	at[0] = value >> 24;
	at[1] = value >> 16;
	at[2] = value >> 8;
	at[3] = value;
}

/* The 16-bit sum (RFC 1071): a checksum and what it covers add up to 0xffff. */
static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Parses the next option. A callback, so that the verifier checks it once, not once for each path through the
 * options before it. */
static long find_option(__u32 index, void *unused)
{
	__u32 zero = 0, at;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	struct options *options;
	__u8 kind, length;

	if (!headers_of)
		return 1;
	options = &headers_of->options;
	at = options->at & HEADER_INDEX;
	if (at + 1 >= options->end)
		return 1;
	kind = headers_of->old[at];
	if (kind == OPTION_NOTHING) {
		options->at = at + 1;
		return 0;
	}
	length = headers_of->old[at + 1];
	if (kind == OPTION_END || length < 2 || at + length > options->end) {
		options->is_odd |= kind != OPTION_END;
		options->at = options->end;
		return 1;
	}
	if (kind == OPTION_TIMESTAMPS && length == 10) {
		options->is_odd |= options->timestamps_at;
		options->timestamps_at = at + 2;
	} else if (kind == OPTION_SACK && length >= 10) {
		options->is_odd |= options->sack_at | ((length & 7) ^ 2);
		options->sack_at = at + 2;
		options->sack_blocks = (length - 2) >> 3;
	} else {
		options->is_odd = 1;
	}
	options->at = at + length;
	return 0;
}

/* Finds timestamps and SACK blocks, and notes other, repeated or truncated options. */
static __always_inline void find_options(struct packet *packet)
{
	struct options *options = &packet->headers->options;
	const __u8 *header = packet->headers->old;

	/* The usual case: timestamps alone, laid out as in RFC 7323 appendix A. */
	if (packet->header_bytes == TCP_HEADER_MIN + 12 && read_u32(header + TCP_HEADER_MIN) == TIMESTAMPS_ALONE) {
		packet->timestamps_at = TCP_HEADER_MIN + 4;
	} else if (packet->header_bytes > TCP_HEADER_MIN) {
		*options = (struct options){ .at = TCP_HEADER_MIN, .end = packet->header_bytes };
		bpf_loop(OPTIONS_MAX, find_option, 0, 0);
		packet->timestamps_at = options->timestamps_at;
		packet->sack_at = options->sack_at;
		packet->sack_blocks = options->sack_blocks;
		/* OPTIONS_MAX may not have reached the end. */
		packet->is_odd |= options->is_odd || options->at + 1 < options->end;
	}
	if (packet->timestamps_at) {
		header += packet->timestamps_at & HEADER_INDEX;
		packet->headers->tsval = read_u32_anywhere(header);
		packet->headers->tsecr = read_u32_anywhere(header + 4);
	}
}

/* Makes the headers private to the packet: a local sender could still write into them (PACKET_TX_RING), and turn an
 * acknowledgement into data that was not checked. */
static __always_inline void own_headers(struct __sk_buff *skb)
{
	__u32 bytes = ETH_HLEN + sizeof(struct iphdr) + TCP_HEADER_MIN;

	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		bytes = ETH_HLEN + sizeof(struct ipv6hdr) + TCP_HEADER_MIN;
	if ((void *)(long)skb->data + bytes > (void *)(long)skb->data_end && skb->len >= bytes)
		bpf_skb_pull_data(skb, bytes);
}

/* IPv6 extension headers (RFC 8200 section 4). */
#define HOP_BY_HOP 0
/* RFC 2675: an option. */
#define JUMBO 0xc2
#define ROUTING 43
#define FRAGMENT 44
#define DESTINATION 60

/* RFC 8504 section 5.3 allows a limit. */
#define EXTENSIONS_MAX 8

/* The offset of a TCP header behind IPv6 extension headers, of which the first is of the kind `next`; 0: it has none.
 * Negative: there are too many, or a first fragment ends within them, which Linux puts together nevertheless (RFC 8200
 * section 4.5 has it discarded). (Not static, so that the verifier checks it once.) */
GLOBAL_FUNCTION int find_tcp(struct __sk_buff *skb, __u32 next)
{
	__u32 at = ETH_HLEN + sizeof(struct ipv6hdr), i;
	int unread = 0;
	__u8 header[8];

#pragma clang loop unroll(disable)
	for (i = 0; i < EXTENSIONS_MAX; i++) {
		if (next == IPPROTO_TCP)
			return at;
		if (next != HOP_BY_HOP && next != ROUTING && next != FRAGMENT && next != DESTINATION)
			return 0;
		if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
			return unread;
		if (next == FRAGMENT) {
			/* Not the first fragment. */
			if (header[2] || header[3] & 0xf8)
				return 0;
			unread = -1;
		}
		at += next == FRAGMENT ? 8 : 8 * (header[1] + 1);
		next = header[0];
	}
	return -1;
}

/* Whether it is merged segments of more than 64 KB, whose length the kernel tells by an option (RFC 2675), which no network sees. */
static __always_inline int is_jumbo(struct __sk_buff *skb)
{
	__u8 header[4];

	return skb->gso_size && skb->len > 0xffff && !bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(struct ipv6hdr), header, sizeof(header)) &&
	       header[2] == JUMBO && header[3] == 4;
}

/* Parses a packet up to the TCP ports. 0 if it cannot belong to a splice. Negative if it must not reach a local socket: what
 * is behind too many extension headers, or in a first fragment that does not have all headers (RFC 1858 section 3.2.1), would
 * reach that with numbers that are not its own. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__u32 zero = 0, ip_bytes, header_bytes;
	int tcp_at;

	__builtin_memset(packet, 0, sizeof(*packet));
	packet->headers = bpf_map_lookup_elem(&headers, &zero);
	if (!packet->headers)
		return 0;
	__builtin_memset(&packet->headers->flow, 0, sizeof(packet->headers->flow));
	packet->headers->is_partial = 0;
	/* Used as scratch space: a program's stack is small. */
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (struct iphdr *)packet->headers->new;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, ip, sizeof(*ip)))
			return 0;
		if (ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_TCP || ip->frag_off & bpf_htons(0x1fff))
			return 0;
		packet->tcp_at = ETH_HLEN + ip->ihl * 4;
		packet->is_unforwardable = !!(ip->frag_off & bpf_htons(0x2000));
		packet->is_odd = packet->is_unforwardable || ip->ihl > 5;
		packet->is_expiring = ip->ttl <= 1;
		packet->headers->flow.own[2] = packet->headers->flow.peer[2] = bpf_htonl(0xffff);
		packet->headers->flow.own[3] = ip->daddr;
		packet->headers->flow.peer[3] = ip->saddr;
		ip_bytes = bpf_ntohs(ip->tot_len);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (struct ipv6hdr *)packet->headers->new;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, ip, sizeof(*ip)))
			return 0;
		if (ip->version != 6)
			return 0;
		/* An IPv4 address would be found as IPv4's. The kernel, too, discards one on the wire. */
		if (!ip->saddr.in6_u.u6_addr32[0] && !ip->saddr.in6_u.u6_addr32[1] &&
		    ip->saddr.in6_u.u6_addr32[2] == bpf_htonl(0xffff))
			return 0;
		packet->is_unforwardable = packet->is_odd = ip->nexthdr != IPPROTO_TCP;
		tcp_at = ETH_HLEN + sizeof(*ip);
		if (packet->is_unforwardable) {
			tcp_at = find_tcp(skb, ip->nexthdr);
			if (tcp_at <= 0)
				return tcp_at;
			if (ip->nexthdr == HOP_BY_HOP && !ip->payload_len && tcp_at == ETH_HLEN + sizeof(*ip) + 8 && is_jumbo(skb))
				packet->is_unforwardable = packet->is_odd = 0;
		}
		packet->is_ipv6 = 1;
		packet->is_expiring = ip->hop_limit <= 1;
		packet->tcp_at = tcp_at;
		__builtin_memcpy(packet->headers->flow.own, &ip->daddr, sizeof(packet->headers->flow.own));
		__builtin_memcpy(packet->headers->flow.peer, &ip->saddr, sizeof(packet->headers->flow.peer));
		ip_bytes = ip->payload_len ? bpf_ntohs(ip->payload_len) + sizeof(*ip) : 0;
	} else {
		return 0;
	}
	/* GSO packets may have no length. Whoever gets another without one drops it. */
	if (!ip_bytes && skb->gso_size)
		ip_bytes = skb->len - ETH_HLEN;
	if (ip_bytes > skb->len - ETH_HLEN)
		return 0;
	if (bpf_skb_load_bytes(skb, packet->tcp_at, packet->headers->old, TCP_HEADER_MIN))
		return packet->is_unforwardable ? -1 : 0;
	packet->headers->flow.peer_port = *(__u16 *)packet->headers->old;
	packet->headers->flow.own_port = *(__u16 *)(packet->headers->old + 2);
	header_bytes = (packet->headers->old[12] >> 4) * 4;
	if (header_bytes < TCP_HEADER_MIN || header_bytes > TCP_HEADER_MAX ||
	    packet->tcp_at - ETH_HLEN + header_bytes > ip_bytes)
		return packet->is_unforwardable ? -1 : 0;
	packet->header_bytes = header_bytes;
	packet->payload_bytes = ip_bytes - (packet->tcp_at - ETH_HLEN) - header_bytes;
	return 1;
}

/* Parses the rest, for packets of known connections only. */
static __always_inline int read_tcp(struct __sk_buff *skb, struct packet *packet)
{
	__u32 option_bytes = packet->header_bytes - TCP_HEADER_MIN;
	__u8 *header = packet->headers->old;

	if (option_bytes && (!IS_WITHIN(option_bytes, 1, TCP_HEADER_MAX - TCP_HEADER_MIN) ||
			     bpf_skb_load_bytes(skb, packet->tcp_at + TCP_HEADER_MIN, header + TCP_HEADER_MIN, option_bytes)))
		return 0;
	packet->seq = read_u32(header + 4);
	packet->headers->ack = read_u32(header + 8);
	packet->flags = header[13];
	packet->window = bpf_ntohs(*(__u16 *)(header + 14));
	find_options(packet);
	__builtin_memcpy(packet->headers->new, packet->headers->old, sizeof(packet->headers->old));
	return 1;
}

/* Changes the new header in memory. */
static __always_inline void rewrite_tcp(struct packet *packet, const struct rewriting *rewriting)
{
	__u8 *header = packet->headers->new;
	__u32 words = 2 * packet->sack_blocks, i;

	write_u32(header + 4, packet->seq + rewriting->seq);
	if (packet->flags & FLAG_ACK)
		write_u32(header + 8, packet->headers->ack + rewriting->ack);
	*(__u16 *)(header + 14) = bpf_htons(rewriting->window);
	if (rewriting->is_reset)
		header[13] = FLAG_RST | FLAG_ACK;
	if (rewriting->is_calmed) {
		write_u32(header + 8, packet->headers->ack + rewriting->ack);
		header[13] = FLAG_ACK;
	}
	if (rewriting->is_plain) {
		header[13] &= FLAG_ACK | FLAG_PSH | FLAGS_OF_ECN;
		*(__u16 *)(header + 18) = 0;
	}
	if (packet->timestamps_at) {
		__u8 *at = header + (packet->timestamps_at & HEADER_INDEX);

		write_u32_anywhere(at, packet->headers->tsval + rewriting->tsval);
		/* Without ACK, the echo is unused and 0. */
		if (packet->flags & FLAG_ACK)
			write_u32_anywhere(at + 4, packet->headers->tsecr + rewriting->tsecr);
	}
	if (packet->sack_blocks && rewriting->is_sackless)
		header[(packet->sack_at - 2) & HEADER_INDEX] = header[(packet->sack_at - 1) & HEADER_INDEX] = OPTION_NOTHING;
	for (i = 0; i < 2 * SACK_BLOCKS_MAX; i++) {
		__u32 at = (packet->sack_at + 4 * i) & HEADER_INDEX;

		/* Keeps this comparison apart from the loop's: merged, it has no constant bound, which Linux 6.1
		 * needs to see the loop end. */
		asm volatile("" : "+r"(i));
		if (i >= words)
			break;
		if (rewriting->is_sackless)
			write_u32_anywhere(header + at, 0x01010101 * OPTION_NOTHING);
		else
			write_u32_anywhere(header + at, read_u32_anywhere(packet->headers->old + at) + rewriting->sack);
	}
}

/* Writes the new TCP header into the packet and updates the checksum. May be called again after further changes. */
static __always_inline int write_tcp(struct __sk_buff *skb, struct packet *packet)
{
	__u32 bytes = packet->header_bytes;
	__s64 difference;

	if (!IS_WITHIN(bytes, TCP_HEADER_MIN, TCP_HEADER_MAX) || bpf_skb_store_bytes(skb, packet->tcp_at, packet->headers->new, bytes, 0))
		return 0;
	if (packet->headers->is_partial)
		return 1;
	difference = bpf_csum_diff((__be32 *)packet->headers->old, bytes, (__be32 *)packet->headers->new, bytes, 0);
	return difference >= 0 && !bpf_l4_csum_replace(skb, packet->tcp_at + offsetof(struct tcphdr, check), 0, difference, 0);
}

/* Decrements the TTL, as a router does, and sets a leg's addresses: from this host to its peer. The ports are in the TCP header. */
static __always_inline int write_ip(struct __sk_buff *skb, struct packet *packet, const struct flow *flow)
{
	__u32 old[8], new[8];
	__s64 difference;

	if (packet->is_ipv6) {
		__u32 at = ETH_HLEN + offsetof(struct ipv6hdr, hop_limit);
		__u8 hops;

		__builtin_memcpy(old, packet->headers->flow.peer, 16);
		__builtin_memcpy(old + 4, packet->headers->flow.own, 16);
		__builtin_memcpy(new, flow->own, 16);
		__builtin_memcpy(new + 4, flow->peer, 16);
		difference = bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
		/* With CHECKSUM_COMPLETE, this call and the last one keep the kernel's sum right: the last one
		 * assumes an IP header checksum, which IPv6 lacks. */
		if (bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, saddr), new, sizeof(new), BPF_F_RECOMPUTE_CSUM) ||
		    bpf_skb_load_bytes(skb, at, &hops, 1))
			return 0;
		hops -= 1;
		if (bpf_skb_store_bytes(skb, at, &hops, 1, BPF_F_RECOMPUTE_CSUM))
			return 0;
	} else {
		/* TTL, protocol and checksum, and behind them the addresses, at once: the header's sum stays what it was. */
		if (bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), old, 12))
			return 0;
		new[1] = flow->own[3];
		new[2] = flow->peer[3];
		difference = fold((__u64)new[1] + new[2] + (__u32)~old[1] + (__u32)~old[2]);
		new[0] = old[0];
		*(__u16 *)new -= bpf_htons(1 << 8);
		/* RFC 1624, equation 3. */
		((__u16 *)new)[1] = ~fold((__u16)~((__u16 *)old)[1] + difference + (__u16)~bpf_htons(1 << 8));
		if (bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), new, 12, 0))
			return 0;
	}
	return !bpf_l4_csum_replace(skb, packet->tcp_at + offsetof(struct tcphdr, check), 0, difference,
				    BPF_F_PSEUDO_HDR);
}

#endif
