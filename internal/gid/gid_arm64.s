#include "textflag.h"

// func Self() uint64
TEXT ·Self(SB), NOSPLIT, $0-8
	MOVD g, ret+0(FP)
	RET
