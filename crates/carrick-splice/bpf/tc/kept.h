/* Keeps the first and last bytes of the latest response for the process. Included by tc.bpf.c. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_KEPT_H
#define CARRICK_TC_KEPT_H

/* Records that bytes `from` .. `to` of a response are in `head`. Bytes that arrived early count once those
 * before them are there. */
static __always_inline void note_head(struct packet_response *record, __u32 from, __u32 to)
{
	__u32 known = record->head_bytes;

	if (from > known) {
		if (!record->early_end || (from <= record->early_end && to >= record->early_from)) {
			record->early_from = record->early_end && record->early_from < from ? record->early_from : from;
			record->early_end = record->early_end > to ? record->early_end : to;
		}
		return;
	}
	if (to > known)
		known = to;
	if (record->early_from <= known && record->early_end > known)
		known = record->early_end;
	record->head_bytes = known;
}

/* Whether some of the bytes `from` .. `to` of a response are in `head`. The client has one of the copies, and nothing says which: the first one
 * stays. A segment with other boundaries leaves the head incomplete, and the server's connection is not used again. */
static __always_inline int has_of_head(const struct packet_response *record, __u32 from, __u32 to)
{
	return from < record->head_bytes || (from < record->early_end && to > record->early_from);
}

/* Keeps `bytes` at offset `at` of a packet as bytes `from` onwards of the response that begins at `head_at`.
 * Under the lock: kept late, they would be taken for the beginning of the next response. Not static, so that
 * the verifier checks it once. */
GLOBAL_FUNCTION int keep_head(struct __sk_buff *skb, __u32 number, __u32 at, __u32 from_and_bytes, __u32 head_at)
{
	__u32 zero = 0, from = from_and_bytes >> 16, bytes = from_and_bytes & 0xffff, words_end, i;
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	struct packet_response *record;
	const __u8 *payload;

	if (!splice || !headers_of || !IS_WITHIN(bytes, 1, PACKET_HEAD_BYTES))
		return 0;
	record = find_record(splice);
	if (!record || bpf_skb_load_bytes(skb, at, headers_of->payload.words, bytes))
		return 0;
	payload = (const __u8 *)headers_of->payload.words;
	bpf_spin_lock(&splice->lock);
	if ((__u32)record->head_at == head_at && !has_of_head(record, from, from + bytes)) {
		/* What is behind the packet's bytes in the buffer is another packet's, and not noted. */
		if (!from && !record->early_end) {
			__builtin_memcpy(record->head, headers_of->payload.words, PACKET_HEAD_BYTES);
		} else {
			words_end = bytes & ~7U;
			/* First, so that the verifier follows it once, not behind each turn of the other loop. */
#pragma clang loop unroll(full)
			for (i = 0; i < 7; i++) {
				at = words_end + i;
				if (at < bytes)
					record->head[(from + at) & (PACKET_HEAD_BYTES - 1)] = payload[at & (PACKET_HEAD_BYTES - 1)];
			}
			for (i = 0; i < PACKET_HEAD_BYTES && i < words_end; i += 8) {
				at = from + i;
				asm volatile("" : "+r"(at));
				if (at > PACKET_HEAD_BYTES - 8)
					break;
				*(__u64 *)(record->head + at) = *(const __u64 *)(payload + i);
			}
		}
		note_head(record, from, from + bytes);
	}
	bpf_spin_unlock(&splice->lock);
	return 0;
}

/* Keeps the first and last bytes of a response for the process. */
static __always_inline void record_payload(struct __sk_buff *skb, const struct packet *packet, const struct plan *plan, __u32 number,
					   struct packet_response *record)
{
	__u32 at = packet->tcp_at + packet->header_bytes, bytes = packet->payload_bytes;
	__u32 most = plan->head_from ? PACKET_HEAD_BYTES - PACKET_PIECES_BYTES : PACKET_HEAD_BYTES;

	if (plan->is_tail && bytes >= PACKET_TAIL_BYTES)
		bpf_skb_load_bytes(skb, at + bytes - PACKET_TAIL_BYTES, record->tail, PACKET_TAIL_BYTES);
	if (plan->is_head)
		keep_head(skb, number, at, plan->head_from << 16 | (bytes < most ? bytes : most), plan->head_at);
}

#endif
