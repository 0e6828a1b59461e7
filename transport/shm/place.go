package shm

import (
	"fmt"
	"strconv"
	"strings"
)

// place is a directory for shared memory, of a user or of a group, with the permissions in it. It is in
// Config.Dir; the fabrics in it are such directories, too.
type place struct {
	shared bool // by a group
	id     int  // of the user, or of the group
}

const placePrefix = "fanfare-"

// dirName is the place's in Config.Dir.
func (p place) dirName() string {
	if p.shared {
		return placePrefix + "g" + strconv.Itoa(p.id)
	}
	return placePrefix + strconv.Itoa(p.id)
}

// placeOf is the place of a name.
func placeOf(name string) (p place, ok bool) {
	whose := strings.TrimPrefix(name, placePrefix)
	whose, p.shared = strings.CutPrefix(whose, "g")
	id, err := strconv.Atoi(whose)
	p.id = id
	return p, err == nil && id >= 0 && p.dirName() == name
}

// mode is what its directories permit at most.
func (p place) mode() uint32 {
	if p.shared {
		return 0o2770
	}
	return 0o700
}

// membersMode is the mode of the members file of a fabric in it.
func (p place) membersMode() uint32 {
	if p.shared {
		return 0o660
	}
	return 0o600
}

// isMembersFile reports whether a file is an unchanged members file of a fabric in it: another file that was moved to
// that name must not be written to.
func (p place) isMembersFile(regular bool, links uint64, uid, gid int, mode uint32, size int64) bool {
	owner := uid
	if p.shared {
		owner = gid
	}
	return regular && links == 1 && owner == p.id && mode == p.membersMode() && size == pageBytes
}

// refusal is why an endpoint does not use a directory: others could read or replace its files.
type refusal uint8

const (
	accepted refusal = iota
	noDirectory
	ofOthers // another user's, or group's
	toOthers // open to them
)

// accepts says whether an endpoint of the place uses a directory of it with these owners and that
// mode, of which all bits count.
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

// text describes what is wrong with a directory of the place.
func (p place) text(r refusal, uid, gid int, mode uint32) string {
	switch {
	case r == noDirectory:
		return "is no directory"
	case r == ofOthers && p.shared:
		return fmt.Sprintf("belongs to group %d, and is the place of group %d", gid, p.id)
	case r == ofOthers:
		return fmt.Sprintf("belongs to user %d, and is the place of user %d", uid, p.id)
	case r == toOthers:
		return fmt.Sprintf("has mode %#o, which lets others in, where %#o is the most", mode, p.mode())
	}
	return ""
}
