package shm

import (
	"fmt"
	"strconv"
	"strings"
)

// place is the directory of a user or a group within Config.Dir, and the permissions for it. The fabrics in it are
// directories with the same permissions.
type place struct {
	shared bool // by a group
	id     int  // number of the user or group
}

const placePrefix = "fanfare-"

// dirName is the name of the directory in Config.Dir.
func (p place) dirName() string {
	if p.shared {
		return placePrefix + "g" + strconv.Itoa(p.id)
	}
	return placePrefix + strconv.Itoa(p.id)
}

// placeOf returns the place with a dirName.
func placeOf(name string) (p place, ok bool) {
	owner := strings.TrimPrefix(name, placePrefix)
	owner, p.shared = strings.CutPrefix(owner, "g")
	id, err := strconv.Atoi(owner)
	p.id = id
	return p, err == nil && id >= 0 && p.dirName() == name
}

// mode is the maximum mode of its directories.
func (p place) mode() uint32 {
	if p.shared {
		return 0o2770
	}
	return 0o700
}

// membersMode is the mode of the members file of a fabric in the place.
func (p place) membersMode() uint32 {
	if p.shared {
		return 0o660
	}
	return 0o600
}

// isMembersFile reports whether a file has the properties of a members file of a fabric in the place: another file that
// was renamed to it must not be written to.
func (p place) isMembersFile(regular bool, links uint64, uid, gid int, mode uint32, size int64) bool {
	owner := uid
	if p.shared {
		owner = gid
	}
	return regular && links == 1 && owner == p.id && mode == p.membersMode() && size == pageBytes
}

// refusal is why an endpoint refuses a directory: others could read or replace its files.
type refusal uint8

const (
	accepted refusal = iota
	noDirectory
	ofOthers // it belongs to another user or group
	toOthers // its mode gives others access
)

// accepts returns why an endpoint of the place refuses a directory with these owners and this mode, all bits included;
// zero if it accepts it.
func (p place) accepts(isDir bool, uid, gid int, mode uint32) refusal {
	owner := uid
	if p.shared {
		owner = gid
	}
	switch {
	case !isDir:
		return noDirectory
	case owner != p.id:
		return ofOthers
	case mode&^p.mode() != 0:
		return toOthers
	}
	return accepted
}

// text describes a refusal of a directory of the place.
func (p place) text(r refusal, uid, gid int, mode uint32) string {
	switch {
	case r == noDirectory:
		return "is not a directory"
	case r == ofOthers && p.shared:
		return fmt.Sprintf("belongs to group %d, but is for group %d", gid, p.id)
	case r == ofOthers:
		return fmt.Sprintf("belongs to user %d, but is for user %d", uid, p.id)
	case r == toOthers:
		return fmt.Sprintf("has mode %#o, which gives others access; the maximum is %#o", mode, p.mode())
	}
	return ""
}
