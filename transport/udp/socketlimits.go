package udp

// SocketLimits has the socket buffer sizes that were requested from the system and those that it granted, in bytes. If
// Granted is less than Asked, a burst that the network carries may overflow on this host: on Linux raise
// net.core.rmem_max or wmem_max, or grant the process CAP_NET_ADMIN. Asked is at most what any process can get, a byte
// less than 1 GiB on Linux.
type SocketLimits struct {
	ReceiveAsked, ReceiveGranted int // bytes, for each group and for replies
	SendAsked, SendGranted       int // bytes
}

// Sizes that the Linux kernel charges to a socket buffer (skb->truesize), as measured (TestReceiveCapacity repeats it
// on loopback):
//
//   - A datagram sent on its own lies in one allocation together with headers,
//     the space kept for link headers, and struct skb_shared_info; kmalloc
//     rounds that up to its next size, 576 bytes at least. struct sk_buff comes
//     on top. So 64 bytes cost 832, and 1472 bytes cost 2304.
//   - From 16 KiB on the payload lies in pages of its own, rounded up to pages.
//   - A GSO train of 64 KiB costs some 70 000 bytes, far less for each packet:
//     counting packets singly is the safe side.
//   - Packets from a network card lie in whatever the driver allots: at the
//     worst a page each, with its own head.
//
// See __alloc_skb in net/core/skbuff.c and __ip_append_data in net/ipv4/ip_output.c.
const (
	chargeSkb     = 256
	chargeShared  = 320
	chargeLink    = 64
	chargeSmall   = 576
	chargeLinear  = 16 << 10
	chargePage    = 4096
	chargeNetwork = chargePage + 768
)

// charge is the kernel's charge in bytes for one datagram with size bytes of payload that arrives alone on an interface
// with this MTU.
func charge(size, headers, mtu int, loopback bool) int {
	if room := mtu - headers; size > room && room > 0 {
		// IP fragments are charged separately, even after reassembly.
		return (size + room - 1) / room * charge(room, headers, mtu, loopback)
	}
	n := size + headers + chargeLink + chargeShared
	switch {
	case n <= chargeSmall:
		n = chargeSmall
	case n <= chargeLinear:
		n = powerOfTwo(n)
	default:
		n = (n+chargePage-1)&^(chargePage-1) + chargePage
	}
	n += chargeSkb
	if !loopback {
		n = max(n, chargeNetwork)
	}
	return n
}

func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// capacity is the number of datagrams with a charge that fit into a receive buffer in any case. granted is the buffer's
// size in bytes, as read back with SO_RCVBUF: twice the requested size. While a socket is read without ever running
// empty the kernel frees memory only in steps of a quarter of the buffer (udp_rmem_release in net/ipv4/udp.c), so a
// quarter does not count.
func capacity(granted, charge int) int { return max(1, granted/4*3/charge) }
