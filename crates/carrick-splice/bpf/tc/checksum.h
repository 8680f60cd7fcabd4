/* Verifies a packet's checksums: a corrupt packet must change no state. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_CHECKSUM_H
#define CARRICK_TC_CHECKSUM_H

/* Bytes summed per call: before Linux 6.13, bpf_csum_diff() takes no more. */
#define CHUNK_BYTES 512

/* Enough of them for the longest packet; a larger one comes from GRO or a sender's GSO. */
#define CHUNKS_MAX 128

/* Linux 6.2 and later. */
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* linux/skbuff.h */
#define CHECKSUM_UNNECESSARY 1
#define CHECKSUM_PARTIAL 3

/* The fields that say where the hardware writes a checksum. */
struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	struct net_device *dev;
	__u8 ip_summed : 2;
	__u16 csum_start;
	__u16 csum_offset;
} __attribute__((preserve_access_index));

/* A sum in progress. In a map, since a program's stack is small. */
struct summing {
	__u32 at;
	__u32 left;
	__u32 sum;
	/* Padded with zeros to whole words. */
	__u8 chunk[CHUNK_BYTES + 4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct summing);
} sums SEC(".maps");

/* Adds the next chunk of the packet. A callback of bpf_loop(): a result other than 0 ends it. */
static long add_chunk(__u32 index, struct __sk_buff **skb)
{
	__u32 zero = 0, bytes;
	struct summing *summing = bpf_map_lookup_elem(&sums, &zero);
	__s64 sum;

	if (!summing)
		return 1;
	bytes = summing->left < CHUNK_BYTES ? summing->left : CHUNK_BYTES;
	if (!IS_WITHIN(bytes, 1, CHUNK_BYTES) || bpf_skb_load_bytes(*skb, summing->at, summing->chunk, bytes))
		return 1;
	__builtin_memset(summing->chunk + bytes, 0, 4);
	sum = bpf_csum_diff(0, 0, (__be32 *)summing->chunk, (bytes + 3) & ~3, summing->sum);
	if (sum < 0)
		return 1;
	summing->sum = sum;
	summing->at += bytes;
	summing->left -= bytes;
	return 0;
}

/* Whether the IPv4 header checksum is right. The kernel does not say whether it was verified. */
static __always_inline int is_header_right(struct __sk_buff *skb, struct summing *summing, __u32 bytes)
{
	const void *start = (const void *)(long)skb->data, *end = (const void *)(long)skb->data_end;
	const __u32 *words = start + ETH_HLEN;
	__s64 sum;

	/* The usual case: no options. */
	if (bytes == sizeof(struct iphdr) && (const void *)(words + sizeof(struct iphdr) / 4) <= end)
		return fold((__u64)words[0] + words[1] + words[2] + words[3] + words[4]) == 0xffff;
	if (!IS_WITHIN(bytes, sizeof(struct iphdr), 60) || bpf_skb_load_bytes(skb, ETH_HLEN, summing->chunk, bytes))
		return 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)summing->chunk, bytes & ~3, 0);
	return sum >= 0 && fold(sum) == 0xffff;
}

/* The TCP segment's sum as computed by the interface; negative if there is none, or if it covers something else. */
static __always_inline __s64 sum_by_interface(struct __sk_buff *skb, const struct packet *packet, struct summing *summing)
{
	/* CHECKSUM_COMPLETE: the sum of everything behind the Ethernet header. */
	__s64 sum = bpf_csum_update(skb, 0);

	if (sum < 0 || skb->len != summing->at + summing->left)
		return -1;
	/* An IPv4 header with its checksum adds nothing. */
	if (!packet->is_ipv6)
		return sum;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, summing->chunk, sizeof(struct ipv6hdr)))
		return -1;
	return bpf_csum_diff((__be32 *)summing->chunk, sizeof(struct ipv6hdr), 0, 0, sum);
}

/* What the kernel knows of a packet's checksum: its `ip_summed`; negative on older kernels, which do not tell. Notes whether the
 * hardware is to write the checksum anywhere but into TCP's field: a local sender (PACKET_VNET_HDR, a virtual machine) could so
 * change bytes after they were classified. */
static __always_inline int ask_of_checksum(struct __sk_buff *skb, struct packet *packet)
{
	struct sk_buff *kernel;

	if (!bpf_ksym_exists(bpf_cast_to_kern_ctx))
		return -1;
	kernel = bpf_cast_to_kern_ctx(skb);
	packet->headers->is_partial = BPF_CORE_READ_BITFIELD(kernel, ip_summed) == CHECKSUM_PARTIAL;
	packet->is_odd |= packet->headers->is_partial && (kernel->csum_offset != offsetof(struct tcphdr, check) ||
						 kernel->head + kernel->csum_start != kernel->data + packet->tcp_at);
	return BPF_CORE_READ_BITFIELD(kernel, ip_summed);
}

/* Whether the packet is CHECKSUM_PARTIAL, where the kernel does not tell. On such a packet, a difference that is not of the
 * pseudo header changes nothing (inet_proto_csum_replace_by_diff). */
static __always_inline int is_left_to_hardware(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 at = packet->tcp_at + offsetof(struct tcphdr, check);
	__u16 before = *(const __u16 *)(packet->headers->old + offsetof(struct tcphdr, check)), after = ~before;

	if (bpf_l4_csum_replace(skb, at, 0, 1, 0) || bpf_skb_load_bytes(skb, at, &after, sizeof(after)))
		return 0;
	if (after == before)
		return 1;
	bpf_skb_store_bytes(skb, at, &before, sizeof(before), 0);
	return 0;
}

/* Whether the checksums of a packet at ingress are right. Nothing is computed if the interface has verified them, or
 * the sender's kernel leaves them to the hardware. */
static __attribute__((noinline)) int is_right(struct __sk_buff *skb, struct packet *packet)
{
	__u32 zero = 0, i;
	struct summing *summing = bpf_map_lookup_elem(&sums, &zero);
	__u64 pseudo;
	__s64 sum;
	int known;

	if (!summing || (!packet->is_ipv6 && !is_header_right(skb, summing, packet->tcp_at - ETH_HLEN)))
		return 0;
	/* The checksum of a segment in fragments is that of all. */
	if (packet->is_unforwardable)
		return 1;
	known = ask_of_checksum(skb, packet);
	/* GRO merges only segments whose checksums are right. CHECKSUM_UNNECESSARY: verified by the interface or
	 * GRO. */
	if (skb->gso_size || known == CHECKSUM_UNNECESSARY || (known < 0 && bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0))
		return 1;
	summing->at = packet->tcp_at;
	summing->left = packet->header_bytes + packet->payload_bytes;
	summing->sum = 0;
	pseudo = bpf_htonl(summing->left) + (__u64)bpf_htonl(IPPROTO_TCP);
	/* The 0xffff of a mapped IPv4 address counts as 0 in such sums. */
	for (i = 0; i < 4; i++)
		pseudo += (__u64)packet->headers->flow.own[i] + packet->headers->flow.peer[i];
	/* A packet from this machine, or a virtual machine on it, has only the pseudo header's sum in the field (RFC
	 * 9293 section 3.1). A sender could write that value to have the packet dropped behind this host, so the
	 * kernel must confirm it. */
	if (fold(pseudo + (__u16)~*(__u16 *)(packet->headers->old + 16)) == 0xffff &&
	    (packet->headers->is_partial || (known < 0 && is_left_to_hardware(skb, packet))))
		return 1;
	sum = sum_by_interface(skb, packet, summing);
	if (sum >= 0 && fold(pseudo + sum) == 0xffff)
		return 1;
	bpf_loop(CHUNKS_MAX, add_chunk, &skb, 0);
	return !summing->left && fold(pseudo + summing->sum) == 0xffff;
}

#endif
