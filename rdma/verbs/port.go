//go:build rdma && linux && cgo

package verbs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// queryPort queries a port's state and stores its MTU. The caller has called enter on the device, or is its watch.
func (d *device) queryPort(num uint8) (cverbs.PortAttr, error) {
	const op = "query port"
	if num < 1 || int(num) >= len(d.ports) {
		return cverbs.PortAttr{}, rdma.Errorf(op, syscall.EINVAL, "%s has no port %d", d.name, num)
	}
	a, errno := d.ctx.Port(num)
	if errno != 0 {
		return a, rdma.Errorf(op, errno, "%s port %d", d.name, num)
	}
	d.ports[num].mtu.Store(int32(rdma.MTUFromCode(uint8(a.ActiveMTU))))
	return a, nil
}

// PortCounts returns the state of a port as the device reports it.
func (d *device) PortCounts(num uint8) (rdma.PortAttr, error) {
	if err := d.enter("query port"); err != nil {
		return rdma.PortAttr{}, err
	}
	defer d.leave()
	return d.portAttr(num)
}

func (d *device) portAttr(num uint8) (rdma.PortAttr, error) {
	a, err := d.queryPort(num)
	if err != nil {
		return rdma.PortAttr{}, err
	}
	return rdma.PortAttr{
		State: rdma.PortState(a.State), LinkLayer: rdma.LinkLayer(a.LinkLayer),
		MaxMTU: rdma.MTUFromCode(uint8(a.MaxMTU)), ActiveMTU: rdma.MTUFromCode(uint8(a.ActiveMTU)),
		LID: rdma.LID(a.LID), SMLID: rdma.LID(a.SMLID), GIDTableLen: a.GIDs, PKeyTableLen: a.PKeys,
		BadPKeys: uint64(a.BadPKeys), QKeyViolations: uint64(a.QKeyViolations),
		Dropped:  noReceive(sysRDMA, d.name, num),
		RateGbps: laneGbps[a.ActiveSpeed] * lanes[a.ActiveWidth],
	}, nil
}

// sysRDMA is the kernel's directory of RDMA devices.
const sysRDMA = "/sys/class/infiniband"

// noReceive returns the number of packets for which no receive was posted, for all queue pairs of the port, from the
// files below sys. mlx5 has that counter (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst);
// for other drivers it is 0.
func noReceive(sys, device string, num uint8) uint64 {
	text, err := os.ReadFile(filepath.Join(sys, device, "ports", strconv.Itoa(int(num)), "hw_counters", "out_of_buffer"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Port returns the state of a port.
func (d *device) Port(num uint8) (rdma.PortAttr, error) {
	if err := d.enter("query port"); err != nil {
		return rdma.PortAttr{}, err
	}
	defer d.leave()
	r, err := d.portAttr(num)
	if err != nil {
		return r, err
	}
	gids, err := d.queryGIDs(num)
	if err != nil {
		return r, err
	}
	r.NetDev, r.Addrs, err = d.interfaces(num, gids)
	return r, err
}

// laneGbps has the speed of a lane by the code of ibv_port_attr.active_speed, and lanes the number of lanes by that of
// active_width (man ibv_query_port).
var (
	laneGbps = map[uint8]float64{1: 2.5, 2: 5, 4: 10, 8: 10.3125, 16: 14.0625, 32: 25.78125, 64: 53.125, 128: 106.25}
	lanes    = map[uint8]float64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
)

// GIDs returns a port's GID table without its empty entries.
func (d *device) GIDs(num uint8) ([]rdma.GIDEntry, error) {
	if err := d.enter("query GIDs"); err != nil {
		return nil, err
	}
	defer d.leave()
	return d.queryGIDs(num)
}

func (d *device) queryGIDs(num uint8) ([]rdma.GIDEntry, error) {
	const op = "query GIDs"
	total := 0
	for i := 1; i < len(d.ports); i++ {
		a, err := d.queryPort(uint8(i))
		if err != nil {
			return nil, err
		}
		total += a.GIDs
	}
	if num < 1 || int(num) >= len(d.ports) {
		return nil, rdma.Errorf(op, syscall.EINVAL, "%s has no port %d", d.name, num)
	}
	all, errno := d.ctx.GIDs(total)
	if errno != 0 {
		return nil, rdma.Errorf(op, errno, "%s", d.name)
	}
	var list []rdma.GIDEntry
	for _, e := range all {
		if e.Port == num {
			name, err := interfaceName(op, e.IfIndex)
			if err != nil {
				return nil, err
			}
			list = append(list, rdma.GIDEntry{GID: e.GID, Index: e.Index, Port: e.Port, Type: rdma.GIDType(e.Type),
				NetDev: name})
		}
	}
	return list, nil
}

// PKeys returns a port's P_Key table.
func (d *device) PKeys(num uint8) ([]rdma.PKey, error) {
	const op = "query P_Keys"
	if err := d.enter(op); err != nil {
		return nil, err
	}
	defer d.leave()
	a, err := d.queryPort(num)
	if err != nil {
		return nil, err
	}
	keys := make([]rdma.PKey, a.PKeys)
	for i := range keys {
		k, errno := d.ctx.PKey(num, i)
		if errno != 0 {
			return nil, rdma.Errorf(op, errno, "%s port %d, entry %d", d.name, num, i)
		}
		keys[i] = rdma.PKey(k)
	}
	return keys, nil
}
