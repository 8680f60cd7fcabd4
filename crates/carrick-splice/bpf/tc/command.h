/* Commands of the process that splice connections and return them, each in one step. Included by tc.bpf.c, behind
 * its maps. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_COMMAND_H
#define CARRICK_TC_COMMAND_H

/* The input of `carrick_command`, behind an Ethernet header; run by BPF_PROG_TEST_RUN. */
struct request {
	__u32 command;
	__u32 number;
	__u32 argument;
	/* PACKET_ARM_RESPONSES: */
	__u32 table; /* index of the route table for classifying requests, plus 1; 0: none */
	__u32 generation;
	__u32 upstream;
	/* PACKET_GO_BY: */
	__u32 side;
	/* PACKET_ARM_BODY: */
	__u32 held;       /* bytes of the response that were read but not written yet */
	/* lower half first: its unread bytes. PACKET_ARM_RESPONSES: until when requests are forwarded */
	__u32 rest[2];
	/* pacing handles of both ways, lower halves first. */
	__u32 pace[4];
	/* PACKET_DISARM: how many forwarded requests the process knows of. PACKET_ARM_RESPONSES: how many may be
	 * forwarded. */
	__u32 requests;
};

/* Whether a connection still belongs to this splice: a new connection may use its addresses, and a later splice may have it. */
static __always_inline int has_flow(const struct packet_splice *splice, __u32 number, __u32 side)
{
	struct place *place = bpf_map_lookup_elem(&flows, &splice->legs[side].flow);

	return place && place->number == 2 * number + side;
}

static __always_inline int has_flows(const struct packet_splice *splice, __u32 number)
{
	return has_flow(splice, number, 0) && has_flow(splice, number, 1);
}

/* Why two connections cannot be joined: in both directions, or only from `b` to `a`; at rest, or in the middle of a
 * response. */
static __always_inline enum packet_answer compare(const struct local *a, const struct local *b, __u32 command)
{
	int is_both_ways = command == PACKET_ARM;

	if (a->is_opening || b->is_opening)
		return PACKET_BUSY;
	if (!a->is_established || !b->is_established)
		return PACKET_NO_SOCKET;
	if (command != PACKET_ARM_BODY && (!a->is_empty || !b->is_empty))
		return PACKET_BUSY;
	if (a->is_signed || b->is_signed)
		return PACKET_SIGNED;
	if (a->has_timestamps != b->has_timestamps || a->has_microseconds || b->has_microseconds)
		return PACKET_TIMESTAMPS;
	if (a->has_sack != b->has_sack)
		return PACKET_SACK;
	/* Accurate ECN counts its own connection's packets. */
	if (a->has_ecn != b->has_ecn || a->has_accurate_ecn || b->has_accurate_ecn)
		return PACKET_ECN;
	if (a->segment_bytes < b->advertised_bytes || (is_both_ways && b->segment_bytes < a->advertised_bytes))
		return PACKET_SEGMENTS;
	return PACKET_DONE;
}

/* Sets up the way from the leg with socket `from` to the leg with socket `to`. What the process has read up to
 * `read` it writes up to `written`. */
static __always_inline void begin_way(struct packet_way *way, struct packet_leg *sender, const struct local *from, __u32 read,
				      struct packet_leg *receiver, const struct local *to, __u32 written, const __u32 *pace)
{
	__u32 start = read + sender->receive_offset, tsval = to->tsval + receiver->ts_offset;
	__u32 allowed_end = way->window_end, was_spliced = way->window_max;
	__u32 told_end = way->pace.handle ? way->pace.told_end : allowed_end;
	__u64 bytes = way->bytes, packets = way->packets;
	__u32 again = way->again;

	/* An earlier splice may have sent it later timestamps, and the local socket nothing since. */
	if (receiver->has_tsval && is_before(tsval, receiver->last_tsval)) {
		receiver->ts_offset += receiver->last_tsval - tsval;
		tsval = receiver->last_tsval;
	}
	__builtin_memset(way, 0, sizeof(*way));
	way->bytes = bytes;
	way->packets = packets;
	way->again = again;
	way->start = way->end = start;
	/* The local socket's data may still be in flight. */
	way->acked = start - (written - to->snd_una);
	way->delta = written + receiver->send_offset - start;
	way->ts_delta = tsval - from->ts_recent;
	way->window_end = from->window_end + sender->receive_offset;
	if (!was_spliced || !is_after(told_end, way->window_end) || told_end - way->window_end >= WINDOW_LIMIT)
		told_end = way->window_end;
	pace_begin(way, pace[0] | (__u64)pace[1] << 32, told_end, from->advertised_bytes);
	way->offered_end = to->offered_end + receiver->send_offset - way->delta;
	/* An earlier splice may have advertised more to the sender than its local socket. */
	if (was_spliced && is_after(allowed_end, way->window_end) && allowed_end - way->window_end < WINDOW_LIMIT)
		way->window_end = allowed_end;
	way->window_max = way->window_end - way->acked;
	receiver->last_tsval = receiver->local_tsval = tsval;
	receiver->has_tsval = to->has_timestamps;
	sender->peer_tsval = from->ts_recent;
	receiver->local_end = to->write_seq + receiver->send_offset;
	receiver->local_acked = to->snd_una + receiver->send_offset;
	receiver->may_end = 0;
	receiver->hop_ifindex = 0;
	receiver->own_shift = to->own_shift;
	receiver->peer_shift = to->peer_shift;
}

/* Starts RESPONSES. The server may send what the client takes, and what its local socket has advertised. */
static __always_inline void begin_responses(struct packet_splice *splice, const struct local *client,
					    const struct request *request, __u32 choices)
{
	struct packet_leg *leg = &splice->legs[0];
	struct packet_way *down = &splice->ways[1];

	leg->received = client->rcv_nxt + leg->receive_offset;
	leg->local_window = client->window >> (client->own_shift & 15);
	/* In the middle of a response, the server has not been told of it. */
	if (request->command != PACKET_ARM_BODY && is_after(down->offered_end, down->window_end))
		down->window_end = down->offered_end;
	down->window_max = down->window_end - down->acked;
	splice->response_start = down->end;
	splice->armed_at = down->start;
	splice->request_start = splice->legs[1].local_end;
	splice->asked = 0;
	splice->classified_start = splice->classified_end = leg->received;
	splice->record = request->argument;
	splice->table = request->table;
	splice->generation = request->generation;
	splice->upstream = request->upstream;
	splice->choices = choices;
	splice->requests_left = request->requests;
	splice->requests_until_ns = request->rest[0] | (__u64)request->rest[1] << 32;
	splice->left_bytes = ~0ULL;
	splice->state = PACKET_RESPONSES;
}

/* Forwards the rest of a response once the server's local socket has everything before it. The process relays what
 * that socket receives until then unchanged, so that sequence numbers match. */
static __always_inline void begin_due(struct packet_splice *splice, const struct local *server, const struct request *request)
{
	struct packet_leg *leg = &splice->legs[1];
	__u32 received = server->rcv_nxt + leg->receive_offset;
	__u64 rest = request->rest[0] | (__u64)request->rest[1] << 32, passed;

	/* Before the connections were in `flows`, nothing was recorded. */
	if (!leg->was_received || is_before(leg->passed_end, received))
		leg->passed_end = received;
	leg->received = received;
	leg->told_end = splice->ways[1].window_end;
	leg->is_told_less = 0;
	passed = leg->passed_end - (server->copied_seq + leg->receive_offset);
	splice->left_bytes = passed < rest ? rest - passed : 0;
	splice->is_measured = rest != 0;
	splice->state = PACKET_DUE;
}

static __always_inline enum packet_answer arm(struct packet_splice *splice, const struct request *request,
					      const struct local *a, const struct local *b)
{
	enum packet_answer answer = compare(a, b, request->command);
	int is_body = request->command == PACKET_ARM_BODY, was_due, was_armed;
	__u32 allowed_end, told_end, is_told_less, choices = choices_of(request->upstream);

	if (answer)
		return answer;
	bpf_spin_lock(&splice->lock);
	was_armed = splice->state == PACKET_DUE || splice->state == PACKET_RESPONSES;
	/* The client has everything that was forwarded, and the server every request. */
	if (is_body && splice->state == PACKET_RESPONSES && !is_request_outstanding(splice) &&
	    splice->ways[1].end + splice->ways[1].delta == splice->legs[0].local_end)
		end_responses(splice);
	was_due = splice->state == PACKET_DUE;
	allowed_end = splice->ways[1].window_end;
	told_end = splice->legs[1].told_end;
	is_told_less = splice->legs[1].is_told_less;
	if (splice->state != PACKET_PROCESS && !(is_body && was_due)) {
		answer = PACKET_NO_PLACE;
	} else if (!is_body && !is_seen(splice)) {
		answer = PACKET_UNSEEN;
	} else if (splice->legs[0].is_ahead || splice->legs[1].is_ahead) {
		answer = PACKET_BUSY;
	} else if (splice->legs[0].is_unforwardable || splice->legs[1].is_unforwardable ||
		   ((splice->legs[0].is_odd || splice->legs[1].is_odd) && request->command != PACKET_ARM)) {
		answer = PACKET_OPTIONS;
	} else {
		begin_way(&splice->ways[0], &splice->legs[0], a, a->rcv_nxt, &splice->legs[1], b, b->write_seq,
			  request->pace);
		begin_way(&splice->ways[1], &splice->legs[1], b, is_body ? b->copied_seq : b->rcv_nxt, &splice->legs[0], a,
			  a->write_seq + (is_body ? request->held : 0), request->pace + 2);
		splice->legs[0].shown_at = splice->legs[1].shown_at = splice->noted_ns >> PACKET_SHOW_SHIFT;
		/* Anybody may have sent one before, which the local sockets did not believe. */
		splice->legs[0].has_reset = splice->legs[1].has_reset = 0;
		splice->state = PACKET_SPLICED;
		if (request->command != PACKET_ARM)
			begin_responses(splice, a, request, choices);
		if (is_body)
			begin_due(splice, b, request);
		/* The server was told a different window from its local socket's. */
		if (was_armed)
			splice->ways[1].window_end = splice->legs[1].told_end = allowed_end;
		if (was_due) {
			splice->legs[1].told_end = told_end;
			splice->legs[1].is_told_less = is_told_less;
		}
	}
	bpf_spin_unlock(&splice->lock);
	return answer;
}

/* Whether the kernel has forwarded the FIN and the receiver has acknowledged it. */
static __always_inline int is_passed(const struct packet_way *way)
{
	return way->has_end && way->has_moved && way->start == way->end_of_stream;
}

/* Sets the numbers with which a leg's local socket continues. */
static __always_inline void resume(struct packet_leg *leg, const struct packet_way *way, const struct packet_way *back,
				   const struct local *local)
{
	__u32 start = back->start + back->delta;

	/* The local socket sends an acknowledged FIN once more. */
	if (is_passed(back))
		start -= 1;
	/* The interface is learned from the next packet it sends. */
	leg->ifindex = 0;
	/* What the process has received but not passed on keeps its numbers. */
	if (way->has_moved || !is_after(local->rcv_nxt + leg->receive_offset, way->start))
		leg->receive_offset = way->start - local->rcv_nxt;
	leg->send_offset = start - local->write_seq;
	leg->local_end = start;
	leg->sent_end = back->end + back->delta;
	leg->peer_next = expected_by_receiver(back);
	leg->is_ahead = leg->sent_end != start;
	leg->had_end = back->has_end;
	leg->passed_end = way->start;
}

static __always_inline enum packet_answer disarm(struct packet_splice *splice, const struct request *request, const struct local *a,
						 const struct local *b)
{
	const struct packet_response *record = find_record(splice);
	enum packet_answer answer = PACKET_DONE;
	__u32 is_forced = request->argument;

	if (!record)
		return PACKET_NO_PLACE;

	if (splice->state == PACKET_RESPONSES || splice->state == PACKET_DUE) {
		/* The local sockets send nothing meanwhile, so they need not be at rest. But the process must know
		 * of every forwarded request, or it would pool the server's connection with a response outstanding;
		 * and unless that connection is given up, every one must have arrived: only the client can retransmit
		 * it, and the local socket will treat it as old data. */
		bpf_spin_lock(&splice->lock);
		if (splice->state == PACKET_DUE)
			splice->state = PACKET_PROCESS;
		else if (splice->state != PACKET_RESPONSES)
			answer = PACKET_NO_PLACE;
		else if (!is_forced && record->classified != request->requests)
			answer = PACKET_BEHIND;
		else if (!is_forced && request->command == PACKET_DISARM && is_request_outstanding(splice))
			answer = PACKET_BUSY;
		else
			end_responses(splice);
		bpf_spin_unlock(&splice->lock);
		return answer;
	}
	/* The kernel may have returned them already. */
	if (splice->state == PACKET_PROCESS)
		return PACKET_NO_PLACE;
	/* If forced, one socket is enough: a packet that had passed the hook before the splice may have reset the
	 * other. */
	if (is_forced ? !a->is_whole && !b->is_whole : !a->is_established || !b->is_established)
		return PACKET_NO_SOCKET;
	/* Their data may be unacknowledged. Either it keeps its numbers, or the peer has received it: then their
	 * numbers move on, and a retransmission is old data to the peer. */
	if (!is_forced && (!a->is_empty || !b->is_empty))
		return PACKET_BUSY;
	bpf_spin_lock(&splice->lock);
	if (is_over(splice)) {
		answer = PACKET_ENDED_BEFORE;
	} else if (splice->state != PACKET_SPLICED) {
		answer = PACKET_NO_PLACE;
	} else {
		if (a->is_whole)
			resume(&splice->legs[0], &splice->ways[0], &splice->ways[1], a);
		if (b->is_whole)
			resume(&splice->legs[1], &splice->ways[1], &splice->ways[0], b);
		splice->state = PACKET_PROCESS;
	}
	bpf_spin_unlock(&splice->lock);
	return answer;
}

#endif
