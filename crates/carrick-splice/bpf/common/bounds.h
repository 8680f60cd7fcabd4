/* Bounds that the verifier of every kernel knows of. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_COMMON_BOUNDS_H
#define CARRICK_COMMON_BOUNDS_H

/* Whether a variable is from `least` to `most`; if so, the verifier knows it. Written plainly, the compiler makes one comparison of both, with a copy, and
 * kernels before 6.18 do not see what that says of the variable itself; nor do those before 6.3 what `!= 0` says. */
#define IS_WITHIN(variable, least, most) ({ \
	__typeof__(variable) least_of_it = (least); \
	int is_within = 0; \
\
	asm volatile("" : "+r"(variable), "+r"(least_of_it)); \
	if (variable <= (most)) { \
		asm volatile("" : "+r"(variable)); \
		if (variable >= least_of_it) { \
			asm volatile("" : "+r"(variable)); \
			is_within = 1; \
		} \
	} \
	is_within; \
})

#endif
