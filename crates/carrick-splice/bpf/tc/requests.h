/* What a client sends while responses are forwarded: classified requests go to the server, everything else to the
 * local socket. Included by responses.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_REQUESTS_H
#define CARRICK_TC_REQUESTS_H

/* Whether the server's TCP might drop the packet for its timestamp (PAWS, RFC 7323 section 5). */
static __always_inline int is_old(const struct packet_leg *leg, const struct packet *packet)
{
	return packet->timestamps_at && is_before(packet->headers->tsval, leg->peer_tsval);
}

/* Whether the packet is the next request: all requests before it are answered, and the last response is known to be
 * whole. So pipelined requests go to the process, as does whatever the server's TCP could drop, or read differently
 * from the classifier. */
static __always_inline int is_next_request(const struct packet_splice *splice, const struct packet_response *record,
					   const struct packet *packet)
{
	const struct packet_leg *client = &splice->legs[0], *server = &splice->legs[1];
	const struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];

	return splice->state == PACKET_RESPONSES && splice->table && splice->requests_left && packet->has_payload && !packet->is_odd &&
	       !packet->is_expiring && !is_old(client, packet) && !(packet->flags & ~(FLAG_ACK | FLAG_PSH)) && packet->seq == up->end && client->received == up->end &&
	       packet->headers->ack - down->delta == down->end && !down->has_end && server->local_acked == server->local_end &&
	       record->passed_bytes == record->settled_bytes && record->sent_bytes != record->head_at &&
	       record->sent_bytes == record->whole_end;
}

/* Keeps the bytes of a forwarded request. */
static __always_inline void keep_request(struct packet_request *kept, const struct packet *packet)
{
	const struct packet_request *payload = &packet->headers->payload;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < PACKET_REQUEST_WORDS && 8 * i < packet->payload_bytes; i += 8)
		__builtin_memcpy(&kept->words[i], &payload->words[i], 64);
}

/* Whether a packet carries the kept request's bytes, from `offset` on. */
static __always_inline int is_kept(const struct packet_request *kept, const struct packet *packet, __u32 offset)
{
	const __u8 *payload = (const __u8 *)packet->headers->payload.words, *bytes = (const __u8 *)kept->words;
	__u32 left = packet->payload_bytes & 7, end = packet->payload_bytes - left, at = offset + end, i;

	asm volatile("" : "+r"(end), "+r"(at));
	if (end > sizeof(*kept) - 8 || at > sizeof(*kept) - 8)
		return 0;
	/* First, so that the verifier follows it once, not behind each turn of the loop. */
	if (left && (*(const __u64 *)(payload + end) ^ *(const __u64 *)(bytes + at)) << (64 - 8 * left))
		return 0;
	/* Else clang 19 leaves out the loop's first bound, which Linux 6.1 does not infer from `end`. */
	asm volatile("" : "+r"(end));
#pragma clang loop unroll(disable)
	for (i = 0; i < sizeof(*kept) && i < end; i += 8) {
		at = offset + i;
		asm volatile("" : "+r"(at));
		if (at > sizeof(*kept) - 8 || *(const __u64 *)(payload + i) != *(const __u64 *)(bytes + at))
			return 0;
	}
	return 1;
}

/* The empty line that ends a request, which the appended field lines take the place of. */
#define EMPTY_LINE_BYTES 2

/* Bytes of the line that the server does not get. */
static __always_inline __u32 left_out_bytes(const struct packet_splice *splice)
{
	return splice->left_out_at ? KEEP_ALIVE_BYTES : 0;
}

/* How many bytes more the server gets of the latest forwarded request; may be less than none. */
static __always_inline __u32 added_bytes(const struct packet_splice *splice, const struct packet_response *record)
{
	return record->fields.bytes ? record->fields.bytes - EMPTY_LINE_BYTES - left_out_bytes(splice) : 0;
}

/* The end of what is passed on unchanged, as an offset in that request. */
static __always_inline __u32 unchanged_bytes(const struct packet_splice *splice, const struct packet_response *record)
{
	return splice->classified_end - splice->classified_start - (record->fields.bytes ? EMPTY_LINE_BYTES : 0);
}

/* Forwards a packet of that request, from `offset` on, with the server's numbers. A part of it that was left out is
 * dropped. */
static __always_inline void forward_part(struct packet_splice *splice, const struct packet_response *record,
					 const struct packet *packet, __u32 offset, __u32 window, struct plan *plan)
{
	__u32 unchanged = unchanged_bytes(splice, record), end = offset + packet->payload_bytes;
	__u32 start = offset < unchanged ? offset : unchanged, out = splice->left_out_at, out_end = out + left_out_bytes(splice);
	__u32 seq;
	int is_same;

	plan->is_extended = end > unchanged && splice->classified_start + end == splice->classified_end && record->fields.bytes;
	if (end > unchanged)
		end = unchanged;
	/* What is left out of this packet begins and ends in it. */
	out = out < start ? start : out < end ? out : end;
	out_end = out_end < start ? start : out_end < end ? out_end : end;
	plan->kept_bytes = out - start;
	plan->left_out_bytes = out_end - out;
	plan->rest_bytes = end - out_end;
	if (!plan->kept_bytes && !plan->rest_bytes && !plan->is_extended) {
		plan->fate = FATE_DROP;
		return;
	}
	seq = splice->classified_start + splice->classified_delta + start;
	if (start > splice->left_out_at)
		seq -= start - splice->left_out_at < left_out_bytes(splice) ? start - splice->left_out_at : left_out_bytes(splice);
	/* An empty line in place of a whole empty line changes nothing. */
	is_same = plan->is_extended && record->fields.bytes == EMPTY_LINE_BYTES && offset <= unchanged;
	plan->is_changed = plan->left_out_bytes || (record->fields.bytes && !is_same);
	forward_to_server(splice, packet, seq, window, plan);
}

/* Forwards a classified request to the server, with the numbers it would have had through the local sockets. */
static __always_inline void forward_request(struct packet_splice *splice, struct packet_response *record,
					    struct packet_request *kept, const struct packet *packet, __u32 window,
					    struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0], *server = &splice->legs[1];
	struct packet_way *up = &splice->ways[0];
	__u32 bytes = packet->payload_bytes;

	keep_request(kept, packet);
	splice->classified_start = packet->seq;
	splice->classified_end = up->end = packet->seq + bytes;
	splice->classified_delta = server->local_end - packet->seq;
	splice->left_out_at = record->fields.bytes ? packet->headers->left_out_at : 0;
	splice->requests_left -= 1;
	splice->request_start = server->local_end;
	client->receive_offset += bytes;
	bytes += added_bytes(splice, record);
	server->send_offset += bytes;
	server->local_end += bytes;
	server->local_acked = server->local_end;
	splice->response_start = splice->ways[1].end;
	plan->is_request = 1;
	note_response_end(record);
	/* The response that ends here is to the process's latest request. */
	if (record->classified == record->classified_before) {
		record->passed_status = latest_status(record);
		record->passed_end = record->sent_bytes;
	}
	forget_head(record);
	record->method = packet->headers->method;
	record->classified += 1;
	forward_part(splice, record, packet, 0, window, plan);
}

/* Whether the server has yet to acknowledge a forwarded request. */
static __always_inline int is_request_outstanding(const struct packet_splice *splice)
{
	return is_before(splice->legs[0].received, splice->classified_end);
}

/* Whether the packet's numbers are within that request. It may carry a FIN. */
static __always_inline int is_in_request(const struct packet_splice *splice, const struct packet *packet)
{
	return is_request_outstanding(splice) && packet->payload_bytes && !is_before(packet->seq, splice->classified_start) &&
	       !is_after(packet->seq + packet->payload_bytes, splice->classified_end) && !(packet->flags & FLAG_RST);
}

/* How many bytes of a packet belong to that request, if it has more behind it: a client that pipelines may
 * retransmit both in one packet. The rest is retransmitted once the request is acknowledged. */
static __always_inline __u32 bytes_in_request(const struct packet_splice *splice, const struct packet *packet)
{
	__u32 bytes = splice->classified_end - packet->seq;

	if (!is_request_outstanding(splice) || is_before(packet->seq, splice->classified_start) ||
	    !is_before(packet->seq, splice->classified_end) || bytes >= packet->payload_bytes)
		return 0;
	return bytes;
}

/* Records what the client's local socket receives. */
static __always_inline void note_passed(struct packet_splice *splice, struct packet_response *record, const struct packet *packet)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *up = &splice->ways[0];
	__u32 end = packet->seq + packet->payload_bytes;

	if (is_after(end, up->end))
		record->passed_bytes += end - up->end;
	note_sent(up, end, 0);
	/* Otherwise it could fall behind by more than sequence numbers can express. */
	if (!is_request_outstanding(splice))
		splice->classified_start = splice->classified_end = client->received;
}

/* Nothing behind a FIN or a reset is classified: these count no bytes, so the data behind them would have their
 * number. Nor is anything behind bytes that only the local socket may accept. */
static __always_inline void stop_classifying(struct packet_splice *splice, const struct packet *packet, int is_believed)
{
	if (packet->flags & (FLAG_FIN | FLAG_RST) ||
	    (!is_believed && packet->payload_bytes && is_after(packet->seq + packet->payload_bytes, splice->ways[0].end)))
		splice->table = 0;
}

/* A packet from the client. */
static __always_inline void handle_client(struct packet_splice *splice, struct packet_response *record,
					  struct packet_request *kept, const struct packet *packet, int is_classified,
					  struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u32 acked = packet->headers->ack - down->delta, window = (__u32)packet->window << (client->peer_shift & 15);
	int is_believed = is_from_client(splice, packet, acked) && !packet->is_odd;
	/* Checked before the packet's timestamp is recorded. */
	int is_next = is_believed && is_classified && is_next_request(splice, record, packet);

	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	client->has_reset |= !!(packet->flags & FLAG_RST);
	plan->part = bytes_in_request(splice, packet);
	if (plan->part) {
		plan->fate = FATE_CUT;
		return;
	}
	stop_classifying(splice, packet, is_believed);
	if (packet->flags & FLAG_SYN)
		return;
	if (is_believed) {
		window = limit_window(splice, acked, window);
		note_time(client, packet);
		acknowledge_locally(client, packet, 0, plan);
		plan->is_acknowledging = is_after(acked, down->start);
		note_acknowledged(splice, record, acked);
		note_window(down, acked, window);
		packet->headers->pace.is_stale = !plan->is_acknowledging && is_stale(packet, down, acked, window);
		if (!is_before(acked, down->acked))
			down->offered_end = acked + window;
		plan->is_told = is_end_due(down, record);
	}
	if (is_next) {
		forward_request(splice, record, kept, packet, window, plan);
		return;
	}
	if (is_in_request(splice, packet)) {
		/* The local socket would discard it, too, as the request that was read already. */
		if (!is_believed || !packet->has_payload || !is_kept(kept, packet, packet->seq - splice->classified_start)) {
			plan->fate = FATE_DROP;
			splice->refused += 1;
			return;
		}
		/* The FIN is left out here, as it is for the local socket. The client sends it again once its
		 * request is acknowledged. */
		forward_part(splice, record, packet, packet->seq - splice->classified_start, window, plan);
		return;
	}
	plan->rewriting.seq = -client->receive_offset;
	plan->rewriting.ack = plan->rewriting.sack = -client->send_offset;
	plan->rewriting.tsecr = -client->ts_offset;
	if (sequence_length(packet) || packet->flags & FLAG_RST) {
		/* The packet itself brings the acknowledgement to the local socket, which rejects what is not
		 * plausible. */
		plan->is_copied = 0;
		if (is_believed)
			note_passed(splice, record, packet);
		return;
	}
	if (!is_believed) {
		plan->fate = FATE_DROP;
		splice->refused += 1;
		return;
	}
	/* A keep-alive probe, which the local socket answers; or an old acknowledgement. */
	if (is_before(packet->seq, up->end)) {
		plan->is_copied = 0;
		return;
	}
	forward_to_server(splice, packet, splice->legs[1].local_end, window, plan);
}

/* Records what the server has acknowledged of forwarded requests. Whether the client is to learn of it. The empty line is
 * acknowledged with the field lines in its place: until then the client has something to send again. */
static __always_inline int note_request_acked(struct packet_splice *splice, const struct packet_response *record,
					      const struct packet *packet)
{
	struct packet_leg *client = &splice->legs[0];
	__u32 offset = packet->headers->ack - splice->classified_delta - splice->classified_start;
	__u32 bytes = splice->classified_end - splice->classified_start, unchanged = unchanged_bytes(splice, record);

	if (!is_request_outstanding(splice) || (__s32)offset <= 0)
		return 0;
	/* The acknowledgement may also cover later data from the process. */
	if (offset >= bytes + added_bytes(splice, record)) {
		offset = bytes;
	} else {
		if (splice->left_out_at && offset >= splice->left_out_at)
			offset += KEEP_ALIVE_BYTES;
		if (offset > unchanged)
			offset = unchanged;
	}
	if (!is_after(splice->classified_start + offset, client->received))
		return 0;
	client->received = splice->classified_start + offset;
	return 1;
}

#endif
