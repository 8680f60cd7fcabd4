/* Slots, each for two connections whose sockets the process has. Included by tc.bpf.c, behind its maps. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_SLOT_H
#define CARRICK_TC_SLOT_H

/* Interfaces that the programs are on, by number. The process fills the map while it may attach programs, then
 * freezes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PACKET_INTERFACES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} interfaces SEC(".maps");

/* IPv4 addresses are mapped: ::ffff:a.b.c.d. */
static __always_inline int is_mapped(const __u32 *address)
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}

/* Whether the connection's local socket is in `owned`. */
static __attribute__((noinline)) int is_own(struct __sk_buff *skb, const struct flow *flow)
{
	struct bpf_sock *socket;
	int is_shown;

	if (TAKES_NOBODYS)
		return 1;
	socket = socket_of(skb, flow, !is_mapped(flow->peer));
	if (!socket)
		return 0;
	/* The lookup also finds a listening socket. */
	is_shown = socket->state != LISTEN && bpf_sk_storage_get(&owned, socket, 0, 0) != 0;
	bpf_sk_release(socket);
	return is_shown;
}

static __always_inline int is_own_interface(__u32 ifindex)
{
	return TAKES_NOBODYS || bpf_map_lookup_elem(&interfaces, &ifindex);
}

/* Frees a slot, and removes its connections from `flows` unless a later splice has them. */
static __always_inline void forget(struct packet_splice *splice, __u32 number)
{
	struct place *at;

	at = bpf_map_lookup_elem(&flows, &splice->legs[0].flow);
	if (at && at->number == 2 * number)
		bpf_map_delete_elem(&flows, &splice->legs[0].flow);
	at = bpf_map_lookup_elem(&flows, &splice->legs[1].flow);
	if (at && at->number == 2 * number + 1)
		bpf_map_delete_elem(&flows, &splice->legs[1].flow);
	bpf_spin_lock(&splice->lock);
	__builtin_memset(&splice->state, 0, sizeof(*splice) - offsetof(struct packet_splice, state));
	bpf_spin_unlock(&splice->lock);
}

/* Copies the offsets of a connection that an earlier splice has returned to its local socket. Whether there were
 * any. */
static __attribute__((noinline)) int go_on(struct packet_splice *splice, __u32 side, const struct flow *flow)
{
	struct packet_splice *earlier;
	struct packet_leg leg = {};
	struct place *at;
	__u32 number;
	int is_back;

	at = bpf_map_lookup_elem(&flows, flow);
	if (!at)
		return 0;
	number = at->number >> 1;
	earlier = bpf_map_lookup_elem(&splices, &number);
	if (!earlier)
		return 0;
	bpf_spin_lock(&earlier->lock);
	is_back = earlier->state == PACKET_PROCESS;
	if (is_back)
		leg = earlier->legs[at->number & 1];
	bpf_spin_unlock(&earlier->lock);
	if (!is_back)
		return 0;
	bpf_spin_lock(&splice->lock);
	splice->legs[side & 1] = leg;
	bpf_spin_unlock(&splice->lock);
	return 1;
}

/* Gives a connection its place. One that has a place already needs no memory. */
static __always_inline int give_place(const struct flow *flow, __u32 number)
{
	struct place place = { number }, *at = bpf_map_lookup_elem(&flows, flow);

	if (!at)
		return bpf_map_update_elem(&flows, flow, &place, BPF_ANY);
	at->number = number;
	return 0;
}

/* Writes both connections to a free slot. */
static __always_inline enum packet_answer place(const struct packet_placing *placing)
{
	__u32 number = placing->number, is_free, is_continued;
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	int is_placed;

	if (!splice)
		return PACKET_NO_PLACE;
	bpf_spin_lock(&splice->lock);
	is_free = splice->state == PACKET_FREE;
	if (is_free) {
		splice->legs[0].flow = placing->flows[0];
		splice->legs[1].flow = placing->flows[1];
		splice->legs[0].is_ipv6 = !is_mapped(placing->flows[0].peer);
		splice->legs[1].is_ipv6 = !is_mapped(placing->flows[1].peer);
		splice->state = PACKET_PROCESS;
	}
	bpf_spin_unlock(&splice->lock);
	if (!is_free)
		return PACKET_NO_PLACE;
	is_continued = go_on(splice, 0, &placing->flows[0]) | go_on(splice, 1, &placing->flows[1]);
	/* What may fail comes first: a connection that goes on keeps the place that it has. */
	if (bpf_map_lookup_elem(&flows, &placing->flows[0]))
		is_placed = !give_place(&placing->flows[1], 2 * number + 1) && !give_place(&placing->flows[0], 2 * number);
	else
		is_placed = !give_place(&placing->flows[0], 2 * number) && !give_place(&placing->flows[1], 2 * number + 1);
	if (!is_placed) {
		forget(splice, number);
		return PACKET_NO_PLACE;
	}
	return is_continued ? PACKET_CONTINUED : PACKET_DONE;
}

#endif
