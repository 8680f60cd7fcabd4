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

/* The sum of a packet's bytes from there on, as the checksum of a segment has it in which they begin at `offset`.
 * Negative: they are not there. */
static __attribute__((noinline)) __s64 sum_of(struct __sk_buff *skb, __u32 at, __u32 bytes, __u32 offset)
{
	__u32 zero = 0, sum;
	struct summing *summing = bpf_map_lookup_elem(&sums, &zero);

	if (!summing)
		return -1;
	summing->at = at;
	summing->left = bytes;
	summing->sum = 0;
	bpf_loop(CHUNKS_MAX, add_chunk, &skb, 0);
	if (summing->left)
		return -1;
	sum = fold(summing->sum);
	/* After an odd number of bytes, the halves of each word are swapped. */
	return offset & 1 ? (sum & 0xff) << 8 | sum >> 8 : sum;
}

/* Sets a packet's length to `tcp_bytes` of TCP, from `was`, and changes its checksum by `difference`. */
static __attribute__((noinline)) int write_size(struct __sk_buff *skb, const struct packet *packet, __u32 was, __u32 tcp_bytes, __u32 difference)
{
	__u32 zero = 0, check_at = packet->tcp_at + offsetof(struct tcphdr, check);
	struct summing *summing = bpf_map_lookup_elem(&sums, &zero);

	if (!summing || bpf_skb_load_bytes(skb, ETH_HLEN, summing->chunk, sizeof(struct ipv6hdr)) ||
	    !write_length(skb, packet->is_ipv6, summing->chunk, packet->tcp_at - ETH_HLEN, tcp_bytes))
		return 0;
	/* With CHECKSUM_PARTIAL only the length matters: it is part of the pseudo header. */
	return !bpf_l4_csum_replace(skb, check_at, 0, difference, 0) &&
	       !bpf_l4_csum_replace(skb, check_at, bpf_htons(was), bpf_htons(tcp_bytes), BPF_F_PSEUDO_HDR | sizeof(__u16));
}

/* The end comes behind what is cut off. */
static __attribute__((noinline)) int clear_end(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 at = packet->tcp_at + offsetof(struct tcphdr, check) - 4;
	__u16 before = *(const __u16 *)(packet->headers->old + 12), after = before & ~bpf_htons(FLAG_FIN);

	return !bpf_l4_csum_replace(skb, at + 4, before, after, sizeof(after)) && !bpf_skb_store_bytes(skb, at, &after, sizeof(after), 0);
}

/* Keeps the first `bytes` of a longer payload. The packet then enters the interface again. */
static __attribute__((noinline)) int cut_payload(struct __sk_buff *skb, const struct packet *packet, __u32 bytes)
{
	__u32 was = packet->header_bytes + packet->payload_bytes, tcp_bytes = packet->header_bytes + bytes;
	__s64 sum = sum_of(skb, packet->tcp_at + tcp_bytes, was - tcp_bytes, bytes);

	if (sum < 0 || bpf_skb_change_tail(skb, packet->tcp_at + tcp_bytes, 0))
		return 0;
	if (packet->flags & FLAG_FIN && !clear_end(skb, packet))
		return 0;
	return write_size(skb, packet, was, tcp_bytes, ~sum & 0xffff);
}

/* Gives a request the payload that the server gets: without the line that is left out, and with the record's field lines
 * in place of the empty line. The packet's first `kept_bytes` stay. */
static __attribute__((noinline)) int change_payload(struct __sk_buff *skb, const struct packet *packet, const struct plan *plan,
						    const struct request_fields *fields)
{
	__u32 kept = plan->kept_bytes, rest = plan->rest_bytes, added = plan->is_extended ? fields->bytes : 0;
	__u32 at = packet->tcp_at + packet->header_bytes + kept, was = packet->payload_bytes - kept;
	__u32 from = kept + plan->left_out_bytes;
	__s64 sum_before = packet->headers->is_partial ? 0 : sum_of(skb, at, was, kept), sum_after;

	if (sum_before < 0 || bpf_skb_change_tail(skb, at + rest + added, 0))
		return 0;
	if (rest && plan->left_out_bytes &&
	    (!IS_WITHIN(from, 1, PACKET_REQUEST_BYTES) || !IS_WITHIN(rest, 1, PACKET_REQUEST_BYTES) ||
	     bpf_skb_store_bytes(skb, at, (const __u8 *)packet->headers->payload.words + from, rest, 0)))
		return 0;
	if (added && (!IS_WITHIN(added, 1, REQUEST_FIELDS_BYTES) || bpf_skb_store_bytes(skb, at + rest, fields->text, added, 0)))
		return 0;
	sum_after = packet->headers->is_partial ? 0 : sum_of(skb, at, rest + added, kept);
	if (sum_after < 0)
		return 0;
	was += packet->header_bytes + kept;
	return write_size(skb, packet, was, packet->header_bytes + kept + rest + added, fold(sum_after + (~sum_before & 0xffff)));
}

#endif
