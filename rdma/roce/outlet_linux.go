package roce

import (
	"cmp"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// outlet is the pair of sockets with which a queue pair sends from an address.
type outlet struct {
	d *device
	// single sends datagrams without a UDP checksum, as usual for RoCEv2. The kernel rejects trains without a checksum, so
	// they have a separate socket with the same address and port; train is -1 if there is none.
	single, train int
	full          int // the socket that had no room
	path          rocev2.Path
	batch         sys.SendBatch
	staging       []byte
	lens          [sys.MaxSegments]int

	// Guarded by device.mu.
	watched *socket  // the full socket
	waiting *soft.QP // the queue pair to resume
}

// sourcePort returns the source port that rxe would choose for a queue pair, for ECMP and RSS: one of the dynamic ports
// (kernel drivers/infiniband/sw/rxe/rxe_qp.c; linux/hash.h, hash_32).
func sourcePort(qpn rdma.QPN) uint16 { return 0xc000 | uint16(uint32(qpn)*0x61C88647>>18) }

// portTries is the number of source ports to try: other programs may use some exclusively.
const portTries = 64

func newOutlet(d *device, qpn rdma.QPN, src rdma.GID) (*outlet, error) {
	o := &outlet{d: d, single: -1, train: -1,
		path: rocev2.Path{Src: src, DstPort: rocev2.Port, DontFragment: src.IsV4Mapped()}}
	var err error
	for i := range rdma.QPN(portTries) {
		o.path.SrcPort = sourcePort(qpn + i)
		if err = o.open(); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
		o.closeSockets()
	}
	if err == nil {
		o.staging, err = sys.Alloc(sys.MaxTrainBytes + rocev2.MaxBytes)
	}
	if err != nil {
		o.closeSockets()
		return nil, err
	}
	return o, nil
}

func (o *outlet) open() (err error) {
	if o.single, err = o.socket(true); err != nil {
		return err
	}
	if !o.d.cfg.NoGSO {
		if o.train, err = o.socket(false); err != nil {
			return err
		}
	}
	return nil
}

// socket makes a socket of the pair.
func (o *outlet) socket(noChecksum bool) (int, error) {
	ip := o.path.Src.IP()
	fd, err := newUDP(ip.Is4())
	if err != nil {
		return -1, err
	}
	sys.SetSendBuffer(fd, o.d.cfg.SendBuffer)
	// Otherwise datagrams sent to its port would fill its buffer.
	sys.SetReceiveBuffer(fd, 0)
	err = cmp.Or(dropAll(fd), sys.SetMulticast(fd, ip, o.d.link.index, defaultHopLimit, true))
	set := func(name string, level, opt, value int) {
		if err == nil {
			err = sys.Set(fd, name, level, opt, value)
		}
	}
	if ip.Is4() {
		set("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		set("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, defaultHopLimit)
		if noChecksum {
			set("SO_NO_CHECK", unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
		}
	} else {
		set("IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		set("IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, defaultHopLimit)
		if noChecksum {
			set("UDP_NO_CHECK6_TX", unix.IPPROTO_UDP, udpNoCheck6TX, 1)
		}
	}
	if err == nil {
		err = bind(fd, ip, o.path.SrcPort, o.d.link.index)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// udpNoCheck6TX is UDP_NO_CHECK6_TX (linux/udp.h).
const udpNoCheck6TX = 101

func (o *outlet) closeSockets() {
	for _, fd := range []*int{&o.single, &o.train} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

func (o *outlet) close() {
	o.closeSockets()
	sys.Free(o.staging)
	o.staging = nil
}
