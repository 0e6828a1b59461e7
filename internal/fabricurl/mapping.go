package fabricurl

import (
	"fmt"
	"net/url"
	"strings"
)

// Options of a URL that are a bus's, and the same for every transport: how topics map to
// groups, the files of keys and of trust, and how many loops it has.
const (
	mapKey   = "map"
	keysKey  = "keys"
	signKey  = "sign"
	trustKey = "trust"
	loopsKey = "loops"
)

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
