#include "textflag.h"

// func Self() uint64
TEXT ·Self(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
