package sys

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Unwanted is datagrams that a socket is not to receive: from an address, with a payload that has
// the bits of Value wherever Mask has one. Payloads shorter than Mask are none. Of a train
// (UDP_GRO) the first counts.
type Unwanted struct {
	From        netip.AddrPort
	Value, Mask []byte // of one length, a multiple of 4
}

// MaxUnwanted is how many kinds a socket keeps out at most: each costs each datagram a few
// instructions.
const MaxUnwanted = 32

// KeepOut has a UDP socket receive nothing that is unwanted. The kernel then counts it among
// what the socket has dropped (Drops). The list replaces the one before.
func KeepOut(fd int, list []Unwanted) error {
	if len(list) == 0 {
		if err := Set(fd, "SO_DETACH_FILTER", unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil // there was none
	}
	return SetFilter(fd, keepOut(list))
}

// Where a filter of a UDP socket finds what: its data begins with the UDP header, and the IP
// header is at netOffset (SKF_NET_OFF in linux/filter.h).
const (
	netOffset  = 0xfff00000
	udpHeader  = 8
	ipv4Source = netOffset + 12
	ipv6Source = netOffset + 8
)

// keepOut is the program: for each kind the words that it has, of which the first that differs
// leads to the next kind.
func keepOut(list []Unwanted) []bpf.Instruction {
	const everything = 1<<32 - 1 // bytes to keep
	var all []bpf.Instruction
	for i := range list {
		all = append(all, list[i].match()...)
		all = append(all, bpf.RetConstant{})
	}
	return append(all, bpf.RetConstant{Val: everything})
}

// match is instructions that go on behind them where all is as it is in what is unwanted, and
// else behind the one that follows.
func (u *Unwanted) match() (all []bpf.Instruction) {
	test := func(cond bpf.JumpTest, val uint32, load ...bpf.Instruction) {
		all = append(append(all, load...), bpf.JumpIf{Cond: cond, Val: val})
	}
	word := func(at, val, mask uint32) {
		load := []bpf.Instruction{bpf.LoadAbsolute{Off: at, Size: 4}}
		if mask != 1<<32-1 {
			load = append(load, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
		}
		test(bpf.JumpEqual, val&mask, load...)
	}
	// First, since a load beyond the end would end the program.
	test(bpf.JumpGreaterOrEqual, uint32(udpHeader+len(u.Mask)), bpf.LoadExtension{Num: bpf.ExtLen})
	test(bpf.JumpEqual, uint32(u.From.Port()), bpf.LoadAbsolute{Off: 0, Size: 2})
	addr, at := u.From.Addr().Unmap().AsSlice(), uint32(ipv4Source)
	if len(addr) > 4 {
		at = ipv6Source
	}
	for i := 0; i < len(addr); i += 4 {
		word(at+uint32(i), binary.BigEndian.Uint32(addr[i:]), 1<<32-1)
	}
	for i := 0; i < len(u.Mask); i += 4 {
		if mask := binary.BigEndian.Uint32(u.Mask[i:]); mask != 0 {
			word(uint32(udpHeader+i), binary.BigEndian.Uint32(u.Value[i:]), mask)
		}
	}
	for i := range all {
		if j, ok := all[i].(bpf.JumpIf); ok {
			j.SkipFalse = uint8(len(all) - i)
			all[i] = j
		}
	}
	return all
}
