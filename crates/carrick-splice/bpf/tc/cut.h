/* Shortens packets. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_CUT_H
#define CARRICK_TC_CUT_H

/* Sets the IP length for `tcp_bytes` of TCP. `ip` is a copy of the header. */
static __always_inline int write_length(struct __sk_buff *skb, int is_ipv6, const __u8 *ip, __u32 ip_bytes, __u32 tcp_bytes)
{
	__u16 length, was;

	if (is_ipv6) {
		length = bpf_htons(tcp_bytes);
		return !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &length, sizeof(length),
					    BPF_F_RECOMPUTE_CSUM);
	}
	length = bpf_htons(ip_bytes + tcp_bytes);
	was = *(const __u16 *)(ip + offsetof(struct iphdr, tot_len));
	return !bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), was, length, sizeof(length)) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &length, sizeof(length), 0);
}

/* Turns a copy into a bare acknowledgement by its headers only: IP trims what exceeds the length. (With old payload,
 * the local socket would answer it.) */
static __attribute__((noinline)) int strip_payload(struct __sk_buff *skb)
{
	__u32 zero = 0, is_ipv6 = skb->protocol == bpf_htons(ETH_P_IPV6), ip_bytes = sizeof(struct ipv6hdr), tcp_bytes;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	__u16 check;
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
	if (!IS_WITHIN(tcp_bytes, TCP_HEADER_MIN, TCP_HEADER_MAX) || bpf_skb_load_bytes(skb, ETH_HLEN + ip_bytes, tcp, tcp_bytes))
		return 0;
	/* The pseudo header (RFC 9293 section 3.1): addresses, with which the IP header ends if there are no
	 * options; length; protocol. */
	sum = is_ipv6 ? bpf_csum_diff(0, 0, (__be32 *)(ip + offsetof(struct ipv6hdr, saddr)), 32, 0)
		      : bpf_csum_diff(0, 0, (__be32 *)(ip + offsetof(struct iphdr, saddr)), 8, 0);
	*(__u16 *)(tcp + offsetof(struct tcphdr, check)) = 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)tcp, tcp_bytes, sum);
	check = ~fold(sum + bpf_htonl(tcp_bytes) + bpf_htonl(IPPROTO_TCP));
	if (bpf_skb_store_bytes(skb, ETH_HLEN + ip_bytes + offsetof(struct tcphdr, check), &check, sizeof(check), BPF_F_RECOMPUTE_CSUM))
		return 0;
	return write_length(skb, is_ipv6, ip, ip_bytes, tcp_bytes);
}

/* Keeps the first `bytes` of a longer payload. The packet then enters the interface again. */
static __attribute__((noinline)) int cut_payload(struct __sk_buff *skb, const struct packet *packet, __u32 bytes)
{
	__u32 zero = 0, ip_bytes = packet->tcp_at - ETH_HLEN, was = packet->header_bytes + packet->payload_bytes;
	__u32 tcp_bytes = packet->header_bytes + bytes, check_at = packet->tcp_at + offsetof(struct tcphdr, check), sum;
	struct summing *summing = bpf_map_lookup_elem(&sums, &zero);

	if (!summing)
		return 0;
	summing->at = packet->tcp_at + tcp_bytes;
	summing->left = was - tcp_bytes;
	summing->sum = 0;
	bpf_loop(CHUNKS_MAX, add_chunk, &skb, 0);
	sum = fold(summing->sum);
	/* After an odd number of bytes, the halves of each word are swapped. */
	if (bytes & 1)
		sum = (sum & 0xff) << 8 | sum >> 8;
	if (summing->left || bpf_skb_change_tail(skb, packet->tcp_at + tcp_bytes, 0) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN, summing->chunk, sizeof(struct ipv6hdr)) ||
	    !write_length(skb, packet->is_ipv6, summing->chunk, ip_bytes, tcp_bytes))
		return 0;
	/* With CHECKSUM_PARTIAL only the length matters: it is part of the pseudo header. */
	return !bpf_l4_csum_replace(skb, check_at, 0, ~sum & 0xffff, 0) &&
	       !bpf_l4_csum_replace(skb, check_at, bpf_htons(was), bpf_htons(tcp_bytes), BPF_F_PSEUDO_HDR | sizeof(__u16));
}

#endif
