package crc

import "golang.org/x/sys/cpu"

// minFold is the minimum number of bytes for fold: four blocks of 64.
const minFold = 256

// hasFold reports whether the processor has carry-less multiplication of 512 bits and expansion of bytes (VPEXPANDB):
// Intel from Ice Lake on, AMD from Zen 4 on.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VPCLMULQDQ &&
	cpu.X86.HasAVX512VBMI2 && cpu.X86.HasPCLMULQDQ

// fold returns the CRC register after b, with crc before it, without the inversions of crc32.Update. b has at least
// minFold bytes: a first block of first bytes, 1 to 64, and blocks of 64. rest is crc without its first 8*first bits.
//
//go:noescape
func fold(by *constants, crc, rest uint32, first uint64, b []byte) uint32
