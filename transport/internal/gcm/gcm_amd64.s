#include "textflag.h"

// Registers that keep their meaning: Z8 the sum of GHASH, its bytes the other way round, in the
// lowest block; Z9 the counters of the next four blocks, likewise; Z10 turns the bytes of blocks
// round; Z11 the polynomial; Z12 four, in each counter; Z17 to Z31 the round keys.

DATA swap<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA swap<>+8(SB)/8, $0x0001020304050607
GLOBL swap<>(SB), RODATA|NOPTR, $16

// x^128 + x^7 + x^2 + x + 1, its bits the other way round
DATA poly<>+0(SB)/8, $1
DATA poly<>+8(SB)/8, $0xc200000000000000
GLOBL poly<>(SB), RODATA|NOPTR, $16

// what is added to a counter for the first four blocks: 1 to 4
DATA first<>+0(SB)/8, $1
DATA first<>+8(SB)/8, $0
DATA first<>+16(SB)/8, $2
DATA first<>+24(SB)/8, $0
DATA first<>+32(SB)/8, $3
DATA first<>+40(SB)/8, $0
DATA first<>+48(SB)/8, $4
DATA first<>+56(SB)/8, $0
GLOBL first<>(SB), RODATA|NOPTR, $64

DATA four<>+0(SB)/8, $4
DATA four<>+8(SB)/8, $0
GLOBL four<>(SB), RODATA|NOPTR, $16

// CONSTANTS loads what GHASH needs.
#define CONSTANTS \
	VBROADCASTI32X4 swap<>(SB), Z10 \
	VBROADCASTI32X4 poly<>(SB), Z11

// COUNTERS makes the counter blocks of 16 blocks in Z0 to Z3, with the first round key added.
#define COUNTER(z) \
	VPSHUFB Z10, Z9, z    \
	VPADDD  Z12, Z9, Z9   \
	VPXORD  Z17, z, z

#define COUNTERS \
	COUNTER(Z0) \
	COUNTER(Z1) \
	COUNTER(Z2) \
	COUNTER(Z3)

#define ROUND(key) \
	VAESENC key, Z0, Z0 \
	VAESENC key, Z1, Z1 \
	VAESENC key, Z2, Z2 \
	VAESENC key, Z3, Z3

#define LAST \
	VAESENCLAST Z31, Z0, Z0 \
	VAESENCLAST Z31, Z1, Z1 \
	VAESENCLAST Z31, Z2, Z2 \
	VAESENCLAST Z31, Z3, Z3

// CIPHER encrypts them.
#define CIPHER \
	ROUND(Z18) \
	ROUND(Z19) \
	ROUND(Z20) \
	ROUND(Z21) \
	ROUND(Z22) \
	ROUND(Z23) \
	ROUND(Z24) \
	ROUND(Z25) \
	ROUND(Z26) \
	ROUND(Z27) \
	ROUND(Z28) \
	ROUND(Z29) \
	ROUND(Z30) \
	LAST

// ADDTEXT adds Z4 to Z7 to them.
#define ADDTEXT \
	VPXORD Z4, Z0, Z0 \
	VPXORD Z5, Z1, Z1 \
	VPXORD Z6, Z2, Z2 \
	VPXORD Z7, Z3, Z3

// MASKS sets K1 to K4 to those of 256 bytes that are below CX. It spoils AX and BX.
#define MASK(at, k) \
	LEAQ    -at(CX), AX  \
	XORL    BX, BX       \
	TESTQ   AX, AX       \
	CMOVQLT BX, AX       \
	CMPQ    AX, $64      \
	MOVL    $64, BX      \
	CMOVQGT BX, AX       \
	MOVQ    $-1, BX      \
	BZHIQ   AX, BX, AX   \
	KMOVQ   AX, k

#define MASKS \
	MASK(0, K1)   \
	MASK(64, K2)  \
	MASK(128, K3) \
	MASK(192, K4)

// Where the powers that multiply 16 blocks begin in the tables, H^16 first, and the one before them
// and the last of them.
#define POWER16 64
#define POWER17 48
#define POWER1 304

// BEGIN points R8 to the power for the first of the blocks that n bytes take, of which the last gets
// the last.
#define BEGIN(n, last) \
	LEAQ 15(n), AX          \
	ANDQ $~15, AX           \
	LEAQ 16+last(DI), R8    \
	SUBQ AX, R8

// LOAD loads CX bytes at SI, and zeros behind them.
#define LOAD \
	VMOVDQU8.Z 0(SI), K1, Z4   \
	VMOVDQU8.Z 64(SI), K2, Z5  \
	VMOVDQU8.Z 128(SI), K3, Z6 \
	VMOVDQU8.Z 192(SI), K4, Z7

// PRODUCT multiplies z with the power at an offset, and adds that to Z13 (low), Z14 (middle) and Z15 (high).
#define PRODUCT(at, z) \
	VMOVDQU64  at(R8), Z0          \
	VPCLMULQDQ $0x00, Z0, z, Z1    \
	VPCLMULQDQ $0x01, Z0, z, Z2    \
	VPCLMULQDQ $0x10, Z0, z, Z3    \
	VPCLMULQDQ $0x11, Z0, z, Z16   \
	VPXORD     Z1, Z13, Z13        \
	VPTERNLOGD $0x96, Z2, Z3, Z14  \
	VPXORD     Z16, Z15, Z15

// REDUCE makes the sum of them: modulo the polynomial, in two steps, and of all four blocks.
#define REDUCE1 \
	VPCLMULQDQ $0x01, Z13, Z11, Z16 \
	VPSHUFD    $0x4e, Z13, Z13      \
	VPTERNLOGD $0x96, Z16, Z13, Z14

#define REDUCE2 \
	VPCLMULQDQ $0x01, Z14, Z11, Z16 \
	VPSHUFD    $0x4e, Z14, Z14      \
	VPTERNLOGD $0x96, Z16, Z14, Z15

#define REDUCE3 \
	VEXTRACTI64X4 $1, Z15, Y16  \
	VPXORD        Y16, Y15, Y15 \
	VEXTRACTI32X4 $1, Y15, X16  \
	VPXORD        X16, X15, X8

#define REDUCE \
	REDUCE1 \
	REDUCE2 \
	REDUCE3

// SWAP turns the bytes of the 16 blocks of Z4 to Z7 round.
#define SWAP \
	VPSHUFB Z10, Z4, Z4 \
	VPSHUFB Z10, Z5, Z5 \
	VPSHUFB Z10, Z6, Z6 \
	VPSHUFB Z10, Z7, Z7

// GHASHLAST takes them into the sum, and behind them the block of the lengths: R13 bits beside, R12
// bits of text. R8 points to the power for the first of them.
#define GHASHLAST \
	VMOVQ      R12, X0               \
	VPINSRQ    $1, R13, X0, X0       \
	VMOVDQU32  POWER1(DI), X1        \
	VPXORD     Z8, Z4, Z4            \
	VPCLMULQDQ $0x00, X1, X0, X13    \
	VPCLMULQDQ $0x01, X1, X0, X14    \
	VPCLMULQDQ $0x10, X1, X0, X3     \
	VPCLMULQDQ $0x11, X1, X0, X15    \
	VPXORD     Z3, Z14, Z14          \
	PRODUCT(0, Z4)                   \
	PRODUCT(64, Z5)                  \
	PRODUCT(128, Z6)                 \
	PRODUCT(192, Z7)                 \
	REDUCE

// FIRST is PRODUCT of the first of them, which replaces what Z13 to Z15 have, and FURTHER adds another. They spoil z.
#define FIRST(at, z) \
	VPCLMULQDQ $0x00, at(R8), z, Z13 \
	VPCLMULQDQ $0x11, at(R8), z, Z15 \
	VPCLMULQDQ $0x01, at(R8), z, Z14 \
	VPCLMULQDQ $0x10, at(R8), z, z   \
	VPXORD     z, Z14, Z14

#define FURTHER(at, z) \
	VPCLMULQDQ $0x00, at(R8), z, Z16 \
	VPXORD     Z16, Z13, Z13         \
	VPCLMULQDQ $0x11, at(R8), z, Z16 \
	VPXORD     Z16, Z15, Z15         \
	VPCLMULQDQ $0x01, at(R8), z, Z16 \
	VPCLMULQDQ $0x10, at(R8), z, z   \
	VPTERNLOGD $0x96, z, Z16, Z14

// BOTH encrypts the counter blocks in Z0 to Z3, and meanwhile takes those of Z4 to Z7 into the sum: neither waits for the other.
#define BOTH \
	VPXORD Z8, Z4, Z4 \
	ROUND(Z18)        \
	FIRST(0, Z4)      \
	ROUND(Z19)        \
	ROUND(Z20)        \
	FURTHER(64, Z5)   \
	ROUND(Z21)        \
	ROUND(Z22)        \
	FURTHER(128, Z6)  \
	ROUND(Z23)        \
	ROUND(Z24)        \
	FURTHER(192, Z7)  \
	ROUND(Z25)        \
	ROUND(Z26)        \
	REDUCE1           \
	ROUND(Z27)        \
	ROUND(Z28)        \
	REDUCE2           \
	ROUND(Z29)        \
	ROUND(Z30)        \
	REDUCE3           \
	LAST

// BESIDE takes the first n bytes of Z4 into the sum, which Z8 does not have yet. They are 64 at most.
#define BESIDE(n) \
	BEGIN(n, POWER1)                \
	VPSHUFB    Z10, Z4, Z4          \
	VMOVDQU64  (R8), Z0             \
	VPCLMULQDQ $0x00, Z0, Z4, Z13   \
	VPCLMULQDQ $0x01, Z0, Z4, Z14   \
	VPCLMULQDQ $0x10, Z0, Z4, Z3    \
	VPCLMULQDQ $0x11, Z0, Z4, Z15   \
	VPXORD     Z3, Z14, Z14         \
	REDUCE

// func times(t *tables, h *[16]byte)
TEXT ·times(SB), NOSPLIT, $0-16
	MOVQ      t+0(FP), DI
	MOVQ      h+8(FP), R9
	MOVQ      $16, CX
	CONSTANTS
	VMOVDQU32 (R9), X4
	BESIDE(CX)
	VPSHUFB   X10, X8, X8
	VMOVDQU32 X8, (R9)
	VZEROUPPER
	RET

// func crypt(t *tables, dst, src *byte, n int, open bool, nonce, data *byte, m int, tag *byte)
TEXT ·crypt(SB), NOSPLIT, $16-72
	MOVQ    t+0(FP), DI
	MOVQ    dst+8(FP), DX
	MOVQ    src+16(FP), SI
	MOVQ    n+24(FP), CX
	MOVBLZX open+32(FP), R11
	MOVQ    nonce+40(FP), BX
	MOVQ    data+48(FP), R9
	MOVQ    m+56(FP), R13
	MOVQ    tag+64(FP), R10
	LEAQ    (CX*8), R12
	CONSTANTS

	// what is beside
	MOVQ       $-1, AX
	BZHIQ      R13, AX, AX
	KMOVQ      AX, K1
	VMOVDQU8.Z (R9), K1, Z4
	BESIDE(R13)
	SHLQ       $3, R13

	VBROADCASTI32X4 four<>(SB), Z12
	VBROADCASTI32X4 576(DI), Z17
	VBROADCASTI32X4 592(DI), Z18
	VBROADCASTI32X4 608(DI), Z19
	VBROADCASTI32X4 624(DI), Z20
	VBROADCASTI32X4 640(DI), Z21
	VBROADCASTI32X4 656(DI), Z22
	VBROADCASTI32X4 672(DI), Z23
	VBROADCASTI32X4 688(DI), Z24
	VBROADCASTI32X4 704(DI), Z25
	VBROADCASTI32X4 720(DI), Z26
	VBROADCASTI32X4 736(DI), Z27
	VBROADCASTI32X4 752(DI), Z28
	VBROADCASTI32X4 768(DI), Z29
	VBROADCASTI32X4 784(DI), Z30
	VBROADCASTI32X4 800(DI), Z31

	// the block with counter 1 masks the tag. Nothing that follows waits for it.
	VMOVQ       (BX), X0
	VPINSRD     $2, 8(BX), X0, X0
	MOVL        $0x01000000, AX
	VPINSRD     $3, AX, X0, X0
	VSHUFI32X4  $0, Z0, Z0, Z9
	VPXORD      X17, X9, X0
	VAESENC     X18, X0, X0
	VAESENC     X19, X0, X0
	VAESENC     X20, X0, X0
	VAESENC     X21, X0, X0
	VAESENC     X22, X0, X0
	VAESENC     X23, X0, X0
	VAESENC     X24, X0, X0
	VAESENC     X25, X0, X0
	VAESENC     X26, X0, X0
	VAESENC     X27, X0, X0
	VAESENC     X28, X0, X0
	VAESENC     X29, X0, X0
	VAESENC     X30, X0, X0
	VAESENCLAST X31, X0, X0
	VMOVDQU32   X0, mask-16(SP) // not where somebody else may look: with the tag it tells of the key

	VPSHUFB Z10, Z9, Z9
	VPADDD  first<>(SB), Z9, Z9
	LEAQ    POWER16(DI), R8
	SUBQ    $256, CX
	JLT     tail
	COUNTERS
	CIPHER
	JMP     text

	// 256 bytes are encrypted while those before them go into the sum.
loop:
	COUNTERS
	BOTH

text:
	VMOVDQU64 0(SI), Z4
	VMOVDQU64 64(SI), Z5
	VMOVDQU64 128(SI), Z6
	VMOVDQU64 192(SI), Z7
	ADDTEXT
	VMOVDQU64 Z0, 0(DX)
	VMOVDQU64 Z1, 64(DX)
	VMOVDQU64 Z2, 128(DX)
	VMOVDQU64 Z3, 192(DX)
	TESTL     R11, R11
	JNE       swap
	VMOVDQA64 Z0, Z4
	VMOVDQA64 Z1, Z5
	VMOVDQA64 Z2, Z6
	VMOVDQA64 Z3, Z7

swap:
	SWAP
	ADDQ $256, SI
	ADDQ $256, DX
	SUBQ $256, CX
	JGE  loop
	ADDQ $256, CX
	JNE  both
	LEAQ POWER17(DI), R8
	GHASHLAST
	JMP  done

	// So is what is left.
both:
	MASKS
	COUNTERS
	BOTH
	JMP   rest

tail:
	ADDQ $256, CX
	MASKS
	COUNTERS
	CIPHER

rest:
	BEGIN(CX, POWER1-16)
	LOAD
	ADDTEXT
	VMOVDQU8  Z0, K1, 0(DX)
	VMOVDQU8  Z1, K2, 64(DX)
	VMOVDQU8  Z2, K3, 128(DX)
	VMOVDQU8  Z3, K4, 192(DX)
	TESTL     R11, R11
	JNE       last
	VMOVDQU8.Z Z0, K1, Z4
	VMOVDQU8.Z Z1, K2, Z5
	VMOVDQU8.Z Z2, K3, Z6
	VMOVDQU8.Z Z3, K4, Z7

last:
	SWAP
	GHASHLAST

done:
	VPSHUFB   X10, X8, X8
	VPXORD    mask-16(SP), X8, X8
	VMOVDQU32 X8, (R10)
	VZEROUPPER
	RET

// NEXT makes the next round key from the two before: a, which it takes the place of, and one whose
// last word, turned and substituted or substituted alone, is in every word of t.
#define NEXT(a, t) \
	MOVOU  a, X4     \
	PSLLDQ $4, X4    \
	PXOR   X4, a     \
	PSLLDQ $4, X4    \
	PXOR   X4, a     \
	PSLLDQ $4, X4    \
	PXOR   X4, a     \
	PXOR   t, a

#define EVEN(rcon, at) \
	AESKEYGENASSIST $rcon, X1, X2 \
	PSHUFD $0xff, X2, X2          \
	NEXT(X0, X2)                  \
	MOVOU  X0, at(DI)

#define ODD(at) \
	AESKEYGENASSIST $0, X0, X2 \
	PSHUFD $0xaa, X2, X2       \
	NEXT(X1, X2)               \
	MOVOU  X1, at(DI)

// func expand(keys *[15][16]byte, key *byte)
TEXT ·expand(SB), NOSPLIT, $0-16
	MOVQ  keys+0(FP), DI
	MOVQ  key+8(FP), SI
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU X0, 0(DI)
	MOVOU X1, 16(DI)
	EVEN(0x01, 32)
	ODD(48)
	EVEN(0x02, 64)
	ODD(80)
	EVEN(0x04, 96)
	ODD(112)
	EVEN(0x08, 128)
	ODD(144)
	EVEN(0x10, 160)
	ODD(176)
	EVEN(0x20, 192)
	ODD(208)
	EVEN(0x40, 224)
	RET
