package rocev2

import "golang.org/x/sys/cpu"

// minFold is from where on fold is worth it; it needs 256 bytes.
const minFold = 256

// hasFold says that the processor has carry-less multiplication of 512 bits, and
// the older instructions that finish with.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41

// fold is the CRC register after b, before it crc, without the inversions that
// crc32.Update makes. The length of b is a multiple of 16, and 256 at least.
//
//go:noescape
func fold(by *[10]uint64, crc uint32, b []byte) uint32
