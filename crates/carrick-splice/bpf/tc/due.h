/* The state DUE: the process still relays the response. At the first packet of the server (leg 1) that finds
 * everything before it received, RESPONSES begins. Included by machine.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_DUE_H
#define CARRICK_TC_DUE_H

/* How far the server may send. */
static __always_inline __u32 limit_of(const struct packet_splice *splice)
{
	const struct packet_way *down = &splice->ways[1];
	__u32 held = down->start + HELD_BYTES;

	if (splice->is_measured)
		held = splice->legs[1].passed_end + (splice->left_bytes > WINDOW_LIMIT ? WINDOW_LIMIT : splice->left_bytes) + HELD_BYTES;
	else if (is_after(down->acked, down->start))
		return down->offered_end;
	return is_after(held, down->offered_end) ? down->offered_end : held;
}

/* The client takes more than the server may send. The server is told at once, since its local socket does not know.
 * The client's local socket gets a copy of the packet. */
static __always_inline void tell_window(struct packet_splice *splice, const struct packet *packet, struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0], *server = &splice->legs[1];
	struct packet_way *down = &splice->ways[1];
	__u32 shift = server->own_shift & 15, limit = limit_of(splice), window = (limit - server->received) >> shift, end;

	if (window > 0xffff)
		window = 0xffff;
	end = server->received + (window << shift);
	if (!server->is_clamped || is_after(server->received, limit) || !is_after(end, server->told_end) || !server->ifindex)
		return;
	server->told_end = end;
	if (is_after(end, down->window_end))
		down->window_end = end;
	forward_to_server(splice, packet, server->local_end, window << shift, plan);
	packet->headers->pace.says_window = 0;
	plan->rewriting.ack = server->received - packet->headers->ack;
	plan->local_ack = client->local_acked - client->send_offset;
	plan->is_copied = 1;
}

/* A packet from the client, for its local socket. */
static __always_inline void handle_client_due(struct packet_splice *splice, const struct packet *packet, struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u32 acked = packet->headers->ack - down->delta, window = (__u32)packet->window << (client->peer_shift & 15);

	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	if (packet->flags & FLAG_SYN)
		return;
	plan->rewriting.seq = -client->receive_offset;
	plan->rewriting.ack = plan->rewriting.sack = -client->send_offset;
	plan->rewriting.tsecr = -client->ts_offset;
	note_given(client, packet);
	if (packet->flags & FLAG_RST || !is_from_client(splice, packet, acked))
		return;
	note_time(client, packet);
	note_sent(up, packet->seq + packet->payload_bytes, 0);
	if (is_after(packet->headers->ack, client->local_acked))
		client->local_acked = packet->headers->ack;
	if (is_before(acked, down->acked))
		return;
	down->acked = acked;
	down->offered_end = acked + window;
	if (!(packet->flags & ~(FLAG_ACK | FLAGS_OF_ECN)) && !packet->payload_bytes && !packet->sack_blocks && packet->seq == up->end)
		tell_window(splice, packet, plan);
}

/* Whether the server may send no more than the client takes. It would have to retransmit the surplus. */
static __always_inline int is_taken(const struct packet_way *down)
{
	return !is_after(down->window_end, down->offered_end);
}

/* A packet from the server: for its local socket, or the first that is forwarded to the client. `is_next`: the local
 * socket has received everything before it, and nothing after it. */
static __always_inline void handle_server_due(struct packet_splice *splice, struct packet_response *record,
					      const struct packet *packet, int is_next, struct plan *plan)
{
	struct packet_leg *server = &splice->legs[1];
	struct packet_way *down = &splice->ways[1];
	__u32 given = server->passed_end;

	/* Its timestamp echo shows that it has seen the smaller window. */
	if (server->is_told_less && packet->timestamps_at && !is_before(packet->headers->tsecr, server->told_tsval) &&
	    !(packet->flags & FLAG_SYN)) {
		server->is_told_less = 0;
		down->window_end = server->told_end;
	}
	/* Nothing else may be on its way to the local socket: it would reach the client after what is forwarded. */
	if (is_next && splice->left_bytes && packet->seq == server->passed_end && !packet->is_odd && !packet->is_expiring &&
	    !(packet->flags & ~(FLAG_ACK | FLAG_PSH | FLAGS_OF_ECN)) && is_seen(splice) && !splice->legs[0].is_ahead && is_taken(down)) {
		down->start = down->end = packet->seq;
		splice->armed_at = packet->seq;
		/* The head was relayed by the process. */
		splice->response_start = packet->seq - 1;
		/* The window advertised may end before what it has sent. */
		down->window_max = is_after(down->window_end, down->acked) ? down->window_end - down->acked : 0;
		pace_begin(down, down->pace.handle, down->window_end, down->pace.segment_bytes);
		record->has_begun = 1;
		splice->state = PACKET_RESPONSES;
		handle_server(splice, record, packet, plan);
		return;
	}
	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	if (packet->flags & FLAG_SYN)
		return;
	plan->rewriting.seq = -server->receive_offset;
	plan->rewriting.ack = plan->rewriting.sack = -server->send_offset;
	plan->rewriting.tsecr = -server->ts_offset;
	note_given(server, packet);
	given = server->passed_end - given;
	splice->left_bytes = given < splice->left_bytes ? splice->left_bytes - given : 0;
	if (!(packet->flags & FLAG_ACK) || is_after(packet->headers->ack, server->local_end))
		return;
	note_time(server, packet);
	if (is_after(packet->headers->ack, server->local_acked))
		server->local_acked = packet->headers->ack;
}

/* A packet of the client's local socket: a part of the response, or an acknowledgement. */
static __always_inline void handle_local_client_due(struct packet_splice *splice, const struct packet *packet)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u32 end = packet->headers->ack + client->receive_offset;

	client->local_window = packet->window;
	if (packet->flags & FLAG_ACK && is_after(end, client->received))
		client->received = splice->classified_start = splice->classified_end = end;
	note_window(up, end, (__u32)packet->window << (client->own_shift & 15));
	if (sequence_length(packet))
		note_sent(down, note_sent_locally(client, packet) - down->delta, 0);
	/* Nothing can follow. */
	if (packet->flags & (FLAG_RST | FLAG_FIN))
		splice->state = PACKET_PROCESS;
}

/* A request is sent. Its response begins at `start`, and reaches the client behind what it was sent so far. (The
 * process may write a different head; for windows the difference is small.) */
static __always_inline void begin_response(struct packet_splice *splice, __u32 start)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *down = &splice->ways[1];
	__u32 offered = down->offered_end + down->delta;

	down->delta = client->local_end - start;
	down->start = down->end = start;
	down->acked = client->local_acked - down->delta;
	down->offered_end = offered - down->delta;
	splice->is_measured = 0;
}

/* A packet of the server's local socket. From now on its window is limited to what the client takes, but is never
 * shrunk. */
static __always_inline void handle_local_server_due(struct packet_splice *splice, const struct packet *packet, struct plan *plan)
{
	struct packet_leg *server = &splice->legs[1];
	struct packet_way *down = &splice->ways[1];
	__u32 acked = packet->headers->ack + server->receive_offset, shift = server->own_shift & 15;
	__u32 end = acked + ((__u32)packet->window << shift), limit, allowed;

	if (packet->payload_bytes && !splice->left_bytes)
		begin_response(splice, acked);
	limit = limit_of(splice);
	/* A receiver ignores a smaller window in a segment that acknowledges nothing new (RFC 9293 section
	 * 3.10.7.4), so a request does not shrink it. Other packets do only if a timestamp echo can confirm it. */
	allowed = server->is_told_less ? server->told_end : down->window_end;
	if ((sequence_length(packet) || !packet->timestamps_at) && is_before(limit, allowed))
		limit = allowed;
	server->is_clamped = packet->flags & FLAG_ACK && is_after(end, limit);
	if (server->is_clamped) {
		plan->rewriting.window = is_after(limit, acked) ? (limit - acked) >> shift : 0;
		end = limit;
	}
	if (is_after(end, down->window_end)) {
		down->window_end = end;
		server->is_told_less = 0;
	} else if (is_before(end, down->window_end) && !server->is_told_less && !sequence_length(packet)) {
		/* With a timestamp of its own, which the echo identifies. */
		server->is_told_less = 1;
		server->ts_offset += 1;
		plan->rewriting.tsval += 1;
		server->told_tsval = server->last_tsval = server->local_tsval = packet->headers->tsval + server->ts_offset;
	}
	server->told_end = end;
	if (packet->flags & FLAG_ACK && is_after(acked, server->received))
		server->received = acked;
	if (sequence_length(packet))
		note_sent_locally(server, packet);
	if (packet->flags & FLAG_RST)
		splice->state = PACKET_PROCESS;
}

#endif
