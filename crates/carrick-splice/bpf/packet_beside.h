/* What a local socket is given beside what is forwarded: an acknowledgement of what it has sent. Included by packet.bpf.c. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_PACKET_BESIDE_H
#define CARRICK_PACKET_BESIDE_H

/* Gives the local socket an acknowledgement for what it has sent, and nothing else: `strip_payload` takes off whatever else the packet
 * carries, as soon as the copy comes in. */
static __always_inline int copy_to_local(struct __sk_buff *skb, struct packet *packet, const struct packet_leg *leg,
					 const struct plan *plan)
{
	struct rewriting rewriting = {
		.ack = plan->local_ack - packet->ack,
		.tsecr = -leg->ts_offset,
		.window = packet->window,
	};
	__u8 sack_blocks = packet->sack_blocks;
	struct local local;

	look_at(skb, leg, &local);
	// One that has ended its stream still waits.
	if (!local.is_whole)
		return 1;
	rewriting.seq = local.rcv_nxt - packet->seq;
	// Of no use here: they are translated for the other peer.
	packet->sack_blocks = 0;
	rewrite_tcp(packet, &rewriting);
	packet->sack_blocks = sack_blocks;
	packet->headers->new[13] &= ~(FLAG_FIN | FLAG_PSH | FLAG_URG);
	if (!write_tcp(skb, packet))
		return 0;
	skb->mark = COPY_MARK;
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	skb->mark = 0;
	// The one that goes on is made from the one that came: the checksum in both headers is the one that it came with.
	packet->headers->new[13] = packet->flags;
	return 1;
}

/* Makes a bare acknowledgement of a copy. Only its headers are changed: what is behind the length that they name, IP cuts off. (A
 * packet that had old bytes instead would be answered, for nobody.) */
static __attribute__((noinline)) int strip_payload(struct __sk_buff *skb)
{
	__u32 zero = 0, is_ipv6 = skb->protocol == bpf_htons(ETH_P_IPV6), ip_bytes = sizeof(struct ipv6hdr), tcp_bytes;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	__u16 length, was, check;
	__u8 *ip, *tcp;
	__s64 sum;

	if (!headers_of)
		return 0;
	ip = headers_of->old;
	tcp = headers_of->new;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, ip, is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)))
		return 0;
	if (!is_ipv6)
		ip_bytes = (ip[0] & 15) * 4;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + ip_bytes, tcp, TCP_HEADER_MIN))
		return 0;
	tcp_bytes = (tcp[12] >> 4) * 4;
	asm volatile("" : "+r"(tcp_bytes));
	if (tcp_bytes < TCP_HEADER_MIN || tcp_bytes > TCP_HEADER_MAX || bpf_skb_load_bytes(skb, ETH_HLEN + ip_bytes, tcp, tcp_bytes))
		return 0;
	/* The pseudo header (RFC 9293 section 3.1): addresses, which end where IP's header does without options; length; protocol. */
	sum = is_ipv6 ? bpf_csum_diff(0, 0, (__be32 *)(ip + offsetof(struct ipv6hdr, saddr)), 32, 0)
		      : bpf_csum_diff(0, 0, (__be32 *)(ip + offsetof(struct iphdr, saddr)), 8, 0);
	*(__u16 *)(tcp + offsetof(struct tcphdr, check)) = 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)tcp, tcp_bytes, sum);
	check = ~fold(sum + bpf_htonl(tcp_bytes) + bpf_htonl(IPPROTO_TCP));
	if (bpf_skb_store_bytes(skb, ETH_HLEN + ip_bytes + offsetof(struct tcphdr, check), &check, sizeof(check), BPF_F_RECOMPUTE_CSUM))
		return 0;
	if (is_ipv6) {
		length = bpf_htons(tcp_bytes);
		return !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &length, sizeof(length),
					    BPF_F_RECOMPUTE_CSUM);
	}
	length = bpf_htons(ip_bytes + tcp_bytes);
	was = *(__u16 *)(ip + offsetof(struct iphdr, tot_len));
	return !bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), was, length, sizeof(length)) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &length, sizeof(length), 0);
}

#endif
