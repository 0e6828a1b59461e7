package roce

import (
	"os"
	"strconv"
	"strings"
)

// users determines the users with processes that may relay to this one.
type users struct {
	own uint32 // user of this process
	// unknown is the uid that the kernel reports for users that are not mapped in this user namespace
	// (user_namespaces(7)); hidden: there can be some.
	unknown uint32
	hidden  bool
}

// defaultOverflowUID is the kernel's default (include/linux/highuid.h).
const defaultOverflowUID = 65534

func currentUsers() users {
	u := users{own: uint32(os.Getuid()), unknown: defaultOverflowUID}
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
			u.unknown = uint32(n)
		}
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	u.hidden = err != nil || !mapsAll(string(text))
	return u
}

// mapsAll reports whether a uid_map maps each user to itself, as that of the initial namespace does.
func mapsAll(text string) bool {
	f := strings.Fields(text)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == strconv.FormatUint(1<<32-1, 10)
}

// trusts reports whether processes of a user may relay datagrams to this one: those of its own user and of root may,
// those with the uid of unmapped users may not.
func (u *users) trusts(uid uint32) bool {
	if u.hidden && uid == u.unknown {
		return false
	}
	return uid == 0 || uid == u.own
}
