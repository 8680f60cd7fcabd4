/* Where a forwarded packet goes next. bpf_redirect_neigh() looks that up in the routing table for each packet. The local socket
 * has looked it up already: what its route says is kept for as long as the kernel itself would use that route. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_NEXT_HOP_H
#define CARRICK_TC_NEXT_HOP_H

/* linux/socket.h */
#define AF_INET 2

/* linux/rtnetlink.h */
#define RTN_UNICAST 1

/* net/dst.h: to be used while the routes are those it was made from. */
#define DST_OBSOLETE_FORCE_CHK -1

/* Linux 6.2 and later, as bpf_cast_to_kern_ctx(). */
extern void *bpf_rdonly_cast(const void *pointer, __u32 type) __ksym __weak;

struct net {
	struct {
		struct {
			int counter;
		} rt_genid;
	} ipv4;
} __attribute__((preserve_access_index));

struct net_device {
	int ifindex;
	struct {
		struct net *net;
	} nd_net;
} __attribute__((preserve_access_index));

struct dst_entry {
	struct net_device *dev;
	short obsolete;
} __attribute__((preserve_access_index));

struct rtable {
	struct dst_entry dst;
	int rt_genid;
	__u16 rt_type;
	__u8 rt_gw_family;
	__u32 rt_gw4;
} __attribute__((preserve_access_index));

/* Reads the route of a leg's local socket: the next hop that it has on this interface, as of this generation of the routes. 0: none. */
static __attribute__((noinline)) int find_next_hop(struct __sk_buff *skb, struct packet_leg *leg, __u32 ifindex, __u32 generation)
{
	struct bpf_sock *socket = socket_of(skb, &leg->flow, 0);
	const struct rtable *route = 0;
	struct tcp_sock *tcp;
	__u32 next_hop = 0;

	if (!socket)
		return 0;
	tcp = bpf_skc_to_tcp_sock(socket);
	if (tcp && tcp->inet_conn.icsk_inet.sk.sk_dst_cache)
		route = bpf_rdonly_cast(tcp->inet_conn.icsk_inet.sk.sk_dst_cache, bpf_core_type_id_kernel(struct rtable));
	if (route && route->dst.obsolete == DST_OBSOLETE_FORCE_CHK && (__u32)route->rt_genid == generation &&
	    route->rt_type == RTN_UNICAST && (__u32)route->dst.dev->ifindex == ifindex) {
		if (route->rt_gw_family == AF_INET)
			next_hop = route->rt_gw4;
		else if (!route->rt_gw_family)
			next_hop = leg->flow.peer[3];
	}
	bpf_sk_release(socket);
	return next_hop;
}

/* Sends a packet on, to the peer of a leg. */
static __always_inline int send_on(struct __sk_buff *skb, const struct packet *packet, struct packet_leg *leg, __u32 ifindex)
{
	struct bpf_redir_neigh *hop = &packet->headers->next_hop;
	struct sk_buff *kernel;
	__u32 generation;

	if (packet->is_ipv6 || !bpf_ksym_exists(bpf_cast_to_kern_ctx) || !bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_redirect_neigh(ifindex, 0, 0, 0);
	kernel = bpf_cast_to_kern_ctx(skb);
	generation = kernel->dev->nd_net.net->ipv4.rt_genid.counter;
	if (leg->hop_ifindex != ifindex || leg->hop_generation != generation) {
		leg->next_hop = find_next_hop(skb, leg, ifindex, generation);
		leg->hop_generation = generation;
		leg->hop_ifindex = ifindex;
	}
	if (!leg->next_hop)
		return bpf_redirect_neigh(ifindex, 0, 0, 0);
	hop->nh_family = AF_INET;
	hop->ipv4_nh = leg->next_hop;
	return bpf_redirect_neigh(ifindex, hop, sizeof(*hop), 0);
}

#endif
