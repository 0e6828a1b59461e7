package crc

import "golang.org/x/sys/cpu"

// minFold is how many bytes fold needs: four blocks of 64.
const minFold = 256

// hasFold says that the processor has carry-less multiplication of 512 bits, and can put bytes where they belong in a
// register: of Intel's from Ice Lake on, of AMD's from Zen 4.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VPCLMULQDQ &&
	cpu.X86.HasAVX512VBMI2 && cpu.X86.HasPCLMULQDQ

// fold is the CRC register after b, before it crc, without the inversions that
// crc32.Update makes. b is minFold bytes at least, of which the first block has
// first, 1 to 64, and others 64 each; rest is crc without its first 8*first bits.
//
//go:noescape
func fold(by *constants, crc, rest uint32, first uint64, b []byte) uint32
