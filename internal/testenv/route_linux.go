package testenv

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RouteMulticast adds a route for IPv4 multicast to an interface.
func RouteMulticast(t *testing.T, name string) {
	t.Helper()
	m := unix.RtMsg{
		Family: unix.AF_INET, Dst_len: 4, Table: unix.RT_TABLE_MAIN,
		Protocol: unix.RTPROT_BOOT, Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST,
	}
	index := int32(LinkIndex(t, name))
	parts := [][]byte{bytesOf(&m), attr(unix.RTA_DST, []byte{224, 0, 0, 0}), attr(unix.RTA_OIF, (*[unsafe.Sizeof(index)]byte)(unsafe.Pointer(&index))[:])}
	if err := request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, parts...); err != nil {
		t.Fatalf("route 224.0.0.0/4 to %s: %v", name, err)
	}
}
