/* A response's status, by its first line: HTTP/1.1, a space, three digits. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_HTTP_STATUS_H
#define CARRICK_HTTP_STATUS_H

#define STATUS_AT 9
#define STATUS_END 12

/* Of a head that has it, and has been looked at. */
static __always_inline __u32 status_of(const __u8 *head)
{
	const __u8 *digits = head + STATUS_AT;

	return (digits[0] & 15) * 100 + (digits[1] & 15) * 10 + (digits[2] & 15);
}

/* Whether another response follows to the same request. Behind 101, it is HTTP no more. */
static __always_inline int is_interim(__u32 status)
{
	return status < 200 && status != 101;
}

#endif
