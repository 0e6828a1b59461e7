#include "textflag.h"

// func Self() uintptr
TEXT ·Self(SB), NOSPLIT, $0-8
	MOVD g, ret+0(FP)
	RET
