/* Pacing by windows: how much of the receiver's window a sender may use. The splice's lock is held. Included by
 * grant.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_SHARE_H
#define CARRICK_TC_SHARE_H

/* A sender's window extends at most this much, plus what it has sent so far, beyond its data: as much as slow start
 * can use (RFC 5681 section 3.1). A grant is charged at once, so an idle sender would keep it from others. */
#define PACE_LEAD_BYTES (64 << 10)

/* The smallest grant on a passing acknowledgement. Less waits for its turn. */
#define PACE_PIECE_BYTES (32 << 10)

/* The smallest grant in segments (RFC 9293 section 3.8.6.2.2). */
#define PACE_SEGMENTS 2

/* The smallest grant: less would be a silly window, or round to none. */
static __always_inline __u32 pace_least(const struct packet_pace *pace, __u32 shift)
{
	__u32 segments = PACE_SEGMENTS * pace->segment_bytes, unit = 1U << shift;

	return segments > unit ? segments : unit;
}

/* How far the sender's window could be opened, if the receiver takes `more` beyond it. */
static __always_inline __u32 pace_room(const struct packet_way *way, __u32 more, __u64 left)
{
	__u64 lead = PACE_LEAD_BYTES + (way->bytes < (WINDOW_LIMIT >> 1) ? way->bytes : WINDOW_LIMIT >> 1);
	__s32 ahead = way->pace.told_end - way->end;

	if (left == ~0ULL)
		return more;
	if (ahead > 0)
		lead = lead > (__u32)ahead ? lead - (__u32)ahead : 0;
	return more < lead ? more : lead;
}

/* Data was sent along a way: charges what was not charged when it was granted. */
static __always_inline void pace_sent(struct packet_way *way, __u32 side, struct pace_view *view)
{
	struct packet_pace *pace = &way->pace;
	__u32 bytes = way->end - view->sent_from, paid = bytes < pace->unpaid ? bytes : pace->unpaid;

	if (!pace->handle || !bytes || bytes > WINDOW_LIMIT)
		return;
	pace->unpaid -= paid;
	/* A window probe, or a response of a server that was not told yet. */
	if (is_after(way->end, pace->told_end)) {
		paid += is_before(view->sent_from, pace->told_end) ? way->end - pace->told_end : bytes - paid;
		pace->told_end = way->end;
	}
	view->taken[side & 1] += paid;
}

/* Limits the window that the packet advertises to the sender of the way `side` to what was granted. A window is
 * never shrunk. */
static __always_inline void pace_window(struct packet_way *way, __u32 side, struct pace_view *view)
{
	struct packet_pace *pace = &way->pace;
	__u32 acked = view->acked, shift = view->shift & 15, field = view->window >> shift, told, room, granted, was_told;
	__u64 left = view->left;

	if (field > 0xffff)
		field = 0xffff;
	view->field = field;
	if (is_before(pace->told_end, acked))
		pace->told_end = acked;
	was_told = pace->told_end;
	told = acked + (field << shift);
	if (!is_after(told, was_told)) {
		pace->held_since_ns = 0;
		return;
	}
	room = pace_room(way, told - was_told, left);
	/* It has waited long enough for a small grant. */
	if (!left && pace->held_since_ns && view->now - pace->held_since_ns >= view->hold_max_ns)
		left = pace_least(pace, shift);
	else if (left < room && left < view->piece_bytes)
		left = 0;
	granted = left < room ? left : room;
	/* It waits for its turn. If it has just had one, it asks again once it has used that. */
	if (!granted && room && !pace->is_due) {
		if (!pace->held_since_ns)
			pace->held_since_ns = view->now;
		view->is_held = !pace->is_held;
		pace->is_held = 1;
	}
	/* Rounded to the window's unit. What was advertised stays, rounded up. */
	granted = (was_told + granted - acked) >> shift << shift;
	if (is_after(acked + granted, was_told))
		pace->held_since_ns = 0;
	else
		granted = (was_told - acked + (1U << shift) - 1) >> shift << shift;
	if (is_before(acked + granted, told))
		told = acked + granted;
	view->is_idle = view->is_stale && told == was_told;
	if (is_after(told, was_told)) {
		view->taken[side & 1] += told - was_told;
		pace->told_end = told;
	}
	pace->is_due = 0;
	view->field = (told - acked) >> shift;
}

/* Grants more to a sender whose turn it is: up to `share`, if `left` allows. Whether its window is to be announced. */
static __always_inline int pace_grant(struct packet_way *way, __u32 side, __u32 shift, __u32 share, struct pace_view *view)
{
	struct packet_pace *pace = &way->pace;
	__u32 least = pace_least(pace, shift), room, granted, told;
	__u64 left = view->left;

	room = is_after(way->offered_end, pace->told_end) ? way->offered_end - pace->told_end : 0;
	room = pace_room(way, room, left);
	if (!left && pace->held_since_ns && view->now - pace->held_since_ns >= view->hold_max_ns)
		left = share = least;
	if (room && !left) {
		/* It keeps waiting. */
		view->is_held = 1;
		return 0;
	}
	pace->is_held = 0;
	pace->held_since_ns = 0;
	if (!room)
		return 0;
	granted = left == ~0ULL ? room : share > least ? share : least;
	if (granted > room)
		granted = room;
	told = pace->told_end + granted;
	/* Rounded down to the window's unit. */
	if (!is_before(told, way->acked) && is_after(way->acked + ((told - way->acked) >> shift << shift), pace->told_end))
		told = way->acked + ((told - way->acked) >> shift << shift);
	view->taken[side & 1] += told - pace->told_end;
	pace->told_end = told;
	pace->is_due = 1;
	return 1;
}

#endif
