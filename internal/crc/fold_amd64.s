#include "textflag.h"

// A register of 128 bits stands for what was read so far, as a polynomial modulo
// that of the CRC. To read on, its halves are multiplied by what moves them behind
// the bytes that follow, and these are added. A Z register is four of those.

// FOLD moves acc forward by the constants and adds data to it, into t.
#define FOLD(acc, by, data, t, u) \
	VPCLMULQDQ $0x11, by, acc, t \
	VPCLMULQDQ $0x00, by, acc, u \
	VPTERNLOGQ $0x96, data, u, t

// func fold(by *constants, crc, rest uint32, first uint64, b []byte) uint32
TEXT ·fold(SB), NOSPLIT, $0-52
	MOVQ by+0(FP), DI
	MOVL crc+8(FP), AX
	MOVL rest+12(FP), BX
	MOVQ first+16(FP), DX
	MOVQ b_base+24(FP), SI
	MOVQ b_len+32(FP), CX

	// The first block are so many bytes that whole blocks follow, behind zeros,
	// which change nothing. It has the register that was before b, which its
	// first bytes are added to; what of it goes beyond is in rest.
	VMOVDQU64   (SI), Z0
	VMOVD       AX, X4
	VPXORQ      Z4, Z0, Z0
	MOVQ        DX, R8
	NEGQ        R8      // 64 - first, as shifts count
	MOVQ        $-1, AX
	MOVQ        CX, R9
	MOVQ        R8, CX
	SHLQ        CX, AX
	MOVQ        R9, CX
	KMOVQ       AX, K1
	VPEXPANDB.Z Z0, K1, Z0
	ADDQ        DX, SI
	SUBQ        DX, CX

	VMOVDQU64 0(SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVD     BX, X4
	VPXORQ    Z4, Z1, Z1
	ADDQ      $192, SI
	SUBQ      $192, CX

	VBROADCASTI32X4 0(DI), Z8 // by 256 bytes
	CMPQ            CX, $256
	JLT             single

loop:
	FOLD(Z0, Z8, 0(SI), Z4, Z10)
	FOLD(Z1, Z8, 64(SI), Z5, Z11)
	FOLD(Z2, Z8, 128(SI), Z6, Z12)
	FOLD(Z3, Z8, 192(SI), Z7, Z13)
	VMOVDQA64 Z4, Z0
	VMOVDQA64 Z5, Z1
	VMOVDQA64 Z6, Z2
	VMOVDQA64 Z7, Z3
	ADDQ      $256, SI
	SUBQ      $256, CX
	CMPQ      CX, $256
	JGE       loop

single: // up to three blocks: each time the oldest of the four moves on
	CMPQ      CX, $64
	JLT       join
	FOLD(Z0, Z8, 0(SI), Z4, Z10)
	VMOVDQA64 Z1, Z0
	VMOVDQA64 Z2, Z1
	VMOVDQA64 Z3, Z2
	VMOVDQA64 Z4, Z3
	ADDQ      $64, SI
	SUBQ      $64, CX
	JMP       single

join: // of the four into the last
	VBROADCASTI32X4 16(DI), Z8  // by 192 bytes
	VBROADCASTI32X4 32(DI), Z9  // by 128 bytes
	VBROADCASTI32X4 48(DI), Z10 // by 64 bytes
	FOLD(Z2, Z10, Z3, Z4, Z11)
	VPCLMULQDQ $0x11, Z8, Z0, Z5
	VPCLMULQDQ $0x00, Z8, Z0, Z6
	VPCLMULQDQ $0x11, Z9, Z1, Z7
	VPCLMULQDQ $0x00, Z9, Z1, Z12
	VPTERNLOGQ $0x96, Z5, Z6, Z7
	VPTERNLOGQ $0x96, Z12, Z7, Z4

	// Of its four parts into the last: by 48, 32 and 16 bytes, the last by nothing
	// at all, which is why it is added.
	VMOVDQU64     64(DI), Z8
	VPCLMULQDQ    $0x11, Z8, Z4, Z5
	VPCLMULQDQ    $0x00, Z8, Z4, Z6
	VPXORQ        Z5, Z6, Z5
	VEXTRACTI32X4 $3, Z4, X3
	VEXTRACTI64X4 $1, Z5, Y6
	VPXOR         Y5, Y6, Y5
	VEXTRACTI128  $1, Y5, X6
	VPXOR         X5, X6, X5
	VPXOR         X3, X5, X0

	// 128 bits to 96: the first half goes 64 bits forward.
	VMOVDQU    96(DI), X8 // by 16 bytes
	VPCLMULQDQ $0x10, X8, X0, X1
	VPSRLDQ    $8, X0, X0
	VPXOR      X1, X0, X0

	// 96 to 64: the first word goes 32 bits forward.
	VPCMPEQB   X7, X7, X7
	VPSRLQ     $32, X7, X7
	VMOVQ      128(DI), X8
	VPAND      X7, X0, X1
	VPCLMULQDQ $0x00, X8, X1, X1
	VPSRLDQ    $4, X0, X0
	VPXOR      X1, X0, X0

	// 64 to 32: less the multiple of the polynomial that Barrett's quotient says.
	VMOVDQU    144(DI), X8
	VPAND      X7, X0, X1
	VPCLMULQDQ $0x00, X8, X1, X1
	VPAND      X7, X1, X1
	VPCLMULQDQ $0x10, X8, X1, X1
	VPXOR      X1, X0, X0
	VPEXTRD    $1, X0, AX
	VZEROUPPER
	MOVL       AX, ret+48(FP)
	RET
