#include "textflag.h"

// A register of 128 bits stands for what was read so far, as a polynomial modulo
// that of the CRC. To read on, its halves are multiplied by what moves them behind
// the bytes that follow, and these are added. Z0 to Z3 do that for sixteen such
// registers at once, each 256 bytes forward.

// FOLD moves acc forward by the constants and adds data to it.
#define FOLD(acc, by, data, t) \
	VPCLMULQDQ $0x11, by, acc, t   \
	VPCLMULQDQ $0x00, by, acc, acc \
	VPTERNLOGQ $0x96, data, t, acc

// func fold(by *[10]uint64, crc uint32, b []byte) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVQ by+0(FP), DI
	MOVL crc+8(FP), AX
	MOVQ b_base+16(FP), SI
	MOVQ b_len+24(FP), CX

	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD     AX, X4
	VPXORQ    Z4, Z0, Z0
	ADDQ      $256, SI
	SUBQ      $256, CX

	VBROADCASTI32X4 0(DI), Z8
	CMPQ            CX, $256
	JLT             join

loop:
	VMOVDQU64 0(SI), Z4
	VMOVDQU64 64(SI), Z5
	VMOVDQU64 128(SI), Z6
	VMOVDQU64 192(SI), Z7
	FOLD(Z0, Z8, Z4, Z10)
	FOLD(Z1, Z8, Z5, Z11)
	FOLD(Z2, Z8, Z6, Z12)
	FOLD(Z3, Z8, Z7, Z13)
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JGE  loop

join: // of Z0 to Z3 into Z0, each 64 bytes from the next
	VBROADCASTI32X4 16(DI), Z8
	FOLD(Z0, Z8, Z1, Z10)
	FOLD(Z0, Z8, Z2, Z10)
	FOLD(Z0, Z8, Z3, Z10)

	CMPQ CX, $64
	JLT  lanes

blocks:
	VMOVDQU64 0(SI), Z4
	FOLD(Z0, Z8, Z4, Z10)
	ADDQ $64, SI
	SUBQ $64, CX
	CMPQ CX, $64
	JGE  blocks

lanes: // of Z0 into one
	VEXTRACTI32X4 $1, Z0, X1
	VEXTRACTI32X4 $2, Z0, X2
	VEXTRACTI32X4 $3, Z0, X3
	VMOVDQA64 Z0, Z4
	VZEROUPPER // from here on the old instructions

	MOVOU 32(DI), X8
	MOVOU X4, X0

#define FOLD16(data) \
	MOVOU     X0, X5        \
	PCLMULQDQ $0x11, X8, X5 \
	PCLMULQDQ $0x00, X8, X0 \
	PXOR      X5, X0        \
	PXOR      data, X0

	FOLD16(X1)
	FOLD16(X2)
	FOLD16(X3)

	JMP test

sixteen:
	MOVOU 0(SI), X1
	FOLD16(X1)
	ADDQ $16, SI
	SUBQ $16, CX

test:
	CMPQ CX, $16
	JGE  sixteen

	// 128 bits to 96: the first half goes 64 bits forward.
	MOVOU     X0, X1
	PCLMULQDQ $0x10, X8, X0
	PSRLDQ    $8, X1
	PXOR      X1, X0

	// 96 to 64: the first word goes 32 bits forward.
	PCMPEQB   X7, X7
	PSRLQ     $32, X7
	MOVOU     X0, X1
	PAND      X7, X0
	MOVQ      48(DI), X8
	PCLMULQDQ $0x00, X8, X0
	PSRLDQ    $4, X1
	PXOR      X1, X0

	// 64 to 32: less the multiple of the polynomial that Barrett's quotient says.
	MOVOU     64(DI), X8
	MOVOU     X0, X1
	PAND      X7, X0
	PCLMULQDQ $0x00, X8, X0
	PAND      X7, X0
	PCLMULQDQ $0x10, X8, X0
	PXOR      X1, X0
	PEXTRD    $1, X0, AX
	MOVL      AX, ret+40(FP)
	RET
