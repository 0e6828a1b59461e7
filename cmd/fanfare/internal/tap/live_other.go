//go:build !linux

package tap

import "errors"

// OpenInterface needs Linux.
func OpenInterface(string, *Groups) (Source, error) {
	return nil, errors.New("capturing at an interface requires Linux: record with tcpdump or Wireshark, and read the file with -r")
}
