package fabricurl

import (
	"fmt"
	"net/url"
	"strings"
)

// mapKey is the option of a URL that says how topics map to groups. It is a bus's, and
// the same for every transport, which know groups only.
const mapKey = "map"

// takeMapping takes that option out of a URL. What remains is for the transport, also
// where it cannot be read.
func takeMapping(u *url.URL) (rest *url.URL, mapping string, err error) {
	var kept []string
	given := 0
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		key, val, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(key); err != nil || k != mapKey {
			kept = append(kept, part)
			continue
		}
		if given++; given > 1 {
			return nil, "", fmt.Errorf("option %s is given more than once; leave one", mapKey)
		}
		if mapping, err = url.QueryUnescape(val); err != nil {
			return nil, "", fmt.Errorf("option %s=%s: %w", mapKey, val, err)
		}
		if mapping == "" {
			return nil, "", fmt.Errorf("option %s= names no mapping: leave it out for hash", mapKey)
		}
	}
	if given == 0 {
		return u, "", nil
	}
	r := *u
	r.RawQuery = strings.Join(kept, "&")
	return &r, mapping, nil
}
