package fabricurl

import (
	"fmt"
	"net/url"
	"strings"
)

// busOption is an option of a URL that is a bus's, and the same for every transport.
type busOption struct {
	key   string
	value *string
	empty string // what is wrong with one that names nothing
}

func (f *Fabric) options() []busOption {
	return []busOption{
		{"map", &f.Mapping, "mapping: leave it out for hash"},
		{"keys", &f.Keys, "file: leave it out for open groups"},
		{"sign", &f.Sign, "file: leave it out for a bus that does not sign"},
		{"trust", &f.Trust, "file: leave it out to hear all publishers"},
		{"pad", &f.Pad, "number: leave it out for the default"},
		{"clock", &f.Clock, "clock: leave it out for this host's own"},
	}
}

// takeOption takes an option out of a URL. What remains is for the transport, also where it
// cannot be read. empty says what is wrong with an option that names nothing.
func takeOption(u *url.URL, name, empty string) (rest *url.URL, value string, err error) {
	var kept []string
	given := 0
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		key, val, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(key); err != nil || k != name {
			kept = append(kept, part)
			continue
		}
		if given++; given > 1 {
			return nil, "", fmt.Errorf("option %s is given more than once; leave one", name)
		}
		if value, err = url.QueryUnescape(val); err != nil {
			return nil, "", fmt.Errorf("option %s=%s: %w", name, val, err)
		}
		if value == "" {
			return nil, "", fmt.Errorf("option %s= names no %s", name, empty)
		}
	}
	if given == 0 {
		return u, "", nil
	}
	r := *u
	r.RawQuery = strings.Join(kept, "&")
	return &r, value, nil
}
