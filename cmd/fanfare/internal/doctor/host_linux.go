package doctor

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func memlockLimit() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur >= 1<<62 {
		return -1
	}
	return int64(r.Cur)
}

// families are the protocol families of nftables (kernel include/uapi/linux/netfilter.h).
var families = map[uint8]string{1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}

// nftables asks the kernel for the tables of nftables (nft(8)), which include those of iptables-nft.
// nf_tables may be built into the kernel, so the list of modules does not show it. It requires CAP_NET_ADMIN.
func nftables() ([]string, error) {
	const tableName = 1 // NFTA_TABLE_NAME
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP): // old kernel
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("netlink(7): %w", err)
	}
	var tables []string
	for _, b := range answers {
		if len(b) < nl.SizeofNfgenmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(b[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, fmt.Errorf("netlink(7): %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type == tableName {
				tables = append(tables, families[b[0]]+" "+nl.BytesToString(a.Value))
			}
		}
	}
	return tables, nil
}
