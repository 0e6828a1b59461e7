package fabricurl

import (
	"fmt"
	"net/url"
	"strings"
)

// busOption is an option of a URL for the bus, which is the same for every transport.
type busOption struct {
	key   string
	value *string
	empty string // end of the error for an empty value
}

func (f *Fabric) options() []busOption {
	return []busOption{
		{"map", &f.Mapping, "mapping: omit it for hash"},
		{"keys", &f.Keys, "file: omit it for open groups"},
		{"sign", &f.Sign, "file: omit it for a bus that does not sign"},
		{"trust", &f.Trust, "file: omit it to receive all publishers"},
		{"pad", &f.Pad, "number: omit it for the default"},
		{"clock", &f.Clock, "clock: omit it for this host's clock"},
	}
}

// takeOption removes an option from a URL. The rest is for the transport, also if it cannot be parsed. empty is the end
// of the error for an empty value.
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
			return nil, "", fmt.Errorf("option %s is given more than once; keep only one", name)
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
