package sys

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The loopback interface is found by its name, by its addresses, and by other addresses of its network; other names are
// errors with advice.
func TestFind(t *testing.T) {
	lo, err := net.InterfaceByName(LoopbackName())
	if err != nil {
		t.Fatal(err) // every system has one, and all tests of sockets need it
	}
	addrs, err := InterfaceAddrs(lo)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{lo.Name}
	for _, a := range addrs {
		if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
			t.Errorf("loopback has the address %v, want a valid one without a zone", a)
		}
		if a.IsLoopback() {
			names = append(names, a.String())
		}
		if a == netip.MustParseAddr("127.0.0.1") {
			names = append(names, "127.3.2.1", "::ffff:127.0.0.1")
		}
	}
	for _, name := range names {
		if got, err := FindInterface(name); err != nil || got.Name != lo.Name {
			t.Errorf("FindInterface(%s) = %v, error %v, want %s", name, got, err, lo.Name)
		}
	}
	for name, want := range map[string]string{"no-such-interface": "'ip link' lists them", "192.0.2.77": "'ip address' lists them"} {
		if got, err := FindInterface(name); !errors.Is(err, ErrNoInterface) || !strings.Contains(err.Error(), want) {
			t.Errorf("FindInterface(%s) = %v, error %v, want %v, with the advice %q", name, got, err, ErrNoInterface, want)
		}
	}
}

// A failed lookup is not ErrNoInterface.
func TestFailedLookup(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.ENOBUFS} {
		err := lookupError("look up", &net.OpError{Op: "route", Net: "ip+net", Err: os.NewSyscallError("netlinkrib", errno)})
		if errors.Is(err, ErrNoInterface) || !errors.Is(err, errno) {
			t.Errorf("lookupError of %v is %v, want it to wrap that number, not %v", errno, err, ErrNoInterface)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ENODEV, syscall.ENXIO} {
		if err := lookupError("look", os.NewSyscallError("ioctl", errno)); !errors.Is(err, ErrNoInterface) {
			t.Errorf("lookupError of %v is %v, want %v", errno, err, ErrNoInterface)
		}
	}
	for name, err := range map[string]error{
		"name":    second(InterfaceByName("no-such-interface")),
		"index":   second(InterfaceByIndex(1 << 30)),
		"index 0": second(InterfaceByIndex(0)),
	} {
		if !errors.Is(err, ErrNoInterface) {
			t.Errorf("%s: error %v, want %v", name, err, ErrNoInterface)
		}
	}
}

func second[T any](_ T, err error) error { return err }
