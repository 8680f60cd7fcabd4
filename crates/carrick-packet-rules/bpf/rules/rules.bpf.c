// Packet rules: what matches a rule is passed up, dropped, given to a local socket, or rewritten. After NEPPI (Cohen 1999,
// section 3.1).
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "tc/tc.h"
#include "tc/headers.h"
#include "rules.h"

char _license[] SEC("license") = "GPL";

// What a packet is marked with from where a rule sends it on until it leaves.
const volatile __u32 sent_on_mark = 0x63617273;

#define VLAN_NUMBER 0x0fff
#define VLAN_BYTES 4

// Kinds of options that only a SYN has (RFC 9293, 2018).
#define OPTION_MSS 2
#define OPTION_SACK_PERMITTED 4

// net/tcp_states.h
#define LISTEN 10

// A set of rules; this one is empty.
struct rule_set_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule_set);
} no_rules SEC(".maps");

// The set that holds. A new one takes its place as a whole.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct rule_set_map);
} rule_sets SEC(".maps") = {
	.values = {&no_rules},
};

// Has clang describe the whole of it (BTF).
struct rule_set *rule_set_type __attribute__((unused));

// A packet as rules see it. Addresses and ports as in `struct rule`.
struct arrival {
	__u32 source[4];
	__u32 destination[4];
	__u32 ifindex;
	__u32 ip_at;
	__u32 ports_at;
	__u32 checksum_at;
	__u32 ip_bytes;
	__u16 source_port;
	__u16 destination_port;
	__u16 vlan;
	__u8 kinds; /* one of each pair */
	__u8 is_tagged_inside; /* the VLAN's tag is in the packet, not beside it */
};

// The packet that is looked at. In a map, so that the verifier forgets how it was read: otherwise it looks at all that follows
// for each kind of packet anew.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

// Takes a packet apart. False if it is none that rules are made for.
static __always_inline int read_arrival(struct __sk_buff *skb, __u8 direction, struct arrival *arrival)
{
	__u16 protocol = skb->protocol;
	__u8 transport;

	__builtin_memset(arrival, 0, sizeof(*arrival));
	arrival->ifindex = skb->ifindex;
	arrival->ip_at = ETH_HLEN;
	if (skb->vlan_present) {
		arrival->vlan = skb->vlan_tci & VLAN_NUMBER;
	} else if (protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD)) {
		__u16 tag[2];

		if (bpf_skb_load_bytes(skb, ETH_HLEN, tag, sizeof(tag)))
			return 0;
		arrival->vlan = bpf_ntohs(tag[0]) & VLAN_NUMBER;
		arrival->is_tagged_inside = 1;
		arrival->ip_at += VLAN_BYTES;
		protocol = tag[1];
	}
	if (protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, arrival->ip_at, &ip, sizeof(ip)))
			return 0;
		if (ip.version != 4 || ip.ihl < 5 || ip.frag_off & bpf_htons(0x3fff))
			return 0;
		arrival->kinds = KIND_IPV4;
		arrival->ports_at = arrival->ip_at + ip.ihl * 4;
		arrival->source[2] = arrival->destination[2] = bpf_htonl(0xffff);
		arrival->source[3] = ip.saddr;
		arrival->destination[3] = ip.daddr;
		arrival->ip_bytes = bpf_ntohs(ip.tot_len);
		transport = ip.protocol;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, arrival->ip_at, &ip, sizeof(ip)) || ip.version != 6)
			return 0;
		arrival->kinds = KIND_IPV6;
		arrival->ports_at = arrival->ip_at + sizeof(ip);
		__builtin_memcpy(arrival->source, &ip.saddr, sizeof(arrival->source));
		__builtin_memcpy(arrival->destination, &ip.daddr, sizeof(arrival->destination));
		arrival->ip_bytes = ip.payload_len ? bpf_ntohs(ip.payload_len) + sizeof(ip) : 0;
		transport = ip.nexthdr;
	} else {
		return 0;
	}
	// Large ones, of which segments are made later, may not say how long they are.
	if (!arrival->ip_bytes)
		arrival->ip_bytes = skb->len - arrival->ip_at;
	if (arrival->ip_at + arrival->ip_bytes > skb->len)
		return 0;
	if (transport == IPPROTO_TCP) {
		arrival->kinds |= KIND_TCP | direction;
		arrival->checksum_at = arrival->ports_at + offsetof(struct tcphdr, check);
		if (arrival->ports_at + TCP_HEADER_MIN > arrival->ip_at + arrival->ip_bytes)
			return 0;
	} else if (transport == IPPROTO_UDP) {
		arrival->kinds |= KIND_UDP | direction;
		arrival->checksum_at = arrival->ports_at + offsetof(struct udphdr, check);
		if (arrival->ports_at + sizeof(struct udphdr) > arrival->ip_at + arrival->ip_bytes)
			return 0;
	} else {
		return 0;
	}
	{
		__u16 ports[2];

		if (bpf_skb_load_bytes(skb, arrival->ports_at, ports, sizeof(ports)))
			return 0;
		arrival->source_port = bpf_ntohs(ports[0]);
		arrival->destination_port = bpf_ntohs(ports[1]);
	}
	return 1;
}

// What two numbers differ in, as far as it matters.
#define UNLIKE(field, i) ((rule->field[i] ^ arrival->field[i]) & rule->field##_mask[i])

// Whether a rule takes a packet. Without branches: the verifier looks at every way through them, for each rule.
static __always_inline int takes(const struct rule *rule, const struct arrival *arrival)
{
	__u32 unlike = 0;
	__s32 outside;

	unlike |= UNLIKE(source, 0) | UNLIKE(source, 1) | UNLIKE(source, 2) | UNLIKE(source, 3);
	unlike |= UNLIKE(destination, 0) | UNLIKE(destination, 1) | UNLIKE(destination, 2) | UNLIKE(destination, 3);
	unlike |= (rule->ifindex ^ arrival->ifindex) & rule->ifindex_mask;
	unlike |= rule->vlan ^ arrival->vlan;
	unlike |= arrival->kinds & ~rule->kinds;
	// Negative, if a port is below the lowest or above the highest.
	outside = (__s32)arrival->source_port - rule->source_port_min;
	outside |= (__s32)rule->source_port_max - arrival->source_port;
	outside |= (__s32)arrival->destination_port - rule->destination_port_min;
	outside |= (__s32)rule->destination_port_max - arrival->destination_port;
	return !(unlike | (outside & 0x80000000));
}

// The first rule that takes a packet; 0 if none does.
static __always_inline struct rule *find_rule(struct rule_set *set, const struct arrival *arrival)
{
	__u32 i, count = set->count;

	set->found = RULES_MAX;
	for (i = 0; i < RULES_MAX; i++) {
		if (i >= count)
			return 0;
		if (takes(&set->rules[i], arrival)) {
			set->found = i;
			break;
		}
	}
	// By way of the map, so that the verifier does not look at what follows for each rule anew.
	i = *(volatile __u32 *)&set->found;
	return i < RULES_MAX ? &set->rules[i] : 0;
}

// A TCP socket for connections between these addresses and ports.
static __always_inline struct bpf_sock *find_socket(struct __sk_buff *skb, const struct arrival *arrival, __u16 source_port,
						    __u16 destination_port)
{
	struct bpf_sock_tuple tuple = {};

	if (arrival->kinds & KIND_IPV6) {
		__builtin_memcpy(tuple.ipv6.saddr, arrival->source, sizeof(tuple.ipv6.saddr));
		__builtin_memcpy(tuple.ipv6.daddr, arrival->destination, sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = source_port;
		tuple.ipv6.dport = destination_port;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	tuple.ipv4.saddr = arrival->source[3];
	tuple.ipv4.daddr = arrival->destination[3];
	tuple.ipv4.sport = source_port;
	tuple.ipv4.dport = destination_port;
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
}

// Gives a packet, as it is, to the socket of its connection, or to the one that listens on the rule's port.
static __always_inline int redirect(struct __sk_buff *skb, const struct arrival *arrival, const struct rule *rule)
{
	__u16 source_port = bpf_htons(arrival->source_port);
	struct bpf_sock *socket;
	long error;

	socket = find_socket(skb, arrival, source_port, bpf_htons(arrival->destination_port));
	if (socket) {
		// One that listens on the packet's own port is not meant.
		if (socket->state != LISTEN)
			goto found;
		bpf_sk_release(socket);
	}
	socket = find_socket(skb, arrival, source_port, rule->port);
	if (socket && socket->state != LISTEN) {
		// The same client has a connection to this port, too. No connection is from port 0, so this finds who listens.
		bpf_sk_release(socket);
		socket = find_socket(skb, arrival, 0, rule->port);
	}
	if (!socket)
		return 0;
	if (socket->state != LISTEN) {
		bpf_sk_release(socket);
		return 0;
	}
found:
	error = bpf_sk_assign(skb, socket, 0);
	bpf_sk_release(socket);
	if (error)
		return 0;
	if (rule->flags & RULE_MARK)
		skb->mark = rule->mark;
	return 1;
}

// Whether a packet has a checksum behind the IP header: UDP may have a 0 in its place (RFC 768, RFC 6935).
static __always_inline int has_checksum(struct __sk_buff *skb, const struct arrival *arrival)
{
	__u16 checksum = 0;

	return !(arrival->kinds & KIND_UDP) || bpf_skb_load_bytes(skb, arrival->checksum_at, &checksum, 2) || checksum;
}

static __always_inline int rewrite_addresses(struct __sk_buff *skb, const struct arrival *arrival, const struct rule *rule)
{
	__u64 flags = BPF_F_PSEUDO_HDR | (arrival->kinds & KIND_UDP ? BPF_F_MARK_MANGLED_0 : 0);
	__u32 old[8], new[8], i;
	__s64 difference;

	if (arrival->kinds & KIND_IPV6) {
		__builtin_memcpy(old, arrival->source, 16);
		__builtin_memcpy(old + 4, arrival->destination, 16);
		for (i = 0; i < 8; i++)
			new[i] = (old[i] & ~rule->new_addresses_mask[i]) | rule->new_addresses[i];
		difference = bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
		// Where the interface has summed up the whole packet, both calls together keep the kernel's sum right: the second one
		// allows for a checksum of the IP header, as IPv4 has it.
		if (bpf_skb_store_bytes(skb, arrival->ip_at + offsetof(struct ipv6hdr, saddr), new, sizeof(new),
					BPF_F_RECOMPUTE_CSUM))
			return 0;
	} else {
		old[0] = arrival->source[3];
		old[1] = arrival->destination[3];
		for (i = 0; i < 2; i++)
			new[i] = (old[i] & ~rule->new_addresses_mask[i]) | rule->new_addresses[i];
		difference = bpf_csum_diff(old, 8, new, 8, 0);
		if (bpf_skb_store_bytes(skb, arrival->ip_at + offsetof(struct iphdr, saddr), new, 8, 0) ||
		    bpf_l3_csum_replace(skb, arrival->ip_at + offsetof(struct iphdr, check), 0, difference, 0))
			return 0;
	}
	return !bpf_l4_csum_replace(skb, arrival->checksum_at, 0, difference, flags);
}

static __always_inline int rewrite_ports(struct __sk_buff *skb, const struct arrival *arrival, const struct rule *rule)
{
	__u16 old[2] = {bpf_htons(arrival->source_port), bpf_htons(arrival->destination_port)}, new[2];
	__s64 difference;

	new[0] = (old[0] & ~rule->new_ports_mask[0]) | rule->new_ports[0];
	new[1] = (old[1] & ~rule->new_ports_mask[1]) | rule->new_ports[1];
	difference = bpf_csum_diff((__be32 *)old, sizeof(old), (__be32 *)new, sizeof(new), 0);
	if (!has_checksum(skb, arrival))
		return !bpf_skb_store_bytes(skb, arrival->ports_at, new, sizeof(new), BPF_F_RECOMPUTE_CSUM);
	return !bpf_skb_store_bytes(skb, arrival->ports_at, new, sizeof(new), 0) &&
	       !bpf_l4_csum_replace(skb, arrival->checksum_at, 0, difference,
				    arrival->kinds & KIND_UDP ? BPF_F_MARK_MANGLED_0 : 0);
}

// Puts "nothing" in the place of an option.
static __always_inline void blank(__u8 *header, __u32 at, __u32 bytes)
{
	__u32 i;

	for (i = 0; i < bytes; i++)
		header[at + i] = OPTION_NOTHING;
}

// Changes what a SYN offers.
static __always_inline void rewrite_offers(struct packet *packet, const struct rule *rule)
{
	__u8 *header = packet->headers->new;
	__u32 at = TCP_HEADER_MIN, i;

	for (i = 0; i < OPTIONS_MAX; i++) {
		__u8 kind, length;

		if (at + 1 >= packet->header_bytes)
			return;
		at &= HEADER_INDEX;
		kind = packet->headers->old[at];
		if (kind == OPTION_END)
			return;
		if (kind == OPTION_NOTHING) {
			at += 1;
			continue;
		}
		length = packet->headers->old[at + 1];
		if (length < 2 || at + length > packet->header_bytes)
			return;
		if (kind == OPTION_MSS && length == 4 && rule->flags & RULE_MSS) {
			if ((header[at + 2] << 8 | header[at + 3]) > rule->mss) {
				header[at + 2] = rule->mss >> 8;
				header[at + 3] = rule->mss;
			}
		} else if (kind == OPTION_SACK_PERMITTED && length == 2 && rule->flags & RULE_NO_SACK) {
			blank(header, at, 2);
		} else if (kind == OPTION_TIMESTAMPS && length == 10 && rule->flags & RULE_NO_TIMESTAMPS) {
			blank(header, at, 10);
		}
		at += length;
	}
}

// Changes numbers and options of a TCP header.
static __always_inline int rewrite_header(struct __sk_buff *skb, const struct arrival *arrival, const struct rule *rule)
{
	struct rewriting rewriting = {
		.seq = rule->sequence,
		.ack = rule->acknowledgement,
		.sack = rule->acknowledgement,
		.tsval = rule->tsval,
		.tsecr = rule->tsecr,
	};
	struct packet packet = {};
	__u32 zero = 0;

	packet.tcp_at = arrival->ports_at;
	packet.headers = bpf_map_lookup_elem(&headers, &zero);
	if (!packet.headers || bpf_skb_load_bytes(skb, packet.tcp_at, packet.headers->old, TCP_HEADER_MIN))
		return 0;
	packet.header_bytes = (packet.headers->old[12] >> 4) * 4;
	if (packet.header_bytes < TCP_HEADER_MIN ||
	    packet.tcp_at + packet.header_bytes > arrival->ip_at + arrival->ip_bytes || !read_tcp(skb, &packet))
		return 0;
	rewriting.window = packet.window;
	if (rule->flags & RULE_WINDOW_SET || (rule->flags & RULE_WINDOW && packet.window > rule->window))
		rewriting.window = rule->window;
	rewrite_tcp(&packet, &rewriting);
	if (packet.flags & FLAG_SYN)
		rewrite_offers(&packet, rule);
	return write_tcp(skb, &packet);
}

// Takes one from the hop limit, as a router does (RFC 1812 section 5.3.1, RFC 8200 section 3): packets cannot go in circles.
static __always_inline int count_hop(struct __sk_buff *skb, const struct arrival *arrival)
{
	__u8 limit;

	if (arrival->kinds & KIND_IPV6) {
		__u32 at = arrival->ip_at + offsetof(struct ipv6hdr, hop_limit);

		if (bpf_skb_load_bytes(skb, at, &limit, 1) || limit <= 1)
			return 0;
		limit -= 1;
		return !bpf_skb_store_bytes(skb, at, &limit, 1, BPF_F_RECOMPUTE_CSUM);
	} else {
		__u32 at = arrival->ip_at + offsetof(struct iphdr, ttl);
		__u16 old, new;

		// With the protocol behind it, since checksums are of 16 bits.
		if (bpf_skb_load_bytes(skb, at, &old, 2) || bpf_ntohs(old) >> 8 <= 1)
			return 0;
		new = bpf_htons(bpf_ntohs(old) - 0x100);
		return !bpf_skb_store_bytes(skb, at, &new, 2, 0) &&
		       !bpf_l3_csum_replace(skb, arrival->ip_at + offsetof(struct iphdr, check), old, new, 2);
	}
}

// A packet that is half rewritten goes nowhere.
static __always_inline int rewrite(struct __sk_buff *skb, const struct arrival *arrival, const struct rule *rule)
{
	if (rule->flags & RULE_EXIT && rule->exit == RULE_NO_INTERFACE)
		return 0;
	if (rule->flags & RULE_EXIT && arrival->kinds & KIND_IN && !count_hop(skb, arrival))
		return 0;
	if (rule->flags & RULE_TCP && !rewrite_header(skb, arrival, rule))
		return 0;
	if (rule->flags & RULE_PORTS && !rewrite_ports(skb, arrival, rule))
		return 0;
	if (rule->flags & RULE_ADDRESSES && !rewrite_addresses(skb, arrival, rule))
		return 0;
	// On another network a tag means nothing.
	return !(rule->flags & RULE_EXIT) || !(arrival->is_tagged_inside || skb->vlan_present) || !bpf_skb_vlan_pop(skb);
}

static __always_inline int apply_rules(struct __sk_buff *skb, __u8 direction)
{
	struct arrival *arrival;
	struct rule_set *set;
	struct rule *rule;
	__u32 zero = 0;
	void *map;

	map = bpf_map_lookup_elem(&rule_sets, &zero);
	if (!map)
		return TC_ACT_UNSPEC;
	set = bpf_map_lookup_elem(map, &zero);
	arrival = bpf_map_lookup_elem(&arrivals, &zero);
	if (!set || !arrival || !set->count || !read_arrival(skb, direction, arrival))
		return TC_ACT_UNSPEC;
	// The compiler is to forget it, too.
	barrier();
	rule = find_rule(set, arrival);
	if (!rule)
		return TC_ACT_UNSPEC;
	rule->packets += 1;
	rule->bytes += arrival->ip_bytes;
	switch (rule->action) {
	case RULE_DROP:
		return TC_ACT_SHOT;
	case RULE_REDIRECT:
		if (!redirect(skb, arrival, rule))
			rule->failed += 1;
		return TC_ACT_UNSPEC;
	case RULE_REWRITE:
		if (!rewrite(skb, arrival, rule)) {
			rule->failed += 1;
			return TC_ACT_SHOT;
		}
		if (!(rule->flags & RULE_EXIT))
			return TC_ACT_UNSPEC;
		skb->mark = sent_on_mark;
		return bpf_redirect_neigh(rule->exit, 0, 0, 0);
	default:
		return TC_ACT_UNSPEC;
	}
}

SEC("tc")
int carrick_rules_in(struct __sk_buff *skb)
{
	return apply_rules(skb, KIND_IN);
}

SEC("tc")
int carrick_rules_out(struct __sk_buff *skb)
{
	// What a rule has sent on is not looked at again, as with NEPPI: it could go in circles.
	if (skb->mark == sent_on_mark) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	return apply_rules(skb, KIND_OUT);
}
